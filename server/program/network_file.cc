#include "server/program/network_file.h"

#include <cstring>

#include "runtime/problem/gsn_text.h"
#include "server/base/fields.h"
#include "server/base/text_file.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

std::string shape_text(uint64_t rows, uint64_t cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

// Numbers on no manifold may have any shape: where theirs is beyond what a part has, they become up to two parts.
void add_texts(const NetworkPart& part, std::vector<std::string>* out) {
  if (part.rank != 0) {
    out->push_back("fixed_rank " + shape_text(part.rows, part.cols) + " " + std::to_string(part.rank));
    return;
  }
  if (part.rows <= kDimensionMax && part.cols <= kDimensionMax) {
    out->push_back("euclidean " + shape_text(part.rows, part.cols));
    return;
  }
  const uint64_t size = uint64_t{part.rows} * part.cols;
  if (size >= kDimensionMax) {
    out->push_back("euclidean " + shape_text(kDimensionMax, size / kDimensionMax));
  }
  if (size % kDimensionMax != 0) {
    out->push_back("euclidean " + shape_text(size % kDimensionMax, 1));
  }
}

std::vector<std::string> texts_of(const std::vector<NetworkPart>& parts) {
  std::vector<std::string> texts;
  for (const NetworkPart& part : parts) {
    add_texts(part, &texts);
  }
  return texts;
}

std::vector<NetworkPart> parts_of(const Network& network) {
  std::vector<NetworkPart> parts(2 * size_t{kLayerCountMax});
  parts.resize(network_parts(network, parts));
  return parts;
}

// Where there are more parts than a product has, neighbours that are Euclidean become one.
std::vector<std::string> part_texts(const Network& network) {
  const std::vector<NetworkPart> parts = parts_of(network);
  std::vector<std::string> texts = texts_of(parts);
  if (texts.size() <= kPartCountMax) {
    return texts;
  }
  std::vector<NetworkPart> joined;
  for (const NetworkPart& part : parts) {
    if (part.rank == 0 && !joined.empty() && joined.back().rank == 0) {
      joined.back().rows = joined.back().rows * joined.back().cols + part.rows * part.cols;
      joined.back().cols = 1;
    } else {
      joined.push_back(part);
    }
  }
  return texts_of(joined);
}

std::string joined_text(const std::vector<std::string>& texts) {
  std::string text;
  for (const std::string& part : texts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

// Numbers of the point that a part has: [begin, end).
struct Place {
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct PlacedPart {
  NetworkPart part;
  Place place;
};

std::vector<PlacedPart> placed_parts(const Network& network) {
  std::vector<PlacedPart> out;
  uint64_t at = 0;
  for (const NetworkPart& part : parts_of(network)) {
    const uint64_t size =
        part.rank == 0 ? uint64_t{part.rows} * part.cols : (uint64_t{part.rows} + part.cols + part.rank) * part.rank;
    out.push_back({part, {at, at + size}});
    at += size;
  }
  return out;
}

// A part of a run may end inside it: no part of a run has its shape.
bool is_beyond_a_part(const NetworkPart& part) { return part.rows > kDimensionMax || part.cols > kDimensionMax; }

// Whether the numbers of the run's part, which begin or end within the network's, are as the network has them.
bool fits(const Part& part, Place place, const PlacedPart& of) {
  const bool is_whole = place.begin == of.place.begin && place.end == of.place.end;
  if (of.part.rank != 0) {
    return is_whole && text_of(part) == texts_of({of.part})[0];
  }
  if (part.ops->id != ManifoldId::kEuclidean) {
    return is_whole && part.shape.rows == of.part.rows && part.shape.cols == of.part.cols &&
           part.ops->id != ManifoldId::kFixedRank;
  }
  return is_beyond_a_part(of.part) || (place.begin <= of.place.begin && place.end >= of.place.end);
}

std::string text_of(Place place) { return std::to_string(place.begin) + " to " + std::to_string(place.end - 1); }

// The clause about the run's part `index`, from 1, and the network's part that it does not fit.
std::string misfit_text(const Part& part, size_t index, Place place, const PlacedPart& of, size_t of_index) {
  return "part " + std::to_string(index) + " of the run is " + text_of(part) + ", the numbers " + text_of(place) +
         " of the point, and part " + std::to_string(of_index) + " of the network is " + texts_of({of.part})[0] +
         ", the numbers " + text_of(of.place) + ": the " + (of.part.is_bias ? "biases" : "weights") + " of layer " +
         std::to_string(of.part.layer);
}

// The run's parts; a point that is no product is one.
std::vector<Part> parts_of(const RunParameters& run) {
  if (run.model->shape.parts == nullptr || run.model->manifold != ManifoldId::kProduct) {
    return {Part{server_manifold(run), run.model->shape}};
  }
  const std::span<const Part> list = run.model->shape.parts->list();
  return {list.begin(), list.end()};
}

// The start that the network's trained layers hold.
void take_start(const Network& network, NetworkStart* out) {
  std::string without;  // the first layer that holds none
  bool is_any = false;
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    const Layer& layer = network.layers[i];
    if (layer.trained != TrainedForm::kFrozen) {
      is_any = is_any || layer.weights != nullptr || layer.biases != nullptr;
      without = without.empty() && layer.weights == nullptr ? std::to_string(i) : without;
    }
  }
  if (is_any && !without.empty()) {
    out->fault = "the trained layer " + without +
                 " holds no weights to begin at, and the file holds other trained numbers; "
                 "write the weights of every trained layer or the numbers of none, or name server.first_model";
  } else if (is_any) {
    out->values.resize(network_size(network));
    const Status status = fill_network_start(network, out->values.data());
    GS_ASSERT(status == Status::kOk);
  }
}

}  // namespace

Objection read_network_file(const std::string& path, NetworkFile* out) {
  if (const Objection problem = read_text_file(path, kNetworkFileSizeMax, &out->bytes)) {
    return path + " " + problem.sentence;
  }
  const std::span bytes(reinterpret_cast<const uint8_t*>(out->bytes.data()), out->bytes.size());
  out->layers.assign(gsn_layer_count(bytes), Layer());
  const GsnFault fault = read_gsn(bytes, out->layers, &out->network);
  if (fault.code != GsnFaultCode::kNone) {
    return path + ": " + GsnFaultText(fault).c_str();
  }
  std::memcpy(&out->size, bytes.data() + kGsnSize, sizeof(uint32_t));
  out->digest = network_digest(out->network);
  return {};
}

std::string network_parts_text(const Network& network) { return joined_text(part_texts(network)); }

Objection network_parts_fault(const RunParameters& run, const Network& network) {
  const std::vector<Part> parts = parts_of(run);
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const Part& part : parts) {
    texts.push_back(text_of(part));
  }
  if (joined_text(texts) == network_parts_text(network)) {
    return {};
  }
  const std::vector<PlacedPart> placed = placed_parts(network);
  Place place;
  for (size_t i = 0; i < parts.size(); ++i) {
    place = {place.end, place.end + parts[i].shape.size()};
    for (size_t k = 0; k < placed.size(); ++k) {
      const bool overlaps = placed[k].place.begin < place.end && place.begin < placed[k].place.end;
      if (overlaps && !fits(parts[i], place, placed[k])) {
        return misfit_text(parts[i], i + 1, place, placed[k], k + 1);
      }
    }
  }
  return {};
}

Objection network_point_fault(const Network& network) {
  const uint32_t size = network_size(network);
  if (size > kProductSizeMax) {
    return "no run takes a point of " + std::to_string(size) + " numbers, and " + std::to_string(kProductSizeMax) +
           " are the most: train fewer layers";
  }
  const size_t count = part_texts(network).size();
  return count <= kPartCountMax ? ""
                                : "the point has " + std::to_string(count) + " parts, and a product has at most " +
                                      std::to_string(kPartCountMax) + ": factor fewer layers";
}

Objection settle_network(RunParameters* run, bool* is_file_fault, NetworkStart* start) {
  *is_file_fault = false;
  if (const uint64_t digest = run->network_digest(); run->model->network.empty() || digest != 0) {
    run->model->network = digest != 0 ? hex(digest) : "";  // in small letters, as it is compared
    return {};
  }
  const std::string name = "run.network " + run->model->network;
  NetworkFile file;
  if (const Objection problem = read_network_file(run->model->network, &file)) {
    *is_file_fault = true;
    return "run.network " + problem.sentence + "; a run that was begun goes on with the digest in place of the path";
  }
  const uint32_t size = network_size(file.network);
  if (size == 0) {
    return name + " trains nothing: mark a layer as trained, and write the file again";
  }
  if (const Objection fault = network_point_fault(file.network)) {
    return name + ": " + fault.sentence;
  }
  const std::string remedy =
      "; set run.manifold = \"product\" and run.parts = \"" + network_parts_text(file.network) + "\"";
  if (size != run->model->shape.size()) {
    return name + " trains " + std::to_string(size) + " numbers, and the run's point has " +
           std::to_string(run->model->shape.size()) + remedy;
  }
  if (const Objection fault = network_parts_fault(*run, file.network)) {
    return name + ": " + fault.sentence + remedy +
           "; a run that was begun goes on with the digest in place of the path";
  }
  if (start != nullptr) {
    *start = {run->model->network, file.digest, {}, {}};
    take_start(file.network, start);
  }
  run->model->network = hex(file.digest);
  return {};
}

uint64_t layer_multiplication_count(const Layer& layer) {
  const uint64_t weights = layer_weight_count(layer);
  return layer.kind == LayerKind::kDense ? weights : weights * layer.out.height * layer.out.width;
}

}  // namespace gradstream

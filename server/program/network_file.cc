#include "server/program/network_file.h"

#include <cstring>

#include "runtime/problem/gsn_text.h"
#include "server/base/fields.h"
#include "server/base/text_file.h"
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

// Where there are more parts than a product has, neighbours that are Euclidean become one.
std::vector<std::string> part_texts(const Network& network) {
  std::vector<NetworkPart> parts(2 * size_t{kLayerCountMax});
  parts.resize(network_parts(network, parts));
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

}  // namespace

std::string read_network_file(const std::string& path, NetworkFile* out) {
  if (const std::string problem = read_text_file(path, kNetworkFileSizeMax, &out->bytes); !problem.empty()) {
    return path + " " + problem;
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

std::string network_parts_text(const Network& network) {
  std::string text;
  for (const std::string& part : part_texts(network)) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string network_point_fault(const Network& network) {
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

std::string settle_network(RunParameters* run, bool* is_file_fault) {
  *is_file_fault = false;
  if (const uint64_t digest = run->network_digest(); run->model->network.empty() || digest != 0) {
    run->model->network = digest != 0 ? hex(digest) : "";  // in small letters, as it is compared
    return {};
  }
  NetworkFile file;
  if (const std::string problem = read_network_file(run->model->network, &file); !problem.empty()) {
    *is_file_fault = true;
    return "run.network " + problem + "; a run that was begun goes on with the digest in place of the path";
  }
  const uint32_t size = network_size(file.network);
  if (size == 0) {
    return "run.network " + run->model->network + " trains nothing: mark a layer as trained, and write the file again";
  }
  if (const std::string fault = network_point_fault(file.network); !fault.empty()) {
    return "run.network " + run->model->network + ": " + fault;
  }
  if (size != run->model->shape.size()) {
    return "run.network " + run->model->network + " trains " + std::to_string(size) +
           " numbers, and the run's point has " + std::to_string(run->model->shape.size()) +
           "; set run.manifold = \"product\" and run.parts = \"" + network_parts_text(file.network) + "\"";
  }
  run->model->network = hex(file.digest);
  return {};
}

uint64_t layer_multiplication_count(const Layer& layer) {
  const uint64_t weights = layer_weight_count(layer);
  return layer.kind == LayerKind::kDense ? weights : weights * layer.out.height * layer.out.width;
}

}  // namespace gradstream

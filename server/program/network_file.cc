#include "server/program/network_file.h"

#include <cstring>
#include <utility>

#include "runtime/problem/gsn_text.h"
#include "server/base/fields.h"
#include "server/base/text_file.h"
#include "server/run/model_keys.h"

namespace gradstream {
namespace {

std::string shape_text(uint64_t rows, uint64_t cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

// Numbers on no manifold may have any shape: where theirs is beyond what a part has, they get another one.
std::string euclidean_text(uint64_t size) {
  const uint64_t cols = size / kDimensionMax, rest = size % kDimensionMax;
  const std::string most = cols > 0 ? "euclidean " + shape_text(kDimensionMax, cols) : "";
  return rest == 0 ? most : most + (cols > 0 ? ", " : "") + "euclidean " + shape_text(rest, 1);
}

std::string text_of(const NetworkPart& part) {
  if (part.rank != 0) {
    return "fixed_rank " + shape_text(part.rows, part.cols) + " " + std::to_string(part.rank);
  }
  return part.rows <= kDimensionMax && part.cols <= kDimensionMax ? "euclidean " + shape_text(part.rows, part.cols)
                                                                  : euclidean_text(uint64_t{part.rows} * part.cols);
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
  std::vector<NetworkPart> parts(2 * size_t{kLayerCountMax});
  parts.resize(network_parts(network, parts));
  if (parts.size() > kPartCountMax) {
    std::vector<NetworkPart> joined;
    for (const NetworkPart& part : parts) {
      const bool is_joined = part.rank == 0 && !joined.empty() && joined.back().rank == 0;
      if (is_joined) {
        joined.back().rows = joined.back().rows * joined.back().cols + part.rows * part.cols;
        joined.back().cols = 1;
      } else {
        joined.push_back(part);
      }
    }
    parts = std::move(joined);
  }
  std::string text;
  for (const NetworkPart& part : parts) {
    text += (text.empty() ? "" : ", ") + text_of(part);
  }
  return text;
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

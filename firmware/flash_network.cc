#include "firmware/flash_network.h"

#include "runtime/base/arena.h"

namespace gradstream {

std::span<const uint8_t> behind_shard(std::span<const uint8_t> region, size_t shard_size) {
  const size_t begin = (shard_size + 3) / 4 * 4;
  return begin < region.size() ? region.subspan(begin) : std::span<const uint8_t>();
}

// Erased flash is 0xff, and the memory of an emulator 0.
bool is_network_absent(std::span<const uint8_t> bytes) {
  const size_t count = bytes.size() < kGsnHeadSize ? bytes.size() : kGsnHeadSize;
  for (size_t i = 1; i < count; ++i) {
    if (bytes[i] != bytes[0]) {
      return false;
    }
  }
  return count == 0 || bytes[0] == 0xff || bytes[0] == 0;
}

uint32_t first_factored_layer(const Network& network) {
  uint32_t layer = 0;
  while (layer < network.layer_count && network.layers[layer].trained != TrainedForm::kFactored) {
    ++layer;
  }
  return layer;
}

Status take_flash_network(std::span<const uint8_t> bytes, const SampleSource& source, std::span<uint8_t>* arena,
                          FlashNetwork* out, GsnFault* fault) {
  if (is_network_absent(bytes)) {
    return Status::kUnimplemented;
  }
  const uint32_t count = gsn_layer_count(bytes);
  // Aligned at both ends, so that the rest is as aligned as the whole was.
  Arena front(arena->data(), arena->size());
  const Result<Layer*> layers = front.persistent<Layer>(count);
  GS_TRY(layers.status());
  *fault = read_gsn(bytes, {layers.value(), count}, &out->network);
  if (fault->code != GsnFaultCode::kNone) {
    return Status::kDataCorrupt;
  }
  if (network_size(out->network) == 0) {
    return Status::kOutOfRange;
  }
  out->samples.network = &out->network;
  out->samples.source = source;
  out->problem.problem = {&kNetworkOps, &out->samples};
  out->problem.network_digest = network_digest(out->network);
  GS_TRY(kNetworkOps.check_shape(&out->samples, {network_size(out->network), 1}));
  *arena = arena->subspan(static_cast<size_t>(reinterpret_cast<uint8_t*>(layers.value()) - arena->data()) +
                          Arena::taken_size<Layer>(count));
  return Status::kOk;
}

}  // namespace gradstream

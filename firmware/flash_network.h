// A network that a board has in flash behind its shard, at the next multiple of 4: both stand in one region, and the
// network is read where it stands.
#ifndef GRADSTREAM_FIRMWARE_FLASH_NETWORK_H_
#define GRADSTREAM_FIRMWARE_FLASH_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "include/gradstream/problem.h"
#include "runtime/problem/gsn.h"

namespace gradstream {

struct FlashNetwork {
  Network network;
  NetworkSamples samples;
  gs_linked_problem problem;
};

// The bytes of the region behind a shard of so many bytes; empty: the region ends before.
std::span<const uint8_t> behind_shard(std::span<const uint8_t> region, size_t shard_size);

// Whether no network begins there: the bytes of a head are all 0xff or all 0, or there are none.
bool is_network_absent(std::span<const uint8_t> bytes);

// The first layer that is trained in factors, for which an image needs the manifold fixed_rank; layer_count: there is
// none.
uint32_t first_factored_layer(const Network& network);

// Reads the network and joins it with the samples. Its layers take the begin of *arena, which shrinks by them. bytes:
// behind_shard(). kUnimplemented: is_network_absent(); kDataCorrupt: what stands there is no network, and *fault says
// why; kOutOfRange: it trains nothing; kInvalidArgument: the samples are not made of its inputs and targets;
// kOutOfMemory: the arena holds not even its layers. *out and *arena are set on kOk only. *out and the bytes must
// outlive the problem.
Status take_flash_network(std::span<const uint8_t> bytes, const SampleSource& source, std::span<uint8_t>* arena,
                          FlashNetwork* out, GsnFault* fault);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_FLASH_NETWORK_H_

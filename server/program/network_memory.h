// What a network takes of a device's memory, by the tables that devices compute with.
#ifndef GRADSTREAM_SERVER_PROGRAM_NETWORK_MEMORY_H_
#define GRADSTREAM_SERVER_PROGRAM_NETWORK_MEMORY_H_

#include <cstdint>

#include "runtime/problem/network.h"

namespace gradstream {

// Bytes that the search for an arena takes at most. Reason: no device has an arena of so many.
inline constexpr uint64_t kArenaSearchMax = uint64_t{1} << 32;

// Samples that a device holds, where nobody says how many.
inline constexpr uint32_t kShownSampleCount = 1000;

struct NetworkMemory {
  uint64_t model = 0;     // bytes of the point
  uint64_t scratch = 0;   // bytes of an evaluation: rows and activations
  uint64_t features = 0;  // bytes of what frozen layers in front make of the batch, kept for a step
  // All of it on a board, in the lean form that boards train in, with the layers' records and without corrections;
  // then with the correction "local", which keeps a model and an upload more.
  uint64_t board_arena = 0;
  uint64_t board_arena_local = 0;
  uint64_t board_arena_least = 0;  // board_arena where features are not kept: each evaluation computes them anew
  uint64_t arena = 0;              // all of it on Linux, as find_arena_need() has it; 0: not known
  uint64_t search_size = 0;        // bytes that the search for the arenas takes and does not get; 0: it has them
};
// For a network that trains something, a device with sample_count samples (1 .. kSampleCountMax), batches of batch_size
// of them, 16 directions and 5 local steps. The arenas are 0 where no run takes a point of so many numbers
// (kProductSizeMax), or where the search does not get its memory.
NetworkMemory network_memory(const Network& network, uint32_t batch_size, uint32_t sample_count);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_NETWORK_MEMORY_H_

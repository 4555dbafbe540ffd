// What a network takes of a device's memory, by the tables that devices compute with.
#ifndef GRADSTREAM_SERVER_PROGRAM_NETWORK_MEMORY_H_
#define GRADSTREAM_SERVER_PROGRAM_NETWORK_MEMORY_H_

#include <cstdint>

#include "runtime/problem/network.h"

namespace gradstream {

struct NetworkMemory {
  uint64_t model = 0;        // bytes of the point
  uint64_t scratch = 0;      // bytes of an evaluation: rows and activations
  uint64_t features = 0;     // bytes of what frozen layers in front make of the batch, kept for a step
  uint64_t board_arena = 0;  // as arena, in the lean form that boards train in
  uint64_t arena = 0;        // all of it, as find_arena_need() has it; 0: no run takes a point of so many numbers
};
// For a network that trains something, and batches of batch_size samples, 16 directions and 5 local steps.
NetworkMemory network_memory(const Network& network, uint32_t batch_size);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_NETWORK_MEMORY_H_

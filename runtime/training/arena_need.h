// How large an arena a device needs, found from the tables that it computes with: for those who say so before a run is
// there. Hosts alone.
#ifndef GRADSTREAM_RUNTIME_TRAINING_ARENA_NEED_H_
#define GRADSTREAM_RUNTIME_TRAINING_ARENA_NEED_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// The cheapest run that trains a problem by forward passes: solver projection, one-sided estimator, a product of
// numbers on no manifold, uploads in f32, correction none.
struct PlainRun {
  uint32_t batch_size = 32;
  uint32_t direction_count = 16;
  uint32_t local_step_count = 5;
  bool is_lean = false;     // the form of boards, training/lean.h; else that of hosts
  bool keeps_batch = true;  // false: without what the problem keeps of a batch (SolverRun::keeps_batch)
};

// Bytes of arena that a device takes for a point of `size` numbers in such a run, the replica included. memory: of the
// caller, for the trial; nothing of it is kept. kOutOfMemory: the memory is too small for the trial; kInvalidArgument:
// no run takes a point of so many numbers, or the problem has none.
Result<size_t> find_arena_need(const Problem& problem, uint32_t size, const PlainRun& run, std::span<uint8_t> memory);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_ARENA_NEED_H_

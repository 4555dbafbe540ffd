// Matrices of known rank of which devices know some entries: the experiment `completion`.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_COMPLETION_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_COMPLETION_H_

#include <cstdint>
#include <memory>

#include "experiments/workloads/workload.h"

namespace gradstream {

// The keys `matrix` and `rank` of a run that completes it.
inline constexpr const char* kCompletionMatrix = "60x40";
inline constexpr uint32_t kCompletionRank = 2;

// A 60 x 40 matrix of rank 2 whose entries have mean square 1, on the fixed-rank manifold. 10 devices have 6 rows each,
// of which they know 120 of the 240 entries. The cost is 0 at the matrix. other: the error of the entries that nobody
// knows, relative to them.
std::unique_ptr<Workload> make_completion(uint32_t seed);

// A 50 x 200 matrix of rank 3, as the later code of 000's authors completes one on Gr(3, 50). 10 devices have 20
// columns each, and know 15 of the 50 entries of a column. The problem is multitask learning: a column is a task, whose
// features are unit vectors. The cost is 0 at the matrix; other: as above. In data_multitask.cc.
std::unique_ptr<Workload> make_grassmann_completion(uint32_t seed);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_COMPLETION_H_

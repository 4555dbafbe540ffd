// k-PCA of one column, some samples at a time, for runs that take minutes. The numbers are those of kKpcaOps bit for
// bit: each product, each entry of the gradient and each loss is summed in the same order. What differs is that the
// sums of some samples run beside each other, where one alone waits for its last addition.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_KPCA_COLUMN_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_KPCA_COLUMN_H_

#include "runtime/problem/problem.h"

namespace gradstream {

// As kKpcaOps, by name too. Context: the `source` of a StoredSamples. An evaluation that has another shape, takes units
// out or adds up a metric goes to kKpcaOps.
extern const ProblemOps kKpcaColumnOps;

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_KPCA_COLUMN_H_

// The inner product of a convolution: several maps at once, from rows that stand in memory.
#ifndef GRADSTREAM_RUNTIME_BASE_WEIGHTED_ROWS_H_
#define GRADSTREAM_RUNTIME_BASE_WEIGHTED_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// `count` rows of `width` numbers each; row j begins at values + j stride.
struct WeightedRows {
  const Real* values;
  size_t stride;
  uint32_t count;
  uint32_t width;
};

// out[m][c] <- out[m][c] + sum over j of weights[m][j] rows[j][c], the terms added one after the other, for `maps`
// maps. Weights of map m begin at weights + m weight_stride, its output at out + m out_stride. W: float, double or
// int8_t. out aliases nothing.
template <typename W>
void add_weighted_rows(const WeightedRows& rows, uint32_t maps, const W* weights, size_t weight_stride, Real* out,
                       size_t out_stride);

extern template void add_weighted_rows(const WeightedRows&, uint32_t, const float*, size_t, Real*, size_t);
extern template void add_weighted_rows(const WeightedRows&, uint32_t, const int8_t*, size_t, Real*, size_t);
#if defined(GS_REAL_DOUBLE)
extern template void add_weighted_rows(const WeightedRows&, uint32_t, const double*, size_t, Real*, size_t);
#endif

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_WEIGHTED_ROWS_H_

#include "runtime/base/no_contraction.h"

#include "runtime/base/weighted_rows.h"

#include "runtime/base/lanes.h"

namespace gradstream {
namespace {

// Sums stay in registers: of kMaps maps, so that a number of a row is read once for all of them.
template <uint32_t kMaps, typename W>
[[gnu::always_inline]] inline void add_to_maps(const WeightedRows& rows, const W* weights, size_t weight_stride,
                                               Real* out, size_t out_stride) {
  for_fours(
      rows.width,
      [&](size_t c) __attribute__((always_inline)) {
        Vec sums[kMaps];
        unrolled<kMaps>([&](auto m) __attribute__((always_inline)) { sums[m] = load(out + m * out_stride + c); });
        const Real* row = rows.values + c;
        for (uint32_t j = 0; j < rows.count; ++j, row += rows.stride) {
          const Vec values = load(row);
          unrolled<kMaps>([&](auto m) __attribute__((always_inline)) {
            sums[m] += splat(static_cast<Real>(weights[m * weight_stride + j])) * values;
          });
        }
        unrolled<kMaps>([&](auto m) __attribute__((always_inline)) { store(sums[m], out + m * out_stride + c); });
      },
      [&](size_t c) __attribute__((always_inline)) {
        Real sums[kMaps];
        unrolled<kMaps>([&](auto m) __attribute__((always_inline)) { sums[m] = out[m * out_stride + c]; });
        const Real* row = rows.values + c;
        for (uint32_t j = 0; j < rows.count; ++j, row += rows.stride) {
          unrolled<kMaps>([&](auto m) __attribute__((always_inline)) {
            sums[m] += static_cast<Real>(weights[m * weight_stride + j]) * *row;
          });
        }
        unrolled<kMaps>([&](auto m) __attribute__((always_inline)) { out[m * out_stride + c] = sums[m]; });
      });
}

}  // namespace

template <typename W>
void add_weighted_rows(const WeightedRows& rows, uint32_t maps, const W* weights, size_t weight_stride, Real* out,
                       size_t out_stride) {
  uint32_t m = 0;
  for (; m + 4 <= maps; m += 4) {
    add_to_maps<4>(rows, weights + m * weight_stride, weight_stride, out + m * out_stride, out_stride);
  }
  for (; m < maps; ++m) {
    add_to_maps<1>(rows, weights + m * weight_stride, weight_stride, out + m * out_stride, out_stride);
  }
}

template void add_weighted_rows(const WeightedRows&, uint32_t, const float*, size_t, Real*, size_t);
template void add_weighted_rows(const WeightedRows&, uint32_t, const int8_t*, size_t, Real*, size_t);
#if defined(GS_REAL_DOUBLE)
template void add_weighted_rows(const WeightedRows&, uint32_t, const double*, size_t, Real*, size_t);
#endif

}  // namespace gradstream

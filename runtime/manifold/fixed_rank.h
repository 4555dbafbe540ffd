// The fixed-rank manifold beside its default table (fixed_rank.cc): its isometric transport, and dense matrices of its
// factored points for problems and tests.
#ifndef GRADSTREAM_RUNTIME_MANIFOLD_FIXED_RANK_H_
#define GRADSTREAM_RUNTIME_MANIFOLD_FIXED_RANK_H_

#include <cstddef>

#include "runtime/base/arena.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

extern const ManifoldOps kFixedRankSmoothOps;  // projection, smooth; Shape::parts

// The blocks of an m x n matrix of rank r, (U, V, S) = (m x r, n x r, r x r), and the shape of its points.
Parts fixed_rank_parts(uint32_t m, uint32_t n, uint32_t r);
Shape fixed_rank_shape(const Parts& parts);  // points to parts

// out (m x n) <- U S V'.
void fixed_rank_to_dense(Shape shape, const Real* x, Real* out);

// The nearest point of z (m x n): its truncated singular value decomposition, S diagonal and descending. kSingular when
// it has not the rank, or is not unique (the singular values r and r + 1 are equal to rounding); kNotFinite.
Status fixed_rank_from_dense(Shape shape, const Real* z, Real* out, Arena& arena);
size_t fixed_rank_from_dense_scratch_size(Shape shape);  // bytes of arena scratch

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_MANIFOLD_FIXED_RANK_H_

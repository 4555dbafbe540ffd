// Points (U, V, S) and tangent vectors (Up, Vp, M) of fixed rank, one block under the other, as both peers use them.
#ifndef GRADSTREAM_BENCH_MANIFOLD_FIXED_RANK_H_
#define GRADSTREAM_BENCH_MANIFOLD_FIXED_RANK_H_

#include "bench/manifold_operands.h"
#include "runtime/manifold/fixed_rank.h"

namespace gradstream {

// The blocks of a matrix of the operands.
struct FixedRankBlocks {
  explicit FixedRankBlocks(const Operands& o)
      : m(static_cast<Eigen::Index>(o.shape.parts->part[0].shape.rows)),
        n(static_cast<Eigen::Index>(o.shape.parts->part[1].shape.rows)),
        r(o.cx.cols()) {}
  auto left(ColumnMatrix& a) const { return a.topRows(m); }
  auto left(const ColumnMatrix& a) const { return a.topRows(m); }
  auto right(ColumnMatrix& a) const { return a.middleRows(m, n); }
  auto right(const ColumnMatrix& a) const { return a.middleRows(m, n); }
  auto core(ColumnMatrix& a) const { return a.bottomRows(r); }
  auto core(const ColumnMatrix& a) const { return a.bottomRows(r); }
  Eigen::Index m, n, r;
};

// core <- [S + M, Rv'; Ru, 0] with the triangles in p0 and p1.
inline void fixed_rank_core(Operands& o, const FixedRankBlocks& b) {
  o.core.topLeftCorner(b.r, b.r) = b.core(o.cx) + b.core(o.cv);
  o.core.topRightCorner(b.r, b.r) = o.p1.transpose();
  o.core.bottomLeftCorner(b.r, b.r) = o.p0;
  o.core.bottomRightCorner(b.r, b.r).setZero();
}

// [U Qu] and [V Qv] times the leading singular vectors; the factors Q stand in sum.
template <typename Left, typename Right, typename Values>
void fixed_rank_assemble(Operands& o, const FixedRankBlocks& b, const Left& left, const Right& right,
                         const Values& values) {
  b.left(o.result).noalias() = b.left(o.cx) * left.topLeftCorner(b.r, b.r);
  b.left(o.result).noalias() += b.left(o.sum) * left.bottomLeftCorner(b.r, b.r);
  b.right(o.result).noalias() = b.right(o.cx) * right.topLeftCorner(b.r, b.r);
  b.right(o.result).noalias() += b.right(o.sum) * right.bottomLeftCorner(b.r, b.r);
  b.core(o.result) = values.head(b.r).asDiagonal();
}

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_MANIFOLD_FIXED_RANK_H_

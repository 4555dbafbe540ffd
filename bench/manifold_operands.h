// What one row of the benchmark works on: points and tangent vectors of one shape, for ours and for the peers.
#ifndef GRADSTREAM_BENCH_MANIFOLD_OPERANDS_H_
#define GRADSTREAM_BENCH_MANIFOLD_OPERANDS_H_

#include <cstdint>
#include <vector>

#include <Eigen/Dense>
#include <lapacke.h>

#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

using ColumnMatrix = Eigen::MatrixXf;
using AlignedVector = std::vector<float, Eigen::aligned_allocator<float>>;
static_assert(EIGEN_DEFAULT_ALIGN_BYTES == 64, "arrays begin at cache lines");

// Points and vectors of one shape, in rows for ours and in columns for the peers, and all the memory that peers need.
struct Operands {
  Operands(const ManifoldOps& ops, Shape s) : shape(s), memory(ops.scratch_size(s) / 8 + 1) {
    Arena arena(memory.data(), memory.size() * 8);
    for (AlignedVector* each : {&x, &y, &v, &z, &out}) {
      each->resize(s.size());
      spread();
    }
    for (ColumnMatrix* each : {&cx, &cy, &cv, &cz, &sum, &result}) {
      each->resize(s.rows, s.cols);
      spread();
    }
    const Status point = ops.random_point(s, {.seed = 1}, x.data(), arena);
    const Status tangent = random_tangent(ops, s, x.data(), {.seed = 2}, v.data(), arena);
    scale(v.size(), 0.3F / norm2(v.size(), v.data()), v.data());
    const Status step = ops.retract(s, x.data(), v.data(), y.data(), arena);
    GS_ASSERT(point == Status::kOk && tangent == Status::kOk && step == Status::kOk);
    add(z.size(), x.data(), v.data(), z.data());
    using Rows = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
    cx = Rows(x.data(), s.rows, s.cols);
    cy = Rows(y.data(), s.rows, s.cols);
    cv = Rows(v.data(), s.rows, s.cols);
    cz = cx + cv;
    for (ColumnMatrix* each : {&p0, &p1, &p2, &p3, &p4}) {
      each->resize(s.cols, s.cols);
    }
    for (ColumnMatrix* each : {&core, &left, &right}) {
      each->resize(2 * s.cols, 2 * s.cols);
    }
    work.resize(64 * (s.rows + s.cols) + 64 * s.cols * s.cols);
    integers.resize(16 * s.cols);
    tau.resize(2 * s.cols);
  }
  // Sets the next array off, on both sides. Reason: where two arrays lie at the same places of 4 KiB pages, as those of
  // 256x4 would, a processor makes loads of one wait for stores to the other.
  void spread() { gaps.emplace_back(1280 / sizeof(float)); }

  Shape shape;
  std::vector<uint64_t> memory;
  std::vector<AlignedVector> gaps;
  AlignedVector x, y, v, z, out;  // z = x + v
  ColumnMatrix cx, cy, cv, cz, sum, result, p0, p1, p2, p3, p4;
  ColumnMatrix core, left, right;  // of twice as many columns
  Eigen::SelfAdjointEigenSolver<ColumnMatrix> eigen;
  Eigen::JacobiSVD<ColumnMatrix> svd;
  AlignedVector work, tau;
  std::vector<lapack_int> integers;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_MANIFOLD_OPERANDS_H_

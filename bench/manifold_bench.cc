// Retractions, projections and transports of the runtime against what a programmer would write with Eigen (float) and
// with LAPACK and BLAS (single), in one run on one thread.
//
// The peers get the better layout for them, columns, all their memory beforehand, and the same formula where it has a
// fast form; ours are the tables' functions, on rows, in the fixed order of sums that makes them reproducible. Each
// figure is the shortest of several interleaved rounds of processor time. A ratio is the faster peer's time over ours:
// 2.00 means that ours takes half as long.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <Eigen/Dense>
#include <cblas.h>
#include <lapacke.h>

#include "runtime/manifold/manifold.h"

namespace gradstream {

// A broken contract ends the benchmark.
void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: contract broken\n", file, line);
  std::abort();
}

namespace {

using Matrix = Eigen::MatrixXf;
using Vector = std::vector<float>;

constexpr int kRoundCount = 9;
constexpr double kRoundSeconds = 4e-3;
// What must hold: nowhere slower than the faster peer, and at the board's shape twice as fast.
constexpr double kRatioMin = 1;
constexpr double kRatioMinBoard = 2;

double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_each(const std::function<void()>& operation, int count) {
  const double begin = cpu_seconds();
  for (int i = 0; i < count; ++i) {
    operation();
  }
  return (cpu_seconds() - begin) / count;
}

// Points and vectors of one shape, in rows for ours and in columns for the peers, and all the memory that peers need.
struct Operands {
  Operands(const ManifoldOps& ops, Shape s) : shape(s), memory(ops.scratch_size(s) / 8 + 1), out(s.size()) {
    Arena arena(memory.data(), memory.size() * 8);
    for (Vector* each : {&x, &y, &v}) {
      each->resize(s.size());
    }
    const Status point = ops.random_point(s, {.seed = 1}, x.data(), arena);
    const Status tangent = random_tangent(ops, s, x.data(), {.seed = 2}, v.data(), arena);
    scale(v.size(), 0.3F / norm2(v.size(), v.data()), v.data());
    const Status step = ops.retract(s, x.data(), v.data(), y.data(), arena);
    GS_ASSERT(point == Status::kOk && tangent == Status::kOk && step == Status::kOk);
    using Rows = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
    cx = Rows(x.data(), s.rows, s.cols);
    cy = Rows(y.data(), s.rows, s.cols);
    cv = Rows(v.data(), s.rows, s.cols);
    result.resize(s.rows, s.cols);
    for (Matrix* each : {&p0, &p1, &p2, &p3, &p4}) {
      each->resize(s.cols, s.cols);
    }
    work.resize(64 * (s.rows + s.cols));
    tau.resize(s.cols);
  }
  Shape shape;
  std::vector<uint64_t> memory;
  Vector x, y, v, out;
  Matrix cx, cy, cv, result, p0, p1, p2, p3, p4;
  Eigen::SelfAdjointEigenSolver<Matrix> eigen;
  Vector work, tau;
};

struct Operation {
  const char* name;
  const ManifoldOps* ops;
  std::function<Status(const ManifoldOps&, Operands&, Arena&)> ours;
  std::function<void(Operands&)> with_eigen;
  std::function<void(Operands&)> with_lapack;
};

// ---- LAPACK's and BLAS's shapes of call -----------------------------------------------------------------------------

// c <- alpha op(A) op(B) + beta C, all in columns.
void gemm(bool transpose_a, bool transpose_b, float alpha, const Matrix& a, const Matrix& b, float beta, Matrix& c) {
  const auto inner = static_cast<int>(transpose_a ? a.rows() : a.cols());
  cblas_sgemm(CblasColMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<int>(c.rows()), static_cast<int>(c.cols()), inner, alpha, a.data(),
              static_cast<int>(a.rows()), b.data(), static_cast<int>(b.rows()), beta, c.data(),
              static_cast<int>(c.rows()));
}

// Eigenvectors into s, eigenvalues into tau.
void syev(Operands& o, Matrix& s) {
  const auto n = static_cast<int>(s.rows());
  LAPACKE_ssyev_work(LAPACK_COL_MAJOR, 'V', 'L', n, s.data(), n, o.tau.data(), o.work.data(),
                     static_cast<int>(o.work.size()));
}

// out <- s diag(f(tau)) s'.
template <typename Function>
void assemble(Operands& o, const Matrix& s, Function function, Matrix& scaled, Matrix& out) {
  for (Eigen::Index j = 0; j < s.cols(); ++j) {
    scaled.col(j) = s.col(j) * function(o.tau[static_cast<size_t>(j)]);
  }
  gemm(false, true, 1, scaled, s, 0, out);
}

// ---- The operations, twice ------------------------------------------------------------------------------------------

void eigen_tangent(Operands& o, const Matrix& x, bool is_symmetric) {
  o.p0.noalias() = x.transpose() * o.cv;
  if (is_symmetric) {
    o.p1 = 0.5F * (o.p0 + o.p0.transpose());
  }
  o.result = o.cv;
  o.result.noalias() -= x * (is_symmetric ? o.p1 : o.p0);
}

void lapack_tangent(Operands& o, const Matrix& x, bool is_symmetric) {
  gemm(true, false, 1, x, o.cv, 0, o.p0);
  if (is_symmetric) {
    o.p1 = 0.5F * (o.p0 + o.p0.transpose());
  }
  o.result = o.cv;
  gemm(false, false, -1, x, is_symmetric ? o.p1 : o.p0, 1, o.result);
}

// The polar factor by an eigen-decomposition of the Gram matrix: many times faster than by a thin SVD.
void eigen_polar(Operands& o) {
  o.result = o.cx + o.cv;
  o.p0.noalias() = o.result.transpose() * o.result;
  o.eigen.compute(o.p0);
  o.p1.noalias() = o.eigen.eigenvectors() * o.eigen.eigenvalues().cwiseSqrt().cwiseInverse().asDiagonal();
  o.p2.noalias() = o.p1 * o.eigen.eigenvectors().transpose();
  o.cy.noalias() = o.result * o.p2;
}

void lapack_polar(Operands& o) {
  o.result = o.cx + o.cv;
  cblas_ssyrk(CblasColMajor, CblasLower, CblasTrans, static_cast<int>(o.p0.rows()), static_cast<int>(o.cx.rows()), 1,
              o.result.data(), static_cast<int>(o.cx.rows()), 0, o.p0.data(), static_cast<int>(o.p0.rows()));
  syev(o, o.p0);
  assemble(o, o.p0, [](float w) { return 1 / std::sqrt(w); }, o.p1, o.p2);
  gemm(false, false, 1, o.result, o.p2, 0, o.cy);
}

void eigen_qr(Operands& o) {
  o.result = o.cx + o.cv;
  const Eigen::HouseholderQR<Eigen::Ref<Matrix>> qr(o.result);
  o.cy.setIdentity();
  o.cy.applyOnTheLeft(qr.householderQ());
}

void lapack_qr(Operands& o) {
  const auto m = static_cast<int>(o.cx.rows()), n = static_cast<int>(o.cx.cols());
  const auto size = static_cast<int>(o.work.size());
  o.cy = o.cx + o.cv;
  LAPACKE_sgeqrf_work(LAPACK_COL_MAJOR, m, n, o.cy.data(), m, o.tau.data(), o.work.data(), size);
  LAPACKE_sorgqr_work(LAPACK_COL_MAJOR, m, n, n, o.cy.data(), m, o.tau.data(), o.work.data(), size);
}

// out = V - X (A + U B) - Y (B - Om), as in runtime/manifold/smooth_transport.h.
void eigen_smooth(Operands& o) {
  o.p0.noalias() = o.cx.transpose() * o.cy;
  o.p1.noalias() = o.p0.transpose() * o.p0;
  o.eigen.compute(o.p1);
  const auto& q = o.eigen.eigenvectors();
  const Eigen::ArrayXf roots = o.eigen.eigenvalues().array().sqrt();
  o.p1.noalias() = q * roots.inverse().matrix().asDiagonal() * q.transpose();
  o.p2.noalias() = o.p0 * o.p1;  // U
  o.p1.noalias() = q * (1 + roots).inverse().matrix().asDiagonal() * q.transpose();
  o.p3.noalias() = o.cx.transpose() * o.cv;  // A
  o.p4.noalias() = o.cy.transpose() * o.cv;
  o.p4.noalias() -= o.p0.transpose() * o.p3;
  o.p0.noalias() = o.p1 * o.p4;  // B
  o.p1 = o.p3;
  o.p1.noalias() += o.p2 * o.p0;
  o.p0 -= 0.5F * (o.p3 - o.p3.transpose());
  o.result = o.cv;
  o.result.noalias() -= o.cx * o.p1;
  o.result.noalias() -= o.cy * o.p0;
}

void lapack_smooth(Operands& o) {
  gemm(true, false, 1, o.cx, o.cy, 0, o.p0);
  gemm(true, false, 1, o.p0, o.p0, 0, o.p1);
  syev(o, o.p1);
  assemble(o, o.p1, [](float w) { return 1 / std::sqrt(w); }, o.p2, o.p3);
  gemm(false, false, 1, o.p0, o.p3, 0, o.p4);  // U
  assemble(o, o.p1, [](float w) { return 1 / (1 + std::sqrt(w)); }, o.p2, o.p3);
  gemm(true, false, 1, o.cx, o.cv, 0, o.p1);  // A
  gemm(true, false, 1, o.cy, o.cv, 0, o.p2);
  gemm(true, false, -1, o.p0, o.p1, 1, o.p2);
  gemm(false, false, 1, o.p3, o.p2, 0, o.p0);  // B
  o.p2 = o.p1;
  gemm(false, false, 1, o.p4, o.p0, 1, o.p2);
  o.p0 -= 0.5F * (o.p1 - o.p1.transpose());
  o.result = o.cv;
  gemm(false, false, -1, o.cx, o.p2, 1, o.result);
  gemm(false, false, -1, o.cy, o.p0, 1, o.result);
}

void eigen_oblique_retract(Operands& o) {
  o.result = o.cx + o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    o.result.col(c) *= 1 / o.result.col(c).norm();
  }
}

void lapack_oblique_retract(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cx + o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    cblas_sscal(rows, 1 / cblas_snrm2(rows, o.result.col(c).data(), 1), o.result.col(c).data(), 1);
  }
}

void eigen_oblique_tangent(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    o.result.col(c) = o.cv.col(c) - o.cx.col(c).dot(o.cv.col(c)) * o.cx.col(c);
  }
}

void lapack_oblique_tangent(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    const float normal = cblas_sdot(rows, o.cx.col(c).data(), 1, o.cv.col(c).data(), 1);
    cblas_saxpy(rows, -normal, o.cx.col(c).data(), 1, o.result.col(c).data(), 1);
  }
}

void eigen_oblique_transport(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    const float factor = o.cy.col(c).dot(o.cv.col(c)) / (1 + o.cx.col(c).dot(o.cy.col(c)));
    o.result.col(c) = o.cv.col(c) - factor * (o.cx.col(c) + o.cy.col(c));
  }
}

void lapack_oblique_transport(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    const float* const x = o.cx.col(c).data();
    const float* const y = o.cy.col(c).data();
    const float factor = cblas_sdot(rows, y, 1, o.cv.col(c).data(), 1) / (1 + cblas_sdot(rows, x, 1, y, 1));
    cblas_saxpy(rows, -factor, x, 1, o.result.col(c).data(), 1);
    cblas_saxpy(rows, -factor, y, 1, o.result.col(c).data(), 1);
  }
}

Status project_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.project_tangent(o.shape, o.x.data(), o.v.data(), o.out.data(), arena);
}
Status retract_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.retract(o.shape, o.x.data(), o.v.data(), o.out.data(), arena);
}
Status transport_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.transport(o.shape, o.x.data(), o.y.data(), o.v.data(), o.out.data(), arena);
}

std::vector<Operation> operations() {
  return {
      {"stiefel project_tangent", &kStiefelOps, project_ours, [](Operands& o) { eigen_tangent(o, o.cx, true); },
       [](Operands& o) { lapack_tangent(o, o.cx, true); }},
      {"stiefel retract polar", &kStiefelOps, retract_ours, eigen_polar, lapack_polar},
      {"stiefel retract qr", &kStiefelQrOps, retract_ours, eigen_qr, lapack_qr},
      {"stiefel transport projection", &kStiefelOps, transport_ours,
       [](Operands& o) { eigen_tangent(o, o.cy, true); }, [](Operands& o) { lapack_tangent(o, o.cy, true); }},
      {"stiefel transport smooth", &kStiefelSmoothOps, transport_ours, eigen_smooth, lapack_smooth},
      {"grassmann project_tangent", &kGrassmannOps, project_ours, [](Operands& o) { eigen_tangent(o, o.cx, false); },
       [](Operands& o) { lapack_tangent(o, o.cx, false); }},
      {"oblique project_tangent", &kObliqueOps, project_ours, eigen_oblique_tangent, lapack_oblique_tangent},
      {"oblique retract", &kObliqueOps, retract_ours, eigen_oblique_retract, lapack_oblique_retract},
      {"oblique transport", &kObliqueOps, transport_ours, eigen_oblique_transport, lapack_oblique_transport},
  };
}

struct Times {
  double ours = std::numeric_limits<double>::max();
  double eigen = std::numeric_limits<double>::max();
  double lapack = std::numeric_limits<double>::max();
  double ratio() const { return std::min(eigen, lapack) / ours; }
};

Times measure(const Operation& operation, Shape shape) {
  Operands operands(*operation.ops, shape);
  Arena arena(operands.memory.data(), operands.memory.size() * 8);
  Status status = Status::kOk;
  const auto ours = [&] { status = operation.ours(*operation.ops, operands, arena); };
  const auto with_eigen = [&] { operation.with_eigen(operands); };
  const auto with_lapack = [&] { operation.with_lapack(operands); };
  const int count = std::max(1, static_cast<int>(kRoundSeconds / seconds_each(ours, 10)));
  Times best;
  for (int round = 0; round < kRoundCount; ++round) {
    best.ours = std::min(best.ours, seconds_each(ours, count));
    best.eigen = std::min(best.eigen, seconds_each(with_eigen, count));
    best.lapack = std::min(best.lapack, seconds_each(with_lapack, count));
  }
  GS_ASSERT(status == Status::kOk);
  return best;
}

int run() {
  constexpr Shape kBoard = {64, 4};
  constexpr Shape kShapes[] = {kBoard, {64, 8}, {256, 4}, {256, 8}, {784, 4}, {784, 5}, {784, 8}};
  double worst = std::numeric_limits<double>::max();
  double worst_board = worst;
  int slower_count = 0;
  std::printf("%-30s %9s %10s %10s %10s %7s\n", "operation", "shape", "ours us", "eigen us", "lapack us", "ratio");
  for (const Operation& operation : operations()) {
    for (const Shape shape : kShapes) {
      const Times times = measure(operation, shape);
      const std::string text = std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
      std::printf("%-30s %9s %10.3f %10.3f %10.3f %7.2f\n", operation.name, text.c_str(), times.ours * 1e6,
                  times.eigen * 1e6, times.lapack * 1e6, times.ratio());
      worst = std::min(worst, times.ratio());
      worst_board = shape == kBoard ? std::min(worst_board, times.ratio()) : worst_board;
      slower_count += times.ratio() < kRatioMin ? 1 : 0;
    }
  }
  const bool holds = worst >= kRatioMin && worst_board >= kRatioMinBoard;
  std::printf("result: bench=manifold worst_ratio=%.2f worst_ratio_64x4=%.2f slower=%d holds=%d\n", worst, worst_board,
              slower_count, holds ? 1 : 0);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace gradstream

int main() { return gradstream::run(); }

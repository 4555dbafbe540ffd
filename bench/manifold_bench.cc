// Retractions, projections and transports of the runtime against what a programmer would write with Eigen (float) and
// with LAPACK and BLAS (single), in one run on one thread.
//
// The peers get the better layout for them, columns, all their memory beforehand, and the same formula where it has a
// fast form; ours are the tables' functions, on rows, in the fixed order of sums that makes them reproducible. Before a
// row is timed, all sides must have the same result. The sides run in turn in short slices of processor time. A ratio
// is the faster peer's time over ours in the same turn, the median of all turns, so that what else the machine does
// meets both: 2.00 means that ours takes half as long. Times are medians too.
//
// Every array of either side begins at a cache line: what a wide load or store across two lines costs is a matter of
// where the caller's memory lies, and made two speeds of one row.
//
// The bars are for the manifolds of tall matrices, from 64x4 to 784x8; the other rows are there to be seen
// (docs/algorithms.md says what holds them back).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Dense>
#include <cblas.h>
#include <lapacke.h>
#include <unsupported/Eigen/MatrixFunctions>

#include "runtime/base/products.h"
#include "runtime/manifold/fixed_rank.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

// A broken contract ends the benchmark.
void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: contract broken\n", file, line);
  std::abort();
}

namespace {

using Matrix = Eigen::MatrixXf;
using Vector = std::vector<float, Eigen::aligned_allocator<float>>;
static_assert(EIGEN_DEFAULT_ALIGN_BYTES == 64, "arrays begin at cache lines");

// Many short turns: shorter than a scheduler's, so that a turn is disturbed as a whole, or on one side and no more.
constexpr int kTurnCount = 201;
constexpr double kSliceSeconds = 0.2e-3;  // of ours; a peer does the same number of operations
// Largest difference between the sides' results, relative to the largest entry. Reason: the peers' roots of eigenvalues
// lose a digit.
constexpr float kDifferenceMax = 2e-5F;
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
  Operands(const ManifoldOps& ops, Shape s) : shape(s), memory(ops.scratch_size(s) / 8 + 1) {
    Arena arena(memory.data(), memory.size() * 8);
    for (Vector* each : {&x, &y, &v, &z, &out}) {
      each->resize(s.size());
      spread();
    }
    for (Matrix* each : {&cx, &cy, &cv, &cz, &sum, &result}) {
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
    for (Matrix* each : {&p0, &p1, &p2, &p3, &p4}) {
      each->resize(s.cols, s.cols);
    }
    for (Matrix* each : {&core, &left, &right}) {
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
  std::vector<Vector> gaps;
  Vector x, y, v, z, out;  // z = x + v
  Matrix cx, cy, cv, cz, sum, result, p0, p1, p2, p3, p4;
  Matrix core, left, right;  // of twice as many columns
  Eigen::SelfAdjointEigenSolver<Matrix> eigen;
  Eigen::JacobiSVD<Matrix> svd;
  Vector work, tau;
  std::vector<lapack_int> integers;
};

// What of the two sides' results must agree.
enum class Agreement { kEntries, kEntriesButColumnSigns, kFactoredMatrix };

struct Operation {
  const char* name;
  const ManifoldOps* ops;
  std::span<const Shape> shapes;
  std::function<Status(const ManifoldOps&, Operands&, Arena&)> ours;
  std::function<void(Operands&)> with_eigen;
  std::function<void(Operands&)> with_lapack;  // none: LAPACK has nothing of the kind
  Agreement agreement = Agreement::kEntries;
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
void eigen_project(Operands& o, const Matrix& a) {
  o.p0.noalias() = a.transpose() * a;
  o.eigen.compute(o.p0);
  o.p1.noalias() = o.eigen.eigenvectors() * o.eigen.eigenvalues().cwiseSqrt().cwiseInverse().asDiagonal();
  o.p2.noalias() = o.p1 * o.eigen.eigenvectors().transpose();
  o.result.noalias() = a * o.p2;
}

void eigen_point(Operands& o) { eigen_project(o, o.cz); }

void eigen_polar(Operands& o) {
  o.sum = o.cx + o.cv;
  eigen_project(o, o.sum);
}

void lapack_project(Operands& o, const Matrix& a) {
  cblas_ssyrk(CblasColMajor, CblasLower, CblasTrans, static_cast<int>(o.p0.rows()), static_cast<int>(a.rows()), 1,
              a.data(), static_cast<int>(a.rows()), 0, o.p0.data(), static_cast<int>(o.p0.rows()));
  syev(o, o.p0);
  assemble(
      o, o.p0, [](float w) { return 1 / std::sqrt(w); }, o.p1, o.p2);
  gemm(false, false, 1, a, o.p2, 0, o.result);
}

void lapack_point(Operands& o) { lapack_project(o, o.cz); }

void lapack_polar(Operands& o) {
  o.sum = o.cx + o.cv;
  lapack_project(o, o.sum);
}

void eigen_qr(Operands& o) {
  o.sum = o.cx + o.cv;
  const Eigen::HouseholderQR<Eigen::Ref<Matrix>> qr(o.sum);
  o.result.setIdentity();
  o.result.applyOnTheLeft(qr.householderQ());
}

// a <- Q of a = QR; R stays in the upper half of r, unless that is null.
void lapack_orthonormalize(Operands& o, Matrix& a, Matrix* r) {
  const auto m = static_cast<int>(a.rows()), n = static_cast<int>(a.cols());
  const auto size = static_cast<int>(o.work.size());
  LAPACKE_sgeqrf_work(LAPACK_COL_MAJOR, m, n, a.data(), m, o.tau.data(), o.work.data(), size);
  if (r != nullptr) {
    *r = a.topRows(n).triangularView<Eigen::Upper>();
  }
  LAPACKE_sorgqr_work(LAPACK_COL_MAJOR, m, n, n, a.data(), m, o.tau.data(), o.work.data(), size);
}

void lapack_qr(Operands& o) {
  o.result = o.cx + o.cv;
  lapack_orthonormalize(o, o.result, nullptr);
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

// Of X'Y = U S: U in p4, (1 + S)^-1 in p3, X'Y in p0.
void lapack_overlap(Operands& o) {
  gemm(true, false, 1, o.cx, o.cy, 0, o.p0);
  gemm(true, false, 1, o.p0, o.p0, 0, o.p1);
  syev(o, o.p1);
  assemble(
      o, o.p1, [](float w) { return 1 / std::sqrt(w); }, o.p2, o.p3);
  gemm(false, false, 1, o.p0, o.p3, 0, o.p4);  // U
  assemble(
      o, o.p1, [](float w) { return 1 / (1 + std::sqrt(w)); }, o.p2, o.p3);
}

void lapack_smooth(Operands& o) {
  lapack_overlap(o);
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

// X cos(S) + V sin(S) / S, S = (V'V)^(1/2): functions of V'V.
void eigen_grassmann_exponential(Operands& o) {
  o.p0.noalias() = o.cv.transpose() * o.cv;
  o.eigen.compute(o.p0);
  const auto& q = o.eigen.eigenvectors();
  const Eigen::ArrayXf angles = o.eigen.eigenvalues().array().max(1e-30F).sqrt();
  o.p1.noalias() = q * angles.cos().matrix().asDiagonal() * q.transpose();
  o.p2.noalias() = q * (angles.sin() / angles).matrix().asDiagonal() * q.transpose();
  o.result.noalias() = o.cx * o.p1;
  o.result.noalias() += o.cv * o.p2;
}

void lapack_grassmann_exponential(Operands& o) {
  gemm(true, false, 1, o.cv, o.cv, 0, o.p0);
  syev(o, o.p0);
  assemble(
      o, o.p0, [](float w) { return std::cos(std::sqrt(std::max(w, 1e-30F))); }, o.p1, o.p2);
  gemm(false, false, 1, o.cx, o.p2, 0, o.result);
  assemble(
      o, o.p0, [](float w) { return std::sin(std::sqrt(std::max(w, 1e-30F))) / std::sqrt(std::max(w, 1e-30F)); }, o.p1,
      o.p2);
  gemm(false, false, 1, o.cv, o.p2, 1, o.result);
}

// [X V] exp([[A, -S], [I, A]]) [I; 0] exp(-A), as in runtime/manifold/stiefel.cc.
void eigen_stiefel_exponential(Operands& o) {
  const Eigen::Index n = o.cx.cols();
  o.p0.noalias() = o.cx.transpose() * o.cv;
  o.p1.noalias() = o.cv.transpose() * o.cv;
  Matrix block(2 * n, 2 * n);
  block << o.p0, -o.p1, Matrix::Identity(n, n), o.p0;
  const Matrix power = block.exp();
  o.p1 = (-o.p0).exp();
  o.p2.noalias() = power.topLeftCorner(n, n) * o.p1;
  o.p3.noalias() = power.bottomLeftCorner(n, n) * o.p1;
  o.result.noalias() = o.cx * o.p2;
  o.result.noalias() += o.cv * o.p3;
}

// W = V polar(X'Y), then W - Y Y'W.
void eigen_grassmann_transport(Operands& o) {
  o.p0.noalias() = o.cx.transpose() * o.cy;
  o.p1.noalias() = o.p0.transpose() * o.p0;
  o.eigen.compute(o.p1);
  const auto& q = o.eigen.eigenvectors();
  o.p2.noalias() = q * o.eigen.eigenvalues().cwiseSqrt().cwiseInverse().asDiagonal() * q.transpose();
  o.p1.noalias() = o.p0 * o.p2;
  o.result.noalias() = o.cv * o.p1;
  o.p0.noalias() = o.cy.transpose() * o.result;
  o.result.noalias() -= o.cy * o.p0;
}

void lapack_grassmann_transport(Operands& o) {
  gemm(true, false, 1, o.cx, o.cy, 0, o.p0);
  gemm(true, false, 1, o.p0, o.p0, 0, o.p1);
  syev(o, o.p1);
  assemble(
      o, o.p1, [](float w) { return 1 / std::sqrt(w); }, o.p2, o.p3);
  gemm(false, false, 1, o.p0, o.p3, 0, o.p4);
  gemm(false, false, 1, o.cv, o.p4, 0, o.result);
  gemm(true, false, 1, o.cy, o.result, 0, o.p0);
  gemm(false, false, -1, o.cy, o.p0, 1, o.result);
}

// (V - X U B - Y B) U, the smooth transport of a V with X'V = 0, then U = polar(X'Y).
void eigen_grassmann_parallel(Operands& o) {
  o.p0.noalias() = o.cx.transpose() * o.cy;
  o.p1.noalias() = o.p0.transpose() * o.p0;
  o.eigen.compute(o.p1);
  const auto& q = o.eigen.eigenvectors();
  const Eigen::ArrayXf roots = o.eigen.eigenvalues().array().sqrt();
  o.p1.noalias() = q * roots.inverse().matrix().asDiagonal() * q.transpose();
  o.p2.noalias() = o.p0 * o.p1;  // U
  o.p1.noalias() = q * (1 + roots).inverse().matrix().asDiagonal() * q.transpose();
  o.p4.noalias() = o.cy.transpose() * o.cv;
  o.p3.noalias() = o.p1 * o.p4;  // B
  o.p4.noalias() = o.p3 * o.p2;
  o.p1.noalias() = o.p2 * o.p4;
  o.result.noalias() = o.cv * o.p2;
  o.result.noalias() -= o.cx * o.p1;
  o.result.noalias() -= o.cy * o.p4;
}

void lapack_grassmann_parallel(Operands& o) {
  lapack_overlap(o);
  gemm(true, false, 1, o.cy, o.cv, 0, o.p2);
  gemm(false, false, 1, o.p3, o.p2, 0, o.p0);  // B
  gemm(false, false, 1, o.p0, o.p4, 0, o.p1);
  gemm(false, false, 1, o.p4, o.p1, 0, o.p2);
  gemm(false, false, 1, o.cv, o.p4, 0, o.result);
  gemm(false, false, -1, o.cx, o.p2, 1, o.result);
  gemm(false, false, -1, o.cy, o.p1, 1, o.result);
}

// L f(L^-1 V L'^-1) L' of SPD, f on eigenvalues.
template <typename Function>
void eigen_spd(Operands& o, const Matrix& v, Function function) {
  const Eigen::LLT<Matrix> cholesky(o.cx);
  o.p0 = cholesky.matrixL().solve(v);
  o.p1 = cholesky.matrixL().solve(o.p0.transpose());
  o.eigen.compute(o.p1);
  o.p2.noalias() = cholesky.matrixL() * o.eigen.eigenvectors();
  o.p3.noalias() = o.p2 * o.eigen.eigenvalues().unaryExpr(function).asDiagonal();
  o.result.noalias() = o.p3 * o.p2.transpose();
}

// p4 <- L of X, p0 <- L^-1 V L'^-1.
void lapack_whiten(Operands& o, const Matrix& v) {
  const auto n = static_cast<int>(o.cx.rows());
  o.p4 = o.cx;
  LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'L', n, o.p4.data(), n);
  o.p0 = v;
  LAPACKE_ssygst_work(LAPACK_COL_MAJOR, 1, 'L', n, o.p0.data(), n, o.p4.data(), n);
}

// s <- L s.
void lapack_times_l(Operands& o, Matrix& s) {
  const auto n = static_cast<int>(s.rows());
  cblas_strmm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, n, n, 1, o.p4.data(), n, s.data(), n);
}

template <typename Function>
void lapack_spd(Operands& o, const Matrix& v, Function function) {
  lapack_whiten(o, v);
  syev(o, o.p0);
  lapack_times_l(o, o.p0);
  assemble(o, o.p0, function, o.p1, o.result);
}

// X + V + V X^-1 V / 2.
void eigen_spd_second_order(Operands& o) {
  const Eigen::LLT<Matrix> cholesky(o.cx);
  o.p0 = cholesky.matrixL().solve(o.cv);
  o.result = o.cx + o.cv;
  o.result.noalias() += 0.5F * o.p0.transpose() * o.p0;
}

void lapack_spd_second_order(Operands& o) {
  const auto n = static_cast<int>(o.cx.rows());
  o.p4 = o.cx;
  LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'L', n, o.p4.data(), n);
  o.p0 = o.cv;
  cblas_strsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, n, n, 1, o.p4.data(), n, o.p0.data(),
              n);
  o.result = o.cx + o.cv;
  gemm(true, false, 0.5F, o.p0, o.p0, 1, o.result);
}

// E V E', E = L B^(1/2) L^-1, B = L^-1 Y L'^-1.
void eigen_spd_transport(Operands& o) {
  const Eigen::LLT<Matrix> cholesky(o.cx);
  const auto l = cholesky.matrixL();
  o.p0 = l.solve(o.cy);
  o.p1 = l.solve(o.p0.transpose());
  o.eigen.compute(o.p1);
  o.p0 = l.solve(o.cv);
  o.p1 = l.solve(o.p0.transpose());  // L^-1 V L'^-1
  const auto& q = o.eigen.eigenvectors();
  o.p2.noalias() = q * o.eigen.eigenvalues().cwiseSqrt().asDiagonal() * q.transpose();
  o.p3.noalias() = l * o.p2;
  o.p0.noalias() = o.p3 * o.p1;
  o.result.noalias() = o.p0 * o.p3.transpose();
}

void lapack_spd_transport(Operands& o) {
  lapack_whiten(o, o.cy);
  syev(o, o.p0);
  assemble(
      o, o.p0, [](float w) { return std::sqrt(w); }, o.p1, o.p2);
  lapack_times_l(o, o.p2);
  const auto n = static_cast<int>(o.cx.rows());
  o.p0 = o.cv;
  LAPACKE_ssygst_work(LAPACK_COL_MAJOR, 1, 'L', n, o.p0.data(), n, o.p4.data(), n);
  cblas_ssymm(CblasColMajor, CblasRight, CblasLower, n, n, 1, o.p0.data(), n, o.p2.data(), n, 0, o.p1.data(), n);
  gemm(false, true, 1, o.p1, o.p2, 0, o.result);
}

float eigen_lorentz(const Matrix& a, const Matrix& b) { return a.col(0).dot(b.col(0)) - 2 * a(0) * b(0); }

void eigen_hyperbolic_exponential(Operands& o) {
  const float length = std::sqrt(std::max(eigen_lorentz(o.cv, o.cv), 1e-30F));
  o.result = std::cosh(length) * o.cx + (std::sinh(length) / length) * o.cv;
  o.result(0) = std::sqrt(1 + o.result.bottomRows(o.cx.rows() - 1).squaredNorm());
}

// As in runtime/manifold/hyperbolic.cc: no term cancels, near points far from the origin keep their digits.
void eigen_hyperbolic_transport(Operands& o) {
  const Eigen::Index space = o.cx.rows() - 1;
  const auto x = o.cx.col(0).tail(space), y = o.cy.col(0).tail(space), v = o.cv.col(0).tail(space);
  const float time = (y - x).dot(y + x) / (o.cx(0) + o.cy(0));
  const float chord = std::max((y - x).squaredNorm() - time * time, 0.0F);
  const float factor = ((y - x).dot(v) - time * o.cv(0)) / (2 + chord / 2);
  o.result.col(0).tail(space) = v + factor * (x + y);
  o.result(0) = y.dot(o.result.col(0).tail(space)) / o.cy(0);
}

float blas_lorentz(const Matrix& a, const Matrix& b) {
  return cblas_sdot(static_cast<int>(a.rows()), a.data(), 1, b.data(), 1) - 2 * a(0) * b(0);
}

void lapack_hyperbolic_exponential(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  const float length = std::sqrt(std::max(blas_lorentz(o.cv, o.cv), 1e-30F));
  o.result = o.cv;
  cblas_sscal(rows, std::sinh(length) / length, o.result.data(), 1);
  cblas_saxpy(rows, std::cosh(length), o.cx.data(), 1, o.result.data(), 1);
  o.result(0) = std::sqrt(1 + cblas_sdot(rows - 1, o.result.data() + 1, 1, o.result.data() + 1, 1));
}

void lapack_hyperbolic_transport(Operands& o) {
  const auto space = static_cast<int>(o.cx.rows()) - 1;
  const float* const y = o.cy.data() + 1;
  float* const sum = o.sum.data() + 1;
  float* const out = o.result.data() + 1;
  o.sum = o.cx + o.cy;
  o.result = o.cy - o.cx;
  const float time = cblas_sdot(space, out, 1, sum, 1) / (o.cx(0) + o.cy(0));
  const float chord = std::max(cblas_sdot(space, out, 1, out, 1) - time * time, 0.0F);
  const float along = cblas_sdot(space, out, 1, o.cv.data() + 1, 1) - time * o.cv(0);
  o.result = o.cv;
  cblas_saxpy(space, along / (2 + chord / 2), sum, 1, out, 1);
  o.result(0) = cblas_sdot(space, y, 1, out, 1) / o.cy(0);
}

// a + <x, a>_L x, then tangent again.
void eigen_hyperbolic_tangent(Operands& o) {
  const Eigen::Index space = o.cx.rows() - 1;
  o.result.col(0) = o.cv.col(0) + eigen_lorentz(o.cx, o.cv) * o.cx.col(0);
  o.result(0) = o.cx.col(0).tail(space).dot(o.result.col(0).tail(space)) / o.cx(0);
}

void lapack_hyperbolic_tangent(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cv;
  cblas_saxpy(rows, blas_lorentz(o.cx, o.cv), o.cx.data(), 1, o.result.data(), 1);
  o.result(0) = cblas_sdot(rows - 1, o.cx.data() + 1, 1, o.result.data() + 1, 1) / o.cx(0);
}

// BLAS's snrm2 guards against overflow and takes longer.
float blas_norm(int count, const float* x) { return std::sqrt(cblas_sdot(count, x, 1, x, 1)); }

// With rounding's drift taken off, as ours does, or left to the caller, who would have to do it now and then.
template <bool kNormalizes>
void eigen_oblique_exponential(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    const float length = std::max(o.cv.col(c).norm(), 1e-30F);
    o.result.col(c) = std::cos(length) * o.cx.col(c) + (std::sin(length) / length) * o.cv.col(c);
    if (kNormalizes) {
      o.result.col(c) *= 1 / o.result.col(c).norm();
    }
  }
}

template <bool kNormalizes>
void lapack_oblique_exponential(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    float* const out = o.result.col(c).data();
    const float length = std::max(blas_norm(rows, out), 1e-30F);
    cblas_sscal(rows, std::sin(length) / length, out, 1);
    cblas_saxpy(rows, std::cos(length), o.cx.col(c).data(), 1, out, 1);
    if (kNormalizes) {
      cblas_sscal(rows, 1 / blas_norm(rows, out), out, 1);
    }
  }
}

void eigen_oblique_project(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    o.result.col(c) = o.cz.col(c) * (1 / o.cz.col(c).norm());
  }
}

void lapack_oblique_project(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cz;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    cblas_sscal(rows, 1 / blas_norm(rows, o.cz.col(c).data()), o.result.col(c).data(), 1);
  }
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
    cblas_sscal(rows, 1 / blas_norm(rows, o.result.col(c).data()), o.result.col(c).data(), 1);
  }
}

void eigen_oblique_tangent_at(Operands& o, const Matrix& x) {
  for (Eigen::Index c = 0; c < x.cols(); ++c) {
    o.result.col(c) = o.cv.col(c) - x.col(c).dot(o.cv.col(c)) * x.col(c);
  }
}

void lapack_oblique_tangent_at(Operands& o, const Matrix& x) {
  const auto rows = static_cast<int>(x.rows());
  o.result = o.cv;
  for (Eigen::Index c = 0; c < x.cols(); ++c) {
    const float normal = cblas_sdot(rows, x.col(c).data(), 1, o.cv.col(c).data(), 1);
    cblas_saxpy(rows, -normal, x.col(c).data(), 1, o.result.col(c).data(), 1);
  }
}

void eigen_oblique_tangent(Operands& o) { eigen_oblique_tangent_at(o, o.cx); }
void lapack_oblique_tangent(Operands& o) { lapack_oblique_tangent_at(o, o.cx); }

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

// ---- Fixed rank: points (U, V, S), tangent vectors (Up, Vp, M), one block under the other ---------------------------

struct Blocks {
  explicit Blocks(const Operands& o)
      : m(static_cast<Eigen::Index>(o.shape.parts->part[0].shape.rows)),
        n(static_cast<Eigen::Index>(o.shape.parts->part[1].shape.rows)),
        r(o.cx.cols()) {}
  auto left(Matrix& a) const { return a.topRows(m); }
  auto left(const Matrix& a) const { return a.topRows(m); }
  auto right(Matrix& a) const { return a.middleRows(m, n); }
  auto right(const Matrix& a) const { return a.middleRows(m, n); }
  auto core(Matrix& a) const { return a.bottomRows(r); }
  auto core(const Matrix& a) const { return a.bottomRows(r); }
  Eigen::Index m, n, r;
};

void eigen_fixed_rank_tangent(Operands& o) {
  const Blocks b(o);
  o.p0.noalias() = b.left(o.cx).transpose() * b.left(o.cv);
  o.p1.noalias() = b.right(o.cx).transpose() * b.right(o.cv);
  o.result = o.cv;
  b.left(o.result).noalias() -= b.left(o.cx) * o.p0;
  b.right(o.result).noalias() -= b.right(o.cx) * o.p1;
  b.core(o.result) += o.p0 + o.p1.transpose();
}

void eigen_fixed_rank_transport(Operands& o) {
  const Blocks b(o);
  o.p0.noalias() = b.right(o.cx).transpose() * b.right(o.cy);
  o.p1.noalias() = b.left(o.cx).transpose() * b.left(o.cy);
  o.p2.noalias() = b.core(o.cv) * o.p0;
  o.p2.noalias() += b.right(o.cv).transpose() * b.right(o.cy);
  o.p3.noalias() = b.core(o.cv).transpose() * o.p1;
  o.p3.noalias() += b.left(o.cv).transpose() * b.left(o.cy);
  b.left(o.result).noalias() = b.left(o.cv) * o.p0;
  b.left(o.result).noalias() += b.left(o.cx) * o.p2;
  b.right(o.result).noalias() = b.right(o.cv) * o.p1;
  b.right(o.result).noalias() += b.right(o.cx) * o.p3;
  b.core(o.result).noalias() = b.left(o.cy).transpose() * b.left(o.result);
  b.left(o.result).noalias() -= b.left(o.cy) * b.core(o.result);
  b.right(o.result).noalias() -= b.right(o.cy) * b.core(o.result).transpose();
}

// core <- [S + M, Rv'; Ru, 0] with the triangles in p0 and p1.
void fixed_rank_core(Operands& o, const Blocks& b) {
  o.core.topLeftCorner(b.r, b.r) = b.core(o.cx) + b.core(o.cv);
  o.core.topRightCorner(b.r, b.r) = o.p1.transpose();
  o.core.bottomLeftCorner(b.r, b.r) = o.p0;
  o.core.bottomRightCorner(b.r, b.r).setZero();
}

// [U Qu] and [V Qv] times the leading singular vectors; the factors Q stand in sum.
template <typename Left, typename Right, typename Values>
void fixed_rank_assemble(Operands& o, const Blocks& b, const Left& left, const Right& right, const Values& values) {
  b.left(o.result).noalias() = b.left(o.cx) * left.topLeftCorner(b.r, b.r);
  b.left(o.result).noalias() += b.left(o.sum) * left.bottomLeftCorner(b.r, b.r);
  b.right(o.result).noalias() = b.right(o.cx) * right.topLeftCorner(b.r, b.r);
  b.right(o.result).noalias() += b.right(o.sum) * right.bottomLeftCorner(b.r, b.r);
  b.core(o.result) = values.head(b.r).asDiagonal();
}

void eigen_fixed_rank_retract(Operands& o) {
  const Blocks b(o);
  const auto orthonormalize = [&](auto from, auto to, Matrix& r) {
    const Eigen::HouseholderQR<Matrix> qr(from);
    r = qr.matrixQR().topRows(b.r).template triangularView<Eigen::Upper>();
    to.setIdentity();
    to.applyOnTheLeft(qr.householderQ());
  };
  orthonormalize(b.left(o.cv), b.left(o.sum), o.p0);
  orthonormalize(b.right(o.cv), b.right(o.sum), o.p1);
  fixed_rank_core(o, b);
  o.svd.compute(o.core, Eigen::ComputeFullU | Eigen::ComputeFullV);
  fixed_rank_assemble(o, b, o.svd.matrixU(), o.svd.matrixV(), o.svd.singularValues());
}

void lapack_fixed_rank_retract(Operands& o) {
  const Blocks b(o);
  const auto twice = static_cast<int>(2 * b.r);
  const auto orthonormalize = [&](float* a, Eigen::Index rows, Matrix& r) {
    const auto m = static_cast<int>(rows), stride = static_cast<int>(o.sum.rows()), n = static_cast<int>(b.r);
    const auto size = static_cast<int>(o.work.size());
    LAPACKE_sgeqrf_work(LAPACK_COL_MAJOR, m, n, a, stride, o.tau.data(), o.work.data(), size);
    r = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(a, b.r, b.r, Eigen::OuterStride<>(stride))
            .triangularView<Eigen::Upper>();
    LAPACKE_sorgqr_work(LAPACK_COL_MAJOR, m, n, n, a, stride, o.tau.data(), o.work.data(), size);
  };
  o.sum = o.cv;
  orthonormalize(o.sum.data(), b.m, o.p0);
  orthonormalize(o.sum.data() + b.m, b.n, o.p1);
  fixed_rank_core(o, b);
  LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, 'A', twice, twice, o.core.data(), twice, o.tau.data(), o.left.data(), twice,
                      o.right.data(), twice, o.work.data(), static_cast<int>(o.work.size()), o.integers.data());
  fixed_rank_assemble(o, b, o.left, o.right.transpose(),
                      Eigen::Map<const Eigen::VectorXf>(o.tau.data(), static_cast<Eigen::Index>(o.tau.size())));
}

Status point_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.project_point(o.shape, o.z.data(), o.out.data(), arena);
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

constexpr Shape kBoard = {64, 4};
constexpr Shape kTall[] = {kBoard, {64, 8}, {256, 4}, {256, 8}, {784, 4}, {784, 5}, {784, 8}};
// The same, without a bar.
constexpr Shape kTallSeen[] = {kBoard, {64, 8}, {256, 4}, {256, 8}, {784, 4}, {784, 5}, {784, 8}};
// Manifolds without such shapes have their own, and no bar.
constexpr Shape kSquare[] = {{3, 3}, {4, 4}, {8, 8}, {16, 16}, {32, 32}};
constexpr Shape kColumn[] = {{16, 1}, {64, 1}, {784, 1}};
// Far from the origin, as random points of a high dimension are, the sides differ by more than rounding.
constexpr Shape kHyperbolic[] = {{4, 1}, {16, 1}, {64, 1}};

// m x n matrices of rank r as m + n + r rows of r.
std::span<const Shape> fixed_rank_shapes() {
  static const Parts parts[] = {fixed_rank_parts(28, 32, 4), fixed_rank_parts(120, 128, 8)};
  static const Shape shapes[] = {fixed_rank_shape(parts[0]), fixed_rank_shape(parts[1])};
  return shapes;
}

void add_stiefel(std::vector<Operation>* out) {
  out->insert(out->end(),
              {{"stiefel project_point", &kStiefelOps, kTall, point_ours, eigen_point, lapack_point},
               {"stiefel project_tangent", &kStiefelOps, kTall, project_ours,
                [](Operands& o) { eigen_tangent(o, o.cx, true); }, [](Operands& o) { lapack_tangent(o, o.cx, true); }},
               {"stiefel retract polar", &kStiefelOps, kTall, retract_ours, eigen_polar, lapack_polar},
               {"stiefel retract qr", &kStiefelQrOps, kTall, retract_ours, eigen_qr, lapack_qr,
                Agreement::kEntriesButColumnSigns},
               {"stiefel retract exponential", &kStiefelExponentialOps, kTall, retract_ours, eigen_stiefel_exponential,
                nullptr},
               {"stiefel transport projection", &kStiefelOps, kTall, transport_ours,
                [](Operands& o) { eigen_tangent(o, o.cy, true); }, [](Operands& o) { lapack_tangent(o, o.cy, true); }},
               {"stiefel transport smooth", &kStiefelSmoothOps, kTall, transport_ours, eigen_smooth, lapack_smooth}});
}

void add_grassmann(std::vector<Operation>* out) {
  out->insert(out->end(), {{"grassmann project_point", &kGrassmannOps, kTall, point_ours, eigen_point, lapack_point},
                           {"grassmann project_tangent", &kGrassmannOps, kTall, project_ours,
                            [](Operands& o) { eigen_tangent(o, o.cx, false); },
                            [](Operands& o) { lapack_tangent(o, o.cx, false); }},
                           {"grassmann retract polar", &kGrassmannOps, kTall, retract_ours, eigen_polar, lapack_polar},
                           {"grassmann retract qr", &kGrassmannQrOps, kTall, retract_ours, eigen_qr, lapack_qr,
                            Agreement::kEntriesButColumnSigns},
                           {"grassmann retract exponential", &kGrassmannExponentialOps, kTall, retract_ours,
                            eigen_grassmann_exponential, lapack_grassmann_exponential},
                           {"grassmann transport projection", &kGrassmannOps, kTall, transport_ours,
                            eigen_grassmann_transport, lapack_grassmann_transport},
                           {"grassmann transport parallel", &kGrassmannParallelOps, kTall, transport_ours,
                            eigen_grassmann_parallel, lapack_grassmann_parallel}});
}

void add_others(std::vector<Operation>* out) {
  const auto exp_of = [](float w) { return std::exp(w); };
  out->insert(
      out->end(),
      {{"oblique project_point", &kObliqueOps, kTall, point_ours, eigen_oblique_project, lapack_oblique_project},
       {"oblique project_tangent", &kObliqueOps, kTall, project_ours, eigen_oblique_tangent, lapack_oblique_tangent},
       {"oblique retract", &kObliqueOps, kTall, retract_ours, eigen_oblique_retract, lapack_oblique_retract},
       {"oblique retract exponential", &kObliqueExponentialOps, kTall, retract_ours, eigen_oblique_exponential<true>,
        lapack_oblique_exponential<true>},
       {"oblique exponential, peers drift", &kObliqueExponentialOps, kTallSeen, retract_ours,
        eigen_oblique_exponential<false>, lapack_oblique_exponential<false>},
       {"oblique transport parallel", &kObliqueOps, kTall, transport_ours, eigen_oblique_transport,
        lapack_oblique_transport},
       {"oblique transport projection", &kObliqueProjectionOps, kTall, transport_ours,
        [](Operands& o) { eigen_oblique_tangent_at(o, o.cy); },
        [](Operands& o) { lapack_oblique_tangent_at(o, o.cy); }}});
  // The sphere is the oblique manifold's single column.
  out->insert(
      out->end(),
      {{"sphere project_point", &kSphereOps, kColumn, point_ours, eigen_oblique_project, lapack_oblique_project},
       {"sphere project_tangent", &kSphereOps, kColumn, project_ours, eigen_oblique_tangent, lapack_oblique_tangent},
       {"sphere retract", &kSphereOps, kColumn, retract_ours, eigen_oblique_retract, lapack_oblique_retract},
       {"sphere retract exponential", &kSphereExponentialOps, kColumn, retract_ours, eigen_oblique_exponential<true>,
        lapack_oblique_exponential<true>},
       {"sphere transport", &kSphereOps, kColumn, transport_ours, eigen_oblique_transport, lapack_oblique_transport},
       {"spd retract exponential", &kSpdOps, kSquare, retract_ours, [=](Operands& o) { eigen_spd(o, o.cv, exp_of); },
        [=](Operands& o) { lapack_spd(o, o.cv, exp_of); }},
       {"spd retract second_order", &kSpdSecondOrderOps, kSquare, retract_ours, eigen_spd_second_order,
        lapack_spd_second_order},
       {"spd transport parallel", &kSpdOps, kSquare, transport_ours, eigen_spd_transport, lapack_spd_transport},
       {"fixed_rank project_tangent", &kFixedRankOps, fixed_rank_shapes(), project_ours, eigen_fixed_rank_tangent,
        nullptr},
       {"fixed_rank retract", &kFixedRankOps, fixed_rank_shapes(), retract_ours, eigen_fixed_rank_retract,
        lapack_fixed_rank_retract, Agreement::kFactoredMatrix},
       {"fixed_rank transport", &kFixedRankOps, fixed_rank_shapes(), transport_ours, eigen_fixed_rank_transport,
        nullptr},
       {"hyperbolic project_tangent", &kHyperbolicOps, kHyperbolic, project_ours, eigen_hyperbolic_tangent,
        lapack_hyperbolic_tangent},
       {"hyperbolic retract exponential", &kHyperbolicOps, kHyperbolic, retract_ours, eigen_hyperbolic_exponential,
        lapack_hyperbolic_exponential},
       {"hyperbolic transport parallel", &kHyperbolicOps, kHyperbolic, transport_ours, eigen_hyperbolic_transport,
        lapack_hyperbolic_transport}});
}

// Medians of all turns.
struct Times {
  double ours, eigen, lapack;  // seconds; lapack 0: there is none
  double ratio;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Ours in o.out against a peer's in o.result: the largest difference, relative to the largest entry.
float difference(Agreement agreement, const Operands& o) {
  using RowMajor = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  Matrix ours = RowMajor(o.out.data(), o.result.rows(), o.result.cols()), peer = o.result;
  if (agreement == Agreement::kFactoredMatrix) {
    const Blocks b(o);
    for (Matrix* each : {&ours, &peer}) {
      *each = Matrix(b.left(*each) * b.core(*each) * b.right(*each).transpose());
    }
  }
  for (Eigen::Index c = 0; agreement == Agreement::kEntriesButColumnSigns && c < peer.cols(); ++c) {
    peer.col(c) *= ours.col(c).dot(peer.col(c)) < 0 ? -1.0F : 1.0F;
  }
  return (ours - peer).cwiseAbs().maxCoeff() / peer.cwiseAbs().maxCoeff();
}

// Empty when the row cannot be measured, since the sides do not compute the same; says so.
std::optional<Times> measure(const Operation& operation, Shape shape) {
  Operands operands(*operation.ops, shape);
  Arena arena(operands.memory.data(), operands.memory.size() * 8);
  Status status = Status::kOk;
  const auto ours = [&] { status = operation.ours(*operation.ops, operands, arena); };
  const auto with_eigen = [&] { operation.with_eigen(operands); };
  const auto with_lapack = [&] { operation.with_lapack(operands); };
  ours();
  GS_ASSERT(status == Status::kOk);
  with_eigen();
  float most = difference(operation.agreement, operands);
  if (operation.with_lapack) {
    with_lapack();
    most = std::max(most, difference(operation.agreement, operands));
  }
  if (!(most <= kDifferenceMax)) {
    std::fprintf(stderr, "manifold_bench: %s of %u x %u: the results differ by %.1e\n", operation.name, shape.rows,
                 shape.cols, static_cast<double>(most));
    return std::nullopt;
  }
  const int count = std::max(1, static_cast<int>(kSliceSeconds / seconds_each(ours, 10)));
  std::vector<double> times_ours, times_eigen, times_lapack, over_eigen, over_lapack;
  for (int turn = 0; turn < kTurnCount; ++turn) {
    times_ours.push_back(seconds_each(ours, count));
    times_eigen.push_back(seconds_each(with_eigen, count));
    over_eigen.push_back(times_eigen.back() / times_ours.back());
    if (operation.with_lapack) {
      times_lapack.push_back(seconds_each(with_lapack, count));
      over_lapack.push_back(times_lapack.back() / times_ours.back());
    }
  }
  Times times = {median(times_ours), median(times_eigen), 0, median(over_eigen)};
  if (operation.with_lapack) {
    times.lapack = median(times_lapack);
    times.ratio = std::min(times.ratio, median(over_lapack));
  }
  return times;
}

// only: rows whose names hold it; empty for all.
int run(const std::string& only) {
  std::vector<Operation> operations;
  add_stiefel(&operations);
  add_grassmann(&operations);
  add_others(&operations);
  double worst = std::numeric_limits<double>::max();
  double worst_board = worst;
  int slower_count = 0;
  std::printf("%-32s %9s %10s %10s %10s %7s\n", "operation", "shape", "ours us", "eigen us", "lapack us", "ratio");
  for (const Operation& operation : operations) {
    if (std::string(operation.name).find(only) == std::string::npos) {
      continue;
    }
    for (const Shape shape : operation.shapes) {
      const std::optional<Times> measured = measure(operation, shape);
      if (!measured) {
        std::printf("result: error=different operation=\"%s\"\n", operation.name);
        return 1;
      }
      const Times& times = *measured;
      const std::string text = std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
      std::printf("%-32s %9s %10.3f %10.3f %10.3f %7.2f\n", operation.name, text.c_str(), times.ours * 1e6,
                  times.eigen * 1e6, times.lapack * 1e6, times.ratio);
      std::fflush(stdout);
      if (operation.shapes.data() != kTall) {
        continue;
      }
      worst = std::min(worst, times.ratio);
      worst_board = shape == kBoard ? std::min(worst_board, times.ratio) : worst_board;
      slower_count += times.ratio < kRatioMin ? 1 : 0;
    }
  }
  const bool holds = worst >= kRatioMin && worst_board >= kRatioMinBoard;
  const bool has_bar = worst < std::numeric_limits<double>::max();
  std::printf("result: bench=manifold worst_ratio=%.2f worst_ratio_64x4=%.2f slower=%d holds=%d\n", has_bar ? worst : 0,
              has_bar ? worst_board : 0, slower_count, holds ? 1 : 0);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run(argc > 1 ? argv[1] : ""); }

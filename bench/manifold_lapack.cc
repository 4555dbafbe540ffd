#include "bench/manifold_lapack.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>
#include <lapacke.h>

#include "bench/manifold_fixed_rank.h"

namespace gradstream {
namespace {

// c <- alpha op(A) op(B) + beta C, all in columns.
void gemm(bool transpose_a, bool transpose_b, float alpha, const ColumnMatrix& a, const ColumnMatrix& b, float beta,
          ColumnMatrix& c) {
  const auto inner = static_cast<int>(transpose_a ? a.rows() : a.cols());
  cblas_sgemm(CblasColMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<int>(c.rows()), static_cast<int>(c.cols()), inner, alpha, a.data(),
              static_cast<int>(a.rows()), b.data(), static_cast<int>(b.rows()), beta, c.data(),
              static_cast<int>(c.rows()));
}

// Eigenvectors into s, eigenvalues into tau.
void syev(Operands& o, ColumnMatrix& s) {
  const auto n = static_cast<int>(s.rows());
  LAPACKE_ssyev_work(LAPACK_COL_MAJOR, 'V', 'L', n, s.data(), n, o.tau.data(), o.work.data(),
                     static_cast<int>(o.work.size()));
}

// out <- s diag(f(tau)) s'.
template <typename Function>
void assemble(Operands& o, const ColumnMatrix& s, Function function, ColumnMatrix& scaled, ColumnMatrix& out) {
  for (Eigen::Index j = 0; j < s.cols(); ++j) {
    scaled.col(j) = s.col(j) * function(o.tau[static_cast<size_t>(j)]);
  }
  gemm(false, true, 1, scaled, s, 0, out);
}

void lapack_project(Operands& o, const ColumnMatrix& a) {
  cblas_ssyrk(CblasColMajor, CblasLower, CblasTrans, static_cast<int>(o.p0.rows()), static_cast<int>(a.rows()), 1,
              a.data(), static_cast<int>(a.rows()), 0, o.p0.data(), static_cast<int>(o.p0.rows()));
  syev(o, o.p0);
  assemble(
      o, o.p0, [](float w) { return 1 / std::sqrt(w); }, o.p1, o.p2);
  gemm(false, false, 1, a, o.p2, 0, o.result);
}

// a <- Q of a = QR; R stays in the upper half of r, unless that is null.
void lapack_orthonormalize(Operands& o, ColumnMatrix& a, ColumnMatrix* r) {
  const auto m = static_cast<int>(a.rows()), n = static_cast<int>(a.cols());
  const auto size = static_cast<int>(o.work.size());
  LAPACKE_sgeqrf_work(LAPACK_COL_MAJOR, m, n, a.data(), m, o.tau.data(), o.work.data(), size);
  if (r != nullptr) {
    *r = a.topRows(n).triangularView<Eigen::Upper>();
  }
  LAPACKE_sorgqr_work(LAPACK_COL_MAJOR, m, n, n, a.data(), m, o.tau.data(), o.work.data(), size);
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

// p4 <- L of X, p0 <- L^-1 V L'^-1.
void lapack_whiten(Operands& o, const ColumnMatrix& v) {
  const auto n = static_cast<int>(o.cx.rows());
  o.p4 = o.cx;
  LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'L', n, o.p4.data(), n);
  o.p0 = v;
  LAPACKE_ssygst_work(LAPACK_COL_MAJOR, 1, 'L', n, o.p0.data(), n, o.p4.data(), n);
}

// s <- L s.
void lapack_times_l(Operands& o, ColumnMatrix& s) {
  const auto n = static_cast<int>(s.rows());
  cblas_strmm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, n, n, 1, o.p4.data(), n, s.data(), n);
}

template <typename Function>
void lapack_spd(Operands& o, const ColumnMatrix& v, Function function) {
  lapack_whiten(o, v);
  syev(o, o.p0);
  lapack_times_l(o, o.p0);
  assemble(o, o.p0, function, o.p1, o.result);
}

float blas_lorentz(const ColumnMatrix& a, const ColumnMatrix& b) {
  return cblas_sdot(static_cast<int>(a.rows()), a.data(), 1, b.data(), 1) - 2 * a(0) * b(0);
}

// BLAS's snrm2 guards against overflow and takes longer.
float blas_norm(int count, const float* x) { return std::sqrt(cblas_sdot(count, x, 1, x, 1)); }

template <bool kNormalizes>
void lapack_oblique_geodesic(Operands& o) {
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

void lapack_oblique_tangent_at(Operands& o, const ColumnMatrix& x) {
  const auto rows = static_cast<int>(x.rows());
  o.result = o.cv;
  for (Eigen::Index c = 0; c < x.cols(); ++c) {
    const float normal = cblas_sdot(rows, x.col(c).data(), 1, o.cv.col(c).data(), 1);
    cblas_saxpy(rows, -normal, x.col(c).data(), 1, o.result.col(c).data(), 1);
  }
}

}  // namespace

void lapack_tangent(Operands& o, const ColumnMatrix& x, bool is_symmetric) {
  gemm(true, false, 1, x, o.cv, 0, o.p0);
  if (is_symmetric) {
    o.p1 = 0.5F * (o.p0 + o.p0.transpose());
  }
  o.result = o.cv;
  gemm(false, false, -1, x, is_symmetric ? o.p1 : o.p0, 1, o.result);
}

void lapack_point(Operands& o) { lapack_project(o, o.cz); }

void lapack_polar(Operands& o) {
  o.sum = o.cx + o.cv;
  lapack_project(o, o.sum);
}

void lapack_qr(Operands& o) {
  o.result = o.cx + o.cv;
  lapack_orthonormalize(o, o.result, nullptr);
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

void lapack_hyperbolic_tangent(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cv;
  cblas_saxpy(rows, blas_lorentz(o.cx, o.cv), o.cx.data(), 1, o.result.data(), 1);
  o.result(0) = cblas_sdot(rows - 1, o.cx.data() + 1, 1, o.result.data() + 1, 1) / o.cx(0);
}

void lapack_oblique_project(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cz;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    cblas_sscal(rows, 1 / blas_norm(rows, o.cz.col(c).data()), o.result.col(c).data(), 1);
  }
}

void lapack_oblique_retract(Operands& o) {
  const auto rows = static_cast<int>(o.cx.rows());
  o.result = o.cx + o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    cblas_sscal(rows, 1 / blas_norm(rows, o.result.col(c).data()), o.result.col(c).data(), 1);
  }
}

void lapack_oblique_tangent(Operands& o) { lapack_oblique_tangent_at(o, o.cx); }

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

void lapack_fixed_rank_retract(Operands& o) {
  const FixedRankBlocks b(o);
  const auto twice = static_cast<int>(2 * b.r);
  const auto orthonormalize = [&](float* a, Eigen::Index rows, ColumnMatrix& r) {
    const auto m = static_cast<int>(rows), stride = static_cast<int>(o.sum.rows()), n = static_cast<int>(b.r);
    const auto size = static_cast<int>(o.work.size());
    LAPACKE_sgeqrf_work(LAPACK_COL_MAJOR, m, n, a, stride, o.tau.data(), o.work.data(), size);
    r = Eigen::Map<const ColumnMatrix, 0, Eigen::OuterStride<>>(a, b.r, b.r, Eigen::OuterStride<>(stride))
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

void lapack_spd_exponential(Operands& o) {
  lapack_spd(o, o.cv, [](float w) { return std::exp(w); });
}

void lapack_oblique_exponential(Operands& o) { lapack_oblique_geodesic<true>(o); }
void lapack_oblique_exponential_drifting(Operands& o) { lapack_oblique_geodesic<false>(o); }

void lapack_oblique_transport_projection(Operands& o) { lapack_oblique_tangent_at(o, o.cy); }

}  // namespace gradstream

#include "bench/manifold_eigen.h"

#include <algorithm>
#include <cmath>

#include <unsupported/Eigen/MatrixFunctions>

#include "bench/manifold_fixed_rank.h"

namespace gradstream {
namespace {

// The polar factor by an eigen-decomposition of the Gram matrix: many times faster than by a thin SVD.
void eigen_project(Operands& o, const ColumnMatrix& a) {
  o.p0.noalias() = a.transpose() * a;
  o.eigen.compute(o.p0);
  o.p1.noalias() = o.eigen.eigenvectors() * o.eigen.eigenvalues().cwiseSqrt().cwiseInverse().asDiagonal();
  o.p2.noalias() = o.p1 * o.eigen.eigenvectors().transpose();
  o.result.noalias() = a * o.p2;
}

// L f(L^-1 V L'^-1) L' of SPD, f on eigenvalues.
template <typename Function>
void eigen_spd(Operands& o, const ColumnMatrix& v, Function function) {
  const Eigen::LLT<ColumnMatrix> cholesky(o.cx);
  o.p0 = cholesky.matrixL().solve(v);
  o.p1 = cholesky.matrixL().solve(o.p0.transpose());
  o.eigen.compute(o.p1);
  o.p2.noalias() = cholesky.matrixL() * o.eigen.eigenvectors();
  o.p3.noalias() = o.p2 * o.eigen.eigenvalues().unaryExpr(function).asDiagonal();
  o.result.noalias() = o.p3 * o.p2.transpose();
}

float eigen_lorentz(const ColumnMatrix& a, const ColumnMatrix& b) { return a.col(0).dot(b.col(0)) - 2 * a(0) * b(0); }

// With rounding's drift taken off, as ours does, or left to the caller, who would have to do it now and then.
template <bool kNormalizes>
void eigen_oblique_geodesic(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    const float length = std::max(o.cv.col(c).norm(), 1e-30F);
    o.result.col(c) = std::cos(length) * o.cx.col(c) + (std::sin(length) / length) * o.cv.col(c);
    if (kNormalizes) {
      o.result.col(c) *= 1 / o.result.col(c).norm();
    }
  }
}

void eigen_oblique_tangent_at(Operands& o, const ColumnMatrix& x) {
  for (Eigen::Index c = 0; c < x.cols(); ++c) {
    o.result.col(c) = o.cv.col(c) - x.col(c).dot(o.cv.col(c)) * x.col(c);
  }
}

}  // namespace

void eigen_tangent(Operands& o, const ColumnMatrix& x, bool is_symmetric) {
  o.p0.noalias() = x.transpose() * o.cv;
  if (is_symmetric) {
    o.p1 = 0.5F * (o.p0 + o.p0.transpose());
  }
  o.result = o.cv;
  o.result.noalias() -= x * (is_symmetric ? o.p1 : o.p0);
}

void eigen_point(Operands& o) { eigen_project(o, o.cz); }

void eigen_polar(Operands& o) {
  o.sum = o.cx + o.cv;
  eigen_project(o, o.sum);
}

void eigen_qr(Operands& o) {
  o.sum = o.cx + o.cv;
  const Eigen::HouseholderQR<Eigen::Ref<ColumnMatrix>> qr(o.sum);
  o.result.setIdentity();
  o.result.applyOnTheLeft(qr.householderQ());
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

// [X V] exp([[A, -S], [I, A]]) [I; 0] exp(-A), as in runtime/manifold/stiefel.cc.
void eigen_stiefel_exponential(Operands& o) {
  const Eigen::Index n = o.cx.cols();
  o.p0.noalias() = o.cx.transpose() * o.cv;
  o.p1.noalias() = o.cv.transpose() * o.cv;
  ColumnMatrix block(2 * n, 2 * n);
  block << o.p0, -o.p1, ColumnMatrix::Identity(n, n), o.p0;
  const ColumnMatrix power = block.exp();
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

// X + V + V X^-1 V / 2.
void eigen_spd_second_order(Operands& o) {
  const Eigen::LLT<ColumnMatrix> cholesky(o.cx);
  o.p0 = cholesky.matrixL().solve(o.cv);
  o.result = o.cx + o.cv;
  o.result.noalias() += 0.5F * o.p0.transpose() * o.p0;
}

// E V E', E = L B^(1/2) L^-1, B = L^-1 Y L'^-1.
void eigen_spd_transport(Operands& o) {
  const Eigen::LLT<ColumnMatrix> cholesky(o.cx);
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

// a + <x, a>_L x, then tangent again.
void eigen_hyperbolic_tangent(Operands& o) {
  const Eigen::Index space = o.cx.rows() - 1;
  o.result.col(0) = o.cv.col(0) + eigen_lorentz(o.cx, o.cv) * o.cx.col(0);
  o.result(0) = o.cx.col(0).tail(space).dot(o.result.col(0).tail(space)) / o.cx(0);
}

void eigen_oblique_project(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    o.result.col(c) = o.cz.col(c) * (1 / o.cz.col(c).norm());
  }
}

void eigen_oblique_retract(Operands& o) {
  o.result = o.cx + o.cv;
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    o.result.col(c) *= 1 / o.result.col(c).norm();
  }
}

void eigen_oblique_tangent(Operands& o) { eigen_oblique_tangent_at(o, o.cx); }

void eigen_oblique_transport(Operands& o) {
  for (Eigen::Index c = 0; c < o.cx.cols(); ++c) {
    const float factor = o.cy.col(c).dot(o.cv.col(c)) / (1 + o.cx.col(c).dot(o.cy.col(c)));
    o.result.col(c) = o.cv.col(c) - factor * (o.cx.col(c) + o.cy.col(c));
  }
}

void eigen_fixed_rank_tangent(Operands& o) {
  const FixedRankBlocks b(o);
  o.p0.noalias() = b.left(o.cx).transpose() * b.left(o.cv);
  o.p1.noalias() = b.right(o.cx).transpose() * b.right(o.cv);
  o.result = o.cv;
  b.left(o.result).noalias() -= b.left(o.cx) * o.p0;
  b.right(o.result).noalias() -= b.right(o.cx) * o.p1;
  b.core(o.result) += o.p0 + o.p1.transpose();
}

void eigen_fixed_rank_transport(Operands& o) {
  const FixedRankBlocks b(o);
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

void eigen_fixed_rank_retract(Operands& o) {
  const FixedRankBlocks b(o);
  const auto orthonormalize = [&](auto from, auto to, ColumnMatrix& r) {
    const Eigen::HouseholderQR<ColumnMatrix> qr(from);
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

void eigen_spd_exponential(Operands& o) {
  eigen_spd(o, o.cv, [](float w) { return std::exp(w); });
}

void eigen_oblique_exponential(Operands& o) { eigen_oblique_geodesic<true>(o); }
void eigen_oblique_exponential_drifting(Operands& o) { eigen_oblique_geodesic<false>(o); }

void eigen_oblique_transport_projection(Operands& o) { eigen_oblique_tangent_at(o, o.cy); }

}  // namespace gradstream

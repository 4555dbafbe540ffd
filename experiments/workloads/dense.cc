#include "experiments/workloads/dense.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

namespace gradstream {

Eigenpairs symmetric_eigen(const Eigen::MatrixXd& a) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(a);
  return {solver.eigenvalues(), solver.eigenvectors()};
}

Eigen::VectorXd singular_values(const Eigen::MatrixXd& a) {
  return Eigen::JacobiSVD<Eigen::MatrixXd>(a).singularValues();
}

Eigen::VectorXd solve_semidefinite(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) { return a.ldlt().solve(b); }

// Newton's iteration X <- (g X + (g X)^(-T)) / 2 on the triangular factor, g = (|X^(-1)| / |X|)^(1/2) (N. Higham,
// Functions of Matrices, 8.6): as accurate as by singular values, at a tenth of the time to compile them.
Matrix polar(const Matrix& a) {
  constexpr int kIterationCountMax = 60;
  const Eigen::Index n = a.cols();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  const Eigen::MatrixXd thin = Eigen::MatrixXd::Identity(a.rows(), n);
  Eigen::MatrixXd x = qr.matrixQR().topRows(n).triangularView<Eigen::Upper>();
  const Eigen::MatrixXd q = qr.householderQ() * thin;
  for (int i = 0; i < kIterationCountMax; ++i) {
    const Eigen::MatrixXd inverse = x.partialPivLu().inverse().transpose();
    const double factor = i < 8 ? std::sqrt(inverse.norm() / x.norm()) : 1;
    const Eigen::MatrixXd next = 0.5 * (factor * x + inverse / factor);
    const bool is_done = (next - x).norm() <= 1e-15 * static_cast<double>(n);
    x = next;
    if (is_done) {
      break;
    }
  }
  return q * x;
}

Matrix orthonormal(const Matrix& a) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  return qr.householderQ() * Eigen::MatrixXd::Identity(a.rows(), a.cols());
}

// The sine of the angle, from what of b lies outside the span of a.
double principal_angle(const Matrix& a, const Matrix& b) {
  const Eigen::MatrixXd outside = b - a * (a.transpose() * b);
  const double square = symmetric_eigen(outside.transpose() * outside).values(outside.cols() - 1);
  return std::asin(std::min(1.0, std::sqrt(std::max(0.0, square))));
}

}  // namespace gradstream

// Dense linear algebra in double, of workloads and their measures. Eigen's decompositions are instantiated here alone:
// each file that does so takes half a minute to compile. Nothing depends on Real, so both precisions link one library.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DENSE_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DENSE_H_

#include <Eigen/Core>

namespace gradstream {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Eigenpairs {
  Eigen::VectorXd values;  // ascending
  Eigen::MatrixXd vectors;

  // V diag(f(values)) V'.
  template <typename Function>
  Matrix compose(Function function) const {
    return vectors * values.unaryExpr(function).asDiagonal() * vectors.transpose();
  }
};
// Of a symmetric matrix; its lower half is read.
Eigenpairs symmetric_eigen(const Eigen::MatrixXd& a);
// Descending.
Eigen::VectorXd singular_values(const Eigen::MatrixXd& a);
// The solution w of a w = b, a symmetric and positive semidefinite.
Eigen::VectorXd solve_semidefinite(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);
// The same span, to rounding, for columns that are orthonormal to a few units in the last place already.
Matrix orthonormal(const Matrix& a);
// U V' of the thin SVD.
Matrix polar(const Matrix& a);
// The largest principal angle between the spans of the columns of orthonormal a and b, accurate when small.
double principal_angle(const Matrix& a, const Matrix& b);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DENSE_H_

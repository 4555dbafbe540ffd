#define GS_EIGEN_HEAP
// clang-format off: this header stands before those of Eigen
#include <gradstream/eigen.h>
// clang-format on

#include <Eigen/Eigenvalues>
#include <Eigen/LU>

#include "firmware/registry.h"
#include "runtime/training/task_stages.h"

using namespace gradstream;

// Matrices of at most 64 x 8 with orthonormal columns, as manifold "stiefel" has them with its usual variants.
struct StiefelByEigen : EigenPoints<64, 8> {
  static constexpr ManifoldId kId = ManifoldId::kStiefel;
  static constexpr const char* kName = "stiefel";
  static constexpr RetractionKind kRetraction = RetractionKind::kPolar, kDefaultRetraction = kRetraction;
  static constexpr TransportKind kTransport = TransportKind::kProjection, kDefaultTransport = kTransport;
  static bool has_points(Shape shape) { return shape.cols <= shape.rows; }
  static size_t dimension(Shape shape) { return shape.size() - shape.cols * (shape.cols + 1) / 2; }

  // The polar factor z (z'z)^(-1/2).
  static Status project_point(const Matrix& z, Matrix& out) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXf> gram(z.transpose() * z);
    const Eigen::VectorXf& values = gram.eigenvalues();  // ascending
    if (!(values(0) > 1e-6F * values(values.size() - 1))) return Status::kSingular;
    out = z * gram.operatorInverseSqrt();
    return Status::kOk;
  }
  static Status project_tangent(const Point& x, const Point& g, Matrix& out) {
    const Eigen::MatrixXf s = x.transpose() * g;
    out = g - x * (s + s.transpose()) / 2;
    return Status::kOk;
  }
  static Status retract(const Point& x, const Point& v, Matrix& out) { return project_point(x + v, out); }
  // y s - x, where s solves m s + s m' = 2 I with m = x'y: p^2 equations for the p^2 numbers of s.
  static Status inverse_retract(const Point& x, const Point& y, Matrix& out) {
    const Eigen::MatrixXf m = x.transpose() * y;
    const Eigen::Index p = m.rows();
    Eigen::MatrixXf equations = Eigen::MatrixXf::Zero(p * p, p * p);
    for (Eigen::Index i = 0; i < p; ++i) {
      equations.block(i * p, i * p, p, p) += m;
      for (Eigen::Index j = 0; j < p; ++j) equations.block(i * p, j * p, p, p).diagonal().array() += m(i, j);
    }
    const Eigen::MatrixXf twice = 2 * Eigen::MatrixXf::Identity(p, p);
    const Eigen::VectorXf s = equations.partialPivLu().solve(twice.reshaped());
    out = y * s.reshaped(p, p) - x;
    return Status::kOk;
  }
};

const ManifoldOps kStiefelByEigenOps = make_manifold_ops<EigenManifold<StiefelByEigen>>();

// This program's client has it in the place of the library's. A program that defines this links firmware/registry.cc no
// more.
Registry gradstream::make_registry(std::span<const Problem> problems) {
  static constexpr const ManifoldOps* kManifolds[] = {&kStiefelByEigenOps};
  static constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kTangentRetractionOps};
  static constexpr const SolverOps* kSolvers[] = {&kSolverGradientStreamOps, &kSolverTangentMeanOps};
  return {.manifolds = kManifolds,
          .estimators = kEstimators,
          .solvers = kSolvers,
          .problems = problems,
          .stages = &kStageForm};
}

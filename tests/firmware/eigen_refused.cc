// Losses that must not compile, one for each CASE; eigen_refused_test.py says what the compiler must answer.
#if CASE == 11
#include <Eigen/Core>
#endif

#include "include/gradstream/eigen.h"

using namespace gradstream;

struct Refused : EigenLoss<64, 4, 64> {
  static constexpr const char* kName = "refused";
  bool fits(Shape, uint32_t) const { return true; }

  static Real sum_of(const Eigen::Ref<const Eigen::MatrixXf>& values) { return values.sum(); }

  Real loss(const Point& x, const Samples& z) const {
    const Eigen::Map<const Eigen::MatrixXf> unbounded(x.data(), x.rows(), x.cols());
    EigenMatrix<4, 4> bounded(x.cols(), x.cols());
#if CASE == 0  // compiles: every size is bounded
    bounded = x.transpose() * x;
    return (z * x).sum() + (z * x * bounded).sum() + unbounded.squaredNorm();
#elif CASE == 1  // the result has no bound
    const Eigen::MatrixXf products = z * x;
    return products.sum();
#elif CASE == 2
    const Eigen::VectorXf column = x.col(0);
    return (z * column).sum();
#elif CASE == 3  // a factor has no bound, so that its product has a temporary
    return (unbounded.transpose() * unbounded).sum() + z(0);
#elif CASE == 4  // the result is bounded, and the product is by blocks
    bounded.noalias() = unbounded.transpose() * unbounded;
    return bounded.sum() + z(0);
#elif CASE == 5  // a copy by the way, since one is row by row and the other column by column
    return sum_of(x) + z(0);
#elif CASE == 6
    bounded = x.transpose() * x;
    bounded.resize(0, 0);
    Eigen::ArrayXXf grown;
    grown.resize(x.rows(), x.cols());
    return grown.sum() + z(0);
#elif CASE == 10  // bounded, and 16 KB
    return (z.transpose() * z * x).sum();
#else
    return x.sum() + z.sum();
#endif
  }
};

constexpr ProblemOps kRefusedOps = make_problem_ops<EigenProblem<Refused>>();
const ProblemOps* refused_ops() { return &kRefusedOps; }

#if CASE == 12
struct NoPoints : EigenPoints<8, 2> {
  static constexpr ManifoldId kId = ManifoldId::kStiefel;
  static constexpr const char* kName = "none";
  static constexpr RetractionKind kRetraction = RetractionKind::kPolar, kDefaultRetraction = kRetraction;
  static constexpr TransportKind kTransport = TransportKind::kProjection, kDefaultTransport = kTransport;
  static bool has_points(Shape) { return false; }
  static size_t dimension(Shape) { return 0; }
  static Status project_point(const Point&, Matrix&) { return Status::kSingular; }
  static Status project_tangent(const Point&, const Point&, Matrix&) { return Status::kSingular; }
  static Status retract(const Point&, const Point&, Matrix&) { return Status::kSingular; }
  static Status inverse_retract(const Point&, const Point&, Matrix&) { return Status::kSingular; }
};
const ManifoldOps kNoPointsOps = make_manifold_ops<EigenManifold<NoPoints>>();
#endif

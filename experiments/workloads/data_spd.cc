// Frechet means of SPD matrices. X2, CFMSPD (000 section 5): 10 devices of 60 matrices 2 x 2, of Wishart W(I/2, 2)
// those within distance 1 of I. X7 (002 section 5.1): one matrix C'C, C standard normal 20 x 20, for each of 10
// devices.
#include <cmath>

#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

Eigenpairs symmetrized_eigen(const Matrix& a) { return symmetric_eigen(0.5 * (a + a.transpose())); }

// What the metric at x needs.
struct Base {
  Matrix root;          // x^(1/2)
  Matrix inverse_root;  // x^(-1/2)

  explicit Base(const Matrix& x) {
    const Eigenpairs pairs = symmetrized_eigen(x);
    root = pairs.compose([](double w) { return std::sqrt(w); });
    inverse_root = pairs.compose([](double w) { return 1 / std::sqrt(w); });
  }
  // x^(-1/2) a x^(-1/2); of a tangent vector its norm is the metric's.
  Matrix whiten(const Matrix& a) const { return inverse_root * a * inverse_root; }
  // exp_x of the tangent vector whose whitened form is w.
  Matrix exp_whitened(const Matrix& w) const {
    const Matrix y = root * symmetrized_eigen(w).compose([](double l) { return std::exp(l); }) * root;
    return 0.5 * (y + y.transpose());
  }
};

class SpdWorkload : public Workload {
 public:
  SpdWorkload(std::vector<Matrix> matrices, uint32_t device_count, Matrix start)
      : matrices_(std::move(matrices)), start_(std::move(start)) {
    const Eigen::Index size = start_.size();
    const size_t share = matrices_.size() / device_count;
    for (size_t i = 0; i < device_count; ++i) {
      Matrix rows(static_cast<Eigen::Index>(share), size);
      for (size_t j = 0; j < share; ++j) {
        rows.row(static_cast<Eigen::Index>(j)) = Eigen::Map<Matrix>(matrices_[i * share + j].data(), 1, size);
      }
      samples_.push_back(std::make_unique<StoredSamples>(rows));
    }
    optimum_ = cost_and_log(find_mean()).cost;
  }

  ManifoldId manifold() const override { return ManifoldId::kSpd; }
  Shape shape() const override { return {static_cast<uint32_t>(start_.rows()), static_cast<uint32_t>(start_.cols())}; }
  uint32_t device_count() const override { return static_cast<uint32_t>(samples_.size()); }
  Problem problem(uint32_t device) const override { return {&kSpdMeanOps, &samples_[device]->source}; }
  Matrix start() const override { return start_; }
  double optimum() const override { return optimum_; }
  Measures measure(const Matrix& model) const override {
    const CostAndLog at = cost_and_log(model);
    Measures measures;
    measures.excess = at.cost - optimum_;
    measures.grad_norm = 2 * at.whitened_log.norm();
    return measures;
  }

 private:
  struct CostAndLog {
    double cost = 0;      // mean d^2
    Matrix whitened_log;  // of the mean of log_x(Z)
  };

  CostAndLog cost_and_log(const Matrix& x) const {
    const Base base(x);
    CostAndLog out{0, Matrix::Zero(x.rows(), x.cols())};
    for (const Matrix& z : matrices_) {
      const Eigenpairs pairs = symmetrized_eigen(base.whiten(z));
      out.whitened_log += pairs.compose([](double w) { return std::log(w); });
      out.cost += pairs.values.array().log().square().sum();
    }
    out.whitened_log /= static_cast<double>(matrices_.size());
    out.cost /= static_cast<double>(matrices_.size());
    return out;
  }

  // Gradient descent; a step of 1 is Newton's where the matrices commute, and is halved where the gradient grows.
  Matrix find_mean() const {
    constexpr int kIterationCountMax = 500;
    constexpr double kNormMin = 1e-14;
    Matrix x = start_;
    CostAndLog at = cost_and_log(x);
    double step = 1;
    for (int i = 0; i < kIterationCountMax && at.whitened_log.norm() > kNormMin; ++i) {
      const Matrix y = Base(x).exp_whitened(step * at.whitened_log);
      const CostAndLog next = cost_and_log(y);
      if (next.whitened_log.norm() < at.whitened_log.norm()) {
        x = y;
        at = next;
      } else {
        step /= 2;
      }
    }
    return x;
  }

  std::vector<Matrix> matrices_;  // device after device
  Matrix start_;
  std::vector<std::unique_ptr<StoredSamples>> samples_;
  double optimum_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_cfmspd(uint32_t seed) {
  constexpr uint32_t kDeviceCount = 10;
  constexpr size_t kMatrixCount = 600;
  constexpr double kRadius = 1;  // D_W, read as a distance from I that is not passed
  std::vector<Matrix> matrices;
  for (uint32_t draw = 0; matrices.size() < kMatrixCount; ++draw) {
    const Matrix g = normals({seed, RandomDomain::kData, 0, draw, 0}, 2, 2) / std::sqrt(2.0);
    const Matrix w = g.transpose() * g;
    const Eigen::VectorXd values = symmetrized_eigen(w).values;
    if (values(0) > 0 && values.array().log().matrix().norm() <= kRadius) {
      matrices.push_back(w);
    }
  }
  const Matrix g = normals({seed, RandomDomain::kInitialPoint, 0, 0, 0}, 2, 2);
  return std::make_unique<SpdWorkload>(std::move(matrices), kDeviceCount,
                                       g * g.transpose() + 0.1 * Matrix::Identity(2, 2));
}

namespace {

constexpr uint32_t kKarcherDeviceCount = 10;
constexpr Eigen::Index kKarcherSize = 20;

std::vector<Matrix> karcher_matrices(uint32_t seed) {
  std::vector<Matrix> matrices;
  for (uint32_t i = 0; i < kKarcherDeviceCount; ++i) {
    const Matrix c = normals({seed, RandomDomain::kData, 0, i, 0}, kKarcherSize, kKarcherSize);
    matrices.push_back(c.transpose() * c);
  }
  return matrices;
}

}  // namespace

std::unique_ptr<Workload> make_karcher(uint32_t seed) {
  const Matrix g = normals({seed, RandomDomain::kInitialPoint, 0, 0, 0}, kKarcherSize, kKarcherSize);
  return std::make_unique<SpdWorkload>(karcher_matrices(seed), kKarcherDeviceCount,
                                       g.transpose() * g / kKarcherSize + Matrix::Identity(kKarcherSize, kKarcherSize));
}

double karcher_condition(uint32_t seed) {
  double worst = 1;
  for (const Matrix& matrix : karcher_matrices(seed)) {
    const Eigenpairs pairs = symmetrized_eigen(matrix);
    worst = std::fmax(worst, pairs.values.tail(1)[0] / pairs.values[0]);
  }
  return worst;
}

}  // namespace gradstream

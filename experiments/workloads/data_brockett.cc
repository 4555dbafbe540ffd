// X3, MBCFSti (000 section 5): Brockett's cost over St(2, 25), 20 devices of 50 matrices B + B', B standard normal.
#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 20;
constexpr uint32_t kMatrixCount = 50;  // of one device
constexpr Eigen::Index kSize = 25;
constexpr Eigen::Index kCols = 2;

class BrockettWorkload : public Workload {
 public:
  explicit BrockettWorkload(uint32_t seed) : seed_(seed), weights_(kCols), mean_(Matrix::Zero(kSize, kSize)) {
    const Matrix drawn = normals({seed, RandomDomain::kData, 0, 0, 0}, kDeviceCount * kMatrixCount, kSize * kSize);
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      Matrix rows = drawn.middleRows(i * kMatrixCount, kMatrixCount);
      for (Eigen::Index j = 0; j < rows.rows(); ++j) {
        Eigen::Map<Matrix> a(rows.row(j).data(), kSize, kSize);
        a = (a + a.transpose()).eval();
        mean_ += a;
      }
      samples_.push_back(std::make_unique<StoredSamples>(rows));
    }
    mean_ /= kDeviceCount * kMatrixCount;
    for (Eigen::Index c = 0; c < kCols; ++c) {
      weights_(c) = static_cast<double>(kCols - c);
    }
    optimum_ = symmetric_eigen(mean_).values.head(kCols).dot(weights_);
  }

  ManifoldId manifold() const override { return ManifoldId::kStiefel; }
  Shape shape() const override { return {kSize, kCols}; }
  uint32_t device_count() const override { return kDeviceCount; }
  Problem problem(uint32_t device) const override { return {&kBrockettOps, &samples_[device]->source}; }
  Matrix start() const override { return polar(normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, kSize, kCols)); }
  double optimum() const override { return optimum_; }
  Measures measure(const Matrix& model) const override {
    const Matrix x = sizeof(Real) == sizeof(double) ? model : polar(model);
    const Matrix product = mean_ * x * weights_.asDiagonal();
    const Matrix inner = 2 * x.transpose() * product;
    Measures measures;
    measures.excess = x.cwiseProduct(product).sum() - optimum_;
    measures.grad_norm = (2 * product - x * (0.5 * (inner + inner.transpose()))).norm();
    return measures;
  }

 private:
  uint32_t seed_;
  std::vector<std::unique_ptr<StoredSamples>> samples_;
  Eigen::VectorXd weights_;  // 2, 1
  Matrix mean_;              // of all matrices
  double optimum_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_brockett(uint32_t seed) { return std::make_unique<BrockettWorkload>(seed); }

}  // namespace gradstream

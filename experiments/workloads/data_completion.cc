#include "experiments/workloads/data_completion.h"

#include <cmath>
#include <vector>

#include "runtime/manifold/fixed_rank.h"

namespace gradstream {
namespace {

constexpr uint32_t kRows = 60;
constexpr uint32_t kColumns = 40;
constexpr uint32_t kDeviceCount = 10;
constexpr uint32_t kDeviceRows = kRows / kDeviceCount;
constexpr uint32_t kKnownCount = 120;  // entries of a device

// Longest tangents: entries of mean square 1.
const double kNorm = std::sqrt(static_cast<double>(kRows) * kColumns);

Matrix orthonormal_normals(const RandomKey& key, Eigen::Index rows) {
  return polar(normals(key, rows, kCompletionRank));
}

class FixedRankCompletion : public Workload {
 public:
  explicit FixedRankCompletion(uint32_t seed)
      : seed_(seed), parts_(fixed_rank_parts(kRows, kColumns, kCompletionRank)), unknown_(kRows, kColumns) {
    const Matrix u = orthonormal_normals({seed, RandomDomain::kData, 0, 0, 0}, kRows);
    const Matrix v = orthonormal_normals({seed, RandomDomain::kData, 1, 0, 0}, kColumns);
    Eigen::VectorXd values(kCompletionRank);
    values << 2, 1;
    truth_ = kNorm / values.norm() * (u * values.asDiagonal() * v.transpose());
    unknown_.setConstant(true);
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      entries_.push_back(draw(i));
      stored_.push_back(std::make_unique<StoredSamples>(entries_.back()));
    }
  }

  ManifoldId manifold() const override { return ManifoldId::kFixedRank; }
  Shape shape() const override { return fixed_rank_shape(parts_); }
  uint32_t device_count() const override { return kDeviceCount; }
  Problem problem(uint32_t device) const override { return {&kCompletionOps, &stored_[device]->source}; }
  Matrix start() const override {
    Matrix factors(kRows + kColumns + kCompletionRank, kCompletionRank);
    factors << orthonormal_normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, kRows),
        orthonormal_normals({seed_, RandomDomain::kInitialPoint, 1, 0, 0}, kColumns),
        kNorm / std::sqrt(static_cast<double>(kCompletionRank)) * Matrix::Identity(kCompletionRank, kCompletionRank);
    return factors;
  }
  double optimum() const override { return 0; }
  bool measures_gradient() const override { return false; }
  Measures measure(const Matrix& model) const override {
    const Matrix dense =
        model.topRows(kRows) * model.bottomRows(kCompletionRank) * model.middleRows(kRows, kColumns).transpose();
    const Matrix error = dense - truth_;
    Measures measures;
    for (const Matrix& known : entries_) {
      double sum = 0;
      for (Eigen::Index k = 0; k < known.rows(); ++k) {
        const double residual = dense(index(known(k, 0)), index(known(k, 1))) - known(k, 2);
        sum += residual * residual;
      }
      measures.excess += 0.5 * sum / static_cast<double>(known.rows()) / kDeviceCount;
    }
    measures.grad_norm = std::numeric_limits<double>::quiet_NaN();
    measures.other = std::sqrt(unknown_.select(error.array().square(), 0.0).sum() /
                               unknown_.select(truth_.array().square(), 0.0).sum());
    return measures;
  }

 private:
  static Eigen::Index index(double value) { return static_cast<Eigen::Index>(value); }

  // Row, column and value of what a device knows, in the order that they were drawn in.
  Matrix draw(uint32_t device) {
    const std::vector<uint32_t> places =
        chosen({seed_, RandomDomain::kData, 2, device, 0}, kDeviceRows * kColumns, kKnownCount);
    Matrix known(kKnownCount, 3);
    for (Eigen::Index k = 0; k < known.rows(); ++k) {
      const uint32_t place = places[static_cast<size_t>(k)];
      const Eigen::Index row = device * kDeviceRows + place / kColumns;
      const Eigen::Index column = place % kColumns;
      known.row(k) << static_cast<double>(row), static_cast<double>(column), truth_(row, column);
      unknown_(row, column) = false;
    }
    return known;
  }

  uint32_t seed_;
  Parts parts_;
  Matrix truth_;
  Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> unknown_;
  std::vector<Matrix> entries_;
  std::vector<std::unique_ptr<StoredSamples>> stored_;
};

}  // namespace

std::unique_ptr<Workload> make_completion(uint32_t seed) { return std::make_unique<FixedRankCompletion>(seed); }

}  // namespace gradstream

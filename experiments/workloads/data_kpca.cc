// Principal components in all their experiments: X1, X4, X8 to X11, d_zofl, bytes, memory.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/workloads/kpca_column.h"
#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

RandomKey data_key(uint32_t seed, uint32_t a, uint32_t b = 0) { return {seed, RandomDomain::kData, a, b, 0}; }

Matrix rows_of(const Matrix& all, std::span<const uint32_t> rows) {
  Matrix out(static_cast<Eigen::Index>(rows.size()), all.cols());
  for (size_t i = 0; i < rows.size(); ++i) {
    out.row(static_cast<Eigen::Index>(i)) = all.row(rows[i]);
  }
  return out;
}

// Z'Z instead of Z'Z / N.
Matrix unaveraged(const Matrix& part) { return part * std::sqrt(static_cast<double>(part.rows())); }

}  // namespace

KpcaWorkload::KpcaWorkload(const std::vector<Matrix>& parts, ManifoldId manifold, uint32_t cols, uint32_t seed,
                           double unit)
    : manifold_(manifold), shape_{static_cast<uint32_t>(parts.front().cols()), cols}, seed_(seed), unit_(unit) {
  covariance_ = Matrix::Zero(shape_.rows, shape_.rows);
  for (const Matrix& part : parts) {
    sources_.push_back(std::make_unique<StoredSamples>(part));
    covariance_ += part.transpose() * part / static_cast<double>(part.rows());
  }
  covariance_ /= static_cast<double>(parts.size());
  const Eigenpairs pairs = symmetric_eigen(covariance_);
  eigenvalues_ = pairs.values;
  leading_ = orthonormal(pairs.vectors.rightCols(cols));
  // Not the sum of the eigenvalues, which the solver leaves up to 10 units in the last place off: the cost's error is
  // of second order in that of an orthonormal basis, and an excess is a difference of two costs.
  optimum_ = -0.5 * (leading_.transpose() * covariance_ * leading_).trace();
}

KpcaWorkload::~KpcaWorkload() = default;

Problem KpcaWorkload::problem(uint32_t device) const {
  return {shape_.cols == 1 ? &kKpcaColumnOps : &kKpcaOps, &sources_[device]->source};
}

Matrix KpcaWorkload::start() const {
  return polar(normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, shape_.rows, shape_.cols));
}

namespace {

// On the manifold in double: a float model's distance from it is rounding.
Matrix on_manifold(const Matrix& model) { return sizeof(Real) == sizeof(double) ? model : polar(model); }

}  // namespace

Matrix KpcaWorkload::gradient(const Matrix& x, Matrix* inner) const {
  const Matrix cx = covariance_ * x;
  *inner = x.transpose() * cx;
  return x * (0.5 * (*inner + inner->transpose())) - cx;
}

Measures KpcaWorkload::measure(const Matrix& model) const {
  const Matrix x = on_manifold(model);
  Matrix inner;
  Measures measures;
  measures.grad_norm = unit_ * gradient(x, &inner).norm();
  measures.excess = unit_ * (-0.5 * inner.trace() - optimum_);
  measures.other = principal_angle(leading_, x);
  return measures;
}

double KpcaWorkload::optimality(const Matrix& model, double step) const {
  const Matrix x = on_manifold(model);
  Matrix inner;
  return unit_ * (x - polar(x - step * gradient(x, &inner))).norm() / step;
}

std::unique_ptr<KpcaWorkload> make_cpesph(uint32_t seed) {
  constexpr Eigen::Index kDeviceCount = 10;
  constexpr Eigen::Index kSampleCount = 80;
  constexpr Eigen::Index kSize = 26;
  constexpr double kGap = 1e-3;
  std::vector<Matrix> parts;
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    const Matrix u = polar(normals(data_key(seed, 0, i), kSampleCount, kSize));
    const Matrix v = polar(normals(data_key(seed, 1, i), kSize, kSize));
    Eigen::VectorXd sigma(kSize);
    sigma.head(5) << 1, 1 - 1.1 * kGap, 1 - 1.2 * kGap, 1 - 1.3 * kGap, 1 - 1.4 * kGap;
    sigma.tail(kSize - 5) = normals(data_key(seed, 2, i), kSize - 5, 1).cwiseAbs() / static_cast<double>(kSize);
    parts.push_back(std::sqrt(2) * (u * sigma.asDiagonal() * v));  // the work's cost has no half
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kSphere, 1, seed);
}

std::vector<Matrix> zofl_parts(const std::string& data, bool is_sorted, uint32_t device_count, uint32_t seed) {
  Table table;
  if (data == "synth") {
    constexpr Eigen::Index kSize = 16;
    table.samples = normals(data_key(seed, 0), 1000, kSize);
    for (Eigen::Index c = 0; c < kSize; ++c) {
      table.samples.col(c) *= c == kSize - 1 ? 0.2 : 2 + static_cast<double>(c) * (-1.8 / (kSize - 1));
    }
    table.labels.assign(table.samples.col(0).begin(), table.samples.col(0).end());
  } else {
    table = read_table(data);
    table.samples = prepare_table(table.samples, data == "digits" ? "scale16" : "zscore");
  }
  const auto held = static_cast<uint32_t>(table.samples.rows());
  std::vector<uint32_t> order(held);
  if (is_sorted) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return table.labels[a] < table.labels[b]; });
  } else {
    order = chosen(data_key(seed, 9), held, held);
  }
  std::vector<Matrix> parts;
  const size_t share = held / device_count;
  for (size_t i = 0; i < device_count; ++i) {
    parts.push_back(rows_of(table.samples, std::span(order).subspan(i * share, share)));
  }
  return parts;
}

std::unique_ptr<KpcaWorkload> make_zofl(const std::string& data, bool is_sorted, uint32_t cols, uint32_t device_count,
                                        uint32_t seed) {
  return std::make_unique<KpcaWorkload>(zofl_parts(data, is_sorted, device_count, seed), ManifoldId::kStiefel, cols,
                                        seed);
}

std::unique_ptr<KpcaWorkload> make_single_table(const std::string& name, const std::string& preparation, uint32_t cols,
                                                uint32_t seed) {
  Matrix samples = read_table(name).samples;
  if (name == "digits") {
    samples = samples.topRows(200).eval();
  }
  return std::make_unique<KpcaWorkload>(std::vector{prepare_table(samples, preparation)}, ManifoldId::kStiefel, cols,
                                        seed);
}

std::unique_ptr<KpcaWorkload> make_kpca_table(const std::string& name, const std::string& preparation, uint32_t seed) {
  constexpr uint32_t kDeviceCount = 10;
  constexpr uint32_t kCols = 3;
  const Matrix samples = prepare_table(read_table(name).samples, preparation);
  const auto held = static_cast<uint32_t>(samples.rows());
  const std::vector<uint32_t> order = chosen(data_key(seed, 0), held, held);
  std::vector<Matrix> parts;
  size_t first = 0;
  for (uint32_t i = 0; i < kDeviceCount; ++i) {  // the first parts are longer by one
    const size_t share = held / kDeviceCount + (i < held % kDeviceCount ? 1 : 0);
    parts.push_back(unaveraged(rows_of(samples, std::span(order).subspan(first, share))) / kTableUnit);
    first += share;
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kStiefel, kCols, seed, kTableUnit * kTableUnit);
}

std::unique_ptr<KpcaWorkload> make_pca(uint32_t device_count, bool is_covariance, uint32_t seed) {
  constexpr Eigen::Index kSampleCount = 10000;
  constexpr Eigen::Index kSize = 600;
  const Matrix all = normals(data_key(seed, 0), kSampleCount, kSize);
  const Eigen::Index share = kSampleCount / device_count;
  std::vector<Matrix> parts;
  for (uint32_t i = 0; i < device_count; ++i) {
    const Matrix part = all.middleRows(i * share, share);
    parts.push_back(is_covariance ? part : unaveraged(part));
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kSphere, 1, seed);
}

std::unique_ptr<KpcaWorkload> make_mnist_kpca(const std::string& folder, uint32_t seed) {
  constexpr uint32_t kImageCount = 10000;
  constexpr uint32_t kPixelCount = 784;
  constexpr uint32_t kDeviceCount = 200;
  constexpr uint32_t kCols = 5;
  constexpr size_t kHeaderSize = 16;
  const std::string bytes = read_file(folder + "/mnist/t10k-images-idx3-ubyte.gz");
  if (bytes.size() != kHeaderSize + size_t{kImageCount} * kPixelCount) {
    return nullptr;
  }
  const std::vector<uint32_t> order = chosen(data_key(seed, 0), kImageCount, kImageCount);
  const uint32_t share = kImageCount / kDeviceCount;
  std::vector<Matrix> parts;
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    Matrix part(share, kPixelCount);
    for (uint32_t row = 0; row < share; ++row) {
      const char* pixels = bytes.data() + kHeaderSize + size_t{order[i * share + row]} * kPixelCount;
      for (uint32_t c = 0; c < kPixelCount; ++c) {
        part(row, c) = static_cast<uint8_t>(pixels[c]);
      }
    }
    parts.push_back(unaveraged(part) / kGreyUnit);
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kStiefel, kCols, seed, kGreyUnit * kGreyUnit);
}

std::unique_ptr<KpcaWorkload> make_own_directions(double size, uint32_t seed) {
  constexpr uint32_t kDeviceCount = 6;
  constexpr Eigen::Index kSampleCount = 20;
  constexpr Eigen::Index kSize = 8;
  std::vector<Matrix> parts;
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    Matrix part = normals(data_key(seed, 0, i), kSampleCount, kSize);
    for (Eigen::Index c = 0; c < kSize; ++c) {
      part.col(c) *= size * (c == i ? 1.5 : c < 3 ? 0.8 : 0.4);
    }
    parts.push_back(part);
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kStiefel, 2, seed);
}

}  // namespace gradstream

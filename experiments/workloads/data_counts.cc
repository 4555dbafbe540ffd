#include "experiments/workloads/data_counts.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gradstream {
namespace {

RandomKey data_key(uint32_t seed, uint32_t a, uint32_t b) { return {seed, RandomDomain::kData, a, b, 0}; }

// A float model's distance from the manifold is rounding.
Matrix on_manifold(const Matrix& model) { return sizeof(Real) == sizeof(double) ? model : polar(model); }

// Of -1/2 tr(x'C x), and the gradient's norm on Stiefel or the sphere.
Measures measure_pca(const Matrix& covariance, const Matrix& x, double optimum) {
  const Matrix cx = covariance * x;
  const Matrix inner = x.transpose() * cx;
  Measures measures;
  measures.excess = -0.5 * inner.trace() - optimum;
  measures.grad_norm = (x * (0.5 * (inner + inner.transpose())) - cx).norm();
  return measures;
}

// The leading columns of the eigenvectors, and -1/2 of what they hold.
double best_cost(const Matrix& covariance, Eigen::Index cols, Matrix* leading) {
  *leading = orthonormal(symmetric_eigen(covariance).vectors.rightCols(cols));
  return -0.5 * (leading->transpose() * covariance * *leading).trace();
}

class Uneven : public Workload {
 public:
  static constexpr uint32_t kDeviceCount = 10;
  static constexpr Eigen::Index kSize = 26;

  explicit Uneven(uint32_t seed) : seed_(seed), covariance_(Matrix::Zero(kSize, kSize)) {
    double total = 0;
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      const Matrix part = draw(i);
      covariance_ += part.transpose() * part;  // p_i f_i: the device's own mean, by its samples
      total += static_cast<double>(part.rows());
      sources_.push_back(std::make_unique<StoredSamples>(part));
    }
    covariance_ /= total;
    optimum_ = best_cost(covariance_, 1, &leading_);
  }

  ManifoldId manifold() const override { return ManifoldId::kSphere; }
  Shape shape() const override { return {static_cast<uint32_t>(kSize), 1}; }
  uint32_t device_count() const override { return kDeviceCount; }
  Problem problem(uint32_t device) const override { return {&kKpcaOps, &sources_[device]->source}; }
  Matrix start() const override { return polar(normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, kSize, 1)); }
  double optimum() const override { return optimum_; }
  Measures measure(const Matrix& model) const override {
    const Matrix x = on_manifold(model);
    Measures measures = measure_pca(covariance_, x, optimum_);
    measures.other = principal_angle(leading_, x);
    return measures;
  }

 private:
  Matrix draw(uint32_t device) const {
    constexpr double kGap = 1e-3;
    constexpr double kEvenCount = 80;  // of X1
    constexpr Eigen::Index kCountStep = 40;
    const Eigen::Index count = kCountStep * (device + 1);
    const Matrix u = polar(normals(data_key(seed_, 0, device), count, kSize));
    const Matrix v = polar(normals(data_key(seed_, 1, device), kSize, kSize));
    Eigen::VectorXd sigma(kSize);
    sigma.head(5) << 1, 1 - 1.1 * kGap, 1 - 1.2 * kGap, 1 - 1.3 * kGap, 1 - 1.4 * kGap;
    sigma.tail(kSize - 5) = normals(data_key(seed_, 2, device), kSize - 5, 1).cwiseAbs() / static_cast<double>(kSize);
    const double length = std::sqrt(2 * static_cast<double>(count) / kEvenCount);  // the work's cost has no half
    return length * (u * sigma.asDiagonal() * v);
  }

  uint32_t seed_;
  std::vector<std::unique_ptr<StoredSamples>> sources_;
  Matrix covariance_;
  Matrix leading_;
  double optimum_ = 0;
};

// ---- online ----

constexpr Eigen::Index kArrivingSize = 16;
constexpr Eigen::Index kArrivingCols = 2;
constexpr uint32_t kArrivalSpan = 5;  // 0 to 4 samples a round

// Standard normals of variances 4, 3, 1, 1, 1/2, ..; the planes of entries 0 and 2 and of 1 and 3 turn by the index.
Matrix draw_turning(uint32_t seed, uint32_t device) {
  Matrix samples = normals(data_key(seed, 0, device), ArrivingPca::kLastCount, kArrivingSize);
  Eigen::VectorXd variances = Eigen::VectorXd::Constant(kArrivingSize, 0.5);
  variances.head(4) << 4, 3, 1, 1;
  samples = samples * variances.cwiseSqrt().asDiagonal();
  for (Eigen::Index j = 0; j < samples.rows(); ++j) {
    const double angle = std::numbers::pi / 3 * static_cast<double>(j) / ArrivingPca::kLastCount;
    for (const Eigen::Index first : {0, 1}) {
      const double a = samples(j, first);
      const double b = samples(j, first + 2);
      samples(j, first) = std::cos(angle) * a - std::sin(angle) * b;
      samples(j, first + 2) = std::sin(angle) * a + std::cos(angle) * b;
    }
  }
  return samples;
}

}  // namespace

std::unique_ptr<Workload> make_uneven(uint32_t seed) { return std::make_unique<Uneven>(seed); }

// Samples first .. first + source.count - 1 are the device's.
struct ArrivingPca::Device {
  Device(const Matrix& all, uint32_t seed, uint32_t index)
      : samples(all), stored(all), arrival_words(data_key(seed, 3, index)) {
    source = stored.source;
    source.context = this;
    source.count = kFirstCount;
    source.read = [](const void* context, uint32_t at, Real* out) {
      const Device& device = *static_cast<const Device*>(context);
      const SampleSource& all_samples = device.stored.source;
      return all_samples.read(all_samples.context, device.first + at, out);
    };
  }
  void hold(uint32_t begin, uint32_t end) {
    first = begin;
    source.count = end - begin;
  }

  Matrix samples;
  StoredSamples stored;
  RandomStream arrival_words;
  SampleSource source;
  uint32_t first = 0;
  uint32_t arrived = kFirstCount;
};

ArrivingPca::ArrivingPca(Arrivals arrivals, uint32_t seed) : arrivals_(arrivals), seed_(seed) {
  Matrix covariance = Matrix::Zero(kArrivingSize, kArrivingSize);
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    const Matrix all = draw_turning(seed, i);
    covariance += all.transpose() * all / static_cast<double>(all.rows());
    devices_.push_back(std::make_unique<Device>(all, seed, i));
  }
  Matrix leading;
  optimum_ = best_cost(covariance / kDeviceCount, kArrivingCols, &leading);
  arrive(0);
}

ArrivingPca::~ArrivingPca() = default;

Shape ArrivingPca::shape() const {
  return {static_cast<uint32_t>(kArrivingSize), static_cast<uint32_t>(kArrivingCols)};
}

Problem ArrivingPca::problem(uint32_t device) const { return {&kKpcaOps, &devices_[device]->source}; }

Matrix ArrivingPca::start() const {
  return polar(normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, kArrivingSize, kArrivingCols));
}

void ArrivingPca::arrive(uint32_t round) {
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    Device& device = *devices_[i];
    if (round == 0) {
      device.arrival_words = RandomStream(data_key(seed_, 3, i));
      device.arrived = arrivals_ == Arrivals::kNone ? kLastCount : kFirstCount;
    } else {
      const auto more = static_cast<uint32_t>((device.arrival_words.next() * uint64_t{kArrivalSpan}) >> 32);
      device.arrived = std::min(device.arrived + more, kLastCount);
    }
    const bool is_ring = arrivals_ == Arrivals::kRing;
    device.hold(is_ring && device.arrived > kRingSize ? device.arrived - kRingSize : 0,
                arrivals_ == Arrivals::kFrozen ? kFirstCount : device.arrived);
  }
}

void ArrivingPca::look_at(const Device& device, Matrix* covariance) const {
  const Eigen::Index count = device.arrived - device.first;
  const auto held = device.samples.middleRows(device.first, count);
  *covariance += held.transpose() * held / static_cast<double>(count);
}

Measures ArrivingPca::measure(const Matrix& model) const {
  Matrix covariance = Matrix::Zero(kArrivingSize, kArrivingSize);
  for (const std::unique_ptr<Device>& device : devices_) {
    look_at(*device, &covariance);
  }
  covariance /= kDeviceCount;
  Matrix leading;
  const double best = best_cost(covariance, kArrivingCols, &leading);
  const Matrix x = on_manifold(model);
  Measures measures = measure_pca(covariance, x, best);
  measures.other = principal_angle(leading, x);
  return measures;
}

}  // namespace gradstream

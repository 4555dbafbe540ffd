// X16: structured prediction in hyperbolic space, the WordNet mammals of the authors' run. The embedding of a word is
// the weighted Frechet mean of 1179 others, 131 on each of 9 devices; weights come from a kernel on their features.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 9;
constexpr Eigen::Index kPointCount = 131;  // of one device

// Numbers of a file without a header; rows x cols, or empty when that is not what it holds.
Matrix read_numbers(const std::string& path, Eigen::Index rows, Eigen::Index cols) {
  std::string text = read_file(path);
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  std::vector<double> values;
  for (std::string word; words >> word;) {
    values.push_back(std::strtod(word.c_str(), nullptr));
  }
  if (values.size() != static_cast<size_t>(rows * cols)) {
    return {};
  }
  return Eigen::Map<Matrix>(values.data(), rows, cols);
}

class WordnetWorkload : public Workload {
 public:
  WordnetWorkload(const Matrix& points, const Matrix& weights, Matrix start) : start_(std::move(start)) {
    points_.resize(points.rows(), 4);
    points_ << points, Eigen::Map<const Matrix>(weights.data(), weights.size(), 1);
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      samples_.push_back(std::make_unique<StoredSamples>(points_.middleRows(i * kPointCount, kPointCount)));
    }
    optimum_ = cost(find_minimum());
  }

  ManifoldId manifold() const override { return ManifoldId::kHyperbolic; }
  Shape shape() const override { return {3, 1}; }
  uint32_t device_count() const override { return kDeviceCount; }
  Problem problem(uint32_t device) const override { return {&kHyperbolicMeanOps, &samples_[device]->source}; }
  Matrix start() const override { return start_; }
  double optimum() const override { return optimum_; }
  Measures measure(const Matrix& model) const override {
    const Eigen::Vector3d x = lift({model(1), model(2)});
    const Eigen::Vector3d v = descent(x);
    Measures measures;
    measures.excess = cost(x) - optimum_;
    measures.grad_norm = norm(v);
    return measures;
  }

 private:
  static double lorentz(const Eigen::Vector3d& x, const Eigen::Vector3d& y) {
    return -x(0) * y(0) + x(1) * y(1) + x(2) * y(2);
  }
  static double norm(const Eigen::Vector3d& v) { return std::sqrt(std::max(0.0, lorentz(v, v))); }
  static Eigen::Vector3d lift(const Eigen::Vector2d& space) {
    return {std::sqrt(1 + space.squaredNorm()), space(0), space(1)};
  }
  static Eigen::Vector3d exp_map(const Eigen::Vector3d& x, const Eigen::Vector3d& v) {
    const double n = norm(v);
    const Eigen::Vector3d y = n == 0 ? x : Eigen::Vector3d(std::cosh(n) * x + std::sinh(n) / n * v);
    return lift(y.tail<2>());
  }

  double cost(const Eigen::Vector3d& x) const {
    double sum = 0;
    for (Eigen::Index i = 0; i < points_.rows(); ++i) {
      const double d = distance(x, point(i));
      sum += points_(i, 3) * d * d;
    }
    return sum / static_cast<double>(points_.rows());
  }
  // Minus the gradient: 2/N sum_i weight_i log_x(z_i).
  Eigen::Vector3d descent(const Eigen::Vector3d& x) const {
    Eigen::Vector3d sum = Eigen::Vector3d::Zero();
    for (Eigen::Index i = 0; i < points_.rows(); ++i) {
      const double d = distance(x, point(i));
      const Eigen::Vector3d w = point(i) - std::cosh(d) * x;
      sum += points_(i, 3) * (d == 0 ? 1 : d / std::sinh(d)) * w;
    }
    return 2 * sum / static_cast<double>(points_.rows());
  }
  Eigen::Vector3d point(Eigen::Index i) const { return points_.row(i).head<3>().transpose(); }
  static double distance(const Eigen::Vector3d& x, const Eigen::Vector3d& z) {
    return 2 * std::asinh(0.5 * norm(z - x));
  }

  // Gradient descent from the start, the step halved until the cost falls.
  Eigen::Vector3d find_minimum() const {
    constexpr int kIterationCountMax = 1000;
    constexpr double kNormMin = 1e-14;
    Eigen::Vector3d x(start_(0), start_(1), start_(2));
    double at = cost(x);
    double step = 64;  // the weights' mean is 1/131: curvature about 2/131
    for (int i = 0; i < kIterationCountMax && step > 1e-6; ++i) {
      const Eigen::Vector3d v = descent(x);
      if (norm(v) < kNormMin) {
        break;
      }
      const Eigen::Vector3d y = exp_map(x, step * v);
      const double next = cost(y);
      if (next < at) {
        x = y;
        at = next;
      } else {
        step /= 2;
      }
    }
    return x;
  }

  Matrix start_;
  Matrix points_;  // a row each: time, space, space, weight
  std::vector<std::unique_ptr<StoredSamples>> samples_;
  double optimum_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_wordnet(const std::string& folder) {
  const std::string from = folder + "/wordnet/";
  const Matrix points = read_numbers(from + "Z_1179x3.csv", kDeviceCount * kPointCount, 3);
  const Matrix weights = read_numbers(from + "alpha_9x131.csv", kDeviceCount, kPointCount);
  const Matrix start = read_numbers(from + "x0_3.csv", 3, 1);
  if (points.size() == 0 || weights.size() == 0 || start.size() == 0) {
    return nullptr;
  }
  return std::make_unique<WordnetWorkload>(points, weights, start);
}

std::vector<double> read_wordnet_participation(const std::string& folder) {
  const Matrix values = read_numbers(folder + "/wordnet/pi_9.csv", kDeviceCount, 1);
  return {values.data(), values.data() + values.size()};
}

}  // namespace gradstream

#include <cmath>
#include <span>

#include <gradstream/problem.h>

using namespace gradstream;

// The direction x that readings z (three values each) agree on: f(x) = 1/B sum_b ln(1 + |z_b - x|^2). The logarithm
// makes it robust: a wild reading has next to no pull.
struct RobustDirection {
  static constexpr const char* kName = "robust";
  std::span<const float> readings;
  uint32_t sample_count() const { return static_cast<uint32_t>(readings.size() / 3); }
  Status check_shape(Shape shape) const { return shape == Shape{3, 1} ? Status::kOk : Status::kInvalidArgument; }
  Result<Real> loss(Shape, const Real* x, Batch batch) const {
    LossSum sum;
    for (uint32_t b = 0; b < batch.count; ++b) {
      const Real distance = distance2(3, x, &readings[3 * batch.at(b)]);
      sum.add(std::log1p(distance * distance));
    }
    return sum.mean();
  }
};

constexpr float kReadings[] = {0.6F, 0.8F, 0, 0.7F, 0.7F, 0.1F, 0.5F, 0.9F, -0.1F, 0, -9, 40};  // the last one is wild
constexpr RobustDirection kRobust = {kReadings};
constexpr ProblemOps kRobustOps = make_problem_ops<RobustDirection>();
constexpr gs_linked_problem kLinked = {{&kRobustOps, &kRobust}};

const gs_linked_problem* robust_problem() { return &kLinked; }  // config.problem = robust_problem();

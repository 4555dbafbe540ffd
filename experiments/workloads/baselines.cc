#include "experiments/workloads/baselines.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

// Pairs below this curvature, relative to the step's square, are left out: the inverse Hessian stays positive.
constexpr double kCurvatureMin = 1e-12;

struct Pair {
  Matrix s;  // step
  Matrix y;  // change of the gradient
};

class Minimiser {
 public:
  Minimiser(const Objective& objective, const Matrix& start, const BaselineOptions& options)
      : objective_(objective), options_(options), x_(start), cost_(objective.cost(start)) {
    gradient_ = objective.gradient(start);
    grad_norm_ = std::sqrt(objective.inner(start, gradient_, gradient_));
    direction_ = -gradient_;
    step_ = 1 / grad_norm_;
  }

  void iterate() {
    if (options_.method == Baseline::kSteepestDescent) {
      direction_ = -gradient_;
    } else if (options_.method == Baseline::kLbfgs) {
      direction_ = -apply_inverse_hessian();
    }
    double slope = objective_.inner(x_, gradient_, direction_);
    if (!(slope < 0)) {
      direction_ = -gradient_;
      slope = -grad_norm_ * grad_norm_;
      pairs_.clear();
    }
    double next_cost = 0;
    const Matrix y = search(slope, &next_cost);
    advance(y, next_cost);
  }

  const Matrix& x() const { return x_; }
  double cost() const { return cost_; }
  double grad_norm() const { return grad_norm_; }

 private:
  // The next point; step_ is the step that leads to it.
  Matrix search(double slope, double* next_cost) {
    step_ = pairs_.empty() ? 2 * step_ : 1;
    for (uint32_t halvings = 0;; ++halvings) {
      Matrix y = objective_.retract(x_, step_ * direction_);
      *next_cost = objective_.cost(y);
      if (*next_cost <= cost_ + options_.sufficient_decrease * step_ * slope || halvings + 1 >= options_.halvings_max) {
        return y;
      }
      step_ /= 2;
    }
  }

  void advance(const Matrix& y, double next_cost) {
    const Matrix next = objective_.gradient(y);
    const Matrix carried = objective_.transport(x_, y, gradient_);
    const Matrix carried_direction = objective_.transport(x_, y, direction_);
    if (options_.method == Baseline::kConjugateGradient) {
      const double beta = objective_.inner(y, next, next - carried) / (grad_norm_ * grad_norm_);
      direction_ = -next + std::max(0.0, beta) * carried_direction;
    } else if (options_.method == Baseline::kLbfgs) {
      for (Pair& pair : pairs_) {
        pair = {objective_.transport(x_, y, pair.s), objective_.transport(x_, y, pair.y)};
      }
      remember(y, {step_ * carried_direction, next - carried});
    }
    x_ = y;
    cost_ = next_cost;
    gradient_ = next;
    grad_norm_ = std::sqrt(objective_.inner(y, next, next));
  }

  void remember(const Matrix& at, Pair pair) {
    if (objective_.inner(at, pair.s, pair.y) > kCurvatureMin * objective_.inner(at, pair.s, pair.s)) {
      pairs_.push_back(std::move(pair));
    }
    if (pairs_.size() > options_.memory) {
      pairs_.pop_front();
    }
  }

  // The two-loop recursion on the gradient.
  Matrix apply_inverse_hessian() const {
    Matrix q = gradient_;
    std::vector<double> ratios(pairs_.size());
    for (size_t i = pairs_.size(); i-- > 0;) {
      const Pair& pair = pairs_[i];
      ratios[i] = objective_.inner(x_, pair.s, q) / objective_.inner(x_, pair.s, pair.y);
      q -= ratios[i] * pair.y;
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      q *= objective_.inner(x_, last.s, last.y) / objective_.inner(x_, last.y, last.y);
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const Pair& pair = pairs_[i];
      q += (ratios[i] - objective_.inner(x_, pair.y, q) / objective_.inner(x_, pair.s, pair.y)) * pair.s;
    }
    return q;
  }

  const Objective& objective_;
  const BaselineOptions& options_;
  Matrix x_;
  double cost_;
  Matrix gradient_;
  double grad_norm_ = 0;
  Matrix direction_;
  double step_ = 0;
  std::deque<Pair> pairs_;  // oldest first, all at x_
};

// A workload's pooled problem, and the arena that its operations take scratch from.
class Pool {
 public:
  Pool(const Workload& workload, const ManifoldOps& manifold)
      : workload_(workload), manifold_(manifold), shape_(workload.shape()) {
    size_t size = manifold.scratch_size(shape_);
    for (uint32_t device = 0; device < workload.device_count(); ++device) {
      const Problem problem = workload.problem(device);
      size = std::max(size, problem.ops->scratch_size(problem.context, shape_));
    }
    memory_.resize(size / sizeof(uint64_t) + 1);
  }

  double cost(const Matrix& x) {
    Arena arena(memory_.data(), memory_.size() * sizeof(uint64_t));
    const Values at = to_real(x);
    double sum = 0;
    for (uint32_t device = 0; device < workload_.device_count(); ++device) {
      const Problem problem = workload_.problem(device);
      sum += static_cast<double>(problem.ops->loss(problem.context, shape_, at.data(), all_of(problem), arena).value());
    }
    return sum / workload_.device_count();
  }

  Matrix gradient(const Matrix& x) {
    Arena arena(memory_.data(), memory_.size() * sizeof(uint64_t));
    const Values at = to_real(x);
    Values sum(shape_.size());
    Values part(shape_.size());
    for (uint32_t device = 0; device < workload_.device_count(); ++device) {
      const Problem problem = workload_.problem(device);
      must(problem.ops->gradient(problem.context, shape_, at.data(), all_of(problem), part.data(), arena));
      add_scaled(shape_.size(), 1, part.data(), sum.data());
    }
    scale(shape_.size(), Real{1} / static_cast<Real>(workload_.device_count()), sum.data());
    must(manifold_.riemannian_gradient(shape_, at.data(), sum.data(), sum.data(), arena));
    return to_matrix(sum);
  }

  Matrix retract(const Matrix& x, const Matrix& v) {
    Arena arena(memory_.data(), memory_.size() * sizeof(uint64_t));
    Values out(shape_.size());
    must(manifold_.retract(shape_, to_real(x).data(), to_real(v).data(), out.data(), arena));
    return to_matrix(out);
  }

  Matrix transport(const Matrix& x, const Matrix& y, const Matrix& v) {
    Arena arena(memory_.data(), memory_.size() * sizeof(uint64_t));
    Values out(shape_.size());
    must(manifold_.transport(shape_, to_real(x).data(), to_real(y).data(), to_real(v).data(), out.data(), arena));
    return to_matrix(out);
  }

  double inner(const Matrix& x, const Matrix& v, const Matrix& w) {
    Arena arena(memory_.data(), memory_.size() * sizeof(uint64_t));
    return static_cast<double>(
        manifold_.inner(shape_, to_real(x).data(), to_real(v).data(), to_real(w).data(), arena).value());
  }

 private:
  using Values = std::vector<Real>;

  static void must(Status status) { GS_ASSERT(status == Status::kOk); }
  static Batch all_of(const Problem& problem) { return {nullptr, problem.ops->sample_count(problem.context)}; }
  static Values to_real(const Matrix& x) { return {x.data(), x.data() + x.size()}; }
  Matrix to_matrix(const Values& values) const {
    Matrix out(shape_.rows, shape_.cols);
    std::copy(values.begin(), values.end(), out.data());
    return out;
  }

  const Workload& workload_;
  const ManifoldOps& manifold_;
  Shape shape_;
  std::vector<uint64_t> memory_;
};

}  // namespace

Objective pooled_objective(const Workload& workload, const ManifoldOps& manifold) {
  const auto pool = std::make_shared<Pool>(workload, manifold);
  Objective objective;
  objective.cost = [pool](const Matrix& x) { return pool->cost(x); };
  objective.gradient = [pool](const Matrix& x) { return pool->gradient(x); };
  objective.retract = [pool](const Matrix& x, const Matrix& v) { return pool->retract(x, v); };
  objective.transport = [pool](const Matrix& x, const Matrix& y, const Matrix& v) { return pool->transport(x, y, v); };
  objective.inner = [pool](const Matrix& x, const Matrix& v, const Matrix& w) { return pool->inner(x, v, w); };
  return objective;
}

BaselineResult minimise(const Objective& objective, const Matrix& start, const BaselineOptions& options,
                        const std::function<bool(uint32_t iteration, const Matrix& x, double cost)>& watch) {
  Minimiser minimiser(objective, start, options);
  uint32_t iterations = 0;
  for (;; ++iterations) {
    const bool goes_on = !watch || watch(iterations, minimiser.x(), minimiser.cost());
    if (!goes_on || iterations == options.iteration_count || minimiser.grad_norm() <= options.grad_norm_min) {
      break;
    }
    minimiser.iterate();
  }
  return {minimiser.x(), minimiser.cost(), minimiser.grad_norm(), iterations};
}

}  // namespace gradstream

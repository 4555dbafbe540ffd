// Centralised first-order methods with line search, for the tables that compare federated runs with them: one machine
// holds all data. Host only.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_BASELINES_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_BASELINES_H_

#include <cstdint>
#include <functional>

#include "experiments/workloads/workload.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

// A cost on a manifold, as the methods see it. Tangent vectors are ambient matrices; all functions are pure.
struct Objective {
  std::function<double(const Matrix& x)> cost;
  std::function<Matrix(const Matrix& x)> gradient;  // Riemannian
  std::function<Matrix(const Matrix& x, const Matrix& v)> retract;
  std::function<Matrix(const Matrix& x, const Matrix& y, const Matrix& v)> transport;  // T_x to T_y
  std::function<double(const Matrix& x, const Matrix& v, const Matrix& w)> inner;
};

// The mean of all devices' problems as one, over the manifold's own retraction and transport. In Real: double in the
// double build only. The workload outlives it; the manifold is the workload's. GS_ASSERT: no operation fails.
Objective pooled_objective(const Workload& workload, const ManifoldOps& manifold);

enum class Baseline {
  kSteepestDescent,    // d = -grad
  kConjugateGradient,  // Polak and Ribiere's beta, not below 0; J. Nocedal, S. Wright, Numerical Optimization, 5.2
  kLbfgs,              // two-loop recursion over transported pairs; W. Huang, K. Gallivan, P.-A. Absil, 2015
};

struct BaselineOptions {
  Baseline method = Baseline::kSteepestDescent;
  uint32_t iteration_count = 100;
  double grad_norm_min = 0;           // stop at or below it
  uint32_t memory = 10;               // pairs of kLbfgs
  double sufficient_decrease = 1e-4;  // of Armijo's rule
  uint32_t halvings_max = 60;         // of a step in one line search
};

struct BaselineResult {
  Matrix x;
  double cost = 0;
  double grad_norm = 0;
  uint32_t iterations = 0;  // done
};

// Minimises from `start`. Steps are found by halving (Armijo): kLbfgs begins at 1 once it has pairs, the others, and
// its first step, at twice the last step taken, the very first at 2 / |grad|. A direction that does not descend is
// replaced by -grad and the memory forgotten. `watch` (may be empty) sees every iterate, the start as iteration 0,
// until it returns false.
BaselineResult minimise(const Objective& objective, const Matrix& start, const BaselineOptions& options,
                        const std::function<bool(uint32_t iteration, const Matrix& x, double cost)>& watch = {});

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_BASELINES_H_

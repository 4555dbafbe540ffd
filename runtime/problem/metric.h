// How good a model is on samples that are held out, beside their loss: what a problem adds up for its metric.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_METRIC_H_
#define GRADSTREAM_RUNTIME_PROBLEM_METRIC_H_

#include <cmath>
#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// Whether an image holds samples out and evaluates models on them. Reason: an image may have no flash to spare
// (features.h). It says so in its Hello, and trains on all its samples.
#if defined(GS_WITHOUT_EVALUATION)
inline constexpr bool kEvaluates = false;
#else
inline constexpr bool kEvaluates = true;
#endif

// Two sums over samples. A metric is their quotient, or its root.
struct QualitySum {
  Real part = 0;   // of right samples, explained squares, squared errors or distances
  Real whole = 0;  // of what these are a part of: samples, squares, numbers

  void add(Real some, Real all) {
    part += some;
    whole += all;
  }
  // One more sample with a class: right where the first of the greatest scores is the label's.
  void add_class(uint32_t class_count, Real label, const Real* scores) {
    uint32_t best = 0;
    for (uint32_t c = 1; c < class_count; ++c) {
      best = scores[c] > scores[best] ? c : best;
    }
    add(static_cast<Real>(best) == label ? Real{1} : Real{0}, 1);
  }
};

// Metrics of ProblemOps: a mean, a share that is not below 0, and the root of a mean.
inline Real metric_of_means(const QualitySum& sum) { return sum.part / sum.whole; }
inline Real metric_of_shares(const QualitySum& sum) { return sum.part > 0 ? sum.part / sum.whole : 0; }
inline Real metric_of_roots(const QualitySum& sum) { return std::sqrt(sum.part / sum.whole); }

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_METRIC_H_

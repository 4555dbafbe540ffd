// The curve between two models and what its solver steps by (004, A12 and A13; docs/algorithms.md, "AsyncCurve"). Of
// Linux images and of the server; boards do not link it.
#ifndef GRADSTREAM_RUNTIME_TRAINING_CURVE_H_
#define GRADSTREAM_RUNTIME_TRAINING_CURVE_H_

#include <cstddef>

#include "runtime/base/config.h"

namespace gradstream {

// out <- (1 - l)^2 from + 2 l (1 - l) control + l^2 to, count values each; out may be any of them. With the factor 2,
// which the work's equation (28) lacks, the weights add up to 1, and with the control point in the middle the
// curve is the line.
void curve_point(size_t count, Real l, const Real* from, const Real* control, const Real* to, Real* out);

// v <- v - gamma <v, along> / <along, along> along; v as it is where along is 0. (004, equation (30))
void take_out(size_t count, Real gamma, const Real* along, Real* v);

// Adam with bias correction; a fresh start is moments of 0 and step_count 0.
struct Adam {
  static constexpr Real kFirstDecay = static_cast<Real>(0.9);
  static constexpr Real kSecondDecay = static_cast<Real>(0.999);
  static constexpr Real kFloor = static_cast<Real>(1e-8);

  Real* first = nullptr;  // count values each, the caller's
  Real* second = nullptr;
  double first_left = 1;  // 0.9 and 0.999 to the power of the steps done
  double second_left = 1;

  void restart(size_t count);
  // x <- x - rate m^ / (sqrt(v^) + 1e-8).
  void step(size_t count, Real rate, const Real* gradient, Real* x);
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_CURVE_H_

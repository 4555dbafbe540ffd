#include "runtime/base/no_contraction.h"

#include "runtime/training/curve.h"

#include <cmath>

#include "runtime/base/products.h"

namespace gradstream {

void curve_point(size_t count, Real l, const Real* from, const Real* control, const Real* to, Real* out) {
  const Real a = (1 - l) * (1 - l);
  const Real b = 2 * l * (1 - l);
  const Real c = l * l;
  for (size_t e = 0; e < count; ++e) {
    out[e] = (a * from[e] + b * control[e]) + c * to[e];
  }
}

void take_out(size_t count, Real gamma, const Real* along, Real* v) {
  const Real square = dot(count, along, along);
  if (square > 0) {
    add_scaled(count, -gamma * dot(count, v, along) / square, along, v);
  }
}

void Adam::restart(size_t count) {
  fill_zero(count, first);
  fill_zero(count, second);
  first_left = second_left = 1;
}

void Adam::step(size_t count, Real rate, const Real* gradient, Real* x) {
  first_left *= static_cast<double>(kFirstDecay);
  second_left *= static_cast<double>(kSecondDecay);
  const auto first_share = static_cast<Real>(1 / (1 - first_left));
  const auto second_share = static_cast<Real>(1 / (1 - second_left));
  for (size_t e = 0; e < count; ++e) {
    first[e] = kFirstDecay * first[e] + (1 - kFirstDecay) * gradient[e];
    second[e] = kSecondDecay * second[e] + (1 - kSecondDecay) * gradient[e] * gradient[e];
    x[e] -= rate * (first[e] * first_share) / (std::sqrt(second[e] * second_share) + kFloor);
  }
}

}  // namespace gradstream

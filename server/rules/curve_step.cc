#include "runtime/base/no_contraction.h"

#include "server/rules/curve_step.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

constexpr Real kAntiparallel = static_cast<Real>(-1 + 1e-6);

}  // namespace

// Of unit vectors a, b: R v = v - <v, a + b> / (1 + <a, b>) (a + b) + 2 <v, a> b, two reflections.
bool rotate(const std::vector<Real>& a, const std::vector<Real>& b, std::vector<Real>* v) {
  const size_t size = v->size();
  const Real a_length = norm2(size, a.data());
  const Real b_length = norm2(size, b.data());
  if (a_length == 0 || b_length == 0) {
    return true;
  }
  const Real cosine = std::clamp(dot(size, a.data(), b.data()) / a_length / b_length, Real{-1}, Real{1});
  const Real along_a = dot(size, v->data(), a.data()) / a_length;
  if (cosine < kAntiparallel) {
    add_scaled(size, -2 * along_a / a_length, a.data(), v->data());
    return false;
  }
  const Real along_b = dot(size, v->data(), b.data()) / b_length;
  const Real share = (along_a + along_b) / (1 + cosine);
  add_scaled(size, -share / a_length, a.data(), v->data());
  add_scaled(size, (2 * along_a - share) / b_length, b.data(), v->data());
  return true;
}

bool place_control(CurveControl how, const DelayedCurve& curve, std::vector<Real>* out) {
  const size_t size = curve.current.size();
  std::vector<Real> placed = curve.control;
  if (how != CurveControl::kRotate) {
    add_scaled(size, 1, (how == CurveControl::kNone ? curve.base : curve.current).data(), placed.data());
    *out = std::move(placed);
    return true;
  }
  std::vector<Real> way(size);
  for (size_t e = 0; e < size; ++e) {
    placed[e] = curve.control[e] - curve.displacement[e] / 2;
    way[e] = curve.that[e] - curve.current[e];
  }
  const bool is_rotated = rotate(curve.displacement, way, &placed);
  for (size_t e = 0; e < size; ++e) {
    placed[e] += curve.current[e] + way[e] / 2;
  }
  *out = std::move(placed);
  return is_rotated;
}

}  // namespace gradstream

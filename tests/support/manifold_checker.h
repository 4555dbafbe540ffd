// What every manifold must pass: one call of check_manifold() for each shape of interest. Adding a manifold means
// adding a test that calls it; a property that a manifold does not have is switched off in ManifoldCheck, in sight.
//
// Every operation runs twice, in an arena of exactly scratch_size() bytes filled with two different patterns: so
// scratch that is too small, results that depend on old memory and results that are not repeatable all fail.
#ifndef GRADSTREAM_TESTS_SUPPORT_MANIFOLD_CHECKER_H_
#define GRADSTREAM_TESTS_SUPPORT_MANIFOLD_CHECKER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream::testing {

inline constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();
inline constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

struct ManifoldCheck {
  const ManifoldOps& ops;
  Shape shape;
  uint32_t seed = 1;
  // Largest entry of what should be zero up to rounding.
  Real tolerance = 64 * kEpsilon;
  // 2: R_x(tv) leaves the geodesic at O(t^3), measured by the tangent part of its second difference and, with a
  // reference, by the slope of the error. 1: by the slope only.
  int retraction_order = 2;
  // The metric is that of the embedding, so that the second difference measures the acceleration.
  bool is_embedded = true;
  // 0: inverse_retract inverts to rounding. k: it differs from the inverse by at most 2 |v|^k.
  int inverse_order = 0;
  // False for a product of which a part has no exp_map or no log_map.
  bool has_exponential = true;
  // Another table of the same manifold whose exp_map is what this one's retraction is held against; null: its own.
  const ManifoldOps* reference = nullptr;
  // For a manifold whose numbers are factors of a matrix: that matrix, the matrix of a tangent vector v at x, and the
  // gradient by the numbers of x from the gradient by the matrix. Empty: the numbers are the matrix.
  std::function<std::vector<Real>(const std::vector<Real>& x)> dense = {};
  std::function<std::vector<Real>(const std::vector<Real>& x, const std::vector<Real>& v)> dense_tangent = {};
  std::function<std::vector<Real>(const std::vector<Real>& x, const std::vector<Real>& g)> pull_gradient = {};
};

class ManifoldChecker {
 public:
  using Vector = std::vector<Real>;

  explicit ManifoldChecker(const ManifoldCheck& check)
      : check_(check),
        ops_(check.ops),
        shape_(check.shape),
        size_(check.shape.size()),
        memory_(check.ops.scratch_size(check.shape) / sizeof(uint64_t)) {}

  void run() {
    ASSERT_EQ(ops_.check_shape(shape_), Status::kOk);
    ASSERT_EQ(ops_.scratch_size(shape_) % kArenaAlignment, 0u);
    x_ = random_point(0);
    check_points();
    check_tangents();
    check_inner();
    check_gradient();
    check_retraction();
    if (check_.retraction_order >= 2 && check_.is_embedded) {
      check_second_order();
    }
    check_slope();
    check_inverse(static_cast<Real>(0.3));
    check_inverse(static_cast<Real>(0.01));
    check_exponential();
    check_transport();
    check_distance();
    check_distance_gradient();
    check_aliasing();
  }

 private:
  // Runs operation(out, arena) twice and returns the result.
  template <typename Operation>
  Vector call(const char* name, Operation operation) {
    Vector first(size_), second(size_);
    for (Vector* out : {&first, &second}) {
      const uint64_t pattern = out == &first ? 0xFFFFFFFFFFFFFFFF : 0x3C3C3C3C3C3C3C3C;
      std::fill(memory_.begin(), memory_.end(), pattern);
      Arena arena(memory_.data(), memory_.size() * sizeof(uint64_t));
      const size_t free_size = arena.free_size();
      EXPECT_EQ(operation(out->data(), arena), Status::kOk) << name;
      EXPECT_EQ(arena.free_size(), free_size) << name << " keeps memory";
    }
    EXPECT_TRUE(same_bits(first, second)) << name << " is not repeatable";
    return first;
  }
  Vector random_point(uint32_t step) {
    const RandomKey key{check_.seed, RandomDomain::kInitialPoint, 0, 0, step};
    return call("random_point", [&](Real* out, Arena& arena) { return ops_.random_point(shape_, key, out, arena); });
  }
  Vector project_point(const Vector& z) {
    return call("project_point",
                [&](Real* out, Arena& arena) { return ops_.project_point(shape_, z.data(), out, arena); });
  }
  Vector project_tangent(const Vector& x, const Vector& g) {
    return call("project_tangent",
                [&](Real* out, Arena& arena) { return ops_.project_tangent(shape_, x.data(), g.data(), out, arena); });
  }
  Vector retract(const Vector& x, const Vector& v) {
    return call("retract",
                [&](Real* out, Arena& arena) { return ops_.retract(shape_, x.data(), v.data(), out, arena); });
  }
  Vector inverse_retract(const Vector& x, const Vector& y) {
    return call("inverse_retract",
                [&](Real* out, Arena& arena) { return ops_.inverse_retract(shape_, x.data(), y.data(), out, arena); });
  }
  Vector transport(const Vector& x, const Vector& y, const Vector& v) {
    return call("transport", [&](Real* out, Arena& arena) {
      return ops_.transport(shape_, x.data(), y.data(), v.data(), out, arena);
    });
  }
  Real inner(const Vector& x, const Vector& v, const Vector& w) {
    Real value = 0;
    call("inner", [&](Real*, Arena& arena) {
      const Result<Real> result = ops_.inner(shape_, x.data(), v.data(), w.data(), arena);
      value = result.ok() ? result.value() : std::numeric_limits<Real>::quiet_NaN();
      return result.status();
    });
    return value;
  }
  Real distance(const Vector& x, const Vector& y) {
    Real value = 0;
    call("distance", [&](Real*, Arena& arena) {
      const Result<Real> result = ops_.distance(shape_, x.data(), y.data(), arena);
      value = result.ok() ? result.value() : std::numeric_limits<Real>::quiet_NaN();
      return result.status();
    });
    return value;
  }
  Vector ambient(uint32_t step) {
    Vector out(size_);
    fill_normal({check_.seed, RandomDomain::kData, 0, 0, step}, 0, size_, out.data());
    return out;
  }
  // A tangent vector at x of length 1.
  Vector unit_tangent(const Vector& x, uint32_t step) {
    Vector v = project_tangent(x, ambient(step));
    return combine(1 / std::sqrt(inner(x, v, v)), v, 0, v);
  }

  Vector dense(const Vector& x) const { return check_.dense ? check_.dense(x) : x; }

  static bool same_bits(const Vector& a, const Vector& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
  }
  static Vector combine(Real a, const Vector& x, Real b, const Vector& y) {
    Vector out(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      out[i] = a * x[i] + b * y[i];
    }
    return out;
  }
  static Real largest(const Vector& x) {
    Real most = 0;
    for (const Real value : x) {
      most = std::isnan(most) || std::fabs(value) <= most ? most : std::fabs(value);  // a NaN is kept
    }
    return most;
  }
  static Real largest_difference(const Vector& x, const Vector& y) { return largest(combine(1, x, -1, y)); }
  void expect_near(const Vector& x, const Vector& y, const char* what, Real factor = 1) const {
    const Real scale = 1 + largest(y);
    EXPECT_LE(largest_difference(x, y), check_.tolerance * factor * scale) << what;
  }

  void check_points() {
    expect_near(project_point(x_), x_, "a random point lies on the manifold");
    const Vector off = combine(1, x_, static_cast<Real>(0.1), combine(1 / std::sqrt(Real(size_)), ambient(1), 0, x_));
    const Vector projected = project_point(off);
    expect_near(project_point(projected), projected, "project_point is idempotent");
    EXPECT_FALSE(same_bits(random_point(1), x_)) << "two keys give the same point";
  }

  void check_tangents() {
    const Vector g = ambient(2);
    const Vector v = project_tangent(x_, g);
    expect_near(project_tangent(x_, v), v, "project_tangent is idempotent");
    // Moving along a tangent vector leaves the manifold at second order only.
    const Real t = kIsDouble ? Real(1e-4) : Real(1e-2);
    const Vector u = unit_tangent(x_, 3);
    const Vector moved = combine(1, x_, t, u);
    EXPECT_LE(largest_difference(project_point(moved), moved), 4 * t * t) << "project_tangent is not tangent";
  }

  void check_inner() {
    const Vector v = unit_tangent(x_, 4), w = unit_tangent(x_, 5);
    EXPECT_NEAR(inner(x_, v, w), inner(x_, w, v), check_.tolerance);
    EXPECT_GT(inner(x_, v, v), 0);
    EXPECT_GT(inner(x_, w, w), 0);
    const Vector sum = combine(2, v, -3, w);
    EXPECT_NEAR(inner(x_, sum, w), 2 * inner(x_, v, w) - 3 * inner(x_, w, w), 4 * check_.tolerance);
  }

  // f(z) = sum c_i z_i + d_i z_i^2 / 2 in double.
  double cost(const Vector& c, const Vector& d, const Vector& z) const {
    double sum = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      const double value = static_cast<double>(z[i]);
      sum += static_cast<double>(c[i]) * value + static_cast<double>(d[i]) * value * value / 2;
    }
    return sum;
  }

  static constexpr Real kDifferenceStep = kIsDouble ? static_cast<Real>(1e-5) : static_cast<Real>(1e-2);
  static constexpr Real kDifferenceTolerance = kIsDouble ? static_cast<Real>(1e-8) : static_cast<Real>(1e-3);

  void check_gradient() {
    const Vector matrix = dense(x_), v = unit_tangent(x_, 8);
    Vector c(matrix.size()), d(matrix.size()), g(matrix.size());
    fill_normal({check_.seed, RandomDomain::kData, 0, 0, 6}, 0, c.size(), c.data());
    fill_normal({check_.seed, RandomDomain::kData, 0, 0, 7}, 0, d.size(), d.data());
    for (size_t i = 0; i < g.size(); ++i) {
      g[i] = c[i] + d[i] * matrix[i];
    }
    const double scale = 1 + std::sqrt(static_cast<double>(dot(g.size(), g.data(), g.data())));
    g = check_.pull_gradient ? check_.pull_gradient(x_, g) : g;
    const Vector gradient = call("riemannian_gradient", [&](Real* out, Arena& arena) {
      return ops_.riemannian_gradient(shape_, x_.data(), g.data(), out, arena);
    });
    expect_near(project_tangent(x_, gradient), gradient, "riemannian_gradient is tangent");
    const double t = static_cast<double>(kDifferenceStep);
    const double forward = cost(c, d, dense(retract(x_, combine(kDifferenceStep, v, 0, v))));
    const double backward = cost(c, d, dense(retract(x_, combine(-kDifferenceStep, v, 0, v))));
    EXPECT_NEAR(static_cast<double>(inner(x_, gradient, v)), (forward - backward) / (2 * t),
                static_cast<double>(kDifferenceTolerance) * scale)
        << "<gradient, v> is not the derivative of the cost";
  }

  void check_retraction() {
    const Vector zero(size_, 0), v = unit_tangent(x_, 9);
    expect_near(retract(x_, zero), x_, "R_x(0) = x");
    const Vector y = retract(x_, v);
    expect_near(project_point(y), y, "a retraction lands on the manifold");
    const Real t = kDifferenceStep;
    const Vector forward = dense(retract(x_, combine(t, v, 0, v))), backward = dense(retract(x_, combine(-t, v, 0, v)));
    const Vector velocity = check_.dense_tangent ? check_.dense_tangent(x_, v) : v;
    EXPECT_LE(largest_difference(combine(1 / (2 * t), forward, -1 / (2 * t), backward), velocity), kDifferenceTolerance)
        << "the derivative of R_x at 0 is not the identity";
  }

  void check_second_order() {
    const Vector v = unit_tangent(x_, 10);
    for (const Real t : {Real(0.1), Real(0.03), Real(0.01)}) {
      const Vector sum = combine(1, retract(x_, combine(t, v, 0, v)), 1, retract(x_, combine(-t, v, 0, v)));
      const Vector acceleration = project_tangent(x_, combine(1, sum, -2, x_));
      EXPECT_LE(largest(acceleration), t * t * t + check_.tolerance) << "not of second order at " << t;
    }
  }

  // A retraction of order k leaves the geodesic by O(t^(k + 1)): the slope of log error over log t says k.
  void check_slope() {
    const ManifoldOps& reference = check_.reference == nullptr ? ops_ : *check_.reference;
    if (reference.exp_map == nullptr || !check_.has_exponential) {
      return;
    }
    std::vector<uint64_t> memory(reference.scratch_size(shape_) / sizeof(uint64_t));
    Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
    const Vector unit = unit_tangent(x_, 19);
    const auto error = [&](Real t) {
      const Vector v = combine(t, unit, 0, unit);
      Vector geodesic(size_);
      EXPECT_EQ(reference.exp_map(shape_, x_.data(), v.data(), geodesic.data(), arena), Status::kOk);
      const Vector gap = combine(1, retract(x_, v), -1, geodesic);
      return std::sqrt(dot(size_, gap.data(), gap.data()));
    };
    const Real t = kIsDouble ? static_cast<Real>(0.01) : static_cast<Real>(0.2);
    const Real near = error(t), far = error(2 * t);
    if (ops_.retraction_kind == RetractionKind::kExponential || ops_.id == ManifoldId::kProduct) {
      EXPECT_LE(far, check_.tolerance) << "the exponential retraction is not exp_map";
      return;
    }
    EXPECT_GE(std::log2(far / near), static_cast<Real>(check_.retraction_order) + static_cast<Real>(0.7))
        << "of lower order than stated: errors " << near << " and " << far;
  }

  // exp and log undo each other, and both agree with the metric and the distance.
  void check_exponential() {
    if (ops_.exp_map == nullptr || ops_.log_map == nullptr || !check_.has_exponential) {
      return;
    }
    const auto exp_map = [&](const Vector& x, const Vector& v) {
      return call("exp_map",
                  [&](Real* out, Arena& arena) { return ops_.exp_map(shape_, x.data(), v.data(), out, arena); });
    };
    const auto log_map = [&](const Vector& x, const Vector& y) {
      return call("log_map",
                  [&](Real* out, Arena& arena) { return ops_.log_map(shape_, x.data(), y.data(), out, arena); });
    };
    expect_near(exp_map(x_, Vector(size_, 0)), x_, "Exp_x(0) = x");
    EXPECT_LE(largest(log_map(x_, x_)), check_.tolerance) << "Log_x(x) = 0";
    const Vector unit = unit_tangent(x_, 20);
    for (const Real length : {Real(0.01), Real(0.3), Real(0.75)}) {  // twice the last stays below pi / 2
      const Vector v = combine(length, unit, 0, unit), y = exp_map(x_, v), found = log_map(x_, y);
      expect_near(project_point(y), y, "Exp lands on the manifold");
      expect_near(project_tangent(x_, found), found, "Log is tangent");
      expect_near(found, v, "Log undoes Exp", 2);
      EXPECT_NEAR(distance(x_, y), length, check_.tolerance) << "distance is not the length of Log";
      EXPECT_NEAR(distance(x_, exp_map(x_, combine(2, v, 0, v))), 2 * length, 2 * check_.tolerance)
          << "Exp does not follow a geodesic at constant speed";
    }
  }

  void check_inverse(Real length) {
    const Vector unit = unit_tangent(x_, 11), v = combine(length, unit, 0, unit);
    const Vector y = retract(x_, v), found = inverse_retract(x_, y);
    expect_near(project_tangent(x_, found), found, "inverse_retract is tangent");
    const Real allowed = check_.inverse_order == 0 ? 0 : 2 * std::pow(length, Real(check_.inverse_order));
    EXPECT_LE(largest_difference(found, v), allowed + check_.tolerance) << "inverse_retract at " << length;
    EXPECT_LE(largest_difference(retract(x_, found), y), allowed + check_.tolerance) << "R(R^-1) at " << length;
  }

  void check_transport() {
    const Vector step = unit_tangent(x_, 12);
    const Vector y = retract(x_, combine(static_cast<Real>(0.5), step, 0, step));
    const Vector v = unit_tangent(x_, 13), w = unit_tangent(x_, 14);
    const Vector moved_v = transport(x_, y, v), moved_w = transport(x_, y, w);
    expect_near(project_tangent(y, moved_v), moved_v, "transport is tangent");
    expect_near(transport(x_, y, combine(2, v, -1, w)), combine(2, moved_v, -1, moved_w), "transport is linear", 2);
    expect_near(transport(x_, x_, v), v, "transport from x to x is the identity");
    if (has_isometric_transport(ops_, shape_)) {
      EXPECT_NEAR(inner(y, moved_v, moved_w), inner(x_, v, w), check_.tolerance);
      EXPECT_NEAR(inner(y, moved_v, moved_v), inner(x_, v, v), check_.tolerance);
      expect_near(transport(y, x_, moved_v), v, "there and back is the identity", 2);
    }
  }

  void check_distance() {
    const Vector v = unit_tangent(x_, 15);
    const Real t = static_cast<Real>(0.05);
    const Vector y = retract(x_, combine(t, v, 0, v));
    EXPECT_LE(distance(x_, x_), check_.tolerance);
    const Real there = distance(x_, y);
    EXPECT_NEAR(there, distance(y, x_), check_.tolerance);
    EXPECT_NEAR(there, t, t * t / 2) << "distance disagrees with the metric";
  }

  // Of d(x, y)^2 / 2: its derivative along tangents, -log_x(y) where there is one, and nothing at y itself.
  void check_distance_gradient() {
    if (!has_distance_gradient(ops_, shape_)) {
      return;
    }
    const auto gradient_towards = [&](const Vector& y) {
      const Vector g = call("distance_gradient", [&](Real* out, Arena& arena) {
        return ops_.distance_gradient(shape_, x_.data(), y.data(), out, arena);
      });
      return call("riemannian_gradient", [&](Real* out, Arena& arena) {
        return ops_.riemannian_gradient(shape_, x_.data(), g.data(), out, arena);
      });
    };
    const Vector step = unit_tangent(x_, 21);
    const Vector y = retract(x_, combine(static_cast<Real>(0.7), step, 0, step));
    const Vector gradient = gradient_towards(y);
    const Real t = kDifferenceStep;
    for (uint32_t k = 0; k < 4; ++k) {
      const Vector v = k == 0 ? step : unit_tangent(x_, 21 + k);
      const Real forward = distance(retract(x_, combine(t, v, 0, v)), y);
      const Real backward = distance(retract(x_, combine(-t, v, 0, v)), y);
      EXPECT_NEAR(inner(x_, gradient, v), (forward - backward) * (forward + backward) / (4 * t), kDifferenceTolerance)
          << "distance_gradient is not the derivative, direction " << k;
    }
    if (ops_.log_map != nullptr && check_.has_exponential) {
      const Vector log = call(
          "log_map", [&](Real* out, Arena& arena) { return ops_.log_map(shape_, x_.data(), y.data(), out, arena); });
      expect_near(gradient, combine(-1, log, 0, log), "distance_gradient is not -log", 4);
    }
    EXPECT_EQ(largest(gradient_towards(x_)), 0) << "distance_gradient at the point itself";
  }

  void check_aliasing() {
    const Vector z = combine(1, x_, static_cast<Real>(0.01), ambient(16)), g = ambient(17);
    const Vector v = unit_tangent(x_, 18), y = retract(x_, v);
    const auto in_place = [&](const char* name, const Vector& expected, const Vector& input, auto operation) {
      const Vector out = call(name, [&](Real* buffer, Arena& arena) {
        std::memcpy(buffer, input.data(), size_ * sizeof(Real));
        return operation(buffer, arena);
      });
      EXPECT_TRUE(same_bits(out, expected)) << name << " in place differs";
    };
    in_place("project_point(z = out)", project_point(z), z,
             [&](Real* b, Arena& arena) { return ops_.project_point(shape_, b, b, arena); });
    in_place("project_tangent(g = out)", project_tangent(x_, g), g,
             [&](Real* b, Arena& arena) { return ops_.project_tangent(shape_, x_.data(), b, b, arena); });
    in_place("retract(x = out)", retract(x_, v), x_,
             [&](Real* b, Arena& arena) { return ops_.retract(shape_, b, v.data(), b, arena); });
    in_place("retract(v = out)", retract(x_, v), v,
             [&](Real* b, Arena& arena) { return ops_.retract(shape_, x_.data(), b, b, arena); });
    in_place("transport(v = out)", transport(x_, y, v), v,
             [&](Real* b, Arena& arena) { return ops_.transport(shape_, x_.data(), y.data(), b, b, arena); });
    const Vector gradient = call("riemannian_gradient", [&](Real* out, Arena& arena) {
      return ops_.riemannian_gradient(shape_, x_.data(), g.data(), out, arena);
    });
    in_place("riemannian_gradient(g = out)", gradient, g,
             [&](Real* b, Arena& arena) { return ops_.riemannian_gradient(shape_, x_.data(), b, b, arena); });
  }

  const ManifoldCheck check_;
  const ManifoldOps& ops_;
  const Shape shape_;
  const size_t size_;
  std::vector<uint64_t> memory_;
  Vector x_;
};

inline void check_manifold(const ManifoldCheck& check) {
  SCOPED_TRACE(::testing::Message() << check.ops.name << " retraction " << static_cast<int>(check.ops.retraction_kind)
                                    << " transport " << static_cast<int>(check.ops.transport_kind) << " "
                                    << check.shape.rows << " x " << check.shape.cols << " seed " << check.seed);
  ManifoldChecker(check).run();
}

// Expects out to equal the golden figures, entry by entry, to 1e-12 in double and 2e-6 in float.
template <size_t kCount>
void expect_golden(const double (&golden)[kCount], const std::vector<Real>& out) {
  ASSERT_EQ(out.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(static_cast<double>(out[i]), golden[i], kIsDouble ? 1e-12 : 2e-6) << "entry " << i;
  }
}

template <size_t kCount>
std::vector<Real> to_reals(const double (&golden)[kCount]) {
  return std::vector<Real>(golden, golden + kCount);
}

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_SUPPORT_MANIFOLD_CHECKER_H_

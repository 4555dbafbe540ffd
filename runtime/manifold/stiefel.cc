// The Stiefel manifold St(p, n) = {X: n x p, X'X = I} with the metric of the embedding, tr(V'W).
//
// project_point    polar factor A (A'A)^(-1/2)
// retract          polar factor of X + V, for tangent V (X + V)(I + V'V)^(-1/2); second order
// inverse_retract  inverse of the polar retraction: V = Y S - X, S symmetric with X'Y S + S Y'X = 2 I. Exists where
//                  every eigenvalue of X'Y has a positive real part; unique there
// transport        projection to T_Y, V - Y sym(Y'V); not isometric. The parallelization with a Householder complement
//                  is isometric but jumps when a sign of its QR changes, and trained worse (docs/algorithms.md)
// distance         norm of the inverse retraction: d (1 + O(d^2)) for the geodesic distance d
#include <cmath>

#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

struct Stiefel {
  static constexpr ManifoldId kId = ManifoldId::kStiefel;
  static constexpr const char* kName = "stiefel";
  static constexpr bool kReproducible = true;
  static constexpr bool kIsometricTransport = false;

  static Status check_shape(Shape shape) {
    const bool fits =
        shape.cols >= 1 && shape.cols <= shape.rows && shape.cols <= kStiefelColsMax && shape.rows <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) {
    return shape.size() - static_cast<size_t>(shape.cols) * (shape.cols + size_t{1}) / 2;
  }
  static size_t scratch_size(Shape shape) {
    const size_t inverse = Arena::taken_size<Real>(2 * square_size(shape)) + lyapunov_scratch_size(shape.cols);
    const size_t polar = polar_scratch_size(shape);
    return inverse > polar ? inverse : polar;
  }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    return polar_factor(shape, z, out, arena);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> normal = arena.scratch<Real>(square_size(shape));
    GS_TRY(normal.status());
    multiply_transposed(shape, x, g, normal.value());
    symmetrize(shape.cols, normal.value());
    subtract_multiply_right(shape, x, normal.value(), g, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return project_tangent(shape, x, g, out, arena);
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    for (size_t i = 0; i < shape.size(); ++i) {
      out[i] = x[i] + v[i];
    }
    return polar_factor(shape, out, out, arena);
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(2 * square_size(shape));
    GS_TRY(scratch.status());
    Real* const row = scratch.value();
    Real* const correction = row + square_size(shape);
    GS_TRY(inverse_correction(shape, x, y, row, correction, arena));
    for (size_t at = 0; at < shape.size(); at += shape.cols) {
      inverse_row(shape.cols, x + at, y + at, correction, row);
      copy(shape.cols, row, out + at);
    }
    return Status::kOk;
  }
  static Status transport(Shape shape, const Real*, const Real* y, const Real* v, Real* out, Arena& arena) {
    return project_tangent(shape, y, v, out, arena);
  }
  static Real inner(Shape shape, const Real*, const Real* v, const Real* w) { return dot(shape.size(), v, w); }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(2 * square_size(shape));
    if (!scratch.ok()) {
      return scratch.status();
    }
    Real* const row = scratch.value();
    Real* const correction = row + square_size(shape);
    const Status status = inverse_correction(shape, x, y, row, correction, arena);
    if (status != Status::kOk) {
      return status;
    }
    Real squared = 0;
    for (size_t at = 0; at < shape.size(); at += shape.cols) {
      inverse_row(shape.cols, x + at, y + at, correction, row);
      squared += dot(shape.cols, row, row);
    }
    return std::sqrt(squared);
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return polar_factor(shape, out, out, arena);
  }

 private:
  static size_t square_size(Shape shape) { return static_cast<size_t>(shape.cols) * shape.cols; }
  // E of V = D + Y E, where D = Y - X and S = I + E: X'Y E + E Y'X = D'D, since 2 I - X'Y - Y'X = D'D. This form of
  // the inverse does not cancel for near points. mixed: cols^2 Reals.
  static Status inverse_correction(Shape shape, const Real* x, const Real* y, Real* mixed, Real* out, Arena& arena) {
    const size_t cols = shape.cols;
    multiply_transposed(shape, x, y, mixed);
    fill_zero(square_size(shape), out);
    for (size_t at = 0; at < shape.size(); at += cols) {
      for (size_t i = 0; i < cols; ++i) {
        for (size_t j = 0; j < cols; ++j) {
          out[i * cols + j] += (y[at + i] - x[at + i]) * (y[at + j] - x[at + j]);
        }
      }
    }
    return solve_lyapunov(shape.cols, mixed, out, out, arena);
  }
  // One row of V from one row of X and Y.
  static void inverse_row(uint32_t cols, const Real* x, const Real* y, const Real* correction, Real* out) {
    multiply_right({1, cols}, y, correction, out);
    for (size_t c = 0; c < cols; ++c) {
      out[c] += y[c] - x[c];
    }
  }
  static void symmetrize(size_t n, Real* s) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const Real mean = (s[i * n + j] + s[j * n + i]) / 2;
        s[i * n + j] = mean;
        s[j * n + i] = mean;
      }
    }
  }
};

}  // namespace

constexpr ManifoldOps kStiefelOps = make_manifold_ops<Stiefel>();

}  // namespace gradstream

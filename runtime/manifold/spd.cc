// Symmetric positive definite n x n matrices with the affine-invariant metric <U, V>_X = tr(X^-1 U X^-1 V).
//
// Every operation goes through X = L L' (Cholesky) and A = L^-1 V L'^-1. That gives the values of the works' symmetric
// root at a third of its cost, and keeps the digits of badly scaled points. Results are symmetric bit for bit.
//
// project_point    the symmetric part, where it is positive definite; the set is open, so nothing else is nearest
// project_tangent  sym(G); riemannian_gradient X sym(G) X
// retract          exponential, the default: L exp(A) L'; not reproducible. Or second_order: X + V + V X^-1 V / 2 =
//                  L (I + A + A^2 / 2) L', always definite
// inverse_retract  of the exponential log_map: L log(B) L', B = L^-1 Y L'^-1; of second_order
//                  L ((2 B - I)^(1/2) - I) L', kSingular unless every eigenvalue of B is above 1/2
// exp_map, log_map in the exponential variant
// transport        parallel: E V E', E = (Y X^-1)^(1/2) = L B^(1/2) L^-1; isometric
// distance         |log B|
//
// A point that lost definiteness, whether it came in or would go out, is refused with kSingular.
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "runtime/base/decompositions.h"
#include "runtime/base/equations.h"
#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

size_t square_size(Shape shape) { return static_cast<size_t>(shape.rows) * shape.rows; }

// out <- sym(g); out may be g.
void symmetric_part(Shape shape, const Real* g, Real* out) {
  if (out != g) {
    copy(square_size(shape), g, out);
  }
  symmetrize(shape.rows, out);
}

// out <- the symmetric part of A B'; b becomes B'. out aliases neither.
void symmetric_product(uint32_t n, const Real* a, Real* b, Real* out) {
  transpose_square(n, b);
  multiply_right({n, n}, a, b, out);
  symmetrize(n, out);
}

// out <- A S A' for symmetric S, symmetric bit for bit; work: n^2 Reals. out may be s.
void congruence(uint32_t n, const Real* a, const Real* s, Real* work, Real* out) {
  multiply_right({n, n}, a, s, work);
  symmetric_product(n, a, work, out);
}

// The four n x n arrays and one column that every operation works in.
struct Work {
  Real* l = nullptr;
  Real* a = nullptr;
  Real* q = nullptr;
  Real* work = nullptr;
  Real* w = nullptr;
};

Result<Real*> take(Shape shape, Arena& arena, Work* out) {
  const size_t size = square_size(shape);
  const Result<Real*> scratch = arena.scratch<Real>(4 * size + shape.rows);
  if (scratch.ok()) {
    Real* const begin = scratch.value();
    *out = {begin, begin + size, begin + 2 * size, begin + 3 * size, begin + 4 * size};
  }
  return scratch;
}

// l <- L of x, a <- L^-1 V L'^-1.
Status whiten(Shape shape, const Real* x, const Real* v, const Work& s) {
  GS_TRY(cholesky(shape.rows, x, s.l));
  symmetric_part(shape, v, s.a);
  congruence_inverse(shape.rows, s.l, s.a, s.a);
  return all_finite(square_size(shape), s.a) ? Status::kOk : Status::kNotFinite;
}

// As whiten, of Y - X: eigenvalues e of B - I into w, eigenvectors into q. Near points keep their digits.
Status whiten_difference(Shape shape, const Real* x, const Real* y, const Work& s) {
  GS_TRY(cholesky(shape.rows, x, s.l));
  for (size_t i = 0; i < square_size(shape); ++i) {
    s.a[i] = y[i] - x[i];
  }
  symmetrize(shape.rows, s.a);
  congruence_inverse(shape.rows, s.l, s.a, s.a);
  if (!all_finite(square_size(shape), s.a)) {
    return Status::kNotFinite;
  }
  GS_TRY(symmetric_eigen(shape.rows, s.a, s.w, s.q));
  const bool is_definite = 1 + s.w[0] > kDefiniteTolerance * (1 + s.w[shape.rows - 1]);
  return is_definite ? Status::kOk : Status::kSingular;
}

// out <- (L Q) diag(w) (L Q)'. out may be q.
void unwhiten(Shape shape, const Work& s, Real* out) {
  const uint32_t n = shape.rows;
  multiply_right({n, n}, s.l, s.q, s.work);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      s.a[i * n + j] = s.work[i * n + j] * s.w[j];
    }
  }
  symmetric_product(n, s.work, s.a, out);
}

// a <- L'^-1 A.
[[maybe_unused]] void solve_transposed(uint32_t n, const Real* l, Real* a) {
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) {
      add_scaled(n, -l[k * n + i], a + k * n, a + i * n);
    }
    scale(n, 1 / l[i * n + i], a + i * n);
  }
}

template <RetractionKind kR>
struct Spd {
  static constexpr ManifoldId kId = ManifoldId::kSpd;
  static constexpr const char* kName = "spd";
  static constexpr RetractionKind kRetraction = kR;
  static constexpr TransportKind kTransport = TransportKind::kParallel;
  static constexpr RetractionKind kDefaultRetraction = RetractionKind::kExponential;
  static constexpr TransportKind kDefaultTransport = TransportKind::kParallel;
  static constexpr bool kReproducible = kR == RetractionKind::kSecondOrder;
  static constexpr bool kIsometricTransport = true;

  static Status check_shape(Shape shape) {
    const bool fits = shape.rows >= 1 && shape.rows == shape.cols && shape.rows <= kSpdRowsMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return static_cast<size_t>(shape.rows) * (shape.rows + size_t{1}) / 2; }
  static size_t scratch_size(Shape shape) { return Arena::taken_size<Real>(4 * square_size(shape) + shape.rows); }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    symmetric_part(shape, z, out);
    return check_definite(shape, out, arena);
  }
  static Status project_tangent(Shape shape, const Real*, const Real* g, Real* out, Arena&) {
    symmetric_part(shape, g, out);
    return Status::kOk;
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> work = arena.scratch<Real>(square_size(shape));
    GS_TRY(work.status());
    symmetric_part(shape, g, out);
    congruence(shape.rows, x, out, work.value(), out);
    return Status::kOk;
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    if constexpr (kR == RetractionKind::kExponential) {
      return exponential(shape, x, v, out, arena);
    }
    const uint32_t n = shape.rows;
    {
      ScratchScope scope(arena);
      Work s;
      GS_TRY(take(shape, arena, &s).status());
      GS_TRY(whiten(shape, x, v, s));
      multiply_right({n, n}, s.a, s.a, s.q);
      add_scaled(square_size(shape), static_cast<Real>(0.5), s.q, s.a);
      congruence(n, s.l, s.a, s.work, s.q);
      for (size_t i = 0; i < square_size(shape); ++i) {
        out[i] = x[i] + s.q[i];
      }
      symmetrize(n, out);
    }
    return check_definite(shape, out, arena);
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    if constexpr (kR == RetractionKind::kExponential) {
      return logarithm(shape, x, y, out, arena);
    }
    ScratchScope scope(arena);
    Work s;
    GS_TRY(take(shape, arena, &s).status());
    GS_TRY(whiten_difference(shape, x, y, s));
    for (size_t i = 0; i < shape.rows; ++i) {
      const Real twice = 2 * s.w[i];
      if (!(1 + twice > 0)) {
        return Status::kSingular;
      }
      s.w[i] = twice / (1 + std::sqrt(1 + twice));  // (1 + 2 e)^(1/2) - 1
    }
    unwhiten(shape, s, out);
    return Status::kOk;
  }
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out,
                        Arena& arena) requires(kR == RetractionKind::kExponential) {
    return exponential(shape, x, v, out, arena);
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out,
                        Arena& arena) requires(kR == RetractionKind::kExponential) {
    return logarithm(shape, x, y, out, arena);
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    const uint32_t n = shape.rows;
    ScratchScope scope(arena);
    Work s;
    GS_TRY(take(shape, arena, &s).status());
    GS_TRY(whiten_difference(shape, x, y, s));
    for (size_t i = 0; i < n; ++i) {
      s.w[i] = std::sqrt(1 + s.w[i]);
    }
    // q <- L B^(1/2) = L Q diag(w) Q', then out <- q (L^-1 V L'^-1) q'.
    multiply_right({n, n}, s.l, s.q, s.work);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        s.work[i * n + j] *= s.w[j];
      }
    }
    transpose_square(n, s.q);
    multiply_right({n, n}, s.work, s.q, s.a);
    symmetric_part(shape, v, s.work);
    congruence_inverse(n, s.l, s.work, s.work);
    congruence(n, s.a, s.work, s.q, s.work);
    copy(square_size(shape), s.work, out);
    return Status::kOk;
  }
  static Result<Real> inner(Shape shape, const Real* x, const Real* v, const Real* w, Arena& arena) {
    ScratchScope scope(arena);
    Work s = {};
    Status status = take(shape, arena, &s).status();
    status = status == Status::kOk ? whiten(shape, x, v, s) : status;
    if (status != Status::kOk) {
      return status;
    }
    symmetric_part(shape, w, s.q);
    congruence_inverse(shape.rows, s.l, s.q, s.q);
    return dot(square_size(shape), s.a, s.q);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena& arena) {
    ScratchScope scope(arena);
    Work s = {};
    Status status = take(shape, arena, &s).status();
    status = status == Status::kOk ? whiten_difference(shape, x, y, s) : status;
    if (status != Status::kOk) {
      return status;
    }
    for (size_t i = 0; i < shape.rows; ++i) {
      s.w[i] = std::log1p(s.w[i]);
    }
    return norm2(shape.rows, s.w);
  }
  // -X^-1 log_X(Y) X^-1 = -L'^-1 log(B) L^-1.
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    const uint32_t n = shape.rows;
    ScratchScope scope(arena);
    Work s;
    GS_TRY(take(shape, arena, &s).status());
    GS_TRY(whiten_difference(shape, x, y, s));
    solve_transposed(n, s.l, s.q);
    for (size_t j = 0; j < n; ++j) {
      const Real value = -std::log1p(s.w[j]);
      for (size_t i = 0; i < n; ++i) {
        s.a[i * n + j] = value * s.q[i * n + j];
      }
    }
    symmetric_product(n, s.q, s.a, out);
    return Status::kOk;
  }
  // B B' / n + I / 2, B of normals.
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    const uint32_t n = shape.rows;
    ScratchScope scope(arena);
    const Result<Real*> normals = arena.scratch<Real>(square_size(shape));
    GS_TRY(normals.status());
    fill_normal(key, 0, square_size(shape), normals.value());
    multiply_by_transpose(n, n, n, normals.value(), normals.value(), out);
    scale(square_size(shape), 1 / static_cast<Real>(n), out);
    for (size_t i = 0; i < n; ++i) {
      out[i * n + i] += static_cast<Real>(0.5);
    }
    return Status::kOk;
  }

 private:
  static Status check_definite(Shape shape, const Real* x, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> factor = arena.scratch<Real>(square_size(shape));
    GS_TRY(factor.status());
    return cholesky(shape.rows, x, factor.value());
  }
  static Status exponential(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    {
      ScratchScope scope(arena);
      Work s;
      GS_TRY(take(shape, arena, &s).status());
      GS_TRY(whiten(shape, x, v, s));
      GS_TRY(symmetric_eigen(shape.rows, s.a, s.w, s.q));
      // exp(A) - I where that does not cancel: short steps then lose nothing of x.
      const bool is_short = s.w[0] > -1;
      for (size_t i = 0; i < shape.rows; ++i) {
        s.w[i] = is_short ? std::expm1(s.w[i]) : std::exp(s.w[i]);
      }
      unwhiten(shape, s, s.q);
      for (size_t i = 0; i < square_size(shape); ++i) {
        out[i] = is_short ? x[i] + s.q[i] : s.q[i];
      }
      symmetrize(shape.rows, out);
    }
    return check_definite(shape, out, arena);
  }
  static Status logarithm(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    ScratchScope scope(arena);
    Work s;
    GS_TRY(take(shape, arena, &s).status());
    GS_TRY(whiten_difference(shape, x, y, s));
    for (size_t i = 0; i < shape.rows; ++i) {
      s.w[i] = std::log1p(s.w[i]);
    }
    unwhiten(shape, s, out);
    return Status::kOk;
  }
};

}  // namespace

constexpr ManifoldOps kSpdOps = make_manifold_ops<Spd<RetractionKind::kExponential>>();
constexpr ManifoldOps kSpdSecondOrderOps = make_manifold_ops<Spd<RetractionKind::kSecondOrder>>();

}  // namespace gradstream

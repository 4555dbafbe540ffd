// Matrices X, m x n, of rank r, factored: X = U S V' with U'U = I, V'V = I and S, r x r, invertible (not diagonal in
// general). A point is the blocks (U, V, S) one under the other, (m + n + r) x r numbers, cut by Shape::parts. A
// tangent vector is the blocks (Up, Vp, M) of Up V' + U Vp' + U M V', with U'Up = 0 and V'Vp = 0. The metric is tr(V'W)
// of the dense matrices, which is that of the blocks. The manifold is not closed: its points can run out of rank.
//
// An ambient g is the blocks (A, B, C) of A V' + U B' + U C V'. A Euclidean gradient is the derivative by the numbers
// of the point. For a cost of X with dense gradient G it is (G V S', G'U S, U'G V).
//
// project_point    orthonormalises U and V by their polar factors and gives the rest to S: the same X
// retract          projection: the truncated singular value decomposition of X + V (B. Vandereycken, "Low-rank matrix
//                  completion by Riemannian optimization", 2013, Algorithm 6), by its 2r x 2r core; second order. The
//                  factors are turned towards U and V, so that the representative does not jump with their signs
// inverse_retract  closed: Up and Vp from (Y - X) through the inverses of U'Uy and V'Vy; kSingular where those are
// transport        projection, the default: to T_Y, whatever Y's representative.
//                  smooth: (P_u Up Q_v, P_v Vp Q_u, Q_u'M Q_v), Q_u = polar(U'Uy), Q_v = polar(V'Vy). P_u and P_v take
//                  the normal spaces of U and V to those of Uy and Vy, as smooth_transport() does. This is 000's
//                  parallelization. It is isometric, and the same map whatever represents X and Y. kSingular where a
//                  factor turns by pi/2
// distance         |X - Y|, chordal: there is no closed geodesic distance
// Everything with + - * / sqrt only: reproducible. No exp_map, no log_map.
#include "runtime/base/no_contraction.h"

#include "runtime/manifold/fixed_rank.h"

#include <cmath>
#include <limits>

#include "runtime/base/decompositions.h"
#include "runtime/base/equations.h"
#include "runtime/base/factors.h"
#include "runtime/base/products.h"
#include "runtime/manifold/smooth_transport.h"

namespace gradstream {
namespace {

constexpr Real kEpsilon = std::numeric_limits<Real>::epsilon();
// Smallest singular value of S, or of U'Uy, relative to the largest.
constexpr Real kRankTolerance = 16 * kEpsilon;

// The sizes and offsets of the blocks.
struct Blocks {
  explicit Blocks(Shape shape)
      : left(shape.parts->part[0].shape),
        right(shape.parts->part[1].shape),
        core(shape.parts->part[2].shape),
        square(core.size()),
        v(left.size()),
        s(left.size() + right.size()) {}
  Shape left;
  Shape right;
  Shape core;
  size_t square;
  size_t v;  // offset of V
  size_t s;  // offset of S
};

// a <- Q, r <- R of A = Q R, modified Gram-Schmidt twice; a column that depends on those before it becomes zero.
void qr_with_zeros(Shape shape, Real* a, Real* r) {
  const size_t cols = shape.cols;
  fill_zero(cols * cols, r);
  const auto product = [&](size_t i, size_t j) {
    Real sum = 0;
    for (size_t at = 0; at < shape.size(); at += cols) {
      sum += a[at + i] * a[at + j];
    }
    return sum;
  };
  for (size_t j = 0; j < cols; ++j) {
    const Real before = product(j, j);
    for (size_t pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < j; ++i) {
        const Real along = product(i, j);
        r[i * cols + j] += along;
        for (size_t at = 0; at < shape.size(); at += cols) {
          a[at + j] -= along * a[at + i];
        }
      }
    }
    const Real after = product(j, j);
    const bool is_zero =
        !(after > kRankTolerance * kRankTolerance * before) || after < std::numeric_limits<Real>::min() / kEpsilon;
    const Real length = is_zero ? 0 : std::sqrt(after);
    r[j * cols + j] = length;
    for (size_t at = 0; at < shape.size(); at += cols) {
      a[at + j] = is_zero ? 0 : a[at + j] / length;
    }
  }
}

// kSingular when S has not full rank. work: square + 2 cols Reals.
Status check_core(const Blocks& b, const Real* s, Real* work) {
  copy(b.square, s, work);
  Real* const values = work + b.square;
  GS_TRY(singular_values(b.core, work, values, nullptr));
  return values[b.core.cols - 1] > kRankTolerance * values[0] ? Status::kOk : Status::kSingular;
}

// factor <- its polar factor Q; core <- (Q'A) core, or core (Q'A)' for the right factor. work: 2 square Reals.
Status orthonormalize(const Blocks& b, bool is_left, Real* factor, Real* core, Real* kept, Real* work, Arena& arena) {
  const Shape shape = is_left ? b.left : b.right;
  const uint32_t n = b.core.cols;
  copy(shape.size(), factor, kept);
  GS_TRY(polar_factor(shape, factor, factor, arena));
  multiply_transposed(shape, factor, kept, work);
  copy(b.square, core, work + b.square);
  if (is_left) {
    multiply_right(b.core, work, work + b.square, core);
  } else {
    multiply_by_transpose(n, n, n, work + b.square, work, core);
  }
  return Status::kOk;
}

// The truncated decomposition of [U Qu] K [V Qv]', K = [S + M, Rv'; Ru, 0], at (U, V, S) with its factors turned
// towards U and V.
struct Truncation {
  Real* u;        // Qu, later the new left factor
  Real* v;        // Qv, later the new right factor
  Real* core;     // 2r x 2r, becomes its left singular vectors
  Real* vectors;  // 2r x 2r, right singular vectors
  Real* values;   // 2r
  Real* r;        // 4 square of work
  Real* row;      // 2r
};

// factor (rows x r) <- basis W1 + factor W2, W the first r columns of vectors (2r x 2r).
void combine_bases(Shape shape, const Real* basis, const Real* vectors, Real* row, Real* factor) {
  const size_t n = shape.cols;
  for (size_t at = 0; at < shape.size(); at += n) {
    for (size_t j = 0; j < n; ++j) {
      Real sum = 0;
      for (size_t i = 0; i < n; ++i) {
        sum += basis[at + i] * vectors[i * 2 * n + j] + factor[at + i] * vectors[(n + i) * 2 * n + j];
      }
      row[j] = sum;
    }
    copy(n, row, factor + at);
  }
}

// turn <- W' with W = polar(basis' factor)', and factor <- factor W: the representative nearest to basis. turn: square.
Status turn_towards(Shape shape, const Real* basis, Real* factor, Real* turn, Real* row, Arena& arena) {
  multiply_transposed(shape, basis, factor, turn);
  GS_TRY(polar_factor({shape.cols, shape.cols}, turn, turn, arena));
  transpose_square(shape.cols, turn);
  multiply_right_in_place(shape, factor, turn, row);
  transpose_square(shape.cols, turn);
  return Status::kOk;
}

Status truncate(const Blocks& b, const Real* x, const Real* m, const Truncation& t, Real* out, Arena& arena) {
  const uint32_t n = b.core.cols;
  const size_t twice = 2 * static_cast<size_t>(n);
  Real* const r_left = t.r;
  Real* const r_right = t.r + b.square;
  qr_with_zeros(b.left, t.u, r_left);
  qr_with_zeros(b.right, t.v, r_right);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      t.core[i * twice + j] = x[b.s + i * n + j] + m[i * n + j];
      t.core[i * twice + n + j] = r_right[j * n + i];
      t.core[(n + i) * twice + j] = r_left[i * n + j];
      t.core[(n + i) * twice + n + j] = 0;
    }
  }
  GS_TRY(singular_values({2 * n, 2 * n}, t.core, t.values, t.vectors));
  if (!(t.values[n - 1] > kRankTolerance * t.values[0]) ||
      !(t.values[n - 1] - t.values[n] > kRankTolerance * t.values[0])) {
    return Status::kSingular;
  }
  combine_bases(b.left, x, t.core, t.row, t.u);
  combine_bases(b.right, x + b.v, t.vectors, t.row, t.v);
  GS_TRY(polar_factor(b.left, t.u, t.u, arena));
  GS_TRY(polar_factor(b.right, t.v, t.v, arena));
  GS_TRY(turn_towards(b.left, x, t.u, r_left, t.row, arena));
  GS_TRY(turn_towards(b.right, x + b.v, t.v, r_right, t.row, arena));
  // S = P diag(values) Q' with the turns P and Q.
  Real* const scaled = t.r + 2 * b.square;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      scaled[i * n + j] = r_left[i * n + j] * t.values[j];
    }
  }
  multiply_by_transpose(n, n, n, scaled, r_right, out + b.s);
  copy(b.left.size(), t.u, out);
  copy(b.right.size(), t.v, out + b.v);
  return Status::kOk;
}

struct FixedRank {
  static constexpr ManifoldId kId = ManifoldId::kFixedRank;
  static constexpr const char* kName = "fixed_rank";
  static constexpr RetractionKind kRetraction = RetractionKind::kProjection;
  static constexpr TransportKind kTransport = TransportKind::kProjection;
  static constexpr RetractionKind kDefaultRetraction = kRetraction;
  static constexpr TransportKind kDefaultTransport = kTransport;
  static constexpr bool kReproducible = true;
  static constexpr bool kIsometricTransport = false;

  static Status check_shape(Shape shape) {
    if (shape.parts == nullptr || shape.parts->count != 3) {
      return Status::kInvalidArgument;
    }
    const Blocks b(shape);
    const uint32_t r = b.core.rows;
    const bool fits = r >= 1 && r <= kFixedRankMax && b.core.cols == r && b.left.cols == r && b.right.cols == r &&
                      b.left.rows >= r && b.right.rows >= r && b.left.rows <= kDimensionMax &&
                      b.right.rows <= kDimensionMax && shape.cols == r &&
                      shape.rows == b.left.rows + b.right.rows + r && shape.rows <= kDimensionMax;
    return fits ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) {
    const Blocks b(shape);
    return b.left.size() + b.right.size() - b.square;
  }
  static size_t scratch_size(Shape shape) {
    const Blocks b(shape);
    const size_t polar = max_size(polar_scratch_size(b.left), polar_scratch_size(b.core));
    const size_t retraction = Arena::taken_size<Real>(b.left.size() + b.right.size() + 12 * b.square + 4 * shape.cols);
    return retraction + max_size(polar, Arena::taken_size<uint32_t>(shape.cols));
  }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    const Blocks b(shape);
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(max_size(b.left.size(), b.right.size()) + 3 * b.square);
    GS_TRY(scratch.status());
    Real* const work = scratch.value();
    Real* const kept = work + 3 * b.square;
    if (out != z) {
      copy(shape.size(), z, out);
    }
    GS_TRY(orthonormalize(b, true, out, out + b.s, kept, work, arena));
    GS_TRY(orthonormalize(b, false, out + b.v, out + b.s, kept, work, arena));
    return check_core(b, out + b.s, work);
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    const Blocks b(shape);
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(2 * b.square);
    GS_TRY(scratch.status());
    Real* const left = scratch.value();   // U'A
    Real* const right = left + b.square;  // V'B
    multiply_transposed(b.left, x, g, left);
    multiply_transposed(b.right, x + b.v, g + b.v, right);
    subtract_multiply_right(b.left, x, left, g, out);
    subtract_multiply_right(b.right, x + b.v, right, g + b.v, out + b.v);
    transpose_square(b.core.cols, right);
    for (size_t i = 0; i < b.square; ++i) {
      out[b.s + i] = g[b.s + i] + (left[i] + right[i]);
    }
    return Status::kOk;
  }
  // (G V, G'U) = (gU S'^(-1), gV S^(-1)), less their parts along U and V.
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    const Blocks b(shape);
    const uint32_t n = b.core.cols;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(b.square + n);
    GS_TRY(scratch.status());
    const Result<uint32_t*> pivots = arena.scratch<uint32_t>(n);
    GS_TRY(pivots.status());
    Real* const inverse = scratch.value();
    Real* const row = inverse + b.square;
    copy(b.square, x + b.s, inverse);
    GS_TRY(invert_in_place(n, inverse, pivots.value()));
    if (out != g) {
      copy(shape.size(), g, out);
    }
    multiply_right_in_place(b.right, out + b.v, inverse, row);
    transpose_square(n, inverse);
    multiply_right_in_place(b.left, out, inverse, row);
    multiply_transposed(b.left, x, out, inverse);
    subtract_multiply_right(b.left, x, inverse, out, out);
    multiply_transposed(b.right, x + b.v, out + b.v, inverse);
    subtract_multiply_right(b.right, x + b.v, inverse, out + b.v, out + b.v);
    return Status::kOk;
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    const Blocks b(shape);
    const size_t n = shape.cols;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(b.left.size() + b.right.size() + 12 * b.square + 4 * n);
    GS_TRY(scratch.status());
    Truncation t = {};
    t.u = scratch.value();
    t.v = t.u + b.left.size();
    t.core = t.v + b.right.size();
    t.vectors = t.core + 4 * b.square;
    t.r = t.vectors + 4 * b.square;
    t.values = t.r + 4 * b.square;
    t.row = t.values + 2 * n;
    if (!all_finite(shape.size(), v)) {
      return Status::kNotFinite;
    }
    copy(b.left.size(), v, t.u);
    copy(b.right.size(), v + b.v, t.v);
    Real* const m = t.r + 3 * b.square;
    copy(b.square, v + b.s, m);
    return truncate(b, x, m, t, out, arena);
  }
  // The tangent vector with (X + V) Vy = Uy Sy and Uy'(X + V) = Sy Vy'. With a = V'Vy and c = U'Uy it is:
  //   Up = (I - UU') Uy Sy a^-1, Vp = (I - VV') Vy Sy' c^-1
  //   M = (c Sy - e) a^-1 - S, e = c'^-1 Sy (I - a'a)
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    const Blocks b(shape);
    const uint32_t n = b.core.cols;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(6 * b.square + n);
    GS_TRY(scratch.status());
    const Result<uint32_t*> pivots = arena.scratch<uint32_t>(n);
    GS_TRY(pivots.status());
    Real* const a = scratch.value();
    Real* const a_inverse = a + b.square;
    Real* const c = a_inverse + b.square;
    Real* const c_inverse = c + b.square;
    Real* const e = c_inverse + b.square;
    Real* const work = e + b.square;
    Real* const row = work + b.square;
    const Real* const s_y = y + b.s;
    multiply_transposed(b.right, x + b.v, y + b.v, a);
    multiply_transposed(b.left, x, y, c);
    copy(b.square, a, a_inverse);
    copy(b.square, c, c_inverse);
    GS_TRY(check_core(b, a, e));  // e and work are free yet
    GS_TRY(check_core(b, c, e));
    GS_TRY(invert_in_place(n, a_inverse, pivots.value()));
    GS_TRY(invert_in_place(n, c_inverse, pivots.value()));
    // Up: Uy - U c, times Sy a^-1.
    multiply_right(b.core, s_y, a_inverse, work);
    subtract_multiply_right(b.left, x, c, y, out);
    multiply_right_in_place(b.left, out, work, row);
    // Vp: Vy - V a, times Sy' c^-1.
    multiply_transposed(b.core, s_y, c_inverse, work);
    subtract_multiply_right(b.right, x + b.v, a, y + b.v, out + b.v);
    multiply_right_in_place(b.right, out + b.v, work, row);
    // e = c'^-1 Sy (I - a'a).
    gram(b.core, a, work);
    subtract_multiply_right(b.core, s_y, work, s_y, out + b.s);
    multiply_transposed(b.core, c_inverse, out + b.s, e);
    multiply_right(b.core, c, s_y, work);
    add_scaled(b.square, -1, e, work);
    multiply_right(b.core, work, a_inverse, out + b.s);
    add_scaled(b.square, -1, x + b.s, out + b.s);
    return Status::kOk;
  }
  // Z = Up V' + U Vp' + U M V' seen from Y: Z Vy = Up a + U (M a + Vp'Vy), Z'Uy = Vp c + V (M'c + Up'Uy).
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    const Blocks b(shape);
    const uint32_t n = b.core.cols;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(5 * b.square + n);
    GS_TRY(scratch.status());
    Real* const a = scratch.value();
    Real* const c = a + b.square;
    Real* const along_u = c + b.square;
    Real* const along_v = along_u + b.square;
    Real* const work = along_v + b.square;
    Real* const row = work + b.square;
    multiply_transposed(b.right, x + b.v, y + b.v, a);
    multiply_transposed(b.left, x, y, c);
    multiply_right(b.core, v + b.s, a, along_u);
    multiply_transposed(b.right, v + b.v, y + b.v, work);
    add_scaled(b.square, 1, work, along_u);
    multiply_transposed(b.core, v + b.s, c, along_v);
    multiply_transposed(b.left, v, y, work);
    add_scaled(b.square, 1, work, along_v);
    combine_right(b.left, v, a, x, along_u, row, out);
    combine_right(b.right, v + b.v, c, x + b.v, along_v, row, out + b.v);
    // M = Uy'Z Vy, and the parts along Uy and Vy taken off.
    multiply_transposed(b.left, y, out, work);
    subtract_multiply_right(b.left, y, work, out, out);
    copy(b.square, work, out + b.s);
    transpose_square(n, work);
    subtract_multiply_right(b.right, y + b.v, work, out + b.v, out + b.v);
    return Status::kOk;
  }
  static Result<Real> inner(Shape shape, const Real*, const Real* v, const Real* w, Arena&) {
    return dot(shape.size(), v, w);
  }
  // |X - Y|^2 = |S - c Sy a'|^2 + |Nu Sy a'|^2 + |c Sy Nv'|^2 + |Nu Sy Nv'|^2, Nu = Uy - U c, Nv = Vy - V a: does not
  // cancel for near points.
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena& arena) {
    const Blocks b(shape);
    const uint32_t n = b.core.cols;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(7 * b.square + n);
    if (!scratch.ok()) {
      return scratch.status();
    }
    Real* const a = scratch.value();
    Real* const c = a + b.square;
    Real* const left = c + b.square;      // Nu'Nu
    Real* const right = left + b.square;  // Nv'Nv
    Real* const s_a = right + b.square;   // Sy a'
    Real* const work0 = s_a + b.square;
    Real* const work1 = work0 + b.square;
    Real* const row = work1 + b.square;
    const Real* const s_y = y + b.s;
    normal_gram(b.left, x, y, c, left, row);
    normal_gram(b.right, x + b.v, y + b.v, a, right, row);
    multiply_by_transpose(n, n, n, s_y, a, s_a);
    multiply_right(b.core, c, s_a, work0);
    add_scaled(b.square, -1, x + b.s, work0);
    Real squared = dot(b.square, work0, work0);
    multiply_right(b.core, left, s_a, work0);
    squared += dot(b.square, work0, s_a);
    multiply_right(b.core, s_y, right, work0);  // Sy Nv'Nv
    multiply_right(b.core, c, work0, work1);
    multiply_right(b.core, c, s_y, s_a);
    squared += dot(b.square, work1, s_a);
    multiply_right(b.core, left, work0, work1);
    squared += dot(b.square, work1, s_y);
    return std::sqrt(squared > 0 ? squared : 0);
  }
  // The dense gradient of |X - Y|^2 / 2 is X - Y: blocks (X - Y) V S', (X - Y)'U S and U'(X - Y) V. With c = U'Uy and
  // a = V'Vy, (Y - X) V = (Uy - U) Sy a' + U e, e = Sy a' - S = (Sy - S) + Sy (Vy - V)'V, and so on: nothing cancels.
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    const Blocks b(shape);
    const uint32_t n = b.core.cols;
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(5 * b.square + 2 * n);
    GS_TRY(scratch.status());
    Real* const turned = scratch.value();  // Sy a', later Sy'c
    Real* const e = turned + b.square;     // turned less S, or S'
    Real* const s_x = e + b.square;        // S or S', of the side
    Real* const s_y = s_x + b.square;
    Real* const work = s_y + b.square;
    Real* const row = work + b.square;
    for (const bool is_left : {false, true}) {  // the left one last: its e is the core's
      const Shape own = is_left ? b.left : b.right;
      const Shape other = is_left ? b.right : b.left;
      const size_t at = is_left ? 0 : b.v;
      const size_t across = is_left ? b.v : 0;
      copy(b.square, x + b.s, s_x);
      copy(b.square, y + b.s, s_y);
      if (!is_left) {
        transpose_square(n, s_x);
        transpose_square(n, s_y);
      }
      difference_products(other, x + across, y + across, work);  // (Yo - Xo)'Xo
      multiply_right(b.core, s_y, work, e);
      for (size_t i = 0; i < b.square; ++i) {
        e[i] += s_y[i] - s_x[i];
        turned[i] = s_x[i] + e[i];
      }
      for (size_t i = at; i < at + own.size(); i += n) {
        for (size_t j = 0; j < n; ++j) {
          row[j] = y[i + j] - x[i + j];
        }
        multiply_right({1, n}, row, turned, row + n);
        multiply_right({1, n}, x + i, e, out + i);
        add_scaled(n, 1, row + n, out + i);
      }
      if (is_left) {
        multiply_transposed(own, x, out, out + b.s);
        scale(b.square, -1, out + b.s);
      }
      transpose_square(n, s_x);
      multiply_right_in_place(own, out + at, s_x, row);
      scale(own.size(), -1, out + at);
    }
    return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
  }
  // Polar factors of normals, and S = 2 I + N / (2 sqrt(r)), N of normals.
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    const Blocks b(shape);
    fill_normal(key, 0, shape.size(), out);
    GS_TRY(polar_factor(b.left, out, out, arena));
    GS_TRY(polar_factor(b.right, out + b.v, out + b.v, arena));
    scale(b.square, 1 / (2 * std::sqrt(static_cast<Real>(shape.cols))), out + b.s);
    for (size_t i = 0; i < shape.cols; ++i) {
      out[b.s + i * shape.cols + i] += 2;
    }
    return Status::kOk;
  }

 private:
  // out <- (Y - X)'X.
  static void difference_products(Shape shape, const Real* x, const Real* y, Real* out) {
    const uint32_t n = shape.cols;
    fill_zero(static_cast<size_t>(n) * n, out);
    for (size_t at = 0; at < shape.size(); at += n) {
      for (size_t i = 0; i < n; ++i) {
        add_scaled(n, y[at + i] - x[at + i], x + at, out + i * n);
      }
    }
  }
  // mixed <- X'Y, out <- N'N with N = Y - X X'Y = (Y - X) - X X'(Y - X). row: cols Reals.
  static void normal_gram(Shape shape, const Real* x, const Real* y, Real* mixed, Real* out, Real* row) {
    const uint32_t n = shape.cols;
    const size_t square = static_cast<size_t>(n) * n;
    multiply_transposed(shape, x, y, mixed);
    for (size_t i = 0; i < n; ++i) {
      mixed[i * n + i] -= 1;
    }
    fill_zero(square, out);
    for (size_t at = 0; at < shape.size(); at += n) {
      multiply_right({1, n}, x + at, mixed, row);
      for (size_t i = 0; i < n; ++i) {
        row[i] = (y[at + i] - x[at + i]) - row[i];
      }
      for (size_t i = 0; i < n; ++i) {
        add_scaled(n, row[i], row, out + i * n);
      }
    }
    for (size_t i = 0; i < n; ++i) {
      mixed[i * n + i] += 1;
    }
  }
};

// The same functions but for the transport, so that an image with the default table has no code of this one.
struct FixedRankSmooth : FixedRank {
  static constexpr TransportKind kTransport = TransportKind::kSmooth;
  static constexpr bool kIsometricTransport = true;

  static size_t scratch_size(Shape shape) {
    const Blocks b(shape);
    return max_size(FixedRank::scratch_size(shape),
                    Arena::taken_size<Real>(3 * b.square + b.core.cols) + smooth_transport_scratch_size(b.core));
  }
  // The factors' own parallelizations; the other factor's turn goes to the columns.
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    const Blocks b(shape);
    ScratchScope scope(arena);
    const Result<Real*> scratch = arena.scratch<Real>(3 * b.square + b.core.cols);
    GS_TRY(scratch.status());
    Real* const turn_u = scratch.value();
    Real* const turn_v = turn_u + b.square;
    Real* const work = turn_v + b.square;
    Real* const row = work + b.square;
    GS_TRY(smooth_transport(b.left, x, y, v, out, turn_u, arena));
    GS_TRY(smooth_transport(b.right, x + b.v, y + b.v, v + b.v, out + b.v, turn_v, arena));
    multiply_right_in_place(b.left, out, turn_v, row);
    multiply_right_in_place(b.right, out + b.v, turn_u, row);
    multiply_right(b.core, v + b.s, turn_v, work);
    multiply_transposed(b.core, turn_u, work, out + b.s);
    return Status::kOk;
  }
};

}  // namespace

Parts fixed_rank_parts(uint32_t m, uint32_t n, uint32_t r) {
  Parts parts;
  parts.count = 3;
  parts.part[0] = {&kStiefelOps, {m, r}};
  parts.part[1] = {&kStiefelOps, {n, r}};
  parts.part[2] = {&kEuclideanOps, {r, r}};
  return parts;
}

Shape fixed_rank_shape(const Parts& parts) {
  return {parts.part[0].shape.rows + parts.part[1].shape.rows + parts.part[2].shape.rows, parts.part[2].shape.cols,
          &parts};
}

void fixed_rank_to_dense(Shape shape, const Real* x, Real* out) {
  const Blocks b(shape);
  const size_t n = b.core.cols;
  for (size_t i = 0; i < b.left.rows; ++i) {
    for (size_t j = 0; j < b.right.rows; ++j) {
      Real sum = 0;
      for (size_t k = 0; k < n; ++k) {
        sum += x[i * n + k] * dot(n, x + b.s + k * n, x + b.v + j * n);
      }
      out[i * b.right.rows + j] = sum;
    }
  }
}

size_t fixed_rank_from_dense_scratch_size(Shape shape) {
  const Blocks b(shape);
  const size_t m = b.left.rows, n = b.right.rows, least = m < n ? m : n;
  return Arena::taken_size<Real>(m * n + least * least + least);
}

Status fixed_rank_from_dense(Shape shape, const Real* z, Real* out, Arena& arena) {
  const Blocks b(shape);
  const size_t m = b.left.rows, n = b.right.rows, r = b.core.cols;
  const bool is_tall = m >= n;
  const size_t most = is_tall ? m : n, least = is_tall ? n : m;
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(m * n + least * least + least);
  GS_TRY(scratch.status());
  Real* const a = scratch.value();
  Real* const vectors = a + m * n;
  Real* const values = vectors + least * least;
  for (size_t i = 0; i < most; ++i) {
    for (size_t j = 0; j < least; ++j) {
      a[i * least + j] = is_tall ? z[i * n + j] : z[j * n + i];
    }
  }
  GS_TRY(singular_values({static_cast<uint32_t>(most), static_cast<uint32_t>(least)}, a, values, vectors));
  const Real next = r < least ? values[r] : 0;
  if (!(values[r - 1] > kRankTolerance * values[0]) || !(values[r - 1] - next > kRankTolerance * values[0])) {
    return Status::kSingular;
  }
  const Real* const left = is_tall ? a : vectors;
  const Real* const right = is_tall ? vectors : a;
  fill_zero(b.square, out + b.s);
  for (size_t k = 0; k < r; ++k) {
    for (size_t i = 0; i < m; ++i) {
      out[i * r + k] = left[i * least + k];
    }
    for (size_t j = 0; j < n; ++j) {
      out[b.v + j * r + k] = right[j * least + k];
    }
    out[b.s + k * r + k] = values[k];
  }
  return Status::kOk;
}

constexpr ManifoldOps kFixedRankOps = make_manifold_ops<FixedRank>();
constexpr ManifoldOps kFixedRankSmoothOps = make_manifold_ops<FixedRankSmooth>();

}  // namespace gradstream

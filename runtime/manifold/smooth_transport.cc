#include "runtime/base/no_contraction.h"

#include "runtime/manifold/smooth_transport.h"

#include "runtime/base/equations.h"
#include "runtime/base/factors.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

// B <- (I + G)^(-1) T with G = U'M, which is symmetric; work: n^2 Reals. B may be M.
Status solve_beside_polar(uint32_t n, const Real* unitary, const Real* m, const Real* t, Real* work, Real* b,
                          Arena& arena) {
  ScratchScope scope(arena);
  const Result<uint32_t*> pivots = arena.scratch<uint32_t>(n);
  GS_TRY(pivots.status());
  multiply_transposed({n, n}, unitary, m, work);
  symmetrize(n, work);
  for (size_t i = 0; i < n; ++i) {
    work[i * n + i] += 1;
  }
  GS_TRY(invert_in_place(n, work, pivots.value()));
  multiply_right({n, n}, work, t, b);
  return Status::kOk;
}

}  // namespace

size_t smooth_transport_scratch_size(Shape shape) {
  const size_t square = static_cast<size_t>(shape.cols) * shape.cols;
  const size_t polar = polar_scratch_size({shape.cols, shape.cols});
  const size_t pivots = Arena::taken_size<uint32_t>(shape.cols);
  return Arena::taken_size<Real>(4 * square) + (polar > pivots ? polar : pivots);
}

Status smooth_transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Real* unitary,
                        Arena& arena) {
  const uint32_t n = shape.cols;
  const size_t size = static_cast<size_t>(n) * n;
  const Shape square{n, n};
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(4 * size);
  GS_TRY(scratch.status());
  Real* const mixed = scratch.value();  // M = X'Y
  Real* const along = mixed + size;     // A = X'V
  Real* const beside = along + size;    // T = Y'N = Y'V - M'A
  Real* const work = beside + size;
  multiply_transposed(shape, x, y, mixed);
  GS_TRY(polar_factor(square, mixed, unitary, arena));
  multiply_transposed(shape, x, v, along);
  multiply_transposed(square, mixed, along, work);
  multiply_transposed(shape, y, v, beside);
  add_scaled(size, -1, work, beside);
  GS_TRY(solve_beside_polar(n, unitary, mixed, beside, work, mixed, arena));
  // Now mixed is B = (I + G)^(-1) T: out = V - X (A + U B) - Y (B - Om).
  multiply_right(square, unitary, mixed, work);
  add_scaled(size, 1, along, work);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      mixed[i * n + j] -= (along[i * n + j] - along[j * n + i]) / 2;
    }
  }
  subtract_multiply_right(shape, x, work, v, out);
  subtract_multiply_right(shape, y, mixed, out, out);
  return Status::kOk;
}

}  // namespace gradstream

#include "runtime/base/no_contraction.h"

#include "runtime/training/secant.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/training/stream.h"

namespace gradstream {

size_t secant_scratch_size(const ManifoldOps& manifold, Shape shape) {
  return 2 * Arena::taken_size<Real>(shape.size()) + manifold.scratch_size(shape);
}

Status find_secant(const ManifoldOps& manifold, Shape shape, const Real* previous, const Real* current,
                   const Real* previous_gradient, const Real* gradient, Secant* out, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> s = arena.scratch<Real>(shape.size());
  GS_TRY(s.status());
  const Result<Real*> y = arena.scratch<Real>(shape.size());
  GS_TRY(y.status());
  GS_TRY(manifold.inverse_retract(shape, previous, current, s.value(), arena));
  GS_TRY(manifold.transport(shape, previous, current, s.value(), s.value(), arena));
  GS_TRY(manifold.transport(shape, previous, current, previous_gradient, y.value(), arena));
  scale(shape.size(), -1, y.value());
  add_scaled(shape.size(), 1, gradient, y.value());
  const Result<Real> ss = manifold.inner(shape, current, s.value(), s.value(), arena);
  GS_TRY(ss.status());
  const Result<Real> sy = manifold.inner(shape, current, s.value(), y.value(), arena);
  GS_TRY(sy.status());
  const Result<Real> yy = manifold.inner(shape, current, y.value(), y.value(), arena);
  GS_TRY(yy.status());
  *out = {ss.value(), sy.value(), yy.value()};
  return Status::kOk;
}

Real curvature_of(BarzilaiBorwein form, const Secant& secant) {
  if (form == BarzilaiBorwein::kNone || !(secant.ss > 0) || !(secant.sy > 0)) {
    return 0;
  }
  const Real b = form == BarzilaiBorwein::kFirst ? secant.sy / secant.ss : secant.yy / secant.sy;
  return std::isfinite(b) ? b : 0;
}

Real barzilai_borwein_step(BarzilaiBorwein form, const Secant& secant, Real step_min, Real step_max) {
  const Real b = curvature_of(form, secant);
  if (b == 0) {
    return step_max;
  }
  const Real step = 1 / b;
  return step < step_min ? step_min : step < step_max ? step : step_max;
}

}  // namespace gradstream

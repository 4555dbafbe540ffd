#include "runtime/base/no_contraction.h"

#include "runtime/training/proximal.h"

#include "runtime/base/products.h"
#include "runtime/training/stream.h"

namespace gradstream {

size_t proximal_scratch_size(const ManifoldOps& manifold, Shape shape, Real mu) {
  return mu == 0 ? 0 : Arena::taken_size<Real>(shape.size()) + manifold.scratch_size(shape);
}

Status add_proximal(const ManifoldOps& manifold, Shape shape, Real mu, const Real* x, const Real* centre, Real* g,
                    Arena& arena) {
  if (mu == 0) {
    return Status::kOk;
  }
  ScratchScope scope(arena);
  const Result<Real*> pull = arena.scratch<Real>(shape.size());
  GS_TRY(pull.status());
  GS_TRY(manifold.inverse_retract(shape, x, centre, pull.value(), arena));
  add_scaled(shape.size(), -mu, pull.value(), g);
  return Status::kOk;
}

}  // namespace gradstream

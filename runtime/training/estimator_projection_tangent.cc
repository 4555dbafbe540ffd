// The projection estimator with its normal part taken off: proj_z(G), G of A8 (one-sided). The normal part of G is pure
// noise. Without it the variance is smaller (by (dimension - 1) / (pr - 1) about), but P_M removes it from a step to
// first order anyway. The projection at z destroys the scalar form, so that an upload is a TangentBlock (E18).
#include "runtime/base/no_contraction.h"

#include "runtime/training/estimator.h"

namespace gradstream {
namespace {

size_t scalars_size(const EstimateInput& input) {
  return Arena::taken_size<Real>(input.parameters->directions.direction_count);
}

Status check(const EstimateInput& input) { return kProjectionOneSidedOps.check(input); }

size_t scratch_size(const EstimateInput& input) {
  return scalars_size(input) + kProjectionOneSidedOps.scratch_size(input);
}

Status estimate(const EstimateInput& input, Real*, Real* g, Real* loss, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> scalars = arena.scratch<Real>(input.parameters->directions.direction_count);
  GS_TRY(scalars.status());
  GS_TRY(kProjectionOneSidedOps.estimate(input, scalars.value(), g, loss, arena));
  return input.manifold->project_tangent(input.shape, input.z, g, g, arena);
}

}  // namespace

const EstimatorOps kProjectionTangentOps = {
    EstimatorId::kProjectionTangent, "projection, tangent part", false, check, scratch_size, estimate};

}  // namespace gradstream

#include "firmware/registry.h"

namespace gradstream {
namespace {

constexpr const ManifoldOps* kManifolds[] = {&kStiefelOps, &kSphereOps};
// A board's flash is for what its runs name: an image for tangent estimators, tangent means or variance reduction adds
// their lines.
#if defined(GS_LINK_ALL)
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kProjectionTwoSidedOps,
                                               &kTangentRetractionOps, &kProjectionTangentOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps, &kSolverTangentMeanOps,
                                         &kSolverSvrgOps};
#else
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kProjectionTwoSidedOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps};
#endif

}  // namespace

Registry make_registry(std::span<const Problem> problems) {
  return Registry{kManifolds, kEstimators, kSolvers, problems};
}

}  // namespace gradstream

#include "firmware/registry.h"

namespace gradstream {
namespace {

constexpr const ManifoldOps* kManifolds[] = {&kStiefelOps, &kSphereOps};
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kProjectionTwoSidedOps,
                                               &kTangentRetractionOps, &kProjectionTangentOps};
// A board's flash is for what its runs name: an image for tangent means or variance reduction adds their lines.
#if defined(GS_LINK_ALL_SOLVERS)
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps, &kSolverTangentMeanOps,
                                         &kSolverSvrgOps};
#else
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps};
#endif

}  // namespace

Registry make_registry(std::span<const Problem> problems) {
  return Registry{kManifolds, kEstimators, kSolvers, problems};
}

}  // namespace gradstream

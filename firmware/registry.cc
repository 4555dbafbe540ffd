#include "firmware/registry.h"

namespace gradstream {
namespace {

constexpr const ManifoldOps* kManifolds[] = {&kStiefelOps, &kSphereOps};
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kProjectionTwoSidedOps,
                                               &kTangentRetractionOps, &kProjectionTangentOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps};

}  // namespace

Registry make_registry(std::span<const Problem> problems) {
  return Registry{kManifolds, kEstimators, kSolvers, problems};
}

}  // namespace gradstream

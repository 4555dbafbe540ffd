#include "firmware/registry.h"

#include "runtime/training/lean.h"
#include "runtime/training/task_stages.h"

namespace gradstream {
namespace {

// A board's flash is for what its runs name: an image for other manifolds, tangent estimators, tangent means or
// variance reduction adds their lines. A host has them all; the curve solver holds nine tensors: for hosts alone.
#if defined(GS_LINK_ALL)
std::span<const ManifoldOps* const> manifolds() { return all_manifolds(); }
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kProjectionTwoSidedOps,
                                               &kTangentRetractionOps, &kProjectionTangentOps};
constexpr const SolverOps* kSolvers[] = {
    &kSolverProjectionOps, &kSolverGradientStreamOps, &kSolverTangentMeanOps, &kSolverSvrgOps,
#if !defined(GS_BARE_METAL)
    &kSolverCurveOps,
#endif
};
constexpr const ProblemOps* kProximalLoss = &kProximalLossOps;
#else
constexpr const ManifoldOps* kManifolds[] = {
#if defined(GS_PERCEPTRON_WIDTHS) || defined(GS_NETWORK)
    &kEuclideanOps,  // where a network's weights lie
#endif
#if defined(GS_NETWORK)
    &kProductOps,
#endif
#if defined(GS_NETWORK) && !defined(GS_NO_FIXED_RANK)
    &kFixedRankOps,  // where those of a factored layer lie
#endif
    &kStiefelOps, &kSphereOps};
std::span<const ManifoldOps* const> manifolds() { return kManifolds; }
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kProjectionTwoSidedOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps};
constexpr const ProblemOps* kProximalLoss = nullptr;
#endif

// A board's image with a problem that can evaluate displaced points. A host is quicker with tensors.
#if defined(GS_LEAN_FORM)
constexpr const LeanForm* kLean = &kLeanForm;
#else
constexpr const LeanForm* kLean = nullptr;
#endif

}  // namespace

Registry make_registry(std::span<const Problem> problems) {
  return Registry{
      manifolds(), kEstimators, kSolvers, problems, kProximalLoss, kLean, kTakesUnits ? &kStageForm : nullptr};
}

}  // namespace gradstream

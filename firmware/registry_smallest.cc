// What the smallest image links: the zeroth-order projection algorithm on the Stiefel manifold.
#include "firmware/registry.h"

namespace gradstream {
namespace {

constexpr const ManifoldOps* kManifolds[] = {&kStiefelOps};
constexpr const EstimatorOps* kEstimators[] = {&kProjectionOneSidedOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps};

}  // namespace

Registry make_registry(std::span<const Problem> problems) {
  return Registry{kManifolds, kEstimators, kSolvers, problems};
}

}  // namespace gradstream

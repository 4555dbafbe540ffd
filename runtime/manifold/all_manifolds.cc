// The list of every table, apart from manifold.cc so that only hosts that ask for it link them all.
#include "runtime/base/no_contraction.h"

#include "runtime/manifold/fixed_rank.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

std::span<const ManifoldOps* const> all_manifolds() {
  static constexpr const ManifoldOps* kAll[] = {
      &kEuclideanOps,
      &kSphereOps,
      &kSphereExponentialOps,
      &kStiefelOps,
      &kStiefelSmoothOps,
      &kStiefelHouseholderOps,
      &kStiefelFormalOps,
      &kStiefelQrOps,
      &kStiefelQrSmoothOps,
      &kStiefelExponentialOps,
      &kStiefelExponentialSmoothOps,
      &kObliqueOps,
      &kObliqueProjectionOps,
      &kObliqueExponentialOps,
      &kGrassmannOps,
      &kGrassmannParallelOps,
      &kGrassmannUnalignedOps,
      &kGrassmannSmoothOps,
      &kGrassmannQrOps,
      &kGrassmannQrParallelOps,
      &kGrassmannExponentialOps,
      &kGrassmannExponentialProjectionOps,
      &kSpdOps,
      &kSpdSecondOrderOps,
      &kHyperbolicOps,
      &kHyperbolicProjectionOps,
      &kFixedRankOps,
      &kFixedRankSmoothOps,
      &kProductOps,
  };
  return kAll;
}

}  // namespace gradstream

#include "server/run/tube_constants.h"

#include <cmath>
#include <limits>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Sphere, Stiefel, oblique and the representatives of Grassmann are 1-proximally smooth.
constexpr double kGamma = 0.5;
// Of them inside gamma: 2 sin(a/2) / gamma with sin a = gamma, a displacement that touches the cone of the angle a, is
// 1.0353. A displacement of any length needs 2 (sphere, u -> -x), and that does for any set: x itself is no farther
// from x + u than |u|, so that the nearest point is not either.
constexpr double kStretchInTube = 1.04;
constexpr double kStretchAnywhere = 2;
// Of them: a singular value s of a tangent u gives sqrt(1 + s^2) - 1 <= s^2 / 2.
constexpr double kBend = 0.5;

TubeConstants tube_of(ManifoldId id) {
  switch (id) {
    case ManifoldId::kEuclidean:
      return {std::numeric_limits<double>::infinity(), 1, 0};
    case ManifoldId::kSphere:
    case ManifoldId::kStiefel:
    case ManifoldId::kOblique:
    case ManifoldId::kGrassmann:
      return {kGamma, kStretchInTube, kBend};
    default:
      return {0, kStretchAnywhere, 0};
  }
}

// Hyperbolic: -1. SPD, affine-invariant: from -1/2 to 0. Stiefel with the embedded metric: from -1/2, which two columns
// reach that move along one direction beside the span; by the equation of Gauss curvature is tr(U'U V'V) -
// |sym(U'V)|^2. Fixed rank: unbounded as a singular value goes to 0. The rest: not below 0.
Curvature curvature_of(ManifoldId id, uint32_t rows, uint32_t cols) {
  switch (id) {
    case ManifoldId::kHyperbolic:
      return {rows > 2 ? -1.0 : 0.0};
    case ManifoldId::kSpd:
      return {rows > 1 ? -0.5 : 0.0};
    case ManifoldId::kStiefel:
      return {cols > 1 && rows > cols ? -0.5 : 0.0, true, true};
    case ManifoldId::kFixedRank:
      return {0, false};
    default:
      return {};
  }
}

}  // namespace

TubeConstants tube_of(const RunParameters& run) {
  const Parts* const parts = run.model->shape.parts;
  if (run.model->manifold != ManifoldId::kProduct || parts == nullptr) {
    return tube_of(run.model->manifold);
  }
  TubeConstants worst = tube_of(ManifoldId::kEuclidean);
  for (const Part& part : parts->list()) {
    const TubeConstants one = tube_of(part.ops->id);
    worst.gamma = std::fmin(worst.gamma, one.gamma);
    worst.stretch = std::fmax(worst.stretch, one.stretch);
    worst.bend = std::fmax(worst.bend, one.bend);
  }
  worst.stretch = worst.gamma == 0 ? kStretchAnywhere : worst.stretch;
  return worst;
}

double estimate_bound(const RunParameters& run, const TubeConstants& tube, double chi) {
  switch (run.local->estimator) {
    case EstimatorId::kAnalyticGradient:
      return chi;
    case EstimatorId::kTangentRetraction:
      return std::numeric_limits<double>::infinity();
    default:
      return tube.stretch * static_cast<double>(run.model->shape.size()) * chi;
  }
}

double whole_step_limit(const RunParameters& run, double smoothness) {
  return 1 / (24 * tube_of(run).stretch * smoothness);
}

Curvature curvature_of(const RunParameters& run) {
  const Parts* const parts = run.model->shape.parts;
  if (run.model->manifold != ManifoldId::kProduct || parts == nullptr) {
    return curvature_of(run.model->manifold, run.model->shape.rows, run.model->shape.cols);
  }
  // Two parts together are flat, so that the least is that of one part or 0.
  Curvature worst = {0, true, true};
  for (const Part& part : parts->list()) {
    const Curvature one = curvature_of(part.ops->id, part.shape.rows, part.shape.cols);
    worst.is_bounded = worst.is_bounded && one.is_bounded;
    worst.is_compact = worst.is_compact && (one.least >= 0 || one.is_compact);
    worst.least = std::fmin(worst.least, one.least);
  }
  return worst;
}

double suited_smoothing(const RunParameters& run, double noise, double smoothness) {
  if (run.local->estimator == EstimatorId::kProjectionTwoSided) {
    return std::cbrt(3 * noise / smoothness);
  }
  const double mu = std::sqrt(std::sqrt(8.0) * noise / smoothness);
  const bool is_longer = run.local->estimator == EstimatorId::kTangentRetraction;
  return is_longer ? mu / std::sqrt(static_cast<double>(run.model->shape.size())) : mu;
}

}  // namespace gradstream

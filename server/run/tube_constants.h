// Constants of a manifold that the theorems of 002 and 003 ask for, and what follows from them for a run.
#ifndef GRADSTREAM_SERVER_RUN_TUBE_CONSTANTS_H_
#define GRADSTREAM_SERVER_RUN_TUBE_CONSTANTS_H_

#include "server/run/run_parameters.h"

namespace gradstream {

// Of 003: what P_M does to a point beside the manifold.
struct TubeConstants {
  double gamma = 0;    // P_M is unique within it; half the radius of proximal smoothness. 0: not known; Euclidean: inf
  double stretch = 0;  // M of (5): |P_M(x + u) - x| <= M |u|, for |u| <= gamma where gamma is known, else for any u
  double bend = 0;     // L_P: |P_M(x + u) - x - u| <= L_P |u|^2 for tangent u; of no use where gamma is not known
};
// Of a product: the worst of its parts.
TubeConstants tube_of(const RunParameters& run);

// chi_G of 003: no estimate of the run's is longer, where chi bounds the gradient of a device's loss. (7) has m scalars
// of at most M chi, and the factor p r. Infinite for (6), whose normal directions have no bound.
double estimate_bound(const RunParameters& run, const TubeConstants& tube, double chi);

// The whole step eta_g eta tau up to which 1/(24 M L) allows it: the first of three conditions of 003's Theorem 4.1.
double whole_step_limit(const RunParameters& run, double smoothness);

// Sectional curvature, as 002's zeta takes it.
struct Curvature {
  double least = 0;         // not above 0
  bool is_bounded = true;   // false: it has no lower bound, and `least` says nothing
  bool is_compact = false;  // where `least` is below 0: no two points are farther apart than a bound
};
Curvature curvature_of(const RunParameters& run);

// The smoothing mu at which an estimate's mean square error is least. The noise of one loss evaluation is independent,
// of deviation `noise`; the loss has curvature L along any line, its largest one. One-sided: the difference has the
// error 2 noise^2 / mu^2 + (L mu / 2)^2, least at mu^4 = 8 noise^2 / L^2. Two-sided: noise^2 / (2 mu^2) + (L mu^2 /
// 6)^2 with L for the third derivative, least at mu^3 = 3 noise / L. (More and Wild, "Estimating derivatives of noisy
// simulations", 2012.) Directions of (6) are longer by the root of the number of entries, and mu is shorter by it.
double suited_smoothing(const RunParameters& run, double noise, double smoothness);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_TUBE_CONSTANTS_H_

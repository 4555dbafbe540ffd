// A problem with a proximal term: any problem, kept near the model at which its task begins.
//
//   f(x) + mu/2 |x - c|^2               chordal: the squared distance in the embedding
//   f(x) + mu/2 exp(d2(x, c) / sigma)   lorentz: 004, its equation (24)
//   f(x) + mu/2 d(x, c)^2               distance: the manifold's own (ManifoldOps::distance), on hosts
//
//   d2 = |pi(x) - pi(c)|_L^2 = |x - c|^2 - (x0 - c0)^2,  pi(x) = (x0, x), x0 = sqrt(1 + |x|^2)
//
// the squared Lorentzian distance of the lifts to the hyperboloid. With x0 - c0 = <x - c, x + c> / (x0 + c0) nothing
// cancels: as -2 - 2 <pi(x), pi(c)>_L it is off by 43 times at |x| = 320 in float. The exponent is at most
// kProximalExponentMax, beyond which value and slope stay those of that exponent.
//
// Where d is geodesic its term has the Riemannian gradient -mu log_x(c). At fixed rank d is chordal, and its term has
// the gradient of mu/2 |X - C|^2. On Stiefel d is the norm of an inverse retraction, whose gradient is no logarithm:
// there the term is a loss only. All three are losses, so that zeroth-order estimators have them;
// runtime/training/proximal.h pulls along the retraction and needs gradients.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_PROXIMAL_LOSS_H_
#define GRADSTREAM_RUNTIME_PROBLEM_PROXIMAL_LOSS_H_

#include "runtime/manifold/manifold.h"
#include "runtime/manifold/proximal_form.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// exp overflows at 88 in float.
inline constexpr Real kProximalExponentMax = 80;

// The context of kProximalLossOps. What it points to outlives it.
struct ProximalLoss {
  Problem inner;
  const Real* centre = nullptr;  // c, of the shape that is asked for
  ProximalForm form = ProximalForm::kChordal;
  Real mu = 0;
  Real sigma = 1;                         // kLorentz
  const ManifoldOps* manifold = nullptr;  // kDistance: of the shape that is asked for
  bool needs_gradient = false;            // check_shape refuses a distance without one
};

// Behaves as the inner problem, and passes its codes on. Further codes:
// - check_shape: kInvalidArgument if mu is below 0, sigma is not above 0, or one of them is no number;
// - check_shape: kUnimplemented for kDistance if the manifold's table has no distance (boards: kHasHostMembers) or
//   lacks the gradient that is needed;
// - losses and gradients of kDistance: those of the manifold, with kSingular at the cut locus of c;
// - gradients: kUnimplemented if the inner problem has none. The table has the member all the same.
// It takes no memory beside the inner problem's, except for kDistance: that takes the manifold's scratch and one
// tensor, not both at once with the inner problem's.
extern const ProblemOps kProximalLossOps;

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_PROXIMAL_LOSS_H_

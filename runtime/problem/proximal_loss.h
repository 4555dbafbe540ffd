// A problem with a proximal term: any problem, kept near the model at which its task begins.
//
//   f(x) + mu/2 |x - c|^2               chordal: the squared distance in the embedding
//   f(x) + mu/2 exp(d2(x, c) / sigma)   lorentz: 004, its equation (24)
//
//   d2 = |pi(x) - pi(c)|_L^2 = |x - c|^2 - (x0 - c0)^2,  pi(x) = (x0, x), x0 = sqrt(1 + |x|^2)
//
// the squared Lorentzian distance of the lifts to the hyperboloid. With x0 - c0 = <x - c, x + c> / (x0 + c0) nothing
// cancels: as -2 - 2 <pi(x), pi(c)>_L it is off by 43 times at |x| = 320 in float. The exponent is at most
// kProximalExponentMax, beyond which value and slope stay those of that exponent. The distance of the run's own
// manifold, along its retraction, is runtime/training/proximal.h, which needs a gradient; this is a loss too, so that
// zeroth-order estimators have it.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_PROXIMAL_LOSS_H_
#define GRADSTREAM_RUNTIME_PROBLEM_PROXIMAL_LOSS_H_

#include "runtime/problem/problem.h"

namespace gradstream {

// Values equal the wire's enum; never renumber. kGeodesic is no term of a loss: runtime/training/proximal.h.
enum class ProximalForm : uint8_t { kGeodesic = 0, kChordal = 1, kLorentz = 2 };

// exp overflows at 88 in float.
inline constexpr Real kProximalExponentMax = 80;

// The context of kProximalLossOps. What it points to outlives it.
struct ProximalLoss {
  Problem inner;
  const Real* centre = nullptr;  // c, of the shape that is asked for
  ProximalForm form = ProximalForm::kChordal;
  Real mu = 0;
  Real sigma = 1;  // kLorentz
};

// As the inner problem, whose codes it passes on; check_shape also kInvalidArgument for a mu below 0, a sigma not above
// 0 or one of them no number. Takes no memory beside the inner problem's. The table has a gradient; where the inner
// problem has none, it is kUnimplemented.
extern const ProblemOps kProximalLossOps;

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_PROXIMAL_LOSS_H_

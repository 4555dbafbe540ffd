// The proximal term mu/2 d(x, X)^2 that keeps a local path near its start X: a part of any solver with a moving point.
// (002, RFedProx; 004, the local objective of FedAsync.) Its Riemannian gradient at x is -mu L_x(X), with L the inverse
// of the run's retraction: it pulls towards X. An early public script has the other sign, which pushes away.
#ifndef GRADSTREAM_RUNTIME_TRAINING_PROXIMAL_H_
#define GRADSTREAM_RUNTIME_TRAINING_PROXIMAL_H_

#include <cstddef>

#include "runtime/base/arena.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

// Arena scratch of add_proximal, bytes; 0 for mu = 0.
size_t proximal_scratch_size(const ManifoldOps& manifold, Shape shape, Real mu);

// g <- g - mu L_x(centre), g in T_x; nothing for mu = 0. g aliases neither point. kSingular where L_x(centre) is
// undefined (the path has left the region around X), kOutOfMemory; g is then unchanged.
Status add_proximal(const ManifoldOps& manifold, Shape shape, Real mu, const Real* x, const Real* centre, Real* g,
                    Arena& arena);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_PROXIMAL_H_

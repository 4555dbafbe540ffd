// The smooth parallelization of Stiefel and Grassmann, shared by both.
#ifndef GRADSTREAM_RUNTIME_MANIFOLD_SMOOTH_TRANSPORT_H_
#define GRADSTREAM_RUNTIME_MANIFOLD_SMOOTH_TRANSPORT_H_

#include <cstddef>

#include "runtime/base/arena.h"
#include "runtime/base/linalg.h"
#include "runtime/base/status.h"

namespace gradstream {

// V = X Om + N, with Om = skew(X'V) and N the part normal to X, goes to Y Om + Yp Xp'N. Xp completes X to an
// orthonormal basis, and Yp = polar((I - YY') Xp) follows smoothly. With the polar decomposition X'Y = U G the last
// term is N - (Y + X U)(I + G)^(-1) Y'N. So no complement is formed, and the choice of Xp does not matter. Isometric;
// only + - * / sqrt. On Grassmann (Om = 0) it is the parallel transport along the minimal geodesic from X to Y U'. For
// the representative Y multiply it by U from the right. For one column it is the sphere's.
//
// All rows x cols with orthonormal columns; out may be v. unitary (cols x cols) receives U. kSingular where X'Y is.
Status smooth_transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Real* unitary,
                        Arena& arena);
size_t smooth_transport_scratch_size(Shape shape);  // bytes of arena scratch

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_MANIFOLD_SMOOTH_TRANSPORT_H_

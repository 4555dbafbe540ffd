// The secant pair of two models and the Barzilai-Borwein numbers made of it (002 section 3): with the models x_{t-1}
// and x_t and a gradient at each,
//   s = T(L_{x_{t-1}}(x_t)),   y = grad(x_t) - T(grad(x_{t-1})),   both in T_{x_t}, T from x_{t-1} to x_t,
//   curvature b = <s, y> / <s, s>  (first form)   or   <y, y> / <s, y>  (second form);   step 1 / b.
// Devices use it with their own gradients, the server with the mean ones: the same code, so that the two agree.
#ifndef GRADSTREAM_RUNTIME_TRAINING_SECANT_H_
#define GRADSTREAM_RUNTIME_TRAINING_SECANT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

// Values equal the wire's enum; never renumber.
enum class BarzilaiBorwein : uint8_t { kNone = 0, kFirst = 1, kSecond = 2 };

struct Secant {
  Real ss = 0;  // <s, s> at x_t
  Real sy = 0;
  Real yy = 0;
};

// Arena scratch of find_secant, bytes.
size_t secant_scratch_size(const ManifoldOps& manifold, Shape shape);

// previous_gradient is in T_{x_{t-1}}, gradient in T_{x_t}. kSingular where s is undefined (the models are too far
// apart for the inverse retraction), kOutOfMemory; *out is then as it was.
Status find_secant(const ManifoldOps& manifold, Shape shape, const Real* previous, const Real* current,
                   const Real* previous_gradient, const Real* gradient, Secant* out, Arena& arena);

// b, or 0 where it means nothing: no form, <s, s> = 0, <s, y> <= 0 (no positive curvature between the models), or a
// number that is not finite.
Real curvature_of(BarzilaiBorwein form, const Secant& secant);

// The step 1 / b within [step_min, step_max]; step_max where b means nothing. 0 < step_min <= step_max.
Real barzilai_borwein_step(BarzilaiBorwein form, const Secant& secant, Real step_min, Real step_max);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_SECANT_H_

// How a proximal term measures the way from its centre (docs/algorithms.md, "Proximal terms").
#ifndef GRADSTREAM_RUNTIME_MANIFOLD_PROXIMAL_FORM_H_
#define GRADSTREAM_RUNTIME_MANIFOLD_PROXIMAL_FORM_H_

#include <cstdint>

namespace gradstream {

// Values equal the wire's enum; never renumber. kGeodesic is a term of a step (runtime/training/proximal.h); the others
// are terms of a loss (runtime/problem/proximal_loss.h).
enum class ProximalForm : uint8_t { kGeodesic = 0, kChordal = 1, kLorentz = 2, kDistance = 3 };

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_MANIFOLD_PROXIMAL_FORM_H_

// What the client image links. A board that needs other members, or fewer, defines make_registry() in its own folder
// and leaves firmware/registry.cc out.
#ifndef GRADSTREAM_FIRMWARE_REGISTRY_H_
#define GRADSTREAM_FIRMWARE_REGISTRY_H_

#include <span>

#include "runtime/training/solver.h"

namespace gradstream {

// Stiefel and sphere; analytic gradient and zeroth order, one- and two-sided; projection and gradient stream. On hosts
// every estimator and solver. The problems are the application's and must outlive the registry.
Registry make_registry(std::span<const Problem> problems);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_REGISTRY_H_

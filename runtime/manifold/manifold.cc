#include "runtime/manifold/manifold.h"

namespace gradstream {

const ManifoldOps* find_manifold(std::span<const ManifoldOps* const> linked, ManifoldId id) {
  for (const ManifoldOps* ops : linked) {
    if (ops->id == id) {
      return ops;
    }
  }
  return nullptr;
}

}  // namespace gradstream

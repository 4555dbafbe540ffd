#include "server/run/names.h"

namespace gradstream {

std::string variants_of(ManifoldId id) {
  std::string text;
  for (const ManifoldOps* ops : all_manifolds()) {
    if (ops->id == id) {
      text += (text.empty() ? "" : ", ") + std::string(name_of(ops->retraction_kind)) + " with " +
              name_of(ops->transport_kind);
    }
  }
  return text;
}

}  // namespace gradstream

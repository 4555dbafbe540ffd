#include "runtime/manifold/manifold.h"

namespace gradstream {

const ManifoldOps* find_manifold(std::span<const ManifoldOps* const> linked, ManifoldId id, RetractionKind retraction,
                                 TransportKind transport) {
  for (const ManifoldOps* ops : linked) {
    const bool has_retraction =
        retraction == RetractionKind::kDefault ? ops->is_default_retraction : ops->retraction_kind == retraction;
    const bool has_transport =
        transport == TransportKind::kDefault ? ops->is_default_transport : ops->transport_kind == transport;
    if (ops->id == id && has_retraction && has_transport) {
      return ops;
    }
  }
  return nullptr;
}

Status random_tangent(const ManifoldOps& ops, Shape shape, const Real* x, const RandomKey& key, Real* out,
                      Arena& arena) {
  fill_normal(key, 0, shape.size(), out);
  return ops.project_tangent(shape, x, out, out, arena);
}

}  // namespace gradstream

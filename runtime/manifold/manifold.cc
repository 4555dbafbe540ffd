#include "runtime/base/no_contraction.h"

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

namespace {

template <typename Property>
bool holds_everywhere(const ManifoldOps& ops, Shape shape, Property property) {
  bool holds = property(ops);
  for (size_t i = 0; ops.id == ManifoldId::kProduct && i < shape.parts->count; ++i) {
    holds = holds && property(*shape.parts->part[i].ops);
  }
  return holds;
}

}  // namespace

bool is_reproducible(const ManifoldOps& ops, Shape shape) {
  return holds_everywhere(ops, shape, [](const ManifoldOps& part) { return part.reproducible; });
}

bool has_isometric_transport(const ManifoldOps& ops, Shape shape) {
  return holds_everywhere(ops, shape, [](const ManifoldOps& part) { return part.isometric_transport; });
}

bool has_distance_gradient(const ManifoldOps& ops, Shape shape) {
  return holds_everywhere(ops, shape, [](const ManifoldOps& part) { return part.distance_gradient != nullptr; });
}

Status random_tangent(const ManifoldOps& ops, Shape shape, const Real* x, const RandomKey& key, Real* out,
                      Arena& arena) {
  fill_normal(key, 0, shape.size(), out);
  return ops.project_tangent(shape, x, out, out, arena);
}

}  // namespace gradstream

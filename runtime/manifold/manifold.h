// The contract of a manifold and its run-time table.
//
// A manifold is any type that satisfies ManifoldType (static functions only, no state). The run-time form is
// ManifoldOps: a constexpr struct of plain function pointers in flash, made by make_manifold_ops<M>(). Solvers take
// `const ManifoldOps&` and `Shape`, and are compiled once. Points x, y; tangent vectors v, w; ambient g; all row-major
// rows x cols. An output may alias an input only where it says so.
//
// Adding a manifold: one runtime/manifold/<name>.cc, one line in an image's registry, one enum value on the wire. It
// must pass tests/manifold_checker.h.
#ifndef GRADSTREAM_RUNTIME_MANIFOLD_MANIFOLD_H_
#define GRADSTREAM_RUNTIME_MANIFOLD_MANIFOLD_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/linalg.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"

namespace gradstream {

// Values equal the wire's Manifold enum (proto/gradstream.proto); never renumber.
enum class ManifoldId : uint8_t {
  kNone = 0,
  kEuclidean = 1,
  kSphere = 2,
  kStiefel = 3,
};

// clang-format off
template <typename M>
concept ManifoldType = requires(Shape shape, const Real* in, Real* out, const RandomKey& key, Arena& arena) {
  { M::kId } -> std::convertible_to<ManifoldId>;
  { M::kName } -> std::convertible_to<const char*>;
  // Every operation that a replica repeats uses only + - * / sqrt in a fixed order (no libm).
  { M::kReproducible } -> std::convertible_to<bool>;
  // transport() preserves the inner product.
  { M::kIsometricTransport } -> std::convertible_to<bool>;
  // kInvalidArgument when the manifold has no such shape.
  { M::check_shape(shape) } -> std::same_as<Status>;
  // Dimension of the manifold.
  { M::dimension(shape) } -> std::same_as<size_t>;
  // Bytes of arena scratch that the hungriest operation takes.
  { M::scratch_size(shape) } -> std::same_as<size_t>;
  // Nearest point P_M(z); out may be z. kSingular where it is not unique, kNotFinite.
  { M::project_point(shape, in /*z*/, out, arena) } -> std::same_as<Status>;
  // Orthogonal projection of ambient g to T_x; out may be g.
  { M::project_tangent(shape, in /*x*/, in /*g*/, out, arena) } -> std::same_as<Status>;
  // Euclidean gradient to Riemannian gradient at x; out may be g.
  { M::riemannian_gradient(shape, in /*x*/, in /*g*/, out, arena) } -> std::same_as<Status>;
  // R_x(v), the manifold's default retraction (its .cc says which); out may be x or v.
  { M::retract(shape, in /*x*/, in /*v*/, out, arena) } -> std::same_as<Status>;
  // v with R_x(v) = y; kSingular where undefined; out aliases neither.
  { M::inverse_retract(shape, in /*x*/, in /*y*/, out, arena) } -> std::same_as<Status>;
  // v in T_x to T_y, the default transport (its .cc says which); out may be v.
  { M::transport(shape, in /*x*/, in /*y*/, in /*v*/, out, arena) } -> std::same_as<Status>;
  // <v, w>_x.
  { M::inner(shape, in /*x*/, in /*v*/, in /*w*/) } -> std::same_as<Real>;
  // Distance from x to y (geodesic where closed, else the norm of the inverse retraction; its .cc says which). libm.
  { M::distance(shape, in /*x*/, in /*y*/, arena) } -> std::same_as<Result<Real>>;
  // A point drawn from the stream of key (normals, then P_M). libm.
  { M::random_point(shape, key, out, arena) } -> std::same_as<Status>;
};
// clang-format on

// The run-time table. Field by field as the concept above.
struct ManifoldOps {
  ManifoldId id;
  const char* name;
  bool reproducible;
  bool isometric_transport;
  Status (*check_shape)(Shape);
  size_t (*dimension)(Shape);
  size_t (*scratch_size)(Shape);
  Status (*project_point)(Shape, const Real* z, Real* out, Arena&);
  Status (*project_tangent)(Shape, const Real* x, const Real* g, Real* out, Arena&);
  Status (*riemannian_gradient)(Shape, const Real* x, const Real* g, Real* out, Arena&);
  Status (*retract)(Shape, const Real* x, const Real* v, Real* out, Arena&);
  Status (*inverse_retract)(Shape, const Real* x, const Real* y, Real* out, Arena&);
  Status (*transport)(Shape, const Real* x, const Real* y, const Real* v, Real* out, Arena&);
  Real (*inner)(Shape, const Real* x, const Real* v, const Real* w);
  Result<Real> (*distance)(Shape, const Real* x, const Real* y, Arena&);
  Status (*random_point)(Shape, const RandomKey&, Real* out, Arena&);
};

template <ManifoldType M>
constexpr ManifoldOps make_manifold_ops() {
  return {M::kId,          M::kName,          M::kReproducible,   M::kIsometricTransport,
          M::check_shape,  M::dimension,      M::scratch_size,    M::project_point,
          M::project_tangent, M::riemannian_gradient, M::retract, M::inverse_retract,
          M::transport,    M::inner,          M::distance,        M::random_point};
}

extern const ManifoldOps kEuclideanOps;
extern const ManifoldOps kSphereOps;
extern const ManifoldOps kStiefelOps;

// The member of `linked` with this id, or null. An image's registry is the list of what it links.
const ManifoldOps* find_manifold(std::span<const ManifoldOps* const> linked, ManifoldId id);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_MANIFOLD_MANIFOLD_H_

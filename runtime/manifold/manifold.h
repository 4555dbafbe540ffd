// The contract of a manifold and its run-time table.
//
// A manifold is any type that satisfies ManifoldType (static functions only, no state). The run-time form is
// ManifoldOps: a constexpr struct of plain function pointers in flash, made by make_manifold_ops<M>(). Solvers take
// `const ManifoldOps&` and `Shape`, and are compiled once. Points x, y; tangent vectors v, w; ambient g; all row-major
// rows x cols. An output may alias an input only where it says so.
//
// A variant of a manifold, another retraction or transport, is a table of its own: an image links, and pays for, the
// variants that it registers. retract and inverse_retract of one table always belong together.
//
// Adding a manifold: one runtime/manifold/<name>.cc, one line in all_manifolds.cc and in the registry of each image
// that wants it, one enum value on the wire. It must pass tests/support/manifold_checker.h.
#ifndef GRADSTREAM_RUNTIME_MANIFOLD_MANIFOLD_H_
#define GRADSTREAM_RUNTIME_MANIFOLD_MANIFOLD_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/random.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace gradstream {

// Values equal the wire's Manifold enum (proto/gradstream.proto); never renumber.
enum class ManifoldId : uint8_t {
  kNone = 0,
  kEuclidean = 1,
  kSphere = 2,
  kStiefel = 3,
  kOblique = 4,
  kGrassmann = 5,
  kSpd = 6,
  kFixedRank = 7,
  kHyperbolic = 8,
  kProduct = 9,
};

// Which retraction a table has. Values equal the wire's Retraction enum; never renumber.
enum class RetractionKind : uint8_t {
  kDefault = 0,  // asks for the manifold's own choice; only the product's table has it, whose parts have their own
  kPolar = 1,
  kQr = 2,
  kProjection = 3,  // P_M(x + v)
  kExponential = 4,
  kSecondOrder = 5,  // a polynomial of second order: X + V + V X^-1 V / 2 of SPD
  kPolarFormal = 6,  // Stiefel: polar, inverse_retract by its equation alone; for comparison only
};

// Which vector transport a table has. Values equal the wire's Transport enum; never renumber.
enum class TransportKind : uint8_t {
  kDefault = 0,  // asks for the manifold's own choice; only the product's table has it, whose parts have their own
  kProjection = 1,
  kParallel = 2,     // along the minimal geodesic
  kSmooth = 3,       // parallelization whose complement basis varies smoothly with the point
  kHouseholder = 4,  // parallelization with a Householder complement: jumps; for comparison only
  kUnaligned = 5,    // Grassmann: projection of a lift as it stands, representatives not aligned; for comparison
};

// clang-format off
template <typename M>
concept ManifoldType = requires(Shape shape, const Real* in, Real* out, const RandomKey& key, Arena& arena) {
  { M::kId } -> std::convertible_to<ManifoldId>;
  { M::kName } -> std::convertible_to<const char*>;
  { M::kRetraction } -> std::convertible_to<RetractionKind>;
  { M::kTransport } -> std::convertible_to<TransportKind>;
  // What kDefault stands for on this manifold; the same in all its variants.
  { M::kDefaultRetraction } -> std::convertible_to<RetractionKind>;
  { M::kDefaultTransport } -> std::convertible_to<TransportKind>;
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
  // R_x(v), kRetraction; out may be x or v. kSingular where it leaves the region in which it is defined.
  { M::retract(shape, in /*x*/, in /*v*/, out, arena) } -> std::same_as<Status>;
  // v with R_x(v) = y; kSingular where undefined; out aliases neither.
  { M::inverse_retract(shape, in /*x*/, in /*y*/, out, arena) } -> std::same_as<Status>;
  // v in T_x to T_y, kTransport; out may be v. kSingular where it is undefined.
  { M::transport(shape, in /*x*/, in /*y*/, in /*v*/, out, arena) } -> std::same_as<Status>;
  // <v, w>_x. kSingular where x has no metric (an SPD point that lost definiteness).
  { M::inner(shape, in /*x*/, in /*v*/, in /*w*/, arena) } -> std::same_as<Result<Real>>;
  // Distance from x to y (geodesic where closed, else the norm of the inverse retraction; its .cc says which). libm.
  { M::distance(shape, in /*x*/, in /*y*/, arena) } -> std::same_as<Result<Real>>;
  // A point drawn from the stream of key (normals, then P_M). libm.
  { M::random_point(shape, key, out, arena) } -> std::same_as<Status>;
};
// clang-format on

// Optional members of M, where the manifold has them in closed form:
//   exp_map(shape, x, v, out, arena)   the geodesic from x with velocity v, at time 1; out may be x or v
//   log_map(shape, x, y, out, arena)   v with exp_map(x, v) = y, the shortest; kSingular at the cut locus; out aliases
//                                      neither
//   distance_gradient(shape, x, y, out, arena)
//                                      the Euclidean gradient at x of distance(x, y)^2 / 2: its riemannian_gradient is
//                                      -log_x(y) where the distance is geodesic. Statuses as log_map's; out aliases
//                                      neither. In every variant of a manifold that has it

// The run-time table. Field by field as the concept above.
struct ManifoldOps {
  ManifoldId id;
  const char* name;
  RetractionKind retraction_kind;
  TransportKind transport_kind;
  bool is_default_retraction;
  bool is_default_transport;
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
  Result<Real> (*inner)(Shape, const Real* x, const Real* v, const Real* w, Arena&);
  // For hosts: null where kHasHostMembers is false.
  Result<Real> (*distance)(Shape, const Real* x, const Real* y, Arena&) = nullptr;
  Status (*random_point)(Shape, const RandomKey&, Real* out, Arena&) = nullptr;
  // Null also where there is no closed form, or where this variant does not carry its code.
  Status (*exp_map)(Shape, const Real* x, const Real* v, Real* out, Arena&) = nullptr;
  Status (*log_map)(Shape, const Real* x, const Real* y, Real* out, Arena&) = nullptr;
  Status (*distance_gradient)(Shape, const Real* x, const Real* y, Real* out, Arena&) = nullptr;
};

template <ManifoldType M>
constexpr ManifoldOps make_manifold_ops() {
  ManifoldOps ops = {M::kId,
                     M::kName,
                     M::kRetraction,
                     M::kTransport,
                     M::kRetraction == M::kDefaultRetraction,
                     M::kTransport == M::kDefaultTransport,
                     M::kReproducible,
                     M::kIsometricTransport,
                     M::check_shape,
                     M::dimension,
                     M::scratch_size,
                     M::project_point,
                     M::project_tangent,
                     M::riemannian_gradient,
                     M::retract,
                     M::inverse_retract,
                     M::transport,
                     M::inner};
  if constexpr (kHasHostMembers) {
    ops.distance = M::distance;
    ops.random_point = M::random_point;
  }
  if constexpr (kHasHostMembers &&
                requires(const Real* in, Real* out, Arena& arena) { M::exp_map(Shape{}, in, in, out, arena); }) {
    ops.exp_map = M::exp_map;
  }
  if constexpr (kHasHostMembers &&
                requires(const Real* in, Real* out, Arena& arena) { M::log_map(Shape{}, in, in, out, arena); }) {
    ops.log_map = M::log_map;
  }
  if constexpr (kHasHostMembers && requires(const Real* in, Real* out, Arena& arena) {
                  M::distance_gradient(Shape{}, in, in, out, arena);
                }) {
    ops.distance_gradient = M::distance_gradient;
  }
  return ops;
}

// One block of a point that has several. ops is null where the manifold needs none.
struct Part {
  const ManifoldOps* ops = nullptr;
  Shape shape;
};
struct Parts {
  uint32_t count = 0;
  Part part[kPartCountMax];
  std::span<const Part> list() const { return {part, count}; }
};

// The properties of a table at a shape: a product has those that all its parts have.
bool is_reproducible(const ManifoldOps& ops, Shape shape);
bool has_isometric_transport(const ManifoldOps& ops, Shape shape);
bool has_distance_gradient(const ManifoldOps& ops, Shape shape);

extern const ManifoldOps kEuclideanOps;
extern const ManifoldOps kSphereOps;                          // projection, parallel
extern const ManifoldOps kSphereExponentialOps;               // exponential, parallel
extern const ManifoldOps kStiefelOps;                         // polar, projection
extern const ManifoldOps kStiefelSmoothOps;                   // polar, smooth
extern const ManifoldOps kStiefelHouseholderOps;              // polar, householder
extern const ManifoldOps kStiefelFormalOps;                   // polar_formal, projection
extern const ManifoldOps kStiefelQrOps;                       // qr, projection
extern const ManifoldOps kStiefelQrSmoothOps;                 // qr, smooth
extern const ManifoldOps kStiefelExponentialOps;              // exponential, projection
extern const ManifoldOps kStiefelExponentialSmoothOps;        // exponential, smooth
extern const ManifoldOps kObliqueOps;                         // projection, parallel
extern const ManifoldOps kObliqueProjectionOps;               // projection, projection
extern const ManifoldOps kObliqueExponentialOps;              // exponential, parallel
extern const ManifoldOps kGrassmannOps;                       // polar, projection
extern const ManifoldOps kGrassmannParallelOps;               // polar, parallel
extern const ManifoldOps kGrassmannUnalignedOps;              // polar, unaligned
extern const ManifoldOps kGrassmannSmoothOps;                 // polar, smooth
extern const ManifoldOps kGrassmannQrOps;                     // qr, projection
extern const ManifoldOps kGrassmannQrParallelOps;             // qr, parallel
extern const ManifoldOps kGrassmannExponentialOps;            // exponential, parallel
extern const ManifoldOps kGrassmannExponentialProjectionOps;  // exponential, projection
extern const ManifoldOps kSpdOps;                             // exponential, parallel
extern const ManifoldOps kSpdSecondOrderOps;                  // second_order, parallel
extern const ManifoldOps kHyperbolicOps;                      // exponential, parallel
extern const ManifoldOps kHyperbolicProjectionOps;            // projection, parallel
extern const ManifoldOps kFixedRankOps;                       // projection, projection; Shape::parts
extern const ManifoldOps kProductOps;                         // the parts' own; Shape::parts

// The member of `linked` with this id, retraction and transport, or null; kDefault asks for the manifold's own choice.
// An image's registry is the list of what it links.
const ManifoldOps* find_manifold(std::span<const ManifoldOps* const> linked, ManifoldId id,
                                 RetractionKind retraction = RetractionKind::kDefault,
                                 TransportKind transport = TransportKind::kDefault);

// Every table of the runtime: for hosts, which can afford to link them all.
std::span<const ManifoldOps* const> all_manifolds();

// A tangent vector at x: the projection of normals drawn from the stream of key, not scaled (the direction of the
// tangent estimator). libm, so not reproducible. Takes the arena's scratch as project_tangent does. out aliases
// nothing.
Status random_tangent(const ManifoldOps& ops, Shape shape, const Real* x, const RandomKey& key, Real* out,
                      Arena& arena);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_MANIFOLD_MANIFOLD_H_

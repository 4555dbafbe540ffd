#include "bench/manifold_cases.h"

#include "bench/manifold_eigen.h"
#include "bench/manifold_lapack.h"
#include "runtime/manifold/fixed_rank.h"

namespace gradstream {
namespace {

Status point_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.project_point(o.shape, o.z.data(), o.out.data(), arena);
}
Status project_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.project_tangent(o.shape, o.x.data(), o.v.data(), o.out.data(), arena);
}
Status retract_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.retract(o.shape, o.x.data(), o.v.data(), o.out.data(), arena);
}
Status transport_ours(const ManifoldOps& ops, Operands& o, Arena& arena) {
  return ops.transport(o.shape, o.x.data(), o.y.data(), o.v.data(), o.out.data(), arena);
}

constexpr Shape kTall[] = {kBoardShape, {64, 8}, {256, 4}, {256, 8}, {784, 4}, {784, 5}, {784, 8}};
// The same, without a bar.
constexpr Shape kTallSeen[] = {kBoardShape, {64, 8}, {256, 4}, {256, 8}, {784, 4}, {784, 5}, {784, 8}};
// Manifolds without such shapes have their own, and no bar.
constexpr Shape kSquare[] = {{3, 3}, {4, 4}, {8, 8}, {16, 16}, {32, 32}};
constexpr Shape kColumn[] = {{16, 1}, {64, 1}, {784, 1}};
// Far from the origin, as random points of a high dimension are, the sides differ by more than rounding.
constexpr Shape kHyperbolic[] = {{4, 1}, {16, 1}, {64, 1}};

// m x n matrices of rank r as m + n + r rows of r.
std::span<const Shape> fixed_rank_shapes() {
  static const Parts parts[] = {fixed_rank_parts(28, 32, 4), fixed_rank_parts(120, 128, 8)};
  static const Shape shapes[] = {fixed_rank_shape(parts[0]), fixed_rank_shape(parts[1])};
  return shapes;
}

void add_stiefel(std::vector<Operation>* out) {
  out->insert(out->end(),
              {{"stiefel project_point", &kStiefelOps, kTall, point_ours, eigen_point, lapack_point},
               {"stiefel project_tangent", &kStiefelOps, kTall, project_ours,
                [](Operands& o) { eigen_tangent(o, o.cx, true); }, [](Operands& o) { lapack_tangent(o, o.cx, true); }},
               {"stiefel retract polar", &kStiefelOps, kTall, retract_ours, eigen_polar, lapack_polar},
               {"stiefel retract qr", &kStiefelQrOps, kTall, retract_ours, eigen_qr, lapack_qr,
                Agreement::kEntriesButColumnSigns},
               {"stiefel retract exponential", &kStiefelExponentialOps, kTall, retract_ours, eigen_stiefel_exponential,
                nullptr},
               {"stiefel transport projection", &kStiefelOps, kTall, transport_ours,
                [](Operands& o) { eigen_tangent(o, o.cy, true); }, [](Operands& o) { lapack_tangent(o, o.cy, true); }},
               {"stiefel transport smooth", &kStiefelSmoothOps, kTall, transport_ours, eigen_smooth, lapack_smooth}});
}

void add_grassmann(std::vector<Operation>* out) {
  out->insert(out->end(), {{"grassmann project_point", &kGrassmannOps, kTall, point_ours, eigen_point, lapack_point},
                           {"grassmann project_tangent", &kGrassmannOps, kTall, project_ours,
                            [](Operands& o) { eigen_tangent(o, o.cx, false); },
                            [](Operands& o) { lapack_tangent(o, o.cx, false); }},
                           {"grassmann retract polar", &kGrassmannOps, kTall, retract_ours, eigen_polar, lapack_polar},
                           {"grassmann retract qr", &kGrassmannQrOps, kTall, retract_ours, eigen_qr, lapack_qr,
                            Agreement::kEntriesButColumnSigns},
                           {"grassmann retract exponential", &kGrassmannExponentialOps, kTall, retract_ours,
                            eigen_grassmann_exponential, lapack_grassmann_exponential},
                           {"grassmann transport projection", &kGrassmannOps, kTall, transport_ours,
                            eigen_grassmann_transport, lapack_grassmann_transport},
                           {"grassmann transport parallel", &kGrassmannParallelOps, kTall, transport_ours,
                            eigen_grassmann_parallel, lapack_grassmann_parallel}});
}

void add_others(std::vector<Operation>* out) {
  out->insert(
      out->end(),
      {{"oblique project_point", &kObliqueOps, kTall, point_ours, eigen_oblique_project, lapack_oblique_project},
       {"oblique project_tangent", &kObliqueOps, kTall, project_ours, eigen_oblique_tangent, lapack_oblique_tangent},
       {"oblique retract", &kObliqueOps, kTall, retract_ours, eigen_oblique_retract, lapack_oblique_retract},
       {"oblique retract exponential", &kObliqueExponentialOps, kTall, retract_ours, eigen_oblique_exponential,
        lapack_oblique_exponential},
       {"oblique exponential, peers drift", &kObliqueExponentialOps, kTallSeen, retract_ours,
        eigen_oblique_exponential_drifting, lapack_oblique_exponential_drifting},
       {"oblique transport parallel", &kObliqueOps, kTall, transport_ours, eigen_oblique_transport,
        lapack_oblique_transport},
       {"oblique transport projection", &kObliqueProjectionOps, kTall, transport_ours,
        eigen_oblique_transport_projection, lapack_oblique_transport_projection}});
  // The sphere is the oblique manifold's single column.
  out->insert(
      out->end(),
      {{"sphere project_point", &kSphereOps, kColumn, point_ours, eigen_oblique_project, lapack_oblique_project},
       {"sphere project_tangent", &kSphereOps, kColumn, project_ours, eigen_oblique_tangent, lapack_oblique_tangent},
       {"sphere retract", &kSphereOps, kColumn, retract_ours, eigen_oblique_retract, lapack_oblique_retract},
       {"sphere retract exponential", &kSphereExponentialOps, kColumn, retract_ours, eigen_oblique_exponential,
        lapack_oblique_exponential},
       {"sphere transport", &kSphereOps, kColumn, transport_ours, eigen_oblique_transport, lapack_oblique_transport},
       {"spd retract exponential", &kSpdOps, kSquare, retract_ours, eigen_spd_exponential, lapack_spd_exponential},
       {"spd retract second_order", &kSpdSecondOrderOps, kSquare, retract_ours, eigen_spd_second_order,
        lapack_spd_second_order},
       {"spd transport parallel", &kSpdOps, kSquare, transport_ours, eigen_spd_transport, lapack_spd_transport},
       {"fixed_rank project_tangent", &kFixedRankOps, fixed_rank_shapes(), project_ours, eigen_fixed_rank_tangent,
        nullptr},
       {"fixed_rank retract", &kFixedRankOps, fixed_rank_shapes(), retract_ours, eigen_fixed_rank_retract,
        lapack_fixed_rank_retract, Agreement::kFactoredMatrix},
       {"fixed_rank transport", &kFixedRankOps, fixed_rank_shapes(), transport_ours, eigen_fixed_rank_transport,
        nullptr},
       {"hyperbolic project_tangent", &kHyperbolicOps, kHyperbolic, project_ours, eigen_hyperbolic_tangent,
        lapack_hyperbolic_tangent},
       {"hyperbolic retract exponential", &kHyperbolicOps, kHyperbolic, retract_ours, eigen_hyperbolic_exponential,
        lapack_hyperbolic_exponential},
       {"hyperbolic transport parallel", &kHyperbolicOps, kHyperbolic, transport_ours, eigen_hyperbolic_transport,
        lapack_hyperbolic_transport}});
}

}  // namespace

std::vector<Operation> make_operations() {
  std::vector<Operation> operations;
  add_stiefel(&operations);
  add_grassmann(&operations);
  add_others(&operations);
  return operations;
}

bool has_bar(const Operation& operation) { return operation.shapes.data() == kTall; }

}  // namespace gradstream

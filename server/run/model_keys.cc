#include "server/run/model_keys.h"

#include <algorithm>
#include <iterator>

#include "runtime/manifold/fixed_rank.h"
#include "server/run/check_range.h"
#include "server/run/names.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

constexpr const char* kTangentOfFactors =
    "projection_tangent estimates derivatives by the numbers of the factors, whose tangent part is no gradient on "
    "fixed_rank; use tangent_retraction or analytic_gradient";

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }

Objection check_fixed_rank(const RunParameters& p) {
  if (p.model->manifold != ManifoldId::kFixedRank) {
    return p.model->matrix.empty() && p.model->rank == 0
               ? ""
               : "matrix, rank, manifold: only manifold fixed_rank has them; leave "
                 "them out";
  }
  Parts parts;
  if (Objection objection = read_matrix(p, &parts)) {
    return objection;
  }
  if (p.model->shape.rows != fixed_rank_shape(parts).rows || p.model->shape.cols != p.model->rank) {
    return "rows, cols, matrix: the point of a matrix is made of its factors; leave rows and cols out";
  }
  GS_ASSERT(p.model->part_list != nullptr &&
            p.model->shape.parts == p.model->part_list.get());  // set_parts() was called
  return p.local->estimator != EstimatorId::kProjectionTangent
             ? ""
             : std::string("estimator, manifold: ") + kTangentOfFactors;
}

Objection check_parts(const RunParameters& p) {
  if (p.model->manifold != ManifoldId::kProduct) {
    return p.model->parts.empty() ? "" : "parts, manifold: only manifold product has parts; leave them out";
  }
  if (p.model->parts.empty()) {
    return "parts, manifold: manifold product needs a list of parts, such as [\"stiefel 16x2\", \"euclidean 10x1\"]";
  }
  PartList list;
  if (Objection objection = read_parts(p.model->parts, &list)) {
    return objection;
  }
  const uint64_t size = size_of(list.parts);
  if (size > kProductSizeMax) {
    return "parts: together they have " + std::to_string(size) + " numbers, at most " +
           std::to_string(kProductSizeMax) + "; leave parts out, or make them smaller";
  }
  if (p.model->shape.rows != size || p.model->shape.cols != 1) {
    return "rows, cols, parts: a product is one column of all numbers of its parts; leave rows and cols out";
  }
  GS_ASSERT(p.model->part_list != nullptr &&
            p.model->shape.parts == p.model->part_list.get());  // set_parts() was called
  const bool has_rank = std::any_of(std::begin(list.parts.list()), std::end(list.parts.list()),
                                    [](const Part& part) { return part.ops->id == ManifoldId::kFixedRank; });
  return !has_rank || p.local->estimator != EstimatorId::kProjectionTangent
             ? Objection()
             : Objection(std::string("estimator, parts: ") + kTangentOfFactors);
}

}  // namespace

Objection check_model(const RunParameters& p) {
  if (Objection objection = check_range(p, "name")) {
    return objection;
  }
  if (p.name.find_first_of("\n=\"") != std::string::npos) {
    return "name: no line breaks, quotes or '='";
  }
  if (find_manifold(all_manifolds(), p.model->manifold) == nullptr) {
    return "manifold: this server knows none of that number";
  }
  const ManifoldOps* manifold = server_manifold(p);
  if (manifold == nullptr) {
    return "retraction, transport: manifold " + std::string(name_of(p.model->manifold)) + " has no retraction " +
           name_of(p.model->retraction) + " with transport " + name_of(p.model->transport) + "; it has " +
           variants_of(p.model->manifold);
  }
  for (const auto check : {check_parts, check_fixed_rank}) {
    if (Objection objection = check(p)) {
      return objection;
    }
  }
  const uint32_t rows_max = p.model->manifold == ManifoldId::kProduct ? kProductSizeMax : kDimensionMax;
  if (p.model->shape.rows == 0 || p.model->shape.cols == 0 || p.model->shape.rows > rows_max ||
      p.model->shape.cols > kDimensionMax) {
    return "rows, cols: both needed, from 1 to " + std::to_string(kDimensionMax) + "; they are " +
           std::to_string(p.model->shape.rows) + " and " + std::to_string(p.model->shape.cols) + " (0: left out)";
  }
  if (manifold->check_shape(p.model->shape) != Status::kOk) {
    return "rows, cols: manifold " + std::string(manifold->name) + " has no points of shape " +
           std::to_string(p.model->shape.rows) + " x " + std::to_string(p.model->shape.cols);
  }
  if (!p.model->network.empty() && p.model->problem != kNetworkProblemName) {
    return "network, problem: a network is trained by the problem \"network\", not by \"" + p.model->problem +
           "\"; set problem, or leave network out";
  }
  if (Objection objection = check_range(p, "problem")) {
    return objection;
  }
  if (std::any_of(p.model->problem.begin(), p.model->problem.end(), is_control)) {
    return "problem: no line breaks or other control characters";
  }
  if (p.stream() == StreamKind::kScalarStream && !is_reproducible(*manifold, p.model->shape)) {
    return "manifold: " + std::string(manifold->name) + " with retraction " + name_of(manifold->retraction_kind) +
           " is not reproducible bit for bit, so that records of scalars cannot be replayed; use solver "
           "gradient_stream";
  }
  return {};
}

}  // namespace gradstream

#include "runtime/manifold/fixed_rank.h"
#include "server/run/check_parameters.h"
#include "server/run/names.h"
#include "server/run/parts.h"

namespace gradstream {
namespace {

constexpr uint32_t kNameSizeMax = 63;

std::string check_fixed_rank(const RunParameters& p) {
  if (p.manifold != ManifoldId::kFixedRank) {
    return p.matrix.empty() && p.rank == 0 ? ""
                                           : "matrix, rank, manifold: only manifold fixed_rank has them; leave "
                                             "them out";
  }
  Parts parts;
  if (std::string fault = read_matrix(p, &parts); !fault.empty()) {
    return fault;
  }
  if (p.shape.rows != fixed_rank_shape(parts).rows || p.shape.cols != p.rank) {
    return "rows, cols, matrix: the point of a matrix is made of its factors; leave rows and cols out";
  }
  GS_ASSERT(p.part_list != nullptr && p.shape.parts == p.part_list.get());  // set_parts() was called
  return p.estimator != EstimatorId::kProjectionTangent
             ? ""
             : "estimator, manifold: projection_tangent estimates derivatives by the numbers of the factors, whose "
               "tangent part is no gradient on fixed_rank; use tangent_retraction or analytic_gradient";
}

std::string check_parts(const RunParameters& p) {
  if (p.manifold != ManifoldId::kProduct) {
    return p.parts.empty() ? "" : "parts, manifold: only manifold product has parts; leave them out";
  }
  if (p.parts.empty()) {
    return "parts, manifold: manifold product needs a list of parts, such as [\"stiefel 16x2\", \"euclidean 10x1\"]";
  }
  Parts parts;
  if (std::string fault = read_parts(p.parts, &parts); !fault.empty()) {
    return fault;
  }
  const uint64_t size = size_of(parts);
  if (size > kDimensionMax) {
    return "parts: together they have " + std::to_string(size) + " numbers, at most " + std::to_string(kDimensionMax);
  }
  if (p.shape.rows != size || p.shape.cols != 1) {
    return "rows, cols, parts: a product is one column of all numbers of its parts; leave rows and cols out";
  }
  GS_ASSERT(p.part_list != nullptr && p.shape.parts == p.part_list.get());  // set_parts() was called
  return "";
}

}  // namespace

std::string check_model(const RunParameters& p) {
  if (p.name.empty() || p.name.size() > kNameSizeMax) {
    return "name: a run needs a name of 1 to 63 characters";
  }
  if (p.name.find_first_of("\n=\"") != std::string::npos) {
    return "name: no line breaks, quotes or '='";
  }
  if (find_manifold(all_manifolds(), p.manifold) == nullptr) {
    return "manifold: this server knows none of that number";
  }
  const ManifoldOps* manifold = server_manifold(p);
  if (manifold == nullptr) {
    return "retraction, transport: manifold " + std::string(name_of(p.manifold)) + " has no retraction " +
           name_of(p.retraction) + " with transport " + name_of(p.transport) + "; it has " + variants_of(p.manifold);
  }
  for (const auto check : {check_parts, check_fixed_rank}) {
    if (std::string fault = check(p); !fault.empty()) {
      return fault;
    }
  }
  if (p.shape.rows == 0 || p.shape.cols == 0 || p.shape.rows > kDimensionMax || p.shape.cols > kDimensionMax) {
    return "rows, cols: both needed, from 1 to " + std::to_string(kDimensionMax) + "; they are " +
           std::to_string(p.shape.rows) + " and " + std::to_string(p.shape.cols) + " (0: left out)";
  }
  if (manifold->check_shape(p.shape) != Status::kOk) {
    return "rows, cols: manifold " + std::string(manifold->name) + " has no points of shape " +
           std::to_string(p.shape.rows) + " x " + std::to_string(p.shape.cols);
  }
  if (!p.network.empty() && p.problem != kNetworkProblemName) {
    return "network, problem: a network is trained by the problem \"network\", not by \"" + p.problem +
           "\"; set problem, or leave network out";
  }
  if (p.problem.empty() || p.problem.size() > kProblemNameSizeMax) {
    return "problem: name what the devices minimise, in 1 to " + std::to_string(kProblemNameSizeMax) + " characters";
  }
  if (p.stream() == StreamKind::kScalarStream && !is_reproducible(*manifold, p.shape)) {
    return "manifold: " + std::string(manifold->name) + " with retraction " + name_of(manifold->retraction_kind) +
           " is not reproducible bit for bit, so that records of scalars cannot be replayed; use solver "
           "gradient_stream";
  }
  return "";
}

}  // namespace gradstream

// gs_own_problem(): an application's C callbacks as a problem. A file of its own, so that only images that call it link
// it.
#include <cmath>
#include <cstring>

#include "firmware/linked_problem.h"

namespace gradstream {
namespace {

gs_problem own = {};

uint32_t sample_count(const void*) { return own.sample_count; }

Status check_shape(const void*, Shape shape) {
  return shape == Shape{own.rows, own.cols} ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void*, Shape) { return 0; }

Result<Real> loss(const void*, Shape, const Real* x, Batch batch, Arena&) {
  float value = 0;
  GS_TRY(status_of_callback(own.loss(own.context, x, batch.indices, batch.count, &value)));
  if (!std::isfinite(value)) {
    return Status::kNotFinite;
  }
  return value;
}

Status gradient(const void*, Shape shape, const Real* x, Batch batch, Real* out, Arena&) {
  GS_TRY(status_of_callback(own.gradient(own.context, x, batch.indices, batch.count, out)));
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

ProblemOps ops = {};
const gs_linked_problem linked = {{&ops, &own}};

bool is_valid(const gs_problem* problem) {
  return problem != nullptr && problem->name != nullptr && std::strlen(problem->name) <= kProblemNameSizeMax &&
         problem->loss != nullptr && problem->rows > 0 && problem->cols > 0 && problem->sample_count > 0 &&
         problem->sample_count <= kSampleCountMax;
}

}  // namespace
}  // namespace gradstream

const gs_linked_problem* gs_own_problem(const gs_problem* problem) {
  using namespace gradstream;
  own = is_valid(problem) ? *problem : gs_problem{};
  ops = {own.name, sample_count, check_shape, scratch_size, loss, own.gradient == nullptr ? nullptr : gradient};
  return &linked;
}

// gs_own_problem(): an application's C callbacks as a problem. A file of its own, so that only images that call it link
// it.
#include <cmath>
#include <cstring>

#include "firmware/application.h"
#include "firmware/device_parts.h"
#include "include/gradstream/problem.h"

namespace gradstream {
namespace {

OwnProblemPart own;

uint32_t sample_count(const void* problem) { return static_cast<const gs_problem*>(problem)->sample_count; }

Status check_shape(const void* problem, Shape shape) {
  const auto& said = *static_cast<const gs_problem*>(problem);
  return shape == Shape{said.rows, said.cols} ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void*, Shape) { return 0; }

Status status_of_answer(int code, Batch batch) {
  return code == GS_MEASURING ? at_work(own).measurement.wait(batch) : status_of_callback(code);
}

Result<Real> loss(const void* problem, Shape, const Real* x, Batch batch, Arena&) {
  const auto& said = *static_cast<const gs_problem*>(problem);
  float value = NAN;  // a callback that says it has a result, and writes none, is found out
  at_work(own).measurement.ask(batch);
  GS_TRY(status_of_answer(said.loss(said.context, x, batch.indices, batch.count, &value), batch));
  if (!std::isfinite(value)) {
    return Status::kNotFinite;
  }
  return value;
}

Status gradient(const void* problem, Shape shape, const Real* x, Batch batch, Real* out, Arena&) {
  const auto& said = *static_cast<const gs_problem*>(problem);
  at_work(own).measurement.ask(batch);
  GS_TRY(status_of_answer(said.gradient(said.context, x, batch.indices, batch.count, out), batch));
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

const gs_linked_problem linked = {{&own.ops, &own.problem}};

bool is_valid(const gs_problem* problem) {
  return problem != nullptr && problem->name != nullptr && std::strlen(problem->name) <= kProblemNameSizeMax &&
         problem->loss != nullptr && problem->rows > 0 && problem->cols > 0 && problem->sample_count > 0 &&
         problem->sample_count <= kSampleCountMax;
}

static_assert(GS_MEASURE_POLL_MS == kMeasurePollMs && GS_MEASURE_TIMEOUT_MS == kMeasureTimeoutMs);

}  // namespace

const gs_linked_problem* take_own_problem(const gs_linked_problem* problem, gs_device* device) {
  if (problem != &linked) {
    return problem;
  }
  auto& mine = static_cast<OwnProblemPart&>(*device);
  mine = own;
  device->own_problem = {{&mine.ops, &mine.problem}};
  return &device->own_problem;
}

Status score_own(const ScoreInput& input, Real* out) {
  const OwnProblemPart& mine = at_work(own);
  if (app().problem.ops != &mine.ops || mine.problem.score == nullptr) {
    return Status::kUnimplemented;
  }
  Real value = NAN;
  const int code = mine.problem.score(mine.problem.context, input.model, input.sample, &value);
  if (code != 0 || !std::isfinite(value)) {
    return Status::kNotFinite;
  }
  *out = value;
  return Status::kOk;
}

Status predict_own(const ScoreInput& input, Real* out) {
  const OwnProblemPart& mine = at_work(own);
  if (app().problem.ops != &mine.ops || mine.problem.predict == nullptr) {
    return Status::kUnimplemented;
  }
  const bool is_known = all_finite(app().samples.dimension, input.sample) &&
                        mine.problem.predict(mine.problem.context, input.model, input.sample, out) == 0;
  return is_known ? Status::kOk : Status::kNotFinite;
}

}  // namespace gradstream

const gs_linked_problem* gs_own_problem(const gs_problem* problem) {
  using namespace gradstream;
  own.problem = is_valid(problem) ? *problem : gs_problem{};
  const gs_problem& said = own.problem;
  own.measurement = Measurement({said.name, said.measure_timeout_ms, said.cancel, said.context, log_lost_measurement});
  own.ops = {said.name, sample_count, check_shape, scratch_size, loss, said.gradient == nullptr ? nullptr : gradient};
  return &linked;
}

uint32_t gs_question(void) { return gradstream::at_work(gradstream::own).measurement.question(); }

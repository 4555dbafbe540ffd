// gs_own_problem(): an application's C callbacks as a problem. A file of its own, so that only images that call it link
// it.
#include <cmath>
#include <cstring>

#include "firmware/application.h"
#include "include/gradstream/problem.h"

namespace gradstream {
namespace {

gs_problem own = {};
Measurement measurement;

uint32_t sample_count(const void*) { return own.sample_count; }

Status check_shape(const void*, Shape shape) {
  return shape == Shape{own.rows, own.cols} ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void*, Shape) { return 0; }

Status status_of_answer(int code, Batch batch) {
  return code == GS_MEASURING ? measurement.wait(batch) : status_of_callback(code);
}

Result<Real> loss(const void*, Shape, const Real* x, Batch batch, Arena&) {
  float value = NAN;  // a callback that says it has a result, and writes none, is found out
  measurement.ask(batch);
  GS_TRY(status_of_answer(own.loss(own.context, x, batch.indices, batch.count, &value), batch));
  if (!std::isfinite(value)) {
    return Status::kNotFinite;
  }
  return value;
}

Status gradient(const void*, Shape shape, const Real* x, Batch batch, Real* out, Arena&) {
  measurement.ask(batch);
  GS_TRY(status_of_answer(own.gradient(own.context, x, batch.indices, batch.count, out), batch));
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

ProblemOps ops = {};
const gs_linked_problem linked = {{&ops, &own}};

bool is_valid(const gs_problem* problem) {
  return problem != nullptr && problem->name != nullptr && std::strlen(problem->name) <= kProblemNameSizeMax &&
         problem->loss != nullptr && problem->rows > 0 && problem->cols > 0 && problem->sample_count > 0 &&
         problem->sample_count <= kSampleCountMax;
}

static_assert(GS_MEASURE_POLL_MS == kMeasurePollMs && GS_MEASURE_TIMEOUT_MS == kMeasureTimeoutMs);

}  // namespace

Status score_own(const ScoreInput& input, Real* out) {
  if (app.problem.ops != &ops || own.score == nullptr) {
    return Status::kUnimplemented;
  }
  Real value = NAN;
  const int code = own.score(own.context, input.model, input.sample, &value);
  if (code != 0 || !std::isfinite(value)) {
    return Status::kNotFinite;
  }
  *out = value;
  return Status::kOk;
}

Status predict_own(const ScoreInput& input, Real* out) {
  if (app.problem.ops != &ops || own.predict == nullptr) {
    return Status::kUnimplemented;
  }
  const bool is_known =
      all_finite(app.samples.dimension, input.sample) && own.predict(own.context, input.model, input.sample, out) == 0;
  return is_known ? Status::kOk : Status::kNotFinite;
}

}  // namespace gradstream

const gs_linked_problem* gs_own_problem(const gs_problem* problem) {
  using namespace gradstream;
  own = is_valid(problem) ? *problem : gs_problem{};
  measurement = Measurement({own.name, own.measure_timeout_ms, own.cancel, own.context, log_lost_measurement});
  ops = {own.name, sample_count, check_shape, scratch_size, loss, own.gradient == nullptr ? nullptr : gradient};
  return &linked;
}

uint32_t gs_question(void) { return gradstream::measurement.question(); }

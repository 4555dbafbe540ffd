// gs_score(): how a sample fits the model held.
#include "firmware/application.h"
#include "runtime/base/products.h"
#include "runtime/training/solver.h"

namespace gradstream {

gs_result result_of_use(Status status) {
  switch (status) {
    case Status::kOk:
      return GS_OK;
    case Status::kUnimplemented:
      return GS_NO_SCORE;
    case Status::kOutOfMemory:
      return GS_OUT_OF_MEMORY;
    default:
      return GS_BAD_SAMPLE;
  }
}

gs_result take_model(ScoreInput* out) {
  gs_model_view model;
  if (!gs_model(&model)) {
    return GS_NO_MODEL;
  }
  const Client& client = app().device->client();
  const char* const name = client.problem_name();  // of a task; after a reset there was none yet
  const bool is_other = *name != '\0' ? find_problem({&app().problem, 1}, name) == nullptr : is_kept_problem_other();
  out->shape = {model.rows, model.cols};
  out->model = model.values;
  out->units = client.units();
  if (is_other || app().problem.ops->check_shape(app().problem.context, out->shape) != Status::kOk ||
      check_units(app().problem, out->units) != Status::kOk) {
    return GS_OTHER_MODEL;
  }
  if (!out->units.are_decided()) {
    out->units.count = 0;
  }
  return GS_OK;
}

gs_result score_sample(const ScoreInput& input, float* out) {
  Status status = Status::kUnimplemented;
  if (app().problem.ops == &kKpcaOps) {
    status = score_kpca(input, out);
  } else if (app().scores != nullptr && app().scores->score != nullptr) {
    status = app().scores->score(app().problem.context, input, out);
  } else {
    status = score_own(input, out);
    status = status == Status::kUnimplemented ? score_linked(input, out) : status;
  }
  return result_of_use(status);
}

}  // namespace gradstream

gs_result gs_score(const float* sample, float* out) {
  using namespace gradstream;
  if (sample == nullptr || out == nullptr) {
    return GS_BAD_ARGUMENT;
  }
  ScoreInput input;
  if (const gs_result result = take_model(&input); result != GS_OK) {
    return result;
  }
  if (!all_finite(app().samples.dimension, sample)) {
    return GS_BAD_SAMPLE;
  }
  input.sample = sample;
  return score_sample(input, out);
}

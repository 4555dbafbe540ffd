#include <cstring>

#include "firmware/application.h"
#include "include/gradstream/problem.h"
#include "runtime/base/products.h"

const gs_linked_problem gs_brockett = {{&gradstream::kBrockettOps, nullptr}};
const gs_linked_problem gs_spd_mean = {{&gradstream::kSpdMeanOps, nullptr}};
const gs_linked_problem gs_hyperbolic = {{&gradstream::kHyperbolicMeanOps, nullptr}};
const gs_linked_problem gs_least_squares = {{&gradstream::kLeastSquaresOps, nullptr}};
const gs_linked_problem gs_completion = {{&gradstream::kCompletionOps, nullptr}};
const gs_linked_problem gs_logistic = {{&gradstream::kLogisticOps, nullptr}};

namespace gradstream {
namespace {

// By its name, among the problems over the samples of gs_config. Reason: its address would link the problem.
bool is_problem(const char* name) {
  return app().problem.context == &app().samples && find_problem({&app().problem, 1}, name) != nullptr;
}

// A source of one sample, which the application has.
Status read_one(const void* context, uint32_t, Real* out) {
  std::memcpy(out, context, app().samples.dimension * sizeof(Real));
  return Status::kOk;
}

// The loss of that sample alone.
Status score_by_loss(const ScoreInput& input, Real* out) {
  const SampleSource source = {input.sample, 1, app().samples.dimension, read_one};
  Batch batch;
  batch.count = 1;
  batch.units = input.units.count > 0 ? &input.units : nullptr;
  const Result<Real> loss = app().problem.ops->loss(&source, input.shape, input.model, batch, *app().arena);
  GS_TRY(loss.status());
  *out = loss.value();
  return Status::kOk;
}

}  // namespace

Status score_linked(const ScoreInput& input, Real* out) {
  if (is_problem("least_squares")) {
    return score_least_squares(input, out);
  }
  // The context of other problems is no source of samples.
  return app().problem.context == &app().samples ? score_by_loss(input, out) : Status::kUnimplemented;
}

// Targets and labels are not read.
Status predict_linked(const ScoreInput& input, Real* out) {
  const bool is_linear = is_problem("least_squares");
  if (!is_linear && !is_problem("logistic")) {
    return Status::kUnimplemented;
  }
  if (!all_finite(input.shape.rows, input.sample)) {
    return Status::kNotFinite;
  }
  if (is_linear) {
    predict_least_squares(input, out);
  } else {
    predict_logistic(input, out);
  }
  return all_finite(input.shape.cols, out) ? Status::kOk : Status::kNotFinite;
}

}  // namespace gradstream

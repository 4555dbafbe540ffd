// gs_predict(): what the model held says of a sample. Apart from gs_score(): an image that asks for one of them does
// not pay for the other.
#include "firmware/application.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

Status predict_sample(const ScoreInput& input, float* out) {
  if (app().scores != nullptr && app().scores->predict != nullptr) {
    const bool is_finite = all_finite(app().samples.dimension, input.sample);
    return is_finite ? app().scores->predict(app().problem.context, input, out) : Status::kNotFinite;
  }
  const Status own = predict_own(input, out);
  return own == Status::kUnimplemented ? predict_linked(input, out) : own;
}

}  // namespace
}  // namespace gradstream

gs_result gs_predict(const float* sample, float* out) {
  using namespace gradstream;
  if (sample == nullptr || out == nullptr) {
    return GS_BAD_ARGUMENT;
  }
  ScoreInput input;
  if (const gs_result result = take_model(&input); result != GS_OK) {
    return result;
  }
  input.sample = sample;
  return result_of_use(predict_sample(input, out));
}

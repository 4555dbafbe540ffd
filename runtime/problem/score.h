// How one sample fits a model, and what a model predicts for it: what an application asks of a model that it holds.
//
// The functions read the sample where the application has it, and take no scratch. An image links those that it calls.
// A score is no replicated state: it may differ in its last bits between processors.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_SCORE_H_
#define GRADSTREAM_RUNTIME_PROBLEM_SCORE_H_

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/base/units.h"

namespace gradstream {

// A model and a sample. The shape has passed the problem's check_shape, and units its check_units().
struct ScoreInput {
  Shape shape;
  const Real* model = nullptr;   // shape.size() values
  const Real* sample = nullptr;  // as the device has it
  Units units;                   // that the run takes out; no columns: samples stay as they are

  // Value i of the sample without its unit, as Units::apply() computes it.
  Real value(uint32_t i) const {
    if (!kTakesUnits || i >= units.count) {
      return sample[i];
    }
    return (sample[i] - static_cast<Real>(units.columns[i].mean)) * static_cast<Real>(units.columns[i].factor);
  }
};

// Columns of a model of kpca that score_kpca() takes. Reason: their products stand on the stack, 256 bytes in float.
inline constexpr uint32_t kScoreColsMax = kStiefelColsMax;

// |z - X X'z|, z the sample's shape.rows values without units: its distance from the model's subspace. The difference
// is formed number by number, so that a small distance has no error beyond the rounding of z. kUnimplemented: more than
// kScoreColsMax columns; kNotFinite: the result is no number. This and the next score write *out with kOk alone.
Status score_kpca(const ScoreInput& input, Real* out);

// out[c] <- X'a for target c in the target's own units, shape.cols values; a: the first shape.rows values.
void predict_least_squares(const ScoreInput& input, Real* out);
// |prediction - targets| in the targets' own units; they stand behind a. kNotFinite.
Status score_least_squares(const ScoreInput& input, Real* out);

// out <- the classes' probabilities (softmax of X'a), shape.cols values; with one column the probability of label 1.
void predict_logistic(const ScoreInput& input, Real* out);

// *out <- the square root of a sum of squares. kNotFinite.
inline Status root_of(Real sum, Real* out) {
  if (!std::isfinite(sum)) {
    return Status::kNotFinite;
  }
  *out = std::sqrt(sum);
  return Status::kOk;
}

// What an application's own problem has in C++, beside its ProblemOps.
struct ScoreOps {
  // Null: it has none. kNotFinite, kOutOfRange: the sample is none that it takes. *out is written with kOk alone.
  Status (*score)(const void* context, const ScoreInput& input, Real* out) = nullptr;
  Status (*predict)(const void* context, const ScoreInput& input, Real* out) = nullptr;
};

// The table of a problem that is a type. Optional members: Result<Real> score(const ScoreInput&) const; Status
// predict(const ScoreInput&, Real* out) const.
template <typename P>
constexpr ScoreOps make_score_ops() {
  ScoreOps ops;
  if constexpr (requires(const P& problem, const ScoreInput& input) {
                  { problem.score(input) } -> std::same_as<Result<Real>>;
                }) {
    ops.score = [](const void* context, const ScoreInput& input, Real* out) {
      const Result<Real> score = static_cast<const P*>(context)->score(input);
      GS_TRY(score.status());
      *out = score.value();
      return Status::kOk;
    };
  }
  if constexpr (requires(const P& problem, const ScoreInput& input, Real* out) {
                  { problem.predict(input, out) } -> std::same_as<Status>;
                }) {
    ops.predict = [](const void* context, const ScoreInput& input, Real* out) {
      return static_cast<const P*>(context)->predict(input, out);
    };
  }
  return ops;
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_SCORE_H_

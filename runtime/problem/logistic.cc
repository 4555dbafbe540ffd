// Logistic regression with two classes (one column) or more (softmax). One column is softmax too: class 0 has the fixed
// score 0 and stands in front of the column's.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/score.h"

namespace gradstream {
namespace {

Status check_shape(const void* context, Shape shape) {
  const bool fits = shape.rows >= 1 && shape.cols >= 1 && uint64_t{shape.rows} + 1 == source_of(context).dimension;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

uint32_t class_count(Shape shape) { return shape.cols == 1 ? 2 : shape.cols; }

size_t scratch_size(const void* context, Shape shape) {
  return Arena::taken_size<Real>(source_of(context).dimension) + Arena::taken_size<Real>(class_count(shape));
}

struct Work {
  Real* sample = nullptr;  // a, label
  Real* scores = nullptr;  // of the classes, then their probabilities
};

Status take_work(const SampleSource& source, Shape shape, Arena& arena, Work* out) {
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  const Result<Real*> scores = arena.scratch<Real>(class_count(shape));
  GS_TRY(sample.status());
  GS_TRY(scores.status());
  *out = {sample.value(), scores.value()};
  return Status::kOk;
}

// Reads sample `index`, leaves its classes' probabilities in work->scores and returns -ln p(label).
Result<Real> take_sample(const SampleSource& source, const Batch& batch, Shape shape, const Real* x, uint32_t index,
                         Work* work) {
  GS_TRY(read_sample(source, batch, index, work->sample));
  if (!all_finite(source.dimension, work->sample)) {
    return Status::kNotFinite;  // an infinite input may stand far on the right side, at a loss of 0
  }
  const uint32_t classes = class_count(shape);
  fill_zero(classes, work->scores);
  Real* scores = work->scores + (classes - shape.cols);
  for (size_t r = 0; r < shape.rows; ++r) {
    add_scaled(shape.cols, work->sample[r], x + r * shape.cols, scores);
  }
  return softmax_loss(classes, work->sample[shape.rows], work->scores);
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(source, shape, arena, &work));
  return mean_loss(batch, [&](uint32_t index) {
    const Result<Real> loss = take_sample(source, batch, shape, x, index, &work);
    QualitySum* const quality = quality_of(batch);
    if (quality != nullptr && loss.ok()) {
      quality->add_class(class_count(shape), work.sample[shape.rows], work.scores);
    }
    return loss;
  });
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(source, shape, arena, &work));
  return mean_gradient(shape.size(), batch, out, [&](uint32_t index) {
    GS_TRY(take_sample(source, batch, shape, x, index, &work).status());
    work.scores[static_cast<uint32_t>(work.sample[shape.rows])] -= 1;
    const Real* errors = work.scores + (class_count(shape) - shape.cols);
    for (size_t r = 0; r < shape.rows; ++r) {
      add_scaled(shape.cols, work.sample[r], errors, out + r * shape.cols);
    }
    return Status::kOk;
  });
}

Status find_fault(const void* context, Shape shape, Arena& arena, SampleFault* out) {
  const IndexRule rules[] = {{"label", shape.rows, class_count(shape)}};
  return find_sample_fault(source_of(context), rules, arena, out);
}

}  // namespace

void predict_logistic(const ScoreInput& input, Real* out) {
  const Shape shape = input.shape;
  fill_zero(shape.cols, out);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    add_scaled(shape.cols, input.value(r), input.model + static_cast<size_t>(r) * shape.cols, out);
  }
  if (shape.cols == 1) {
    out[0] = 1 / (1 + std::exp(-out[0]));
    return;
  }
  static_cast<void>(softmax_loss(shape.cols, 0, out));  // it leaves the probabilities behind
}

const ProblemOps kLogisticOps = {.name = "logistic",
                                 .sample_count = source_sample_count,
                                 .check_shape = check_shape,
                                 .scratch_size = scratch_size,
                                 .loss = loss,
                                 .gradient = gradient,
                                 .find_fault = kIsBareMetal ? nullptr : find_fault,
                                 .has_labels = !kIsBareMetal,
                                 .units_source = units_of_features,
                                 .metric = kEvaluates ? metric_of_means : nullptr};

}  // namespace gradstream

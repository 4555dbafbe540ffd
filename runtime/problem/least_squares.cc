// Least squares with one or more outputs.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/score.h"

namespace gradstream {
namespace {

Status check_shape(const void* context, Shape shape) {
  const bool fits =
      shape.rows >= 1 && shape.cols >= 1 && uint64_t{shape.rows} + shape.cols == source_of(context).dimension;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void* context, Shape) { return Arena::taken_size<Real>(source_of(context).dimension); }

// Reads sample `index` to `sample` and turns its y into the residual x' a - y, which it returns.
Result<const Real*> take_residual(const SampleSource& source, const Batch& batch, Shape shape, const Real* x,
                                  uint32_t index, Real* sample) {
  GS_TRY(read_sample(source, batch, index, sample));
  Real* residual = sample + shape.rows;
  scale(shape.cols, -1, residual);
  for (size_t r = 0; r < shape.rows; ++r) {
    add_scaled(shape.cols, sample[r], x + r * shape.cols, residual);
  }
  return static_cast<const Real*>(residual);
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  GS_TRY(sample.status());
  return mean_loss(batch, [&](uint32_t index) -> Result<Real> {
    const Result<const Real*> residual = take_residual(source, batch, shape, x, index, sample.value());
    GS_TRY(residual.status());
    const Real squares = dot(shape.cols, residual.value(), residual.value());
    if (QualitySum* const quality = quality_of(batch)) {
      quality->add(squares, static_cast<Real>(shape.cols));
    }
    return static_cast<Real>(0.5) * squares;
  });
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  GS_TRY(sample.status());
  return mean_gradient(shape.size(), batch, out, [&](uint32_t index) {
    const Result<const Real*> residual = take_residual(source, batch, shape, x, index, sample.value());
    GS_TRY(residual.status());
    for (size_t r = 0; r < shape.rows; ++r) {
      add_scaled(shape.cols, sample.value()[r], residual.value(), out + r * shape.cols);
    }
    return Status::kOk;
  });
}

// Of target c, in its own units.
Real predict_target(const ScoreInput& input, uint32_t c) {
  const Shape shape = input.shape;
  Real sum = 0;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    sum += input.value(r) * input.model[static_cast<size_t>(r) * shape.cols + c];
  }
  const uint32_t column = shape.rows + c;
  if (!kTakesUnits || column >= input.units.count) {
    return sum;
  }
  const UnitsColumn& unit = input.units.columns[column];
  return sum / static_cast<Real>(unit.factor) + static_cast<Real>(unit.mean);
}

}  // namespace

void predict_least_squares(const ScoreInput& input, Real* out) {
  for (uint32_t c = 0; c < input.shape.cols; ++c) {
    out[c] = predict_target(input, c);
  }
}

Status score_least_squares(const ScoreInput& input, Real* out) {
  Real sum = 0;
  for (uint32_t c = 0; c < input.shape.cols; ++c) {
    const Real error = predict_target(input, c) - input.sample[input.shape.rows + c];
    sum += error * error;
  }
  return root_of(sum, out);
}

const ProblemOps kLeastSquaresOps = {.name = "least_squares",
                                     .sample_count = source_sample_count,
                                     .check_shape = check_shape,
                                     .scratch_size = scratch_size,
                                     .loss = loss,
                                     .gradient = gradient,
                                     .find_fault = kIsBareMetal ? nullptr : find_value_fault,
                                     .units_source = units_of_all_columns,
                                     .metric = kEvaluates ? metric_of_roots : nullptr};

}  // namespace gradstream

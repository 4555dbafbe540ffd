// Brockett's cost. The matrices of a batch are added first: one product with x serves all of them.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"

namespace gradstream {
namespace {

Status check_shape(const void* context, Shape shape) {
  const bool fits =
      uint64_t{shape.rows} * shape.rows == source_of(context).dimension && shape.cols >= 1 && shape.cols <= shape.rows;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

// The sum of the matrices, one matrix as it is read, and a row of products.
size_t scratch_size(const void* context, Shape shape) {
  return 2 * Arena::taken_size<Real>(source_of(context).dimension) + Arena::taken_size<Real>(shape.cols);
}

// The weight of a column: N = diag(cols, ..., 1).
Real weight_of(Shape shape, uint32_t column) { return static_cast<Real>(shape.cols - column); }

struct Work {
  Real* sum = nullptr;  // rows x rows: the sum of the batch's matrices
  Real* row = nullptr;  // cols: one row of a product with x
};

Status prepare(const SampleSource& source, Shape shape, Batch batch, Arena& arena, Work* out) {
  const Result<Real*> sum = arena.scratch<Real>(source.dimension);
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  const Result<Real*> row = arena.scratch<Real>(shape.cols);
  GS_TRY(sum.status());
  GS_TRY(sample.status());
  GS_TRY(row.status());
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0) {
    fill_zero(source.dimension, sum.value());
  }
  const Status status = visit_samples(batch, progress, [&](uint32_t index) {
    GS_TRY(source.read(source.context, index, sample.value()));
    add_scaled(source.dimension, 1, sample.value(), sum.value());
    return Status::kOk;
  });
  *out = {sum.value(), row.value()};
  if (status == Status::kUnfinished) {
    arena.hold_scratch();
  }
  return status;
}

// work.row <- row r of (S + S') x / 2, S the sum.
void multiply_row(Shape shape, const Work& work, uint32_t r, const Real* x) {
  fill_zero(shape.cols, work.row);
  for (size_t k = 0; k < shape.rows; ++k) {
    const Real entry = static_cast<Real>(0.5) * (work.sum[size_t{r} * shape.rows + k] + work.sum[k * shape.rows + r]);
    add_scaled(shape.cols, entry, x + k * shape.cols, work.row);
  }
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  ScratchScope scope(arena);
  Work work;
  GS_TRY(prepare(source_of(context), shape, batch, arena, &work));
  Real total = 0;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    multiply_row(shape, work, r, x);
    Real part = 0;
    for (uint32_t c = 0; c < shape.cols; ++c) {
      part += weight_of(shape, c) * work.row[c] * x[size_t{r} * shape.cols + c];
    }
    total += part;
  }
  const Real mean = total / static_cast<Real>(batch.count);
  if (!std::isfinite(mean)) {
    return Status::kNotFinite;
  }
  return mean;
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  Work work;
  GS_TRY(prepare(source_of(context), shape, batch, arena, &work));
  const Real factor = static_cast<Real>(2) / static_cast<Real>(batch.count);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    multiply_row(shape, work, r, x);
    for (uint32_t c = 0; c < shape.cols; ++c) {
      out[size_t{r} * shape.cols + c] = factor * weight_of(shape, c) * work.row[c];
    }
  }
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

}  // namespace

const ProblemOps kBrockettOps = {"brockett",
                                 source_sample_count,
                                 check_shape,
                                 scratch_size,
                                 loss,
                                 gradient,
                                 kIsBareMetal ? nullptr : find_value_fault};

}  // namespace gradstream

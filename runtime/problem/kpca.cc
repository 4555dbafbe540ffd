// k-PCA. A sample is read once for each evaluation, and its products with four columns at a time stay in registers.
// Reason: on a Cortex-M4F the loads of x dominate, so that four columns cost little more than one.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"

namespace gradstream {
namespace {

constexpr uint32_t kLaneCount = 4;

// products[0..count) <- (z' x)[first + ...] for count <= 4 columns that start at `first`.
template <uint32_t count>
void multiply_columns(Shape shape, const Real* z, const Real* x, uint32_t first, Real* products) {
  Real sums[count] = {};
  const Real* row = x + first;
  for (uint32_t r = 0; r < shape.rows; ++r, row += shape.cols) {
    const Real value = z[r];
#pragma GCC unroll 4
    for (uint32_t c = 0; c < count; ++c) {
      sums[c] += value * row[c];
    }
  }
#pragma GCC unroll 4
  for (uint32_t c = 0; c < count; ++c) {
    products[c] = sums[c];
  }
}

// products (cols values) <- z' x.
void multiply_sample(Shape shape, const Real* z, const Real* x, Real* products) {
  uint32_t first = 0;
  for (; first + kLaneCount <= shape.cols; first += kLaneCount) {
    multiply_columns<kLaneCount>(shape, z, x, first, products + first);
  }
  switch (shape.cols - first) {
    case 3:
      return multiply_columns<3>(shape, z, x, first, products + first);
    case 2:
      return multiply_columns<2>(shape, z, x, first, products + first);
    case 1:
      return multiply_columns<1>(shape, z, x, first, products + first);
    default:
      return;
  }
}

Status check_shape(const void* context, Shape shape) {
  const bool fits = shape.rows == source_of(context).dimension && shape.cols >= 1 && shape.cols <= shape.rows;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

// One sample and its products, in one piece of scratch.
size_t scratch_count(Shape shape) { return static_cast<size_t>(shape.rows) + shape.cols; }

size_t scratch_size(const void*, Shape shape) {
  return (scratch_count(shape) * sizeof(Real) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(scratch_count(shape));
  GS_TRY(scratch.status());
  Real* z = scratch.value();
  Real* products = z + shape.rows;
  const Result<Real> mean = mean_loss(batch, [&](uint32_t index) -> Result<Real> {
    GS_TRY(read_sample(source, batch, index, z));
    multiply_sample(shape, z, x, products);
    const Real explained = dot(shape.cols, products, products);
    if (QualitySum* const quality = quality_of(batch)) {
      quality->add(explained, dot(shape.rows, z, z));
    }
    return explained;
  });
  GS_TRY(mean.status());
  return static_cast<Real>(-0.5) * mean.value();
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  const Result<Real*> scratch = arena.scratch<Real>(scratch_count(shape));
  GS_TRY(scratch.status());
  Real* z = scratch.value();
  Real* products = z + shape.rows;
  return mean_gradient(
      shape.size(), batch, out,
      [&](uint32_t index) {
        GS_TRY(read_sample(source, batch, index, z));
        multiply_sample(shape, z, x, products);
        if (shape.cols == 1) {  // the same sums, without a call for each value
          add_scaled(shape.rows, products[0], z, out);
          return Status::kOk;
        }
        for (uint32_t r = 0; r < shape.rows; ++r) {
          add_scaled(shape.cols, z[r], products, out + static_cast<size_t>(r) * shape.cols);
        }
        return Status::kOk;
      },
      -1);
}

}  // namespace

const ProblemOps kKpcaOps = {.name = "kpca",
                             .sample_count = source_sample_count,
                             .check_shape = check_shape,
                             .scratch_size = scratch_size,
                             .loss = loss,
                             .gradient = gradient,
                             .find_fault = kIsBareMetal ? nullptr : find_value_fault,
                             .units_source = kTakesUnits ? units_of_all_columns : nullptr,
                             .metric = kEvaluates ? metric_of_means : nullptr};

}  // namespace gradstream

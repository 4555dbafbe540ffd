// k-PCA. A sample is read once for each evaluation, and its products with four columns at a time stay in registers.
// Reason: on a Cortex-M4F the loads of x dominate, so that four columns cost little more than one. Over samples that
// are bytes the loss is computed in whole numbers (byte_products.h).
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <type_traits>

#include "runtime/base/products.h"
#include "runtime/problem/along.h"
#include "runtime/problem/byte_products.h"
#include "runtime/problem/kpca_along.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/score.h"

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

// The double build replays references, in double alone.
constexpr bool kIsFloat = std::is_same_v<Real, float>;
bool has_bytes(const SampleSource& source) { return kIsFloat && kTakesBytes && source.bytes != nullptr; }

// One sample and its products, in one piece of scratch.
size_t scratch_count(Shape shape) { return static_cast<size_t>(shape.rows) + shape.cols; }

// Scratch of a loss over bytes: the words of the point, in a run with units its rows' shifts, and for each column an
// offset and a product.
size_t bytes_scratch_size(Shape shape) {
  return Arena::taken_size<int16_t>(whole_count(shape)) + (kTakesUnits ? Arena::taken_size<uint8_t>(shape.rows) : 0) +
         Arena::taken_size<int64_t>(2 * size_t{shape.cols});
}

size_t scratch_size(const void* context, Shape shape) {
  const size_t size = Arena::taken_size<Real>(scratch_count(shape));
  return has_bytes(source_of(context)) ? max_size(size, bytes_scratch_size(shape)) : size;
}

// kUnimplemented: these samples or this point take floats.
Result<Real> loss_over_bytes(const SampleSource& source, Shape shape, const Real* x, Batch batch, Arena& arena) {
  ByteFrame frame;
  if (!find_byte_frame(source, kTakesUnits ? batch.units : nullptr, &frame)) {
    return Status::kUnimplemented;
  }
  ScratchScope scope(arena);
  const Result<int16_t*> words = arena.scratch<int16_t>(whole_count(shape));
  GS_TRY(words.status());
  WholePoint point = {shape, words.value()};
  if (frame.units != nullptr) {
    const Result<uint8_t*> shifts = arena.scratch<uint8_t>(shape.rows);
    GS_TRY(shifts.status());
    point.shifts = shifts.value();
  }
  const Result<int64_t*> offsets = arena.scratch<int64_t>(2 * size_t{shape.cols});
  GS_TRY(offsets.status());
  int64_t* const products = offsets.value() + shape.cols;
  if (!round_point(x, frame.units, &point)) {
    return Status::kUnimplemented;
  }
  multiply_mean(frame, point, offsets.value());
  const int32_t shift = square_shift(frame, point);
  const Real unit = square_unit(frame, point, shift);
  const Result<Real> mean = mean_loss(batch, [&](uint32_t index) -> Result<Real> {
    multiply_bytes(point, frame.sample(index), products);
    const Real explained = sum_of_squares(shape.cols, products, offsets.value(), shift);
    if (QualitySum* const quality = quality_of(batch)) {
      quality->add(explained * unit * unit, squared_norm(frame, frame.sample(index)));
    }
    return explained;
  });
  GS_TRY(mean.status());
  const Real loss = mean.value() * unit * unit;
  if (!std::isfinite(loss)) {
    return Status::kNotFinite;
  }
  return static_cast<Real>(-0.5) * loss;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const SampleSource& source = source_of(context);
  if (has_bytes(source)) {
    const Result<Real> over_bytes = loss_over_bytes(source, shape, x, batch, arena);
    if (over_bytes.status() != Status::kUnimplemented) {
      return over_bytes;
    }
  }
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

Status score_kpca(const ScoreInput& input, Real* out) {
  const Shape shape = input.shape;
  if (shape.cols > kScoreColsMax) {
    return Status::kUnimplemented;
  }
  Real products[kScoreColsMax];
  fill_zero(shape.cols, products);
  Real sum = 0;
  for (uint32_t pass = 0; pass < 2; ++pass) {  // X'z, then the distance: one loop takes less flash than two
    const Real* row = input.model;
    for (uint32_t r = 0; r < shape.rows; ++r, row += shape.cols) {
      const Real z = input.value(r);
      if (pass == 0) {
        add_scaled(shape.cols, z, row, products);
      } else {
        const Real rest = z - dot(shape.cols, row, products);
        sum += rest * rest;
      }
    }
  }
  return root_of(sum, out);
}

const ProblemOps kKpcaOps = {.name = "kpca",
                             .sample_count = source_sample_count,
                             .check_shape = check_shape,
                             .scratch_size = scratch_size,
                             .loss = loss,
                             .gradient = gradient,
                             .find_fault = kIsBareMetal ? nullptr : find_value_fault,
                             .along_size = kKnowsLossesAlong ? kpca_along_size : nullptr,
                             .loss_along = kKnowsLossesAlong ? kpca_loss_along : nullptr,
                             .units_source = kTakesUnits ? units_of_all_columns : nullptr,
                             .metric = kEvaluates ? metric_of_means : nullptr};

}  // namespace gradstream

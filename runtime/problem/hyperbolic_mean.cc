// Weighted Frechet mean on the hyperboloid. The time entries of two points cancel in float, so that their difference is
// made of the space parts:
//   dt = z0 - x0 = <zs - xs, zs + xs> / (z0 + x0)
//   q = |z - x|_L^2 = |zs - xs|^2 - dt^2
//   d = 2 asinh(sqrt(q) / 2)
//   log_x(z) = d / |w|_L w with w = (z - x) - (q / 2) x and |w|_L = sqrt(q (1 + q / 4))
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"

namespace gradstream {
namespace {

Status check_shape(const void* context, Shape shape) {
  const bool fits = shape.cols == 1 && shape.rows >= 2 && uint64_t{shape.rows} + 1 == source_of(context).dimension;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void* context, Shape) { return Arena::taken_size<Real>(source_of(context).dimension); }

struct Separation {
  Real time = 0;     // z0 - x0
  Real squared = 0;  // |z - x|_L^2 >= 0
  Real distance = 0;
};

// For near points the difference of two squared differences keeps its digits. For far points x0 z0 - <xs, zs> does,
// because its two terms are equal only where the points are near. The form with the smaller terms is taken.
Separation separate(Shape shape, const Real* x, const Real* z) {
  Real across = 0;
  Real space = 0;
  Real along = 0;
  for (uint32_t r = 1; r < shape.rows; ++r) {
    const Real difference = z[r] - x[r];
    across += difference * (z[r] + x[r]);
    space += difference * difference;
    along += x[r] * z[r];
  }
  Separation out;
  out.time = across / (z[0] + x[0]);
  const Real times = x[0] * z[0];
  const Real squared = space > times ? 2 * (times - along - 1) : space - out.time * out.time;
  out.squared = squared < 0 ? 0 : squared;  // rounding of near points; NaN stays NaN
  out.distance = 2 * std::asinh(std::sqrt(out.squared) / 2);
  return out;
}

// An infinite time entry alone would pass for a point nearby.
Status take_sample(const SampleSource& source, uint32_t index, Real* out) {
  GS_TRY(source.read(source.context, index, out));
  return all_finite(source.dimension, out) ? Status::kOk : Status::kNotFinite;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  GS_TRY(sample.status());
  const Real* z = sample.value();
  return mean_loss(batch, [&](uint32_t index) -> Result<Real> {
    GS_TRY(take_sample(source, index, sample.value()));
    const Real distance = separate(shape, x, z).distance;
    if (QualitySum* const quality = quality_of(batch)) {
      quality->add(distance, 1);
    }
    return z[shape.rows] * distance * distance;
  });
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  GS_TRY(sample.status());
  const Real* z = sample.value();
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0) {
    fill_zero(shape.size(), out);
  }
  const Status status = visit_samples(batch, progress, [&](uint32_t index) {
    GS_TRY(take_sample(source, index, sample.value()));
    const Separation s = separate(shape, x, z);
    // d / |w|_L tends to 1 for near points, where the quotient is 0 / 0.
    const Real length = std::sqrt(s.squared * (1 + s.squared / 4));
    const Real factor = z[shape.rows] * (length > 0 ? s.distance / length : static_cast<Real>(1));
    out[0] += factor * (s.time - s.squared / 2 * x[0]);
    for (uint32_t r = 1; r < shape.rows; ++r) {
      out[r] += factor * ((z[r] - x[r]) - s.squared / 2 * x[r]);
    }
    return Status::kOk;
  });
  GS_TRY(status);
  scale(shape.size(), static_cast<Real>(-2) / static_cast<Real>(batch.count), out);
  out[0] = -out[0];  // J
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

}  // namespace

const ProblemOps kHyperbolicMeanOps = {.name = "hyperbolic",
                                       .sample_count = source_sample_count,
                                       .check_shape = check_shape,
                                       .scratch_size = scratch_size,
                                       .loss = loss,
                                       .gradient = gradient,
                                       .find_fault = kIsBareMetal ? nullptr : find_value_fault,
                                       .metric = kEvaluates ? metric_of_means : nullptr};

}  // namespace gradstream

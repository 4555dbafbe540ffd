// Frechet mean on SPD matrices. With R = x^(-1/2), from the eigenvectors of x, and the eigenvectors P and eigenvalues l
// of R Z R: d(x, Z)^2 = sum ln(l)^2 and x^(-1) log_x(Z) x^(-1) = R (P diag(ln l) P') R.
#include "runtime/base/no_contraction.h"

#include "runtime/base/equations.h"
#include "runtime/base/products.h"
#include "runtime/problem/problem.h"

namespace gradstream {
namespace {

Status check_shape(const void* context, Shape shape) {
  const bool fits = shape.rows == shape.cols && shape.rows >= 1 && shape.rows <= kSpdMeanRowsMax &&
                    uint64_t{shape.rows} * shape.rows == source_of(context).dimension;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

// Six matrices, and the eigenvalues.
size_t scratch_size(const void*, Shape shape) { return Arena::taken_size<Real>(6 * shape.size() + shape.rows); }

struct Work {
  Real* root = nullptr;     // x^(-1/2)
  Real* sample = nullptr;   // Z, then R Z R, then what the eigen-solver leaves
  Real* vectors = nullptr;  // eigenvectors, by columns
  Real* product = nullptr;
  Real* rows = nullptr;     // eigenvectors times a function of their values, transposed
  Real* log_sum = nullptr;  // the sum of log(R Z R)
  Real* values = nullptr;
};

Status take_work(Shape shape, Arena& arena, Work* out) {
  const size_t size = shape.size();
  const Result<Real*> memory = arena.scratch<Real>(6 * size + shape.rows);
  GS_TRY(memory.status());
  Real* const begin = memory.value();
  *out = {begin,           begin + size, begin + 2 * size, begin + 3 * size, begin + 4 * size, begin + 5 * size,
          begin + 6 * size};
  return Status::kOk;
}

// work.vectors, work.values <- the eigenpairs of s, which is overwritten. kSingular unless all values are positive.
Status positive_eigen(Shape shape, Real* s, const Work& work) {
  if (!all_finite(shape.size(), s)) {
    return Status::kNotFinite;
  }
  GS_TRY(symmetric_eigen(shape.rows, s, work.values, work.vectors));
  return work.values[0] > 0 ? Status::kOk : Status::kSingular;
}

// out <- V diag(f(values)) V'.
template <typename Function>
void compose(Shape shape, const Work& work, Function function, Real* out) {
  const size_t n = shape.rows;
  for (size_t k = 0; k < n; ++k) {
    const Real value = function(work.values[k]);
    for (size_t i = 0; i < n; ++i) {
      work.rows[k * n + i] = value * work.vectors[i * n + k];
    }
  }
  multiply_right(shape, work.vectors, work.rows, out);
}

// a <- R a R.
void congruence(Shape shape, const Work& work, Real* a) {
  multiply_right(shape, work.root, a, work.product);
  multiply_right(shape, work.product, work.root, a);
  symmetrize(shape.rows, a);
}

// work.root <- x^(-1/2).
Status take_root(Shape shape, const Real* x, const Work& work) {
  copy(shape.size(), x, work.sample);
  symmetrize(shape.rows, work.sample);
  GS_TRY(positive_eigen(shape, work.sample, work));
  compose(
      shape, work, [](Real value) { return 1 / std::sqrt(value); }, work.root);
  return Status::kOk;
}

// The eigenpairs of R Z R for sample `index`.
Status take_sample(const SampleSource& source, Shape shape, uint32_t index, const Work& work) {
  GS_TRY(source.read(source.context, index, work.sample));
  congruence(shape, work, work.sample);
  return positive_eigen(shape, work.sample, work);
}

// The root of x and the sum of the logarithms stay for the calls to come.
Status held(Status status, Arena& arena) {
  if (status == Status::kUnfinished) {
    arena.hold_scratch();
  }
  return status;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(shape, arena, &work));
  if (batch.progress == nullptr || batch.progress->position == 0) {
    GS_TRY(take_root(shape, x, work));
  }
  const Result<Real> mean = mean_loss(batch, [&](uint32_t index) -> Result<Real> {
    GS_TRY(take_sample(source, shape, index, work));
    Real distance_squared = 0;
    for (uint32_t k = 0; k < shape.rows; ++k) {
      const Real log_value = std::log(work.values[k]);
      distance_squared += log_value * log_value;
    }
    if (QualitySum* const quality = quality_of(batch)) {
      quality->add(std::sqrt(distance_squared), 1);
    }
    return distance_squared;
  });
  GS_TRY(held(mean.status(), arena));
  return mean;
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(shape, arena, &work));
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0) {
    GS_TRY(take_root(shape, x, work));
    fill_zero(shape.size(), work.log_sum);
  }
  const Status status = visit_samples(batch, progress, [&](uint32_t index) {
    GS_TRY(take_sample(source, shape, index, work));
    compose(
        shape, work, [](Real value) { return std::log(value); }, work.product);
    add_scaled(shape.size(), 1, work.product, work.log_sum);
    return Status::kOk;
  });
  GS_TRY(held(status, arena));
  copy(shape.size(), work.log_sum, out);
  congruence(shape, work, out);
  scale(shape.size(), static_cast<Real>(-2) / static_cast<Real>(batch.count), out);
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

Status find_fault(const void* context, Shape shape, Arena& arena, SampleFault* out) {
  const SampleSource& source = source_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(shape, arena, &work));
  for (uint32_t i = 0; i < source.count; ++i) {
    GS_TRY(source.read(source.context, i, work.sample));
    const bool has_numbers = all_finite(source.dimension, work.sample);
    symmetrize(shape.rows, work.sample);
    const Status status = has_numbers ? positive_eigen(shape, work.sample, work) : Status::kNotFinite;
    if (status != Status::kOk) {
      *out = {i, 0, 0, 0, status == Status::kNotFinite ? "number" : "positive definite matrix"};
      return status;
    }
  }
  return Status::kOk;
}

}  // namespace

const ProblemOps kSpdMeanOps = {.name = "spd_mean",
                                .sample_count = source_sample_count,
                                .check_shape = check_shape,
                                .scratch_size = scratch_size,
                                .loss = loss,
                                .gradient = gradient,
                                .find_fault = kIsBareMetal ? nullptr : find_fault,
                                .metric = kEvaluates ? metric_of_means : nullptr};

}  // namespace gradstream

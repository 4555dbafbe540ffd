#include "runtime/base/no_contraction.h"

#include "experiments/workloads/kpca_column.h"

#include <array>

#include "experiments/workloads/workload.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

// Samples at a time. Reason: a processor of today begins two additions a cycle and ends each four cycles later.
constexpr uint32_t kLaneCount = 8;
using Samples = std::array<const Real*, kLaneCount>;
using Products = std::array<Real, kLaneCount>;

// z'x of each sample, entry by entry from the first on.
Products multiply(uint32_t rows, const Samples& z, const Real* x) {
  Products sums = {};
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
      sums[lane] += z[lane][r] * x[r];
    }
  }
  return sums;
}

// out += products z, one sample after the other in each entry.
void add_all(uint32_t rows, const Samples& z, const Products& products, Real* __restrict out) {
  for (uint32_t r = 0; r < rows; ++r) {
    Real sum = out[r];
    for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
      sum += products[lane] * z[lane][r];
    }
    out[r] = sum;
  }
}

// The products of the batch's samples from progress.position on, in order: use(z, products, count) for each group of
// kLaneCount or fewer, of which the first `count` lanes are there, moves the position on. kUnfinished as
// visit_samples().
template <typename Use>
Status visit_groups(const SampleSource& source, Batch batch, const Real* x, EvaluationProgress& progress, Use use) {
  const StoredSamples& stored = *static_cast<const StoredSamples*>(source.context);
  const uint32_t rows = source.dimension;
  while (progress.position < batch.count) {
    Samples z = {};
    uint32_t count = 0;
    while (count < kLaneCount && progress.position + count < batch.count && progress.take_unit()) {
      z[count] = stored.values.data() + static_cast<size_t>(batch.at(progress.position + count)) * rows;
      ++count;
    }
    if (count == 0) {
      return Status::kUnfinished;
    }
    for (uint32_t lane = count; lane < kLaneCount; ++lane) {
      z[lane] = z[0];  // computed for nothing
    }
    use(z, multiply(rows, z, x), count);
  }
  return Status::kOk;
}

bool takes(Shape shape, Batch batch) { return shape.cols == 1 && batch.units == nullptr; }

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  if (!takes(shape, batch)) {
    return kKpcaOps.gradient(context, shape, x, batch, out, arena);
  }
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0) {
    fill_zero(shape.rows, out);
  }
  GS_TRY(visit_groups(*static_cast<const SampleSource*>(context), batch, x, progress,
                      [&](const Samples& z, const Products& products, uint32_t count) {
                        if (count == kLaneCount) {
                          add_all(shape.rows, z, products, out);
                        } else {
                          for (uint32_t lane = 0; lane < count; ++lane) {
                            add_scaled(shape.rows, products[lane], z[lane], out);
                          }
                        }
                        progress.position += count;
                      }));
  scale(shape.rows, -1 / static_cast<Real>(batch.count), out);
  return all_finite(shape.rows, out) ? Status::kOk : Status::kNotFinite;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  if (!takes(shape, batch) || quality_of(batch) != nullptr) {
    return kKpcaOps.loss(context, shape, x, batch, arena);
  }
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  GS_TRY(visit_groups(*static_cast<const SampleSource*>(context), batch, x, progress,
                      [&](const Samples&, const Products& products, uint32_t count) {
                        for (uint32_t lane = 0; lane < count; ++lane) {
                          progress.add(products[lane] * products[lane]);
                          ++progress.position;
                        }
                      }));
  const Result<Real> mean = progress.mean();
  GS_TRY(mean.status());
  return static_cast<Real>(-0.5) * mean.value();
}

ProblemOps make_ops() noexcept {
  ProblemOps ops = kKpcaOps;
  ops.loss = loss;
  ops.gradient = gradient;
  return ops;
}

}  // namespace

const ProblemOps kKpcaColumnOps = make_ops();

}  // namespace gradstream

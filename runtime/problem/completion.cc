// Matrix completion on the fixed-rank manifold: a few known entries of a large matrix, each device its own.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"

namespace gradstream {
namespace {

constexpr uint32_t kSampleSize = 3;  // row, column, value

struct Factors {
  explicit Factors(Shape shape)
      : rank(shape.cols),
        rows(shape.parts->part[0].shape.rows),
        cols(shape.parts->part[1].shape.rows),
        v(size_t{rows} * rank),
        s(v + size_t{cols} * rank) {}
  size_t rank;
  uint32_t rows;
  uint32_t cols;
  size_t v;  // where V and S begin
  size_t s;
};

Status check_shape(const void* context, Shape shape) {
  const bool fits = source_of(context).dimension == kSampleSize && kFixedRankOps.check_shape(shape) == Status::kOk;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void*, Shape shape) { return Arena::taken_size<Real>(kSampleSize + 2 * shape.cols); }

// One known entry, and what the point says of it.
struct Entry {
  const Real* u = nullptr;  // row i of U
  const Real* v = nullptr;  // row j of V
  size_t u_at = 0;          // where they begin
  size_t v_at = 0;
  Real residual = 0;
};

// Whole numbers from 0 to below `count`.
bool is_index(Real value, uint32_t count) {
  return value >= 0 && value < static_cast<Real>(count) && value == static_cast<Real>(static_cast<uint32_t>(value));
}

// work: kSampleSize Reals, then S v (rank). kOutOfRange: the sample names no entry of the matrix.
Result<Entry> take_entry(const SampleSource& source, const Factors& f, const Real* x, uint32_t index, Real* work) {
  GS_TRY(source.read(source.context, index, work));
  if (!is_index(work[0], f.rows) || !is_index(work[1], f.cols)) {
    return all_finite(2, work) ? Status::kOutOfRange : Status::kNotFinite;
  }
  Entry entry;
  entry.u_at = static_cast<size_t>(work[0]) * f.rank;
  entry.v_at = f.v + static_cast<size_t>(work[1]) * f.rank;
  entry.u = x + entry.u_at;
  entry.v = x + entry.v_at;
  Real* const sv = work + kSampleSize;
  for (size_t k = 0; k < f.rank; ++k) {
    sv[k] = dot(f.rank, x + f.s + k * f.rank, entry.v);
  }
  entry.residual = dot(f.rank, entry.u, sv) - work[2];
  return entry;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const Factors f(shape);
  ScratchScope scope(arena);
  const Result<Real*> work = arena.scratch<Real>(kSampleSize + 2 * f.rank);
  GS_TRY(work.status());
  return mean_loss(batch, [&](uint32_t index) -> Result<Real> {
    const Result<Entry> entry = take_entry(source_of(context), f, x, index, work.value());
    GS_TRY(entry.status());
    return static_cast<Real>(0.5) * entry.value().residual * entry.value().residual;
  });
}

// By the numbers of the point: e S v to row i of U, e S'u to row j of V, e u v' to S.
Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const Factors f(shape);
  ScratchScope scope(arena);
  const Result<Real*> work = arena.scratch<Real>(kSampleSize + 2 * f.rank);
  GS_TRY(work.status());
  const Real* const sv = work.value() + kSampleSize;
  Real* const su = work.value() + kSampleSize + f.rank;
  return mean_gradient(shape.size(), batch, out, [&](uint32_t index) {
    const Result<Entry> result = take_entry(source_of(context), f, x, index, work.value());
    GS_TRY(result.status());
    const Entry& entry = result.value();
    fill_zero(f.rank, su);
    for (size_t k = 0; k < f.rank; ++k) {
      add_scaled(f.rank, entry.u[k], x + f.s + k * f.rank, su);
      add_scaled(f.rank, entry.residual * entry.u[k], entry.v, out + f.s + k * f.rank);
    }
    add_scaled(f.rank, entry.residual, sv, out + entry.u_at);
    add_scaled(f.rank, entry.residual, su, out + entry.v_at);
    return Status::kOk;
  });
}

Status find_fault(const void* context, Shape shape, Arena& arena, SampleFault* out) {
  const IndexRule rules[] = {{"row", 0, Factors(shape).rows}, {"column", 1, Factors(shape).cols}};
  return find_sample_fault(source_of(context), rules, arena, out);
}

}  // namespace

const ProblemOps kCompletionOps = {
    "completion", source_sample_count, check_shape, scratch_size, loss, gradient, kIsBareMetal ? nullptr : find_fault,
    !kIsBareMetal};

}  // namespace gradstream

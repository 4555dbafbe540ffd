#include "runtime/base/no_contraction.h"

#include "runtime/problem/problem.h"

#include <cstring>

#include "runtime/base/products.h"

namespace gradstream {

const Problem* find_problem(std::span<const Problem> linked, const char* name) {
  for (const Problem& problem : linked) {
    if (std::strncmp(problem.ops->name, name, kProblemNameSizeMax + 1) == 0) {
      return &problem;
    }
  }
  return nullptr;
}

Result<Real> softmax_loss(uint32_t class_count, Real label, Real* scores) {
  if (!(label >= 0 && label < static_cast<Real>(class_count))) {
    return Status::kOutOfRange;
  }
  const auto index = static_cast<uint32_t>(label);
  if (static_cast<Real>(index) != label) {
    return Status::kOutOfRange;
  }
  Real largest = scores[0];
  for (uint32_t c = 1; c < class_count; ++c) {
    largest = scores[c] > largest ? scores[c] : largest;
  }
  const Real margin = largest - scores[index];
  Real total = 0;
  for (uint32_t c = 0; c < class_count; ++c) {
    scores[c] = std::exp(scores[c] - largest);  // at most 1: never overflows
    total += scores[c];
  }
  scale(class_count, 1 / total, scores);
  return margin + std::log(total);
}

namespace {

bool is_index(Real value, uint32_t count) {
  return value >= 0 && value < static_cast<Real>(count) && value == static_cast<Real>(static_cast<uint32_t>(value));
}

}  // namespace

Status find_sample_fault(const SampleSource& source, std::span<const IndexRule> rules, Arena& arena, SampleFault* out) {
  ScratchScope scope(arena);
  const Result<Real*> sample = arena.scratch<Real>(source.dimension);
  GS_TRY(sample.status());
  for (uint32_t i = 0; i < source.count; ++i) {
    GS_TRY(source.read(source.context, i, sample.value()));
    if (!all_finite(source.dimension, sample.value())) {
      *out = {i, 0, 0, 0, "number"};
      return Status::kNotFinite;
    }
    for (const IndexRule& rule : rules) {
      for (uint32_t c = 0; c < rule.column_count; ++c) {
        const Real value = sample.value()[rule.column + c];
        if (!is_index(value, rule.count)) {
          *out = {i, value, 0, static_cast<Real>(rule.count - 1), rule.what};
          return Status::kOutOfRange;
        }
      }
    }
  }
  return Status::kOk;
}

Status find_value_fault(const void* context, Shape, Arena& arena, SampleFault* out) {
  return find_sample_fault(source_of(context), {}, arena, out);
}

Result<Real> mean_of_sums(const Real (&sums)[4], uint32_t count) {
  const Real mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<Real>(count);
  if (!std::isfinite(mean)) {
    return Status::kNotFinite;
  }
  return mean;
}

uint32_t source_sample_count(const void* context) { return source_of(context).count; }

UnitsSource units_of_all_columns(const void* context) { return {&source_of(context), source_of(context).dimension}; }

UnitsSource units_of_features(const void* context) { return {&source_of(context), source_of(context).dimension - 1}; }

}  // namespace gradstream

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

Result<Real> mean_of_sums(const Real (&sums)[4], uint32_t count) {
  const Real mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<Real>(count);
  if (!std::isfinite(mean)) {
    return Status::kNotFinite;
  }
  return mean;
}

uint32_t source_sample_count(const void* context) { return source_of(context).count; }

}  // namespace gradstream

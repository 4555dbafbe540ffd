#include "firmware/any_problem_posix.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "runtime/link/port.h"

namespace gradstream {
namespace {

// How far a sum of floats may be from what it is in a matrix or on the hyperboloid, relative to its terms.
constexpr double kTolerance = 1e-3;

using Sample = std::vector<Real>;
using IsOfKind = bool (*)(const Sample& sample);

bool is_whole(Real value) { return value >= 0 && std::floor(value) == value; }

// A symmetric matrix of more than one row, row by row.
bool is_symmetric(const Sample& sample) {
  const auto rows = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(sample.size()))));
  if (rows < 2 || rows * rows != sample.size()) {
    return false;
  }
  double largest = 0;
  double apart = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const Real across = sample[i % rows * rows + i / rows];
    largest = std::max(largest, std::fabs(static_cast<double>(sample[i])));
    apart = std::max(apart, std::fabs(static_cast<double>(sample[i]) - static_cast<double>(across)));
  }
  return apart <= kTolerance * largest;
}

// The diagonal of a positive definite matrix is positive.
bool is_definite(const Sample& sample) {
  if (!is_symmetric(sample)) {
    return false;
  }
  const auto rows = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(sample.size()))));
  for (size_t i = 0; i < rows; ++i) {
    if (!(sample[i * rows + i] > 0)) {
      return false;
    }
  }
  return true;
}

// Row, column and value of an entry.
bool is_entry(const Sample& sample) { return sample.size() == 3 && is_whole(sample[0]) && is_whole(sample[1]); }

// A point x0, xs with x0^2 = 1 + |xs|^2, and its weight.
bool is_on_hyperboloid(const Sample& sample) {
  if (sample.size() < 3 || !(sample[0] >= 1) || !(sample.back() > 0)) {
    return false;
  }
  double space = 1;
  for (size_t i = 1; i + 1 < sample.size(); ++i) {
    space += static_cast<double>(sample[i]) * static_cast<double>(sample[i]);
  }
  const double time = static_cast<double>(sample[0]) * static_cast<double>(sample[0]);
  return std::fabs(time - space) <= kTolerance * time;
}

bool is_all(const SampleSource& source, IsOfKind is_of_kind) {
  Sample sample(source.dimension);
  for (uint32_t i = 0; i < std::min(source.count, kLookedAtMax); ++i) {
    if (source.read(source.context, i, sample.data()) != Status::kOk || !is_of_kind(sample)) {
      return false;
    }
  }
  return source.count > 0;
}

bool has_labels(const SampleSource& source) {
  Sample sample(source.dimension);
  for (uint32_t i = 0; i < source.count; ++i) {
    if (source.read(source.context, i, sample.data()) != Status::kOk || !is_whole(sample.back())) {
      return false;
    }
  }
  return source.count > 0 && source.dimension >= 2;
}

}  // namespace

std::vector<Problem> fitting_problems(const SampleSource& source) {
  std::vector<Problem> problems;
  const auto add = [&problems](bool fits, const ProblemOps& ops) {
    if (fits) {
      problems.push_back({&ops, nullptr});
    }
  };
  add(is_all(source, is_definite), kSpdMeanOps);
  add(is_all(source, is_symmetric), kBrockettOps);
  add(is_all(source, is_entry), kCompletionOps);
  add(is_all(source, is_on_hyperboloid), kHyperbolicMeanOps);
  add(true, kKpcaOps);
  add(has_labels(source), kLogisticOps);
  add(source.dimension >= 2, kLeastSquaresOps);
  return problems;
}

const gs_linked_problem* link_any(const SampleSource& source, AnyProblem* out) {
  out->problems = fitting_problems(source);
  const size_t count = std::min(out->problems.size(), kAnyProblemsMax);
  out->left_out.assign(out->problems.begin() + static_cast<std::ptrdiff_t>(count), out->problems.end());
  out->problems.resize(count);
  out->linked.problem = out->problems.front();
  out->linked.more = std::span(out->problems).subspan(1);
  std::string line = "event=problems names=" + names_of_problems(out->problems);
  if (!out->left_out.empty()) {
    line += " left_out=" + names_of_problems(out->left_out) + " limit=" + std::to_string(kAnyProblemsMax) +
            " remedy=\"a client has so many; name the one that is wanted: --problem NAME\"";
  }
  port_log_line(line.c_str());
  return &out->linked;
}

std::string names_of_problems(const std::vector<Problem>& problems) {
  std::string names;
  for (const Problem& problem : problems) {
    names += (names.empty() ? "" : ",") + std::string(problem.ops->name);
  }
  return names;
}

}  // namespace gradstream

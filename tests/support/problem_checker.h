// What every problem must keep, whatever it computes: its golden figures, a gradient that is the loss's derivative, the
// memory that it declared, and the statuses of what it reads. Each check names the problem's own data.
#ifndef GRADSTREAM_TESTS_SUPPORT_PROBLEM_CHECKER_H_
#define GRADSTREAM_TESTS_SUPPORT_PROBLEM_CHECKER_H_

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/problem.h"
#include "tests/support/training_support.h"

namespace gradstream {

// A linear congruential generator from -scale / 2 to scale / 2 that any language writes in a line.
inline std::vector<Real> numbers(size_t count, uint32_t seed, double scale) {
  std::vector<Real> out(count);
  for (Real& value : out) {
    seed = (seed * 1103515245U + 12345U) & 0x7fffffffU;
    value = static_cast<Real>(scale * ((seed >> 8) / 8388608.0 - 0.5));
  }
  return out;
}

struct ProblemCase {
  Problem problem;
  Shape shape;
  std::vector<Real> x;

  Batch all() const { return {nullptr, problem.ops->sample_count(problem.context)}; }
};

inline double loss_at(const ProblemCase& c, const std::vector<Real>& x, Batch batch) {
  TestArena memory;
  const Result<Real> loss = c.problem.ops->loss(c.problem.context, c.shape, x.data(), batch, memory.arena);
  EXPECT_TRUE(loss.ok()) << status_text(loss.status());
  return loss.ok() ? static_cast<double>(loss.value()) : std::numeric_limits<double>::quiet_NaN();
}

inline std::vector<Real> gradient_at(const ProblemCase& c, Batch batch) {
  TestArena memory;
  std::vector<Real> gradient(c.shape.size());
  EXPECT_EQ(c.problem.ops->gradient(c.problem.context, c.shape, c.x.data(), batch, gradient.data(), memory.arena),
            Status::kOk);
  return gradient;
}

// Loss and gradient over all samples, relative to the largest figure: rounding of a few hundred operations.
inline void expect_golden(const ProblemCase& c, double loss, std::span<const double> gradient) {
  const double tolerance = 2000 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  ASSERT_EQ(c.problem.ops->check_shape(c.problem.context, c.shape), Status::kOk);
  EXPECT_NEAR(loss_at(c, c.x, c.all()), loss, tolerance * std::fabs(loss));
  const std::vector<Real> found = gradient_at(c, c.all());
  ASSERT_EQ(found.size(), gradient.size());
  double largest = 0;
  for (const double value : gradient) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], gradient[i], tolerance * largest) << i;
  }
}

// <gradient, v> against the central difference of the loss along each unit direction v = e_i, or (e_ij + e_ji) / 2 for
// a symmetric point. The step balances rounding of the loss against the third derivative.
inline void expect_gradient_is_derivative(const ProblemCase& c, Batch batch, bool symmetric = false) {
  const double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
  const double step = std::cbrt(epsilon);
  const std::vector<Real> gradient = gradient_at(c, batch);
  const double scale = 1 + std::fabs(loss_at(c, c.x, batch));
  for (size_t i = 0; i < gradient.size(); ++i) {
    const size_t mirrored = symmetric ? i % c.shape.cols * c.shape.cols + i / c.shape.cols : i;
    std::vector<Real> plus = c.x;
    std::vector<Real> minus = c.x;
    for (const size_t at : {i, mirrored}) {
      plus[at] += static_cast<Real>(step / 2);
      minus[at] -= static_cast<Real>(step / 2);
    }
    const double difference = (loss_at(c, plus, batch) - loss_at(c, minus, batch)) / (2 * step);
    const double expected = 0.5 * (static_cast<double>(gradient[i]) + static_cast<double>(gradient[mirrored]));
    EXPECT_NEAR(expected, difference, 40 * step * step * scale) << i;
  }
}

// scratch_size is what loss and gradient take, to the byte, and one byte less is kOutOfMemory.
inline void expect_declared_memory(const ProblemCase& c) {
  const size_t size = c.problem.ops->scratch_size(c.problem.context, c.shape);
  std::vector<Real> gradient(c.shape.size());
  for (const bool with_gradient : {false, true}) {
    const auto evaluate = [&](Arena& arena) {
      return with_gradient
                 ? c.problem.ops->gradient(c.problem.context, c.shape, c.x.data(), c.all(), gradient.data(), arena)
                 : c.problem.ops->loss(c.problem.context, c.shape, c.x.data(), c.all(), arena).status();
    };
    TestArena memory(size);
    EXPECT_EQ(evaluate(memory.arena), Status::kOk);
    EXPECT_EQ(memory.arena.high_water_size(), size);
    TestArena small(size - kArenaAlignment);
    EXPECT_EQ(evaluate(small.arena), Status::kOutOfMemory);
  }
}

// A sample that cannot be had, or is not finite, ends loss and gradient with its status.
inline void expect_refuses_bad_samples(const ProblemCase& c, TestSamples& samples) {
  TestArena memory;
  std::vector<Real> gradient(c.shape.size());
  const auto loss = [&] {
    return c.problem.ops->loss(c.problem.context, c.shape, c.x.data(), c.all(), memory.arena).status();
  };
  const auto differentiate = [&] {
    return c.problem.ops->gradient(c.problem.context, c.shape, c.x.data(), c.all(), gradient.data(), memory.arena);
  };
  samples.read_status = Status::kClosed;
  EXPECT_EQ(loss(), Status::kClosed);
  EXPECT_EQ(differentiate(), Status::kClosed);
  samples.read_status = Status::kOk;
  const Real good = samples.values[0];
  for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    samples.values[0] = bad;
    EXPECT_EQ(loss(), Status::kNotFinite);
    EXPECT_EQ(differentiate(), Status::kNotFinite);
    if (c.problem.ops->find_fault == nullptr) {
      continue;
    }
    SampleFault fault;
    EXPECT_EQ(c.problem.ops->find_fault(c.problem.context, c.shape, memory.arena, &fault), Status::kNotFinite);
    EXPECT_STREQ(fault.what, "number");
  }
  samples.values[0] = good;
  EXPECT_EQ(loss(), Status::kOk);
  if (c.problem.ops->find_fault == nullptr) {
    return;
  }
  TestArena least(c.problem.ops->scratch_size(c.problem.context, c.shape));
  SampleFault fault;
  EXPECT_EQ(c.problem.ops->find_fault(c.problem.context, c.shape, least.arena, &fault), Status::kOk);
  EXPECT_EQ(fault.what, nullptr);
}

// The sample's value is what loss refuses for its range, and find_fault names both and the range.
inline void expect_names_bad_value(const ProblemCase& c, TestSamples& samples, uint32_t sample, uint32_t column,
                                   double value, double most, const char* what) {
  TestArena memory;
  Real& at = samples.values[size_t{sample} * samples.source.dimension + column];
  const Real good = at;
  at = static_cast<Real>(value);
  EXPECT_EQ(c.problem.ops->loss(c.problem.context, c.shape, c.x.data(), c.all(), memory.arena).status(),
            Status::kOutOfRange);
  SampleFault fault;
  EXPECT_EQ(c.problem.ops->find_fault(c.problem.context, c.shape, memory.arena, &fault), Status::kOutOfRange);
  EXPECT_EQ(fault.sample, sample);
  EXPECT_EQ(fault.value, static_cast<Real>(value));
  EXPECT_EQ(fault.least, 0);
  EXPECT_EQ(fault.most, static_cast<Real>(most));
  EXPECT_STREQ(fault.what, what);
  at = good;
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_PROBLEM_CHECKER_H_

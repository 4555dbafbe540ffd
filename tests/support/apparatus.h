// An apparatus that exists in a test only: a problem whose loss has its answer at a later ask.
#ifndef GRADSTREAM_TESTS_SUPPORT_APPARATUS_H_
#define GRADSTREAM_TESTS_SUPPORT_APPARATUS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/measurement.h"

namespace gradstream {

// Stands for `inner` under its name, and answers as it does.
struct Apparatus {
  explicit Apparatus(Problem answering, uint32_t timeout_ms = 0) : inner(answering), measurement(options(timeout_ms)) {
    ops.name = inner.ops->name;
    ops.sample_count = [](const void* self) { return of(self).inner.ops->sample_count(of(self).inner.context); };
    ops.check_shape = [](const void* self, Shape shape) {
      return of(self).inner.ops->check_shape(of(self).inner.context, shape);
    };
    ops.scratch_size = [](const void* self, Shape shape) {
      return of(self).inner.ops->scratch_size(of(self).inner.context, shape);
    };
    ops.loss = [](const void* self, Shape shape, const Real* x, Batch batch, Arena& arena) -> Result<Real> {
      if (!of(self).is_ready(shape, x, batch)) {
        return of(self).measurement.wait(batch);
      }
      if (of(self).is_broken) {
        return std::numeric_limits<Real>::quiet_NaN();
      }
      return of(self).inner.ops->loss(of(self).inner.context, shape, x, batch, arena);
    };
    if (inner.ops->gradient != nullptr) {
      ops.gradient = [](const void* self, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
        return of(self).is_ready(shape, x, batch)
                   ? of(self).inner.ops->gradient(of(self).inner.context, shape, x, batch, out, arena)
                   : of(self).measurement.wait(batch);
      };
    }
  }
  Apparatus(const Apparatus&) = delete;  // the measurement points here
  Apparatus& operator=(const Apparatus&) = delete;

  Problem problem() const { return {&ops, this}; }

  // Power comes back: numbers begin again.
  void restart() {
    const uint32_t timeout_ms = measurement.timeout_ms();
    measurement = Measurement(options(timeout_ms));
  }

  Problem inner;
  ProblemOps ops = {};
  Measurement measurement;
  uint32_t asks_needed = 3;                  // for an answer
  bool is_silent = false;                    // no answer comes
  bool is_broken = false;                    // its answers are no numbers
  std::vector<std::vector<Real>> questions;  // point and samples of each, in their order
  std::vector<uint32_t> cancelled;           // their numbers
  uint32_t reports = 0;

 private:
  static Apparatus& of(const void* self) { return *static_cast<Apparatus*>(const_cast<void*>(self)); }

  MeasurementOptions options(uint32_t timeout_ms) {
    return {"apparatus", timeout_ms, [](const void* self, uint32_t number) { of(self).cancelled.push_back(number); },
            this, [](const Measurement& lost) { ++of(lost.options().context).reports; }};
  }

  // The same question again has its values, and its point stands where it stood.
  bool is_ready(Shape shape, const Real* x, Batch batch) {
    std::vector<Real> question(x, x + shape.size());
    for (uint32_t b = 0; b < batch.count; ++b) question.push_back(static_cast<Real>(batch.at(b)));
    if (measurement.ask(batch)) {
      questions.push_back(question);
      point_ = x;
      asks_ = 0;
    } else {
      EXPECT_EQ(question, questions.back());
      EXPECT_EQ(x, point_);
    }
    return !is_silent && ++asks_ >= asks_needed;
  }

  const Real* point_ = nullptr;
  uint32_t asks_ = 0;  // of this question
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_APPARATUS_H_

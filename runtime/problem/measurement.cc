#include "runtime/base/no_contraction.h"

#include "runtime/problem/measurement.h"

namespace gradstream {

bool Measurement::ask(Batch batch) {
  const bool is_new = batch.progress == nullptr || batch.progress->measurement != this;
  if (is_new) {
    ++question_;
    question_ += question_ == 0 ? 1 : 0;  // 0 stands for none, also after 2^32 questions
    is_timed_ = false;
    waited_ms_ = 0;
  }
  if (batch.progress != nullptr) {
    batch.progress->measurement = this;
  }
  is_waiting_ = false;
  return is_new;
}

Status Measurement::wait(Batch) {
  is_waiting_ = true;
  return Status::kUnfinished;
}

uint64_t Measurement::await_answer(Measurement& self, uint64_t now_ms) {
  if (!self.is_waiting_) {
    return 0;  // the problem computes
  }
  if (!self.is_timed_) {
    self.is_timed_ = true;
    self.since_ms_ = now_ms;
  }
  self.waited_ms_ = now_ms - self.since_ms_;
  if (self.waited_ms_ >= self.timeout_ms()) {
    if (self.options_.report != nullptr) {
      self.options_.report(self);
    }
    return kLost;
  }
  const uint64_t poll_ms = now_ms + kMeasurePollMs;
  const uint64_t limit_ms = self.since_ms_ + self.timeout_ms();
  return poll_ms < limit_ms ? poll_ms : limit_ms;
}

// A loss that computes has nothing to stop: its question has never waited.
void Measurement::give_up(Measurement& self) {
  const bool has_waited = self.is_waiting_ || self.is_timed_;
  self.is_waiting_ = self.is_timed_ = false;
  if (has_waited && self.options_.cancel != nullptr) {
    self.options_.cancel(self.options_.context, self.question_);
  }
}

}  // namespace gradstream

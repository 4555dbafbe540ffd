// A loss that is measured: its answer comes from an apparatus, and some time after the question.
//
// A question is one evaluation: a point and a batch. The first call of the loss asks it, and the same call is made
// again until there is an answer. So a loss looks like this:
//
//   if (measurement.ask(batch)) start(x);                    // a question that was not asked before
//   if (!is_ready()) return measurement.wait(batch);         // kUnfinished: ask again later
//   return read();
//
// Between two asks a device sleeps, for kMeasurePollMs at most. After the timeout it gives the question up: the local
// step ends with kDeadlineExceeded, and the steps before it stand.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_MEASUREMENT_H_
#define GRADSTREAM_RUNTIME_PROBLEM_MEASUREMENT_H_

#include <cstdint>

#include "runtime/problem/problem.h"

namespace gradstream {

// Time between two asks of a question that waits, milliseconds. Reason: an answer lies there no longer than this, and
// 200 asks a second are no load for a Linux host.
inline constexpr uint32_t kMeasurePollMs = 5;
// Time after which an answer counts as never coming, milliseconds, where the problem names no other. Reason: slow
// apparatus, such as a heater, settle within it; and a server's report_deadline_ms is as long in most runs.
inline constexpr uint32_t kMeasureTimeoutMs = 60000;

// Whether this image waits for measurements: hosts do, and boards where it is built so (gs_use_measured_loss() of
// boards/bare/bare.cmake). Without it, a board asks again at once, and never gives a question up. Reason: the
// usual image has one problem, which computes, and its bar leaves 200 bytes of flash.
#if defined(GS_BARE_METAL) && !defined(GS_MEASURED_LOSS)
inline constexpr bool kAwaitsMeasurements = false;
#else
inline constexpr bool kAwaitsMeasurements = true;
#endif

class Measurement;

// All may stay as they are.
struct MeasurementOptions {
  const char* name = "";                    // of the problem, for log lines
  uint32_t timeout_ms = kMeasureTimeoutMs;  // from the poll that asked; 0: kMeasureTimeoutMs
  // The question that waits will not be asked again. Another question may follow at once.
  void (*cancel)(const void* context, uint32_t question) = nullptr;
  const void* context = nullptr;  // of cancel
  // Called at the timeout, before cancel: log_lost_measurement() of include/gradstream/problem.h, for one.
  void (*report)(const Measurement& measurement) = nullptr;
};

// The questions of one problem. The problem owns it, beside its other state, and it outlives the device.
class Measurement {
 public:
  // What await() returns at the timeout.
  static constexpr uint64_t kLost = UINT64_MAX;

  constexpr Measurement() = default;
  constexpr explicit Measurement(const MeasurementOptions& options) : options_(options) {}

  // ---- For the problem ----

  // First in loss() and gradient(). true: this is a new question, with a number of its own. false: it is the one that
  // was asked last: its point has the same values at the same address, and its batch the same samples. Of a batch of
  // one sample for each direction the list is good for the call alone. A batch without progress, as of a direct call in
  // a test, is always a new question.
  bool ask(Batch batch);
  // The answer "not yet"; returns kUnfinished.
  Status wait(Batch batch);
  // The number of the question that was asked last, from 1; 0: none was. It counts from this object's start, and so
  // anew after a reset.
  uint32_t question() const { return question_; }

  // ---- For whoever asks ----

  // When to ask again: 0 at once, kLost not any more. now_ms: of the ask that was just made.
  uint64_t await(uint64_t now_ms) { return await_(*this, now_ms); }
  // The question is given up: calls cancel, once, where the question has waited.
  void drop() { drop_(*this); }

  const MeasurementOptions& options() const { return options_; }
  uint32_t timeout_ms() const { return options_.timeout_ms != 0 ? options_.timeout_ms : kMeasureTimeoutMs; }
  // Time that the question has waited, until the last await(), milliseconds.
  uint64_t waited_ms() const { return waited_ms_; }

 private:
  static uint64_t await_answer(Measurement& self, uint64_t now_ms);
  static void give_up(Measurement& self);

  MeasurementOptions options_;
  // Through pointers, so that an image without measured losses links neither.
  uint64_t (*await_)(Measurement&, uint64_t) = await_answer;
  void (*drop_)(Measurement&) = give_up;
  uint64_t since_ms_ = 0;
  uint64_t waited_ms_ = 0;
  uint32_t question_ = 0;
  bool is_waiting_ = false;  // the last ask ended with wait()
  bool is_timed_ = false;    // since_ms_ is of this question
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_MEASUREMENT_H_

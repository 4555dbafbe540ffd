// The line of a record: the loss on the device's evaluation samples at the model before the record, half way and at the
// model after it. The server chooses the next step by it (docs/wire.md).
//
// Both points are kept while the model moves, at the end of the arena, where nothing else is needed until the next
// task begins: the local steps of that task take more than two tensors. The losses are computed before the first of
// these steps, in slices as theirs.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_LINE_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_LINE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/training/estimator.h"
#include "runtime/training/stream.h"

namespace gradstream {

// f(X - x a d) = f(X) + slope x + curvature x^2 for x from 0 to 1.
struct LossLine {
  float slope = 0;
  float curvature = 0;
};

// Invariants:
// - Without memory nothing is kept, and there is no line: a device that lacks two tensors trains as before.
// - What is kept belongs to one version, which the model reached from the version before it in one step.
// - The memory is the last that the arena's persistent end has given; drop() comes before others take or release some.
class LineTracker {
 public:
  // Keeps the model, which is about to move by one version, in place of what was kept. extra_size: bytes of the arena
  // that moving the model takes besides what Replica::scratch_size() says.
  void open(const Replica& replica, size_t extra_size, Arena& arena);
  // Where the caller writes the point half way, once the model is known to move; null: nothing is kept.
  Real* half() { return is_open_ ? half_ : nullptr; }
  // half() holds the point.
  void set_half() { has_half_ = true; }
  // The model has moved to replica.version(). Without a point half way it is the nearest one to the mean of both
  // models. A model that did not move has no line.
  void close(const Replica& replica, Arena& arena);

  // The model that is held has this digest, as the server or the device's storage says it.
  void prove(uint64_t digest) { proven_digest_ = digest; }
  // Whether the model with this digest was proven last: one with a bit that turned over since then has no line.
  bool is_proven(uint64_t digest) const { return digest == proven_digest_; }

  // Nothing moves by one step, or not in a way that has a line: what was kept is of no use.
  void cancel() { is_open_ = is_kept_ = false; }

  // Whether the line of this version waits to be computed.
  bool is_due(uint32_t version) const { return is_kept_ && version_ == version; }
  // Computes it, or a slice of it: `units` of work at most, 0 for all. input: shape, problem and units; model: of the
  // version. kUnfinished: call again. kOk: line() has it. kInvalidArgument: no evaluation sample is left; codes of the
  // problem: there is no line.
  Status step(const EstimateInput& input, uint32_t holdout, const Real* model, uint16_t units, Arena& arena);
  // The last step() ended with kUnfinished: samples must not change.
  bool is_step_open() const { return is_step_open_; }
  // The question of a measured loss that step() waits for; null: none.
  Measurement* measurement() const { return progress_.evaluation.measurement; }
  // After a step() that gave kOk.
  const LossLine& line() const { return line_; }

  // Gives the memory back; no line is due any more. What was proven stays so.
  void drop(Arena& arena);

 private:
  static constexpr uint32_t kPointCount = 3;  // before, half way, after
  Status evaluate_points(const EstimateInput& input, uint32_t holdout, const Real* model, Arena& arena);

  uint64_t proven_digest_ = 0;
  Real* old_ = nullptr;
  Real* half_ = nullptr;
  size_t mark_ = 0;  // of the arena, below both
  uint32_t version_ = 0;
  bool is_open_ = false;
  bool has_half_ = false;
  bool is_kept_ = false;
  bool is_step_open_ = false;
  uint8_t next_ = 0;  // point whose loss comes next
  Real losses_[kPointCount] = {};
  EstimateProgress progress_ = {};
  LossLine line_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_LINE_H_

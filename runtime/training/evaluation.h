// The evaluation of a model on the samples that a device holds out: their mean loss, and the metric of the problem.
//
// The samples are taken in chunks, so that no list of all of them is needed, and one call does a chunk or a slice of
// one. The numbers do not depend on where the calls end.
#ifndef GRADSTREAM_RUNTIME_TRAINING_EVALUATION_H_
#define GRADSTREAM_RUNTIME_TRAINING_EVALUATION_H_

#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/training/estimator.h"

namespace gradstream {

// Samples of a chunk. Reason: their list takes 128 bytes of scratch, and their losses about as long as a local step.
inline constexpr uint32_t kEvaluationChunk = 64;

// What it came to.
struct HeldOutQuality {
  uint32_t sample_count = 0;  // 0: there is none
  float loss = 0;
  float metric = 0;  // the loss, where the problem has no metric
};

class HeldOutEvaluation {
 public:
  // Begins anew, or goes on where the last call gave kUnfinished. input: shape, problem and, as is_held_out() has it,
  // holdout. model: the same in all calls, shape.size() values. units: of work that the call does at most
  // (EvaluationProgress); 0: a chunk. The samples must not change between the calls.
  // kUnfinished: call again; the arena holds the scratch. kOk: quality() has it. kInvalidArgument: no sample is held
  // out. kOutOfMemory; kNotFinite; the problem's own codes: there is none.
  Status step(const EstimateInput& input, const Real* model, uint16_t units, Arena& arena);
  // The last step() ended with kUnfinished.
  bool is_open() const { return is_open_; }
  // The question of a measured loss that step() waits for; null: none.
  Measurement* measurement() const { return progress_.evaluation.measurement; }
  // After a step() that gave kOk.
  const HeldOutQuality& quality() const { return quality_; }
  // Gives up what is_open().
  void drop(Arena& arena);

 private:
  Status take_chunks(const EstimateInput& input, const Real* model, bool is_sliced, Arena& arena);
  Status finish(const Problem& problem);

  EstimateProgress progress_ = {};
  uint32_t next_ = 0;  // the first sample that is not looked at yet
  uint32_t count_ = 0;
  Real loss_sum_ = 0;
  QualitySum chunk_;
  QualitySum sum_;
  bool is_open_ = false;
  HeldOutQuality quality_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_EVALUATION_H_

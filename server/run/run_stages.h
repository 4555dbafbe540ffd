// The stages of a run before it trains: which it wants, in which order, and what their answers look like. Pure
// functions of the run's parameters (docs/wire.md, section 14).
#ifndef GRADSTREAM_SERVER_RUN_RUN_STAGES_H_
#define GRADSTREAM_SERVER_RUN_RUN_STAGES_H_

#include <cstdint>

#include "runtime/training/encoding.h"
#include "runtime/training/task.h"

namespace gradstream {

struct RunParameters;

// A stage of a run. START and TRIALS come twice: draw tells which time it is, from 0.
struct StageStep {
  TaskStage stage = TaskStage::kTrain;
  uint8_t draw = 0;
  friend bool operator==(const StageStep&, const StageStep&) = default;
};

// Draws of a direction before the run trains (step_size = "auto").
inline constexpr uint8_t kStartDrawCount = 2;
// Trial steps along each, each half as long as the one before: a device's kRungCount.
inline constexpr uint32_t kTrialCount = 32;

// Whether the run chooses its step by itself: step_size = "auto", which the keys hold as 0.
bool chooses_step(const RunParameters& run);
bool has_stages(const RunParameters& run);
// The stage that version 0 opens.
StageStep first_stage(const RunParameters& run);
// The stage behind this one; of training, training.
StageStep stage_after(const RunParameters& run, StageStep step);
// Whether the stage is one that the run has.
bool is_stage_of(const RunParameters& run, StageStep step);

const char* stage_name(TaskStage stage);
// Whether its answers say how large the samples' columns are: a device's is_units_stage().
constexpr bool is_of_units(TaskStage stage) {
  return stage == TaskStage::kExponents || stage == TaskStage::kSums || stage == TaskStage::kSquares;
}
// Whether its answers go to a StageFold (server/rules/stage_fold.h). Those of the others are uploads of the run's own
// solver, which the run's aggregation rule takes.
constexpr bool has_own_answers(TaskStage stage) { return is_of_units(stage) || stage == TaskStage::kTrials; }
// Of these answers: their encoding, and how many values one has, where columns have units. columns 0: it is not known,
// and neither is the result, which is 0.
Encoding answer_encoding(TaskStage stage);
uint32_t answer_value_count(const RunParameters& run, TaskStage stage, uint32_t columns);
// Versions that stages make, if each is asked once.
uint32_t stage_version_count(const RunParameters& run);
// The most values of any answer or upload of the run.
uint32_t value_count_max(const RunParameters& run);
// Bits of the ModelParts that versions of the run may hold beside the model, those of stages included.
uint32_t version_parts(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_RUN_STAGES_H_

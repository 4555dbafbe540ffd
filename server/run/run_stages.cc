#include "server/run/run_stages.h"

#include <algorithm>

#include "runtime/base/units.h"
#include "runtime/training/stream.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

constexpr uint32_t kSumWords = 1;    // of a column, in SUMS
constexpr uint32_t kRangeWords = 3;  // with its least and its largest value

// Factors by deviation come from squares. So does the knowledge that a column does not vary, where nothing else tells.
bool wants_squares(const RunParameters& run) {
  const UnitScale scale = run.units.keys().scale;
  return scale == UnitScale::kCommon || scale == UnitScale::kDeviation ||
         (scale == UnitScale::kNone && has_labels(run));
}

bool is_wanted(const RunParameters& run, TaskStage stage) {
  switch (stage) {
    case TaskStage::kExponents:
    case TaskStage::kSums:
      return units_bits(run) != 0;
    case TaskStage::kSquares:
      return units_bits(run) != 0 && wants_squares(run);
    case TaskStage::kStart:
    case TaskStage::kTrials:
      return chooses_step(run);
    case TaskStage::kTrain:
      break;
  }
  return true;
}

// Of all runs, wanted or not.
StageStep next_of_all(StageStep step) {
  switch (step.stage) {
    case TaskStage::kExponents:
      return {TaskStage::kSums, 0};
    case TaskStage::kSums:
      return {TaskStage::kSquares, 0};
    case TaskStage::kSquares:
      return {TaskStage::kStart, 0};
    case TaskStage::kStart:
      return {TaskStage::kTrials, step.draw};
    case TaskStage::kTrials:
      if (step.draw + 1 < kStartDrawCount) {
        return {TaskStage::kStart, static_cast<uint8_t>(step.draw + 1)};
      }
      break;
    case TaskStage::kTrain:
      break;
  }
  return {};
}

}  // namespace

bool chooses_step(const RunParameters& run) { return run.steps->step_size == 0; }

bool has_stages(const RunParameters& run) { return units_bits(run) != 0 || chooses_step(run); }

StageStep first_stage(const RunParameters& run) {
  constexpr StageStep kFirst = {TaskStage::kExponents, 0};
  return is_wanted(run, kFirst.stage) ? kFirst : stage_after(run, kFirst);
}

StageStep stage_after(const RunParameters& run, StageStep step) {
  do {
    step = next_of_all(step);
  } while (!is_wanted(run, step.stage));
  return step;
}

bool is_stage_of(const RunParameters& run, StageStep step) {
  StageStep own = first_stage(run);
  while (!(own == step) && own.stage != TaskStage::kTrain) {
    own = stage_after(run, own);
  }
  return own == step;
}

const char* stage_name(TaskStage stage) {
  switch (stage) {
    case TaskStage::kExponents:
      return "exponents";
    case TaskStage::kSums:
      return "sums";
    case TaskStage::kSquares:
      return "squares";
    case TaskStage::kStart:
      return "start";
    case TaskStage::kTrials:
      return "trials";
    case TaskStage::kTrain:
      break;
  }
  return "train";
}

Encoding answer_encoding(TaskStage stage) { return stage == TaskStage::kTrials ? Encoding::kF32 : Encoding::kWords; }

uint32_t answer_value_count(const RunParameters& run, TaskStage stage, uint32_t columns) {
  if (stage == TaskStage::kTrials) {
    return kTrialCount;
  }
  const bool has_range = stage == TaskStage::kSums && (units_bits(run) & kUnitsRangeBit) != 0;
  return columns == 0 ? 0 : 1 + (has_range ? kRangeWords : kSumWords) * columns;
}

uint32_t stage_version_count(const RunParameters& run) {
  uint32_t count = 0;
  for (StageStep step = first_stage(run); step.stage != TaskStage::kTrain; step = stage_after(run, step)) {
    ++count;
  }
  return count;
}

uint32_t value_count_max(const RunParameters& run) {
  uint32_t most = run.value_count();
  for (StageStep step = first_stage(run); step.stage != TaskStage::kTrain; step = stage_after(run, step)) {
    if (has_own_answers(step.stage)) {
      const uint32_t columns = units_column_count(run) == 0 ? kUnitsColumnMax : units_column_count(run);
      most = std::max(most, answer_value_count(run, step.stage, columns));
    }
  }
  return most;
}

uint32_t version_parts(const RunParameters& run) {
  return run.model_parts() | (units_bits(run) != 0 ? part_bit(ModelPart::kUnits) : 0) |
         (chooses_step(run) ? part_bit(ModelPart::kDirection) : 0);
}

}  // namespace gradstream

#include "runtime/base/no_contraction.h"

#include "server/rules/stage_fold.h"

namespace gradstream {

std::unique_ptr<StageFold> make_stage_fold(const StageContext& context) {
  switch (context.step.stage) {
    case TaskStage::kExponents:
    case TaskStage::kSums:
    case TaskStage::kSquares:
      return make_units_fold(context);
    case TaskStage::kStart:
      return make_start_fold(context);
    case TaskStage::kTrials:
      return make_trials_fold(context);
    case TaskStage::kTrain:
      break;
  }
  return nullptr;
}

}  // namespace gradstream

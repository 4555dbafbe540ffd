#include "runtime/base/no_contraction.h"

#include "server/rules/stage_fold.h"

namespace gradstream {
namespace {

// Of stages whose answers make nothing.
class EmptyFold : public StageFold {
 public:
  explicit EmptyFold(Real step_size) : step_size_(step_size) {}
  StageFault check(const StageAnswer&) const override { return {}; }
  void add(const StageAnswer&) override {}
  StageDecision close(const Aggregator&) const override { return {}; }
  Real step_size() const override { return step_size_; }
  uint64_t digest() const override { return kDigestStart; }

 private:
  Real step_size_;
};

}  // namespace

std::unique_ptr<StageFold> make_start_fold(const StageContext&) { return std::make_unique<EmptyFold>(Real{0}); }
std::unique_ptr<StageFold> make_trials_fold(const StageContext&) { return std::make_unique<EmptyFold>(Real{1}); }

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

#include "server/coordinator/run_progress.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/wire/codec.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Estimates of so few directions a step, or of a single local step, are noisy (server/rules/progress_watch.h).
constexpr uint32_t kNoisyDirections = 4;
constexpr uint32_t kNoisySteps = 1;
// The mean of so few devices is noisy too.
constexpr uint32_t kFewDevices = 2;
// A version that hears fewer than half of the devices makes a direction that is not the fleet's: the directions of
// single devices do not vanish at the optimum, and their promises say nothing.
constexpr uint32_t kVersionsOfARoundMax = 2;

// The updates were refused for values that a step too long makes.
bool is_unfit(uint32_t reason) {
  return reason == gs_Reason_REASON_OUT_OF_RANGE || reason == gs_Reason_REASON_NOT_FINITE ||
         reason == gs_Reason_REASON_SINGULAR;
}

// Three digits are what people read.
std::string number(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 3).ptr;
  return {text.data(), end};
}

std::string percent(double share) { return number(std::round(share * 1000) / 10) + " %"; }

// What shortens the steps of this run.
std::string shorter_step(const RunParameters& p) {
  if (p.steps->step_size == 0) {
    return "begin a run with step_size, which is a number, in place of auto, or with more direction_count";
  }
  if (p.steps->step_rule == StepRule::kBarzilaiBorwein) {
    return "begin a run with a smaller step_max than " + number(static_cast<double>(p.steps->step_max));
  }
  return "begin a run with step_size = " + number(static_cast<double>(p.steps->step_size) / 10) + ", a tenth" +
         (p.steps->step_decay == 0 ? ", or with step_decay above 0" : "; with step_decay it may clear by itself");
}

ProgressWords diverged_words(const ProgressView& view, const RunParameters& p) {
  const std::string cause = "the step is likely too long, or the columns of the data have large units";
  const std::string remedy = shorter_step(p) + "; or standardise the data";
  switch (view.diverged_by) {
    case DivergedBy::kStep:
      return {"the updates of a version made no step, and the model stood still: " + cause, remedy};
    case DivergedBy::kRefusals:
      return {"the updates of half of the devices were refused for their values: " + cause, remedy};
    case DivergedBy::kLoss:
    case DivergedBy::kNothing:
      break;
  }
  return {"the loss is " + number(view.loss) + " and began at " + number(view.first_loss) + ": " + cause, remedy};
}

}  // namespace

RunProgress::RunProgress(const RunParameters& parameters)
    : device_count_(parameters.trigger->device_count),
      has_noisy_estimates_(has_scalars(parameters.local->estimator) &&
                           (parameters.local->local_step_count <= kNoisySteps ||
                            parameters.local->direction_count <= kNoisyDirections)) {}

uint32_t RunProgress::device_count() const { return std::max(device_count_, known_count_); }

void RunProgress::note(uint32_t device) {
  if (device >= is_known_.size()) {
    is_known_.resize(device + 1);
  }
  known_count_ += is_known_[device] ? 0 : 1;
  is_known_[device] = true;
}

void RunProgress::follow(const JournalRecord& record) {
  if (record.kind() == RecordKind::kUpdate) {
    note(record.device());
    const bool is_late = record.verdict() == gs_Verdict_VERDICT_LATE;
    const double weight = record.weight();
    (is_late ? late_weight_ : weight_) += weight;
    (is_late ? late_loss_sum_ : loss_sum_) += weight * static_cast<double>(record.loss_before());
    ++update_count_;
  } else if (record.kind() == RecordKind::kVerdict) {
    note(record.device());
    const bool is_counted = std::find(unfit_.begin(), unfit_.end(), record.device()) != unfit_.end();
    // Before the first step the units are at fault, and the run's stall says so.
    if (is_unfit(record.reason()) && !is_counted && watch_.round_count() > 0) {
      unfit_.push_back(record.device());
      if (2 * unfit_.size() >= device_count()) {
        watch_.refuse();
      }
    }
  } else if (record.kind() == RecordKind::kVersion) {
    close_version(record);
  }
}

void RunProgress::close_version(const JournalRecord& record) {
  unfit_.clear();
  bool is_over = true;
  if (record.promise().has_value()) {
    promise_ += static_cast<double>(*record.promise());
    ++version_count_;
    const bool is_alive = record.step_scale() != 0;
    is_over = !is_alive || uint64_t{4} * update_count_ >= uint64_t{3} * device_count();
    if (is_over) {
      WatchedStep step;
      step.promise = promise_;
      if (weight_ > 0) {
        step.loss = loss_sum_ / weight_;
      } else if (late_weight_ > 0) {
        step.loss = late_loss_sum_ / late_weight_;
      }
      step.is_alive = is_alive;
      step.is_noisy = has_noisy_estimates_ || device_count() <= kFewDevices;
      step.may_accuse = version_count_ <= kVersionsOfARoundMax;
      watch_.add(step);
    }
  }
  if (is_over) {  // also where the version was no step of the run: its updates say nothing of one
    promise_ = loss_sum_ = weight_ = late_loss_sum_ = late_weight_ = 0;
    update_count_ = version_count_ = 0;
  }
}

ProgressWords progress_words(const ProgressView& view, const RunParameters& p) {
  switch (view.state) {
    case ProgressState::kNotImproving:
      return {"the last " + std::to_string(kProgressWindow) + " rounds promised " + number(view.ratio) +
                  " times all that the run has gained, and kept " + percent(std::max(view.kept, 0.0)) +
                  ": the step is likely too long",
              shorter_step(p)};
    case ProgressState::kDiverged:
      return diverged_words(view, p);
    case ProgressState::kStillFalling:
      return {"the loss fell by " + percent(view.recent_share) + " of its whole fall in the last " +
                  std::to_string(kProgressFallRounds) + " rounds: the run is not finished",
              "give it more rounds, or begin a run with a step three times as long"};
    case ProgressState::kSettled:
      return {"promises and falls are small: a plateau with this step, and no proof of an optimum", "nothing"};
    case ProgressState::kStarting:
    case ProgressState::kWatching:
      break;
  }
  return {};
}

ProgressWords drift_words(const ProgressView& view) {
  return {"the median loss of the last " + std::to_string(kDriftRecent) + " rounds is " + number(view.drift_after) +
              ", that of the " + std::to_string(kDriftReference) + " before is " + number(view.drift_before) +
              " with a deviation of " + number(view.drift_deviation) +
              ": the data of the devices have likely changed, or other devices take part",
          "look at what the devices measure; if the new data are meant, nothing"};
}

}  // namespace gradstream

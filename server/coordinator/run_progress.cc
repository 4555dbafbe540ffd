#include "server/coordinator/run_progress.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/wire/codec.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

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

bool has_noisy_estimates(const RunParameters& p) {
  return has_scalars(p.local->estimator) &&
         (p.local->local_step_count <= kNoisySteps || p.local->direction_count <= kNoisyDirections);
}

// A step that the run chooses by itself shrinks where it must.
bool has_shrinking_steps(const RunParameters& p) {
  return chooses_step(p) || p.step_size_at(kProgressFirstShrinking) < p.step_size_at(0);
}

uint32_t first_accused_round(const RunParameters& p) {
  return has_noisy_estimates(p)   ? kProgressFirstNoisy
         : has_shrinking_steps(p) ? kProgressFirstShrinking
                                  : kProgressFirst;
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
  if (chooses_step(p)) {
    return std::string("begin a run with a number as step_size in place of auto") +
           (has_scalars(p.local->estimator) ? ", or with more direction_count" : "");
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
      accused_from_(first_accused_round(parameters)),
      asks_smoothing_(has_scalars(parameters.local->estimator) && parameters.phase_count() == 1) {}

void RunProgress::exchange(StateArchive& io) {
  watch_.exchange(io);
  io.flags(is_known_);
  io.numbers(unfit_);
  io.values(known_count_, promise_, loss_sum_, weight_, late_loss_sum_, late_weight_, update_count_, version_count_);
  io.list(ratios_, [&io](SmoothingRatios& one) { io.values(one.at_quarter, one.at_fourfold, one.weight); });
  io.values(evaluation_sum_, evaluation_weight_);
  io.values(smoothing_.fit, smoothing_.ratio, smoothing_.at_quarter, smoothing_.at_fourfold);
  if (io.has_form(2)) {
    io.values(source_, held_out_sum_, held_out_weight_);
    if (source_ > LossSource::kEvaluation) {
      io.fail();
    }
  }
}

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
    const double weight = record.tells_losses() ? record.weight() : 0;
    (is_late ? late_weight_ : weight_) += weight;
    (is_late ? late_loss_sum_ : loss_sum_) += weight * static_cast<double>(record.loss_before());
    ++update_count_;
    take_notes(record);
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

// In the stage START the line of an update has ratios of estimates in its two numbers (docs/wire.md).
void RunProgress::take_notes(const JournalRecord& record) {
  const UpdateNotes notes = record.notes();
  if (notes.line.has_value() && asks_smoothing_ && watch_.round_count() == 0) {
    ratios_.push_back({.at_quarter = static_cast<double>(notes.line->slope),
                       .at_fourfold = static_cast<double>(notes.line->curvature),
                       .weight = record.weight()});
  }
  if (notes.evaluation.has_value()) {
    const double weight = notes.evaluation->sample_count;
    evaluation_sum_ += weight * static_cast<double>(notes.evaluation->loss);
    evaluation_weight_ += weight;
  }
}

// Only updates of START and of rounds have lines, and a version that ends a round has a promise.
void RunProgress::judge_smoothing() {
  const SmoothingVerdict verdict = check_smoothing(ratios_);
  const bool is_said = smoothing_.fit == SmoothingFit::kTooLarge || smoothing_.fit == SmoothingFit::kTooSmall;
  if (verdict.fit != SmoothingFit::kUnknown && !(is_said && verdict.fit == SmoothingFit::kGood)) {
    smoothing_ = verdict;
  }
}

// Of the round that ends; none: nobody has told one of the kind that is watched.
std::optional<double> RunProgress::loss_of_round() {
  const bool is_told = weight_ > 0 || late_weight_ > 0;
  if (source_ == LossSource::kUnknown) {
    source_ = is_told ? LossSource::kUpdates : held_out_weight_ > 0 ? LossSource::kEvaluation : LossSource::kUnknown;
  }
  if (source_ == LossSource::kEvaluation) {
    return held_out_weight_ > 0 ? std::optional(held_out_sum_ / held_out_weight_) : std::nullopt;
  }
  if (!is_told) {
    return std::nullopt;
  }
  return weight_ > 0 ? loss_sum_ / weight_ : late_loss_sum_ / late_weight_;
}

void RunProgress::close_version(const JournalRecord& record) {
  if (!record.promise().has_value()) {
    judge_smoothing();
  } else if (evaluation_weight_ > 0) {
    if (source_ != LossSource::kEvaluation) {
      watch_.add_evaluation(evaluation_sum_ / evaluation_weight_);
    }
    held_out_sum_ += evaluation_sum_;
    held_out_weight_ += evaluation_weight_;
  }
  ratios_.clear();
  evaluation_sum_ = evaluation_weight_ = 0;
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
      step.loss = loss_of_round();
      step.is_alive = is_alive;
      step.accused_from = device_count() <= kFewDevices ? kProgressFirstNoisy : accused_from_;
      step.may_accuse = version_count_ <= kVersionsOfARoundMax;
      watch_.add(step);
    }
  }
  if (is_over) {  // also where the version was no step of the run: its updates say nothing of one
    promise_ = loss_sum_ = weight_ = late_loss_sum_ = late_weight_ = held_out_sum_ = held_out_weight_ = 0;
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
              std::string("give it more rounds") +
                  (chooses_step(p) ? "" : ", or begin a run with a step three times as long")};
    case ProgressState::kSettled:
      return {"promises and falls are small: a plateau with this step, and no proof of an optimum", "nothing"};
    case ProgressState::kStarting:
    case ProgressState::kWatching:
      break;
  }
  return {};
}

ProgressWords smoothing_words(const SmoothingVerdict& verdict, const RunParameters& p) {
  const double mu = static_cast<double>(p.local->smoothing);
  const std::string differ = " differ by " + percent(verdict.ratio) + ": smoothing is likely too ";
  if (verdict.fit == SmoothingFit::kTooLarge) {
    return {"the slopes at mu and at 4 mu" + differ + "large, and what is measured is curvature",
            "begin a run with smoothing = " + number(mu / 10)};
  }
  if (verdict.fit == SmoothingFit::kTooSmall) {
    return {"the slopes at mu and at mu / 4" + differ + "small, and what is measured is rounding",
            "begin a run with smoothing = " + number(mu * 10)};
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

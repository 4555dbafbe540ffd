#include "runtime/base/no_contraction.h"

#include "server/rules/progress_watch.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gradstream {
namespace {

// Of a normal distribution: its deviation over its median absolute deviation.
constexpr double kDeviationOfMedian = 1.4826;
// Losses of a level: one bad report does not decide. Longer where a slow fall is measured.
constexpr size_t kLevelWidth = 3;
constexpr size_t kLongLevelWidth = 9;
// Of the oldest level, where every round has a loss.
constexpr size_t kLossesKept = kProgressFallRounds + kLongLevelWidth;

// The mean of the two middle values of an even number. values: at least one, in any order.
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool is_calm(ProgressState state) { return state == ProgressState::kSettled || state == ProgressState::kStillFalling; }

}  // namespace

void DriftWatch::exchange(StateArchive& io) {
  io.list(losses_, [&io](double& loss) { io.values(loss); });
  io.values(before_, after_, deviation_);
}

void ProgressWatch::exchange(StateArchive& io) {
  io.list(promises_, [&io](double& promise) { io.values(promise); });
  io.list(losses_, [&io](Loss& loss) { io.values(loss.round, loss.value); });
  io.values(round_, least_loss_, most_loss_, lowest_, strikes_, judged_, candidate_, candidate_rounds_, has_settled_);
  io.optional(first_loss_, [&io](double& loss) { io.values(loss); });
  loss_drift_.exchange(io);
  evaluation_drift_.exchange(io);
  ProgressView& v = view_;
  io.values(v.state, v.diverged_by, v.ratio, v.kept, v.recent_share, v.first_loss, v.loss, v.drift_count,
            v.drift_before, v.drift_after, v.drift_deviation);
  for (const ProgressState state : {judged_, candidate_, v.state}) {
    if (state > ProgressState::kDiverged) {
      io.fail();
    }
  }
}

// The median of the last `width` losses up to this round; none before the first loss.
std::optional<double> ProgressWatch::level(int64_t round, size_t width) const {
  std::vector<double> values;
  for (auto loss = losses_.rbegin(); loss != losses_.rend() && values.size() < width; ++loss) {
    if (loss->round <= round) {
      values.push_back(loss->value);
    }
  }
  return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

void ProgressWatch::add(const WatchedStep& step) {
  const uint32_t round = round_++;
  promises_.push_back(std::isfinite(step.promise) ? step.promise : std::numeric_limits<double>::max());
  if (promises_.size() > kProgressWindow) {
    promises_.pop_front();
  }
  if (step.loss.has_value()) {
    // What is no number sorts as the largest.
    const double loss = std::isfinite(*step.loss) ? *step.loss : std::numeric_limits<double>::infinity();
    losses_.push_back({round, loss});
    if (losses_.size() > kLossesKept) {
      losses_.pop_front();
    }
    first_loss_ = first_loss_.value_or(loss);
    least_loss_ = std::min(least_loss_, loss);
    most_loss_ = std::max(most_loss_, loss);
    if (has_settled_ && loss_drift_.add(loss)) {
      restart(loss_drift_);
      return;
    }
  }
  judge(step, round);
  if (judged_ == ProgressState::kNotImproving || judged_ == ProgressState::kDiverged) {
    end_calm();
  } else {
    has_settled_ = has_settled_ || judged_ == ProgressState::kSettled;
  }
  tell(step, round);
}

void ProgressWatch::add_evaluation(double loss) {
  if (has_settled_ && std::isfinite(loss) && evaluation_drift_.add(loss)) {
    restart(evaluation_drift_);
  }
}

void ProgressWatch::end_calm() {
  has_settled_ = false;
  loss_drift_.clear();
  evaluation_drift_.clear();
}

void ProgressWatch::refuse() {
  judged_ = ProgressState::kDiverged;
  view_.state = ProgressState::kDiverged;
  view_.diverged_by = DivergedBy::kRefusals;
  end_calm();
}

void ProgressWatch::judge(const WatchedStep& step, uint32_t round) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();  // no comparison with it holds
  const double now = level(round, kLevelWidth).value_or(nothing);
  lowest_ = std::isnan(now) ? lowest_ : std::min(lowest_, now);
  const double first = first_loss_.value_or(nothing);
  const double fall = first - lowest_;
  double promised = 0;
  for (const double promise : promises_) {
    promised += promise;
  }
  const double keep = level(int64_t{round} - int64_t{kProgressWindow}, kLevelWidth).value_or(nothing) - now;
  const double ratio = fall > 0 ? promised / fall : std::numeric_limits<double>::infinity();
  const bool is_known = most_loss_ > least_loss_;  // else the losses say nothing: none came, or all are the same
  view_.first_loss = first_loss_.value_or(0);
  view_.loss = std::isnan(now) ? 0 : now;
  view_.ratio = is_known ? std::min(ratio, kPromiseRatioMax) : 0;
  view_.kept = std::isfinite(keep) && promised > 0 ? keep / promised : 0;
  const double recent = level(int64_t{round} - int64_t{kProgressFallRounds}, kLongLevelWidth).value_or(nothing) -
                        level(round, kLongLevelWidth).value_or(nothing);
  view_.recent_share = fall > 0 && std::isfinite(recent) ? recent / fall : 0;
  view_.diverged_by = DivergedBy::kNothing;
  const bool is_risen = std::isinf(now) || (round >= kProgressFirst && now > first + kProgressRise * std::fabs(first));
  if (!step.is_alive || is_risen) {
    judged_ = ProgressState::kDiverged;
    view_.diverged_by = step.is_alive ? DivergedBy::kLoss : DivergedBy::kStep;
    return;
  }
  if (round < kProgressFirst || !is_known) {
    return;
  }
  const bool is_broken = ratio > kProgressBroken && keep < kProgressKept * promised;
  strikes_ = is_broken ? std::min(strikes_ + 1, 2 * kProgressStrikes) : strikes_ - std::min(strikes_, 1U);
  if (strikes_ >= kProgressStrikes) {
    judged_ = ProgressState::kNotImproving;
  } else if (strikes_ == 0) {
    judged_ = view_.recent_share > kProgressFalling ? ProgressState::kStillFalling : ProgressState::kSettled;
  }
}

void ProgressWatch::tell(const WatchedStep& step, uint32_t round) {
  if (is_calm(judged_) && round < kProgressFallRounds) {
    view_.state = ProgressState::kStarting;  // too few rounds to tell a fall from a plateau
    return;
  }
  if (is_calm(judged_) && is_calm(view_.state)) {
    const bool is_between = view_.recent_share <= kProgressFallingAgain;
    const ProgressState now = view_.state == ProgressState::kSettled && is_between ? view_.state : judged_;
    candidate_rounds_ = now == candidate_ ? candidate_rounds_ + 1 : 1;
    candidate_ = now;
    view_.state = candidate_rounds_ >= kProgressStrikes ? now : view_.state;
    return;
  }
  candidate_rounds_ = 0;
  const bool is_believed = step.may_accuse && round >= step.accused_from;
  view_.state = judged_ == ProgressState::kNotImproving && !is_believed ? ProgressState::kWatching : judged_;
  if (judged_ == ProgressState::kDiverged && view_.diverged_by == DivergedBy::kNothing) {
    view_.state = ProgressState::kStarting;  // what was wrong is over, and too few rounds are in to say more
  }
}

bool DriftWatch::add(double loss) {
  losses_.push_back(loss);
  if (losses_.size() > kDriftReference + kDriftRecent) {
    losses_.pop_front();
  }
  if (losses_.size() < kDriftReference + kDriftRecent) {
    return false;
  }
  const auto middle = losses_.begin() + static_cast<std::ptrdiff_t>(kDriftReference);
  std::vector<double> old(losses_.begin(), middle);
  before_ = median(old);
  after_ = median({middle, losses_.end()});
  for (double& value : old) {
    value = std::fabs(value - before_);
  }
  deviation_ = kDeviationOfMedian * median(std::move(old));
  const bool is_drift = after_ - before_ > std::max(kDriftSigmas * deviation_, kDriftFloor * std::fabs(before_));
  if (is_drift) {
    losses_.clear();
  }
  return is_drift;
}

// The run begins anew at the new data: its fall counts from here.
void ProgressWatch::restart(const DriftWatch& drift) {
  ProgressView next;
  next.drift_count = view_.drift_count + 1;
  next.drift_before = drift.before();
  next.drift_after = drift.after();
  next.drift_deviation = drift.deviation();
  *this = ProgressWatch();
  view_ = next;
}

}  // namespace gradstream

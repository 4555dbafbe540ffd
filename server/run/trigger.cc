#include "server/run/trigger.h"

#include <algorithm>

#include "server/run/fold_keys.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"

namespace gradstream {

uint32_t update_count_max(const RunParameters& parameters, bool keeps_answers) {
  const bool keeps = keeps_answers || parameters.delay->delay_rule != DelayRule::kNone || parameters.has_memory() ||
                     parameters.fold->weight_share_max < 1;
  const uint32_t most = keeps ? kKeptUpdateCountMax : kFoldUpdateCountMax;
  return keeps_answers ? most : std::min(most, clip_update_count_max(parameters));
}

uint32_t wanted_updates(const RunParameters& parameters, uint32_t asked_count) {
  const bool is_over_selected = parameters.cohort->over_selection > 1;
  const uint32_t wanted = parameters.trigger->update_goal == 0 && is_over_selected ? parameters.cohort->cohort_size
                                                                                   : parameters.trigger->update_goal;
  return wanted == 0 ? asked_count : std::min(wanted, asked_count);
}

uint32_t update_goal(const RunParameters& parameters, uint32_t asked_count) {
  return std::min(wanted_updates(parameters, asked_count), update_count_max(parameters, false));
}

uint32_t update_least(const RunParameters& parameters, uint32_t asked_count) {
  const uint32_t goal = update_goal(parameters, asked_count);
  return parameters.trigger->update_min == 0 ? goal : std::min(parameters.trigger->update_min, goal);
}

uint32_t least_of_all(const RunParameters& parameters, uint32_t asked_count) {
  return parameters.trigger->buffer_size > 0 ? std::min(parameters.trigger->buffer_size, asked_count)
                                             : update_least(parameters, asked_count);
}

uint32_t goal_of_all(const RunParameters& parameters, uint32_t asked_count, bool keeps_answers) {
  return std::min(asked_count, update_count_max(parameters, keeps_answers));
}

const char* trigger_name(Trigger trigger) {
  switch (trigger) {
    case Trigger::kGoal:
      return "goal";
    case Trigger::kDeadline:
      return "deadline";
    case Trigger::kStallEnded:
      return "stall_ended";
    case Trigger::kNone:
      break;
  }
  return "none";
}

bool awaits_seen(const RunParameters& parameters) { return parameters.trigger.keys().seen_versions > 0; }

namespace {

RoundVerdict judge_seen(const RunParameters& parameters, const RoundProgress& progress) {
  const uint32_t counted = progress.on_time_count;
  const bool is_full = counted >= update_count_max(parameters, progress.keeps_answers);
  if (is_full || (counted > 0 && progress.awaited_count == 0)) {
    return {RoundDecision::kClose, progress.is_stalled ? Trigger::kStallEnded : Trigger::kGoal};
  }
  if (progress.is_stalled) {
    return counted == 0                ? RoundVerdict{}
           : !progress.has_deadline    ? RoundVerdict{RoundDecision::kExtend, Trigger::kNone}
           : progress.is_past_deadline ? RoundVerdict{RoundDecision::kClose, Trigger::kStallEnded}
                                       : RoundVerdict{};
  }
  if (!progress.is_past_deadline) {
    return {};
  }
  if (progress.extension_count < parameters.trigger->extension_count_max) {
    return {RoundDecision::kExtend, Trigger::kNone};
  }
  return counted > 0 ? RoundVerdict{RoundDecision::kClose, Trigger::kDeadline}
                     : RoundVerdict{RoundDecision::kStall, Trigger::kNone};
}

}  // namespace

RoundVerdict judge_round(const RunParameters& parameters, const RoundProgress& progress) {
  if (awaits_seen(parameters)) {
    return judge_seen(parameters, progress);
  }
  const bool has_buffer = parameters.trigger->buffer_size > 0;
  const uint32_t counted = progress.on_time_count + (has_buffer ? progress.late_count : 0);
  // A round without an answer has no step to make, however few are wanted.
  const uint32_t goal = progress.is_anchor ? goal_of_all(parameters, progress.asked_count, progress.keeps_answers)
                        : has_buffer       ? parameters.trigger->buffer_size
                                           : update_goal(parameters, progress.asked_count);
  // At the deadline a buffer that is not full is emptied with what is there.
  const uint32_t least = progress.is_anchor ? least_of_all(parameters, progress.asked_count)
                         : has_buffer       ? 1
                                            : update_least(parameters, progress.asked_count);
  // A version that takes no more has waited for everything that it may. Its late updates may be all that it has.
  const bool is_full =
      progress.on_time_count + uint64_t{progress.late_count} >= update_count_max(parameters, progress.keeps_answers);
  const bool has_goal = is_full || (counted > 0 && counted >= goal);
  const bool has_least = counted > 0 && counted >= least;
  if (has_goal) {
    return {RoundDecision::kClose, progress.is_stalled ? Trigger::kStallEnded : Trigger::kGoal};
  }
  if (progress.is_stalled) {
    return has_least ? RoundVerdict{RoundDecision::kClose, Trigger::kStallEnded} : RoundVerdict{};
  }
  if (!progress.is_past_deadline) {
    return {};
  }
  if (has_least) {
    return {RoundDecision::kClose, Trigger::kDeadline};
  }
  return {progress.extension_count < parameters.trigger->extension_count_max ? RoundDecision::kExtend
                                                                             : RoundDecision::kStall,
          Trigger::kNone};
}

}  // namespace gradstream

#include "server/run/trigger_keys.h"

#include <algorithm>

#include "server/run/check_range.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// Whether a device can be too slow for every version: its late updates are dropped, and rounds close without it.
bool drops_the_slow(const RunParameters& p) {
  const uint32_t asked = p.cohort->cohort_size > 0 ? p.drawn_count() : p.trigger->device_count;
  return p.trigger->late == LatePolicy::kDrop && update_least(p, asked) < asked;
}

Objection check_step_times(const RunParameters& p) {
  const auto milliseconds_of = [&p](uint32_t step_time_us) {
    return (uint64_t{p.least_steps()} * step_time_us + 999) / 1000;
  };
  if (p.trigger->step_time_max_us > 0 && p.trigger->step_time_min_us > p.trigger->step_time_max_us) {
    return "step_time_min_us, step_time_max_us: the fastest device's step is longer than the slowest one's";
  }
  const uint64_t wanted_ms = milliseconds_of(p.trigger->step_time_max_us);
  const std::string slowest = "the slowest device (step_time_max_us) takes " + std::to_string(wanted_ms) + " ms for " +
                              std::to_string(p.least_steps()) + " steps, the least that count (steps_min)";
  if (p.trigger->task_deadline_ms > 0 && wanted_ms > p.trigger->task_deadline_ms) {
    return "task_deadline_ms, steps_min, step_time_max_us: " + slowest + "; raise task_deadline_ms or lower steps_min";
  }
  if (drops_the_slow(p) && wanted_ms > p.trigger->report_deadline_ms) {
    return "report_deadline_ms, steps_min, step_time_max_us: " + slowest +
           ", so that none of its updates would ever count; raise report_deadline_ms, lower steps_min, or set late = "
           "weight";
  }
  return {};
}

}  // namespace

Objection check_straggler(const RunParameters& p) {
  const uint32_t asked =
      p.cohort->participation == Participation::kSchemeOne ? p.cohort->cohort_size : p.trigger->device_count;
  const uint32_t goal = p.trigger->update_goal == 0 ? asked : p.trigger->update_goal;
  if (goal > asked) {
    return "update_goal, device_count: no more answers can be wanted than there are devices (scheme_1: cohort_size)";
  }
  if (p.trigger->update_min > goal) {
    return "update_min, update_goal: the least number of answers at the deadline is above the goal";
  }
  if (p.trigger->steps_min > p.local->local_step_count) {
    return "steps_min, local_step_count: more steps wanted than a task has";
  }
  if (p.trigger->task_deadline_ms > 0 && p.least_steps() == p.local->local_step_count &&
      p.local->local_step_count > 1) {
    return "task_deadline_ms, steps_min: a task cut short is partial work, which this run refuses; set steps_min";
  }
  if (p.trigger->task_deadline_ms > p.trigger->report_deadline_ms) {
    return "task_deadline_ms, report_deadline_ms: the task would end after the round";
  }
  if (p.trigger->late == LatePolicy::kWeight) {
    if (p.waits_for_all()) {
      return "late, update_goal, update_min: a round that always waits for all has no late updates; set update_goal or "
             "update_min, or late = drop";
    }
    for (const char* const key : {"staleness_max", "staleness_exponent"}) {
      if (Objection objection = check_range(p, key)) {
        return objection;
      }
    }
  }
  return {};
}

Objection check_timed_work(const RunParameters& p) {
  if (p.trigger->work == Work::kTimed && p.least_steps() == p.local->local_step_count) {
    return "work, steps_min, local_step_count: timed work gives a slow device fewer steps; set steps_min from 1 to " +
           std::to_string(std::max(1U, p.local->local_step_count - 1)) + ", or work = fixed";
  }
  return check_step_times(p);
}

Objection check_buffer(const RunParameters& p) {
  if (p.trigger->buffer_size == 0) {
    return {};
  }
  if (p.trigger->buffer_size > p.trigger->device_count) {
    return "buffer_size, device_count: a version cannot have more updates than there are devices";
  }
  if (p.trigger->update_goal != 0 || p.trigger->update_min != 0) {
    return "buffer_size, update_goal, update_min: a buffer counts updates of any version; leave the other two at 0";
  }
  if (p.cohort->participation != Participation::kAll || p.local->solver == SolverId::kSvrg) {
    return "buffer_size, participation, solver: cohorts and solver svrg need rounds; set buffer_size to 0";
  }
  if (p.trigger->late != LatePolicy::kWeight) {
    return "buffer_size, late: most updates in a buffer are of older versions; use late = weight";
  }
  return {};
}

Objection check_stop(const RunParameters& p) {
  if (p.trigger.keys().stop_gradient_norm != 0 && p.local->solver != SolverId::kSvrg) {
    return "stop_gradient_norm, solver: the server has the mean gradient with solver svrg alone; set solver to svrg, "
           "or "
           "stop_gradient_norm to 0";
  }
  return check_range(p, "stop_gradient_norm");
}

// A cohort is drawn from all that are enrolled, and a number of answers is what somebody wants.
Objection check_attendance(const RunParameters& p) {
  const bool asks_all = p.cohort->participation == Participation::kAll && p.trigger->buffer_size == 0;
  const bool waits_for_number = p.trigger->update_goal != 0 || p.trigger->update_min != 0;
  if (p.trigger.keys().seen_versions > 0 && (!asks_all || waits_for_number)) {
    return "seen_versions, update_goal, update_min, participation, buffer_size: only a round that asks all devices and "
           "wants the answers of all (update_goal = all, update_min = 0) waits for those that were seen; set "
           "seen_versions to 0";
  }
  return {};
}

Objection check_device_share(const RunParameters& p) {
  if (p.trigger.keys().device_share_max == 1) {
    return {};
  }
  if (p.trigger->buffer_size == 0) {
    return "device_share_max, buffer_size: in a round each device answers once, so that shares are of runs without "
           "rounds; set buffer_size, or device_share_max to 1";
  }
  const uint64_t update_count = uint64_t{p.trigger->buffer_size} * p.trigger.keys().device_share_window;
  if (update_count > kShareUpdateCountMax) {
    return "device_share_window, buffer_size: the server counts the updates of " +
           std::to_string(kShareUpdateCountMax) + " at most, and these are " + std::to_string(update_count) +
           "; lower device_share_window";
  }
  return {};
}

uint32_t share_versions(const RunParameters& run) {
  const TriggerKeys& keys = run.trigger.keys();
  return keys.buffer_size > 0 && keys.device_share_max < 1 ? keys.device_share_window : 0;
}

uint32_t share_limit(const RunParameters& run) {
  const TriggerKeys& keys = run.trigger.keys();
  const double update_count = static_cast<double>(keys.device_share_window) * keys.buffer_size;
  return std::max(1U, static_cast<uint32_t>(static_cast<double>(keys.device_share_max) * update_count));
}

bool limits_shares(const RunParameters& run, uint32_t device_count) {
  return static_cast<double>(run.trigger.keys().device_share_max) * device_count > 1;
}

}  // namespace gradstream

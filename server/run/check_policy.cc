#include <algorithm>
#include <cmath>
#include <vector>

#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "server/run/names.h"
#include "server/run/pace.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// Bytes of the models that a rule keeps for late updates. Reason: several runs fit a small host.
constexpr uint64_t kModelsBytesMax = uint64_t{64} << 20;

// Rounds of a run. Reason: each has up to two versions, which are 32 bits.
constexpr uint32_t kRoundCountMax = 1U << 30;

std::string check_fold(const RunParameters& p) {
  if (p.fold_scale_log2 > kFoldScaleLog2Max) {
    return "fold_scale_log2: at most " + std::to_string(kFoldScaleLog2Max);
  }
  if (p.fold_weight_max == 0 || p.fold_weight_max > kSampleCountMax) {
    return "fold_weight_max: from 1 to " + std::to_string(kSampleCountMax);
  }
  if (p.log_size_max > kLogSizeMax) {
    return "log_size_max: at most " + std::to_string(kLogSizeMax) + " bytes; a snapshot is shorter than such a log";
  }
  for (const Real constant : {p.smoothness, p.pl_constant, p.gradient_noise, p.initial_excess}) {
    if (!(constant >= 0) || !std::isfinite(constant)) {
      return "smoothness, pl_constant, gradient_noise, initial_excess: not below 0; 0 where not known";
    }
  }
  if (p.round_count == 0 || p.round_count > kRoundCountMax) {
    return "round_count: from 1 to " + std::to_string(kRoundCountMax);
  }
  if (p.device_count == 0 || p.device_count > kFoldUpdateCountMax) {
    return "device_count: from 1 to " + std::to_string(kFoldUpdateCountMax);
  }
  return "";
}

std::string check_groups(const RunParameters& p) {
  if (p.group_count > p.device_count) {
    return "group_count, device_count: more groups than devices would leave some without a device; at most " +
           std::to_string(p.device_count) + ", or 0 for each device's own directions";
  }
  return "";
}

std::string check_participation(const RunParameters& p) {
  if (p.participation == Participation::kSchemeOne) {
    return p.cohort_size >= 1 && p.cohort_size <= p.device_count
               ? ""
               : "cohort_size, device_count: scheme_1 asks from 1 to device_count devices a round";
  }
  if (p.cohort_size != 0) {
    return "cohort_size, participation: only scheme_1 has a cohort size; set it to 0";
  }
  if (p.participation == Participation::kAll) {
    return p.participation_probability.empty()
               ? ""
               : "participation_probability, participation: only scheme_2 draws with probabilities; leave it empty";
  }
  const std::vector<Real> probabilities = parse_numbers(p.participation_probability);
  if (probabilities.empty() ||
      !std::all_of(probabilities.begin(), probabilities.end(), [](Real q) { return q > 0 && q <= 1; })) {
    return "participation_probability: scheme_2 needs numbers above 0 and at most 1 with spaces between them, by "
           "enrolment index; the last one holds for all devices after it";
  }
  if (p.participation_weights != ParticipationWeights::kBiased) {
    const bool divides = p.correction_form == CorrectionForm::kUnbiased;
    if (p.solver == SolverId::kProjection && !divides) {
      return "participation_weights, solver, correction_form: solver projection folds by the sum of the weights; use "
             "biased, or correction_form unbiased, or solver gradient_stream";
    }
    const bool leaves_some_out = (p.update_goal != 0 && p.update_goal < p.device_count) || p.update_min != 0;
    if (p.participation_weights == ParticipationWeights::kTrue && leaves_some_out) {
      return "participation_weights, update_goal, update_min: 1/p_j counts on every drawn device's answer; wait for "
             "all of them (update_goal = all, update_min = 0), or use counted, which sees who is left out";
    }
    if (p.fold_weight != FoldWeight::kUniform && !divides) {
      return "participation_weights, fold_weight: weights 1/(S q_j) are of devices that count the same; use "
             "fold_weight uniform, or participation_weights biased";
    }
  }
  return "";
}

std::string check_over_selection(const RunParameters& p) {
  if (!(p.over_selection >= 1) || !std::isfinite(p.over_selection)) {
    return "over_selection: from 1, which draws nobody too many";
  }
  if (p.over_selection == 1) {
    return "";
  }
  if (p.participation != Participation::kSchemeOne) {
    return "over_selection, participation: only scheme_1 draws a number of devices that can be exceeded; set it to 1 "
           "(scheme_2: raise participation_probability and set update_goal)";
  }
  return p.drawn_count() <= p.device_count
             ? ""
             : "over_selection, cohort_size, device_count: " + std::to_string(p.drawn_count()) +
                   " devices would be drawn, more than there are; lower over_selection or cohort_size";
}

std::string check_straggler(const RunParameters& p) {
  const uint32_t asked = p.participation == Participation::kSchemeOne ? p.cohort_size : p.device_count;
  const uint32_t goal = p.update_goal == 0 ? asked : p.update_goal;
  if (goal > asked) {
    return "update_goal, device_count: no more answers can be wanted than there are devices (scheme_1: cohort_size)";
  }
  if (p.update_min > goal) {
    return "update_min, update_goal: the least number of answers at the deadline is above the goal";
  }
  if (p.report_deadline_ms == 0) {
    return "report_deadline_ms: every round needs a deadline";
  }
  if (p.steps_min > p.local_step_count) {
    return "steps_min, local_step_count: more steps wanted than a task has";
  }
  if (p.task_deadline_ms > 0 && p.least_steps() == p.local_step_count && p.local_step_count > 1) {
    return "task_deadline_ms, steps_min: a task cut short is partial work, which this run refuses; set steps_min";
  }
  if (p.task_deadline_ms > p.report_deadline_ms) {
    return "task_deadline_ms, report_deadline_ms: the task would end after the round";
  }
  if (p.late == LatePolicy::kWeight) {
    if (p.waits_for_all()) {
      return "late, update_goal, update_min: a round that always waits for all has no late updates; set update_goal or "
             "update_min, or late = drop";
    }
    if (p.staleness_max == 0 || p.staleness_max > kStalenessMax) {
      return "staleness_max: from 1 to " + std::to_string(kStalenessMax) + " where late updates are weighted";
    }
    if (!(p.staleness_exponent > 0) || p.staleness_exponent > 16) {
      return "staleness_exponent: above 0, at most 16";
    }
  }
  return "";
}

// Whether a device can be too slow for every version: its late updates are dropped, and rounds close without it.
bool drops_the_slow(const RunParameters& p) {
  const uint32_t asked = p.cohort_size > 0 ? p.drawn_count() : p.device_count;
  return p.late == LatePolicy::kDrop && update_least(p, asked) < asked;
}

std::string check_step_times(const RunParameters& p) {
  const auto milliseconds_of = [&p](uint32_t step_time_us) {
    return (uint64_t{p.least_steps()} * step_time_us + 999) / 1000;
  };
  if (p.step_time_max_us > 0 && p.step_time_min_us > p.step_time_max_us) {
    return "step_time_min_us, step_time_max_us: the fastest device's step is longer than the slowest one's";
  }
  const uint64_t wanted_ms = milliseconds_of(p.step_time_max_us);
  const std::string slowest = "the slowest device (step_time_max_us) takes " + std::to_string(wanted_ms) + " ms for " +
                              std::to_string(p.least_steps()) + " steps, the least that count (steps_min)";
  if (p.task_deadline_ms > 0 && wanted_ms > p.task_deadline_ms) {
    return "task_deadline_ms, steps_min, step_time_max_us: " + slowest + "; raise task_deadline_ms or lower steps_min";
  }
  if (drops_the_slow(p) && wanted_ms > p.report_deadline_ms) {
    return "report_deadline_ms, steps_min, step_time_max_us: " + slowest +
           ", so that none of its updates would ever count; raise report_deadline_ms, lower steps_min, or set late = "
           "weight";
  }
  return "";
}

std::string check_timed_work(const RunParameters& p) {
  if (p.work == Work::kTimed && p.least_steps() == p.local_step_count) {
    return "work, steps_min, local_step_count: timed work gives a slow device fewer steps; set steps_min from 1 to " +
           std::to_string(std::max(1U, p.local_step_count - 1)) + ", or work = fixed";
  }
  return check_step_times(p);
}

std::string check_retry(const RunParameters& p) {
  constexpr uint64_t kMostMs = kRetryMaxMs / kRefusedWindowFactor;
  const uint64_t spread_ms = uint64_t{kPaceSpread} * 1000 * p.device_count;
  if (p.arrival_rate > 0 && spread_ms > kMostMs * p.arrival_rate) {
    return "arrival_rate, device_count: so few arrivals a second make devices wait above " +
           std::to_string(kMostMs / 3'600'000) + " h; use at least " + std::to_string(spread_ms / kMostMs + 1);
  }
  if (p.retry_max_ms > kRetryMaxMs / kRefusedWindowFactor) {
    return "retry_max_ms: at most " + std::to_string(kRetryMaxMs / kRefusedWindowFactor) + "; refused devices wait " +
           std::to_string(kRefusedWindowFactor) + " times as long, and none above 24 h";
  }
  if (p.retry_min_ms > p.retry_max_ms || p.retry_max_ms == 0) {
    return "retry_min_ms, retry_max_ms: a window from retry_min_ms to retry_max_ms, which is at least 1";
  }
  return "";
}

// k, or B.
uint32_t updates_wanted(const RunParameters& p) {
  return p.buffer_size > 0 ? p.buffer_size : update_goal(p, p.cohort_size > 0 ? p.drawn_count() : p.device_count);
}

std::string check_weight_share(const RunParameters& p) {
  if (p.weight_share_max == 1) {
    return "";
  }
  if (!(p.weight_share_max > 0) || p.weight_share_max > 1) {
    return "weight_share_max: above 0, at most 1, which caps nothing";
  }
  if (p.fold_weight != FoldWeight::kSampleCount || p.has_memory() || p.solver == SolverId::kSvrg) {
    return "weight_share_max, fold_weight, solver, correction_form: a share is capped where devices weigh by their "
           "samples, in one phase and without a memory; set it to 1";
  }
  const uint32_t wanted = updates_wanted(p);
  return p.weight_share_max * static_cast<float>(wanted) >= 1
             ? ""
             : "weight_share_max, update_goal, buffer_size: " + std::to_string(wanted) +
                   " updates cannot each have less than their equal share; use at least 1/" + std::to_string(wanted) +
                   ", or fold_weight uniform";
}

std::string check_buffer(const RunParameters& p) {
  if (p.buffer_size == 0) {
    return "";
  }
  if (p.buffer_size > p.device_count) {
    return "buffer_size, device_count: a version cannot have more updates than there are devices";
  }
  if (p.update_goal != 0 || p.update_min != 0) {
    return "buffer_size, update_goal, update_min: a buffer counts updates of any version; leave the other two at 0";
  }
  if (p.participation != Participation::kAll || p.solver == SolverId::kSvrg) {
    return "buffer_size, participation, solver: cohorts and solver svrg need rounds; set buffer_size to 0";
  }
  if (p.late != LatePolicy::kWeight) {
    return "buffer_size, late: most updates in a buffer are of older versions; use late = weight";
  }
  return "";
}

// Keys that belong to a delay rule, where there is none.
std::string check_no_delay_rule(const RunParameters& p) {
  const bool has_keys = p.late_delay_rule != DelayRule::kNone || p.delay_switch != 0 || p.dominance_penalty ||
                        p.server_momentum != 0 || p.delay_switch_by != DelaySwitchBy::kVersion ||
                        p.delay_switch_at != 0;
  return has_keys ? "delay_rule: late_delay_rule, the delay_switch keys, dominance_penalty and server_momentum belong "
                    "to one"
                  : "";
}

std::string check_delay_rule(const RunParameters& p) {
  if (p.delay_rule == DelayRule::kNone) {
    return check_no_delay_rule(p);
  }
  if (p.buffer_size == 0 || p.stream() != StreamKind::kTangentBlock || p.solver == SolverId::kProjection) {
    return "delay_rule, buffer_size, solver: delay rules step by single tangents; set buffer_size, and solver "
           "gradient_stream, tangent_mean or curve";
  }
  if (p.buffer_size > 1 &&
      (p.delay_rule != DelayRule::kAsgd || p.late_delay_rule != DelayRule::kNone || p.dominance_penalty)) {
    return "delay_rule, dominance_penalty, buffer_size: of several updates at once only asgd has a meaning, and no "
           "device's share; use delay_rule asgd without a penalty, or buffer_size 1";
  }
  if (p.fold_weight != FoldWeight::kUniform) {
    return "delay_rule, fold_weight: an update weighs by its staleness alone; use fold_weight uniform";
  }
  for (const DelayRule rule : {p.delay_rule, p.late_delay_rule}) {
    if (!is_delay_rule_defined(rule, p.manifold)) {
      return std::string("delay_rule, manifold: ") + name_of(rule) +
             " multiplies entries, which has no meaning on this manifold; use dc_rank1";
    }
    if ((rule == DelayRule::kFedAsync || rule == DelayRule::kOrthoPos) && p.server_step > 1) {
      return "server_step, delay_rule: fedasync and ortho_pos go a share of the way to a device's point; at most 1";
    }
  }
  const bool has_numbers =
      p.delay_lambda > 0 && std::isfinite(p.delay_lambda) && p.server_momentum >= 0 && p.server_momentum < 1;
  return has_numbers ? "" : "delay_lambda, server_momentum: above 0; from 0 to below 1";
}

std::string check_delay_switch(const RunParameters& p) {
  if (p.delay_switch_by == DelaySwitchBy::kVersion) {
    return p.delay_switch_at == 0 ? ""
                                  : "delay_switch_at, delay_switch_by: a version has no statistic; set delay_switch_by "
                                    "to cosine or drift_ratio, or leave delay_switch_at out";
  }
  if (p.late_delay_rule == DelayRule::kNone) {
    return "delay_switch_by, late_delay_rule: there is no rule to switch to; set late_delay_rule, or leave "
           "delay_switch_by out";
  }
  if (p.delay_switch >= p.version_count()) {
    return "delay_switch, round_count: the run ends at version " + std::to_string(p.version_count()) +
           "; no statistic would ever be asked";
  }
  const bool has_level = p.delay_switch_by == DelaySwitchBy::kCosine
                             ? p.delay_switch_at > -1 && p.delay_switch_at < 1
                             : p.delay_switch_at > 0 && std::isfinite(p.delay_switch_at);
  return has_level ? "" : "delay_switch_at, delay_switch_by: a cosine is between -1 and 1, a drift_ratio is above 0";
}

std::string check_average(const RunParameters& p) {
  if (p.average_period == 0) {
    return p.average_from == 0 && p.average_restart == 0
               ? ""
               : "average_period: average_from and average_restart belong to an average; set average_period";
  }
  if (p.average_from > p.version_count() || p.average_period > p.version_count()) {
    return "average_from, average_period: the run ends at version " + std::to_string(p.version_count()) +
           "; no version would be taken";
  }
  if (p.average_restart != 0 && (p.stream() != StreamKind::kTangentBlock || p.has_mean() || p.phase_count() > 1 ||
                                 p.solver == SolverId::kProjection)) {
    return "average_restart, solver, correction_form: a version can be set to the average where its record is the "
           "model; use solver gradient_stream or tangent_mean, or leave it 0";
  }
  return "";
}

// A13: between Euclidean points, one update a version.
std::string check_curve(const RunParameters& p) {
  if (p.solver != SolverId::kCurve) {
    return p.curve_orthogonality == RunParameters().curve_orthogonality
               ? ""
               : "curve_orthogonality: belongs to solver curve; leave it out";
  }
  if (p.manifold != ManifoldId::kEuclidean || p.estimator != EstimatorId::kAnalyticGradient ||
      p.batch_mode != BatchMode::kCommon || !p.batch_sizes.empty()) {
    return "solver, manifold, estimator, batch_mode: the curve is one of Euclidean space and trains by epochs of "
           "minibatches; use euclidean, analytic_gradient and common, without batch_sizes";
  }
  if (p.delay_rule == DelayRule::kNone || p.buffer_size != 1 || p.server_momentum != 0 || p.server_step > 1) {
    return "solver, delay_rule, buffer_size, server_momentum, server_step: a server goes along one curve at a time, at "
           "most to its end; use a delay_rule, buffer_size 1, no momentum, and server_step at most 1";
  }
  if (p.correction_form != CorrectionForm::kNone || p.error_feedback) {
    return "solver, correction_form, error_feedback: curve takes no correction and no error feedback; use none, false";
  }
  return p.curve_orthogonality >= 0 && p.curve_orthogonality <= 1 ? "" : "curve_orthogonality: from 0 to 1";
}

// The last check: which rule serves a run is only defined where all others pass.
std::string check_kept_models(const RunParameters& p) {
  const uint64_t bytes = uint64_t{p.kept_model_count()} * p.shape.size() * sizeof(Real);
  return bytes <= kModelsBytesMax
             ? ""
             : "staleness_max, shape: the models that late updates were made at would take " + std::to_string(bytes) +
                   " bytes, at most " + std::to_string(kModelsBytesMax) + "; lower staleness_max or raise buffer_size";
}

}  // namespace

std::string check_policy(const RunParameters& p) {
  for (const auto check : {check_fold, check_groups, check_participation, check_over_selection, check_straggler,
                           check_timed_work, check_retry, check_weight_share, check_buffer, check_delay_rule,
                           check_delay_switch, check_average, check_curve, check_kept_models}) {
    if (std::string sentence = check(p); !sentence.empty()) {
      return sentence;
    }
  }
  return "";
}

}  // namespace gradstream

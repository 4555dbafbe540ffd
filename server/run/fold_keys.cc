#include "server/run/fold_keys.h"

#include <algorithm>
#include <cmath>

#include "server/run/field_text.h"
#include "server/run/limits.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// k, or B.
uint32_t updates_wanted(const RunParameters& p) {
  return p.trigger->buffer_size > 0
             ? p.trigger->buffer_size
             : wanted_updates(p, p.cohort->cohort_size > 0 ? p.drawn_count() : p.trigger->device_count);
}

}  // namespace

uint32_t clip_factor256(const FoldKeys& keys) {
  return static_cast<uint32_t>(std::floor(static_cast<double>(keys.clip_factor) * kClipFactorOne + 0.5));
}

// A radius that no norm reaches is the largest one.
uint64_t fixed_clip_radius(const FoldKeys& keys) {
  const double radius =
      std::floor(std::ldexp(static_cast<double>(keys.clip_norm_value), static_cast<int>(keys.fold_scale_log2)) + 0.5);
  return radius < std::ldexp(1.0, 63) ? static_cast<uint64_t>(radius) : UINT64_MAX;
}

uint32_t clip_update_count_max(const RunParameters& p) {
  if (p.fold.keys().clip_norm == ClipNorm::kNone) {
    return kFoldUpdateCountMax;
  }
  if (p.fold.keys().clip_norm != ClipNorm::kMedian) {
    return kClipNormCountMax;
  }
  return clip_kept_count_max(p);
}

uint32_t clip_kept_count_max(const RunParameters& p) {
  const uint64_t fitting = kClipKeptBytesMax / (sizeof(Real) * std::max(p.value_count(), 1U));
  return static_cast<uint32_t>(std::clamp<uint64_t>(fitting, 1, kClipKeptUpdateCountMax));
}

std::string median_clip_obstacle(const RunParameters& p) {
  if (p.has_memory()) {
    return std::string("correction_form ") + name_of(p.local->correction_form);
  }
  RunParameters clipped = p;
  clipped.fold.keys().clip_norm = ClipNorm::kMedian;
  const uint32_t most = clip_update_count_max(clipped);
  const uint32_t wanted = updates_wanted(p);
  return wanted <= most ? ""
                        : "versions of " + std::to_string(wanted) + " updates, of which " + std::to_string(most) +
                              " could be kept";
}

Objection check_clip(const RunParameters& p) {
  const FoldKeys& keys = p.fold.keys();
  if (keys.clip_norm == ClipNorm::kNone) {
    return {};
  }
  if (p.delay->delay_rule != DelayRule::kNone) {
    return "clip_norm, delay_rule: a delay rule steps by single updates, and not by the whole numbers that a clip "
           "measures; set clip_norm to none, or delay_rule to none";
  }
  if (p.local->solver == SolverId::kSvrg) {
    return "clip_norm, solver: the two phases of svrg have updates of two sizes, for which no one radius is right; set "
           "clip_norm to none";
  }
  if (keys.clip_norm == ClipNorm::kFixed && keys.clip_norm_value <= 0) {
    return "clip_norm_value, clip_norm: the radius of clip_norm fixed is missing; set clip_norm_value above 0, or "
           "clip_norm to median";
  }
  if (keys.clip_norm == ClipNorm::kFixed && fixed_clip_radius(keys) == 0) {
    return "clip_norm_value, fold_scale_log2: the fold counts in units of 2^-" + std::to_string(keys.fold_scale_log2) +
           ", in which this radius is 0 and every update would count nothing; set clip_norm_value to " +
           field_text(std::ldexp(1.0F, -static_cast<int>(keys.fold_scale_log2))) + " or more";
  }
  if (keys.clip_norm != ClipNorm::kMedian) {
    return {};
  }
  const std::string obstacle = median_clip_obstacle(p);
  const char* const why = p.has_memory() ? ", whose devices are told at once what is left of their updates" : "";
  return obstacle.empty() ? ""
                          : "clip_norm: median keeps a version's updates until it closes, and does not go with " +
                                obstacle + why + "; set clip_norm to trailing";
}

Objection check_own_rule(const RunParameters& p) {
  if (p.fold.keys().own_rule == nullptr) {
    return {};
  }
  const bool has_tangents =
      (p.local->solver == SolverId::kGradientStream || p.local->solver == SolverId::kTangentMean) &&
      p.stream() == StreamKind::kTangentBlock;
  if (!has_tangents) {
    return "an own aggregation, solver, upload_stream: it gets the tangents of solver gradient_stream or tangent_mean, "
           "and this run uploads others; set solver to gradient_stream, and upload_stream to tangent";
  }
  if (p.delay->delay_rule != DelayRule::kNone || p.fold.keys().clip_norm != ClipNorm::kNone ||
      p.fold->weight_share_max < 1 || p.cohort->participation == Participation::kSchemeTwo) {
    return "an own aggregation, delay_rule, clip_norm, weight_share_max, participation: the function takes the place "
           "of "
           "these rules; set delay_rule and clip_norm to none, weight_share_max to 1, participation to all or scheme_1";
  }
  if (p.steps->step_size == 0) {
    return "an own aggregation, step_size: no step is found by what the function makes; set step_size to a number";
  }
  return {};
}

Objection check_kept_updates(const RunParameters& p) {
  const std::string limit = std::to_string(kKeptUpdateCountMax);
  if (p.has_memory()) {
    return p.trigger->device_count <= kKeptUpdateCountMax
               ? ""
               : "device_count, correction_form: a memory holds the last update of each device, of " + limit +
                     " at most, and device_count is " + std::to_string(p.trigger->device_count) +
                     "; lower device_count, or set correction_form to local";
  }
  const uint32_t wanted = updates_wanted(p);
  if (wanted <= update_count_max(p, false)) {
    return {};
  }
  const bool has_delay_rule = p.delay->delay_rule != DelayRule::kNone;
  const bool has_share = p.fold->weight_share_max < 1;
  const std::string goal = p.trigger->buffer_size > 0                                 ? "buffer_size"
                           : p.cohort->cohort_size > 0 && p.trigger->update_goal == 0 ? "cohort_size"
                                                                                      : "update_goal";
  const std::string wants = " at most, and a version wants " + std::to_string(wanted) + "; lower " + goal;
  if (!has_delay_rule && !has_share) {
    return goal + ", clip_norm: the server keeps how long each update of a version is, of " +
           std::to_string(kClipNormCountMax) + wants + ", or set clip_norm to none";
  }
  return goal + (has_delay_rule ? ", delay_rule" : ", weight_share_max") +
         ": the server keeps each update of a version, " + limit + wants +
         (has_delay_rule ? "" : ", or set weight_share_max to 1");
}

Objection check_weight_share(const RunParameters& p) {
  if (p.fold->weight_share_max == 1) {
    return {};
  }
  if (p.delay->delay_rule != DelayRule::kNone) {
    return "weight_share_max, delay_rule: a delay rule divides by no weights, so that no update has a share of them; "
           "set "
           "weight_share_max to 1, or delay_rule to none";
  }
  if (p.fold->fold_weight != FoldWeight::kSampleCount || p.has_memory() || p.local->solver == SolverId::kSvrg) {
    return "weight_share_max, fold_weight, solver, correction_form: a share is capped where devices weigh by their "
           "samples, in one phase and without a memory; set it to 1";
  }
  const uint32_t wanted = updates_wanted(p);
  return p.fold->weight_share_max * static_cast<float>(wanted) >= 1
             ? ""
             : "weight_share_max, update_goal, buffer_size: " + std::to_string(wanted) +
                   " updates cannot each have less than their equal share; use at least 1/" + std::to_string(wanted) +
                   ", or fold_weight uniform";
}

}  // namespace gradstream

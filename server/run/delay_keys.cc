#include "server/run/delay_keys.h"

#include <cmath>

#include "server/run/check_range.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

// Bytes of the models that a rule keeps for late updates. Reason: several runs fit a small host.
constexpr uint64_t kModelsBytesMax = uint64_t{64} << 20;

// Keys that belong to a delay rule, where there is none.
Objection check_no_delay_rule(const RunParameters& p) {
  const bool has_keys = p.delay->late_delay_rule != DelayRule::kNone || p.delay->delay_switch != 0 ||
                        p.delay->dominance_penalty || p.delay->server_momentum != 0 ||
                        p.delay->delay_switch_by != DelaySwitchBy::kVersion || p.delay->delay_switch_at != 0;
  return has_keys ? "delay_rule: late_delay_rule, the delay_switch keys, dominance_penalty and server_momentum belong "
                    "to one"
                  : "";
}

}  // namespace

Objection check_delay_rule(const RunParameters& p) {
  if (p.delay->delay_rule == DelayRule::kNone) {
    return check_no_delay_rule(p);
  }
  if (p.trigger->buffer_size == 0 || p.stream() != StreamKind::kTangentBlock ||
      p.local->solver == SolverId::kProjection) {
    return "delay_rule, buffer_size, solver: delay rules step by single tangents; set buffer_size, and solver "
           "gradient_stream, tangent_mean or curve";
  }
  if (p.trigger->buffer_size > 1 && (p.delay->delay_rule != DelayRule::kAsgd ||
                                     p.delay->late_delay_rule != DelayRule::kNone || p.delay->dominance_penalty)) {
    return "delay_rule, dominance_penalty, buffer_size: of several updates at once only asgd has a meaning, and no "
           "device's share; use delay_rule asgd without a penalty, or buffer_size 1";
  }
  for (const DelayRule rule : {p.delay->delay_rule, p.delay->late_delay_rule}) {
    if (!is_delay_rule_defined(rule, p.model->manifold)) {
      return std::string("delay_rule, manifold: ") + name_of(rule) +
             " multiplies entries, which has no meaning on this manifold; use dc_rank1";
    }
    if ((rule == DelayRule::kFedAsync || rule == DelayRule::kOrthoPos) && p.steps->server_step > 1) {
      return "server_step, delay_rule: fedasync and ortho_pos go a share of the way to a device's point; at most 1";
    }
  }
  const Objection objection = check_range(p, "delay_lambda");
  return objection ? objection : check_range(p, "server_momentum");
}

Objection check_delay_switch(const RunParameters& p) {
  if (p.delay->delay_switch_by == DelaySwitchBy::kVersion) {
    return p.delay->delay_switch_at == 0
               ? ""
               : "delay_switch_at, delay_switch_by: a version has no statistic; set delay_switch_by "
                 "to cosine or drift_ratio, or leave delay_switch_at out";
  }
  if (p.delay->late_delay_rule == DelayRule::kNone) {
    return "delay_switch_by, late_delay_rule: there is no rule to switch to; set late_delay_rule, or leave "
           "delay_switch_by out";
  }
  if (p.delay->delay_switch >= p.version_count()) {
    return "delay_switch, round_count: the run ends at version " + std::to_string(p.version_count()) +
           "; no statistic would ever be asked";
  }
  const bool has_level = p.delay->delay_switch_by == DelaySwitchBy::kCosine
                             ? p.delay->delay_switch_at > -1 && p.delay->delay_switch_at < 1
                             : p.delay->delay_switch_at > 0 && std::isfinite(p.delay->delay_switch_at);
  return has_level ? "" : "delay_switch_at, delay_switch_by: a cosine is between -1 and 1, a drift_ratio is above 0";
}

Objection check_ortho(const RunParameters& p) {
  const DelayKeys& keys = p.delay.keys();
  if (keys.delay_rule != DelayRule::kOrthoGrad && keys.late_delay_rule != DelayRule::kOrthoGrad) {
    return keys.ortho_alpha == 0 && keys.ortho_theta == 0
               ? ""
               : "ortho_alpha, ortho_theta, delay_rule: they belong to the rule ortho_grad; set delay_rule or "
                 "late_delay_rule to ortho_grad, or leave both at 0";
  }
  if (keys.ortho_alpha == 1 && p.steps->server_step > 1) {
    return "server_step, ortho_alpha: with ortho_alpha 1 a step goes a share of the way to a device's point; set "
           "server_step to at most 1";
  }
  return check_range(p, "ortho_theta");
}

Objection check_kept_models(const RunParameters& p) {
  // As of float32 in the builds of double too. Reason: both take the same configurations.
  const uint64_t bytes = uint64_t{p.kept_model_count()} * p.model->shape.size() * sizeof(float);
  const char* const size_keys = p.model->manifold == ManifoldId::kProduct     ? "parts"
                                : p.model->manifold == ManifoldId::kFixedRank ? "matrix, rank"
                                                                              : "rows, cols";
  return bytes <= kModelsBytesMax
             ? ""
             : std::string("staleness_max, ") + size_keys + ": the models that late updates were made at would take " +
                   std::to_string(bytes) + " bytes, at most " + std::to_string(kModelsBytesMax) +
                   "; lower staleness_max or raise buffer_size";
}

}  // namespace gradstream

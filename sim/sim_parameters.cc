#include "sim/sim_parameters.h"

#include "runtime/problem/problem.h"
#include "server/run/fold_keys.h"
#include "server/run/pace_keys.h"
#include "server/run/parts.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

void set_participation(const SimOptions& options, RunParameters* parameters) {
  RunParameters& p = *parameters;
  p.cohort->participation = options.participation;
  if (options.participation == Participation::kSchemeOne) {
    p.cohort->cohort_size = (options.device_count + 1) / 2;
  }
  if (options.participation == Participation::kSchemeTwo) {
    p.cohort->participation_probability = "0.7 0.3 0.9 0.5";
    const bool is_biased =
        p.local->solver == SolverId::kProjection && p.local->correction_form != CorrectionForm::kUnbiased;
    p.cohort->participation_weights = is_biased ? ParticipationWeights::kBiased : ParticipationWeights::kCounted;
    p.fold->fold_weight = FoldWeight::kUniform;
  }
}

void set_svrg(RunParameters* parameters) {
  RunParameters& p = *parameters;
  p.local->batch_mode = BatchMode::kAll;
  p.steps->step_rule = StepRule::kBarzilaiBorwein;
  p.steps->step_decay = 0;
  p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
  p.steps->step_min = p.steps->step_size / 8;
  p.steps->step_max = p.steps->step_size * 4;
}

void choose_step(RunParameters* parameters) {
  StepCore& steps = *parameters->steps;
  steps.step_size = 0;  // "auto"
  steps.step_decay = steps.step_min = steps.step_max = 0;
  steps.step_rule = StepRule::kInverse;
  parameters->local->barzilai_borwein = BarzilaiBorwein::kNone;
}

void take_own(const SimOptions& options, RunParameters* parameters) {
  if (options.own != nullptr) {
    options.own->adjust(parameters);
    parameters->fold.keys().own_rule = options.own->rule;
  }
}

void set_policy(const SimOptions& options, RunParameters* parameters) {
  RunParameters& p = *parameters;
  p.quality->holdout_share = options.holdout_share;
  p.quality->evaluation_period = options.holdout_share > 0 ? 2 : 0;
  if (options.has_stragglers) {
    p.local->local_step_count = 6;
    p.trigger->steps_min = 1;
    p.trigger->task_deadline_ms = 60;
    p.trigger->work = options.is_timed ? Work::kTimed : Work::kFixed;
    p.trigger->report_deadline_ms = 300;
    const uint32_t asked = p.cohort->cohort_size > 0 ? p.cohort->cohort_size : options.device_count;
    p.trigger->update_goal = asked > 1 ? asked - 1 : 1;
    p.trigger->update_min = 1;
    p.trigger->late = p.local->solver == SolverId::kSvrg ? LatePolicy::kDrop : LatePolicy::kWeight;
    p.trigger->staleness_max = 3;
  }
  if (options.buffer_size > 0) {
    p.trigger->buffer_size = options.buffer_size;
    p.trigger->update_goal = p.trigger->update_min = 0;
    p.trigger->late = LatePolicy::kWeight;
    p.trigger->staleness_max = 6;
    if (p.local->solver == SolverId::kGradientStream && !options.chooses_step) {
      p.delay->delay_rule = DelayRule::kAsgd;
      p.fold->fold_weight = options.memory_weighs_samples ? FoldWeight::kSampleCount : FoldWeight::kUniform;
      p.steps->server_step = Real{1} / 2;
    }
  }
  p.trigger.keys().seen_versions = options.trust.seen_versions;
  if (options.trust.device_share_max < 1) {
    p.trigger.keys().device_share_max = options.trust.device_share_max;
    p.trigger.keys().device_share_window = kSimShareVersions;
  }
  p.fold->weight_share_max = options.weight_share_max;
  p.fold.keys().clip_norm = options.trust.clip_norm;
  p.fold.keys().clip_norm_value = options.trust.clip_norm == ClipNorm::kFixed ? kSimClipRadius : 0;
  p.units.keys().centre = options.centre;
  p.units.keys().scale = options.scale;
}

}  // namespace

bool waits_for_all(const SimOptions& options) {
  return !options.has_stragglers && options.buffer_size == 0 && options.trust.seen_versions == 0;
}

bool has_one_digest(const SimOptions& options) {
  return waits_for_all(options) && !options.chooses_step && !options.trust.is_byzantine;
}

RunParameters sim_parameters(const SimOptions& options) {
  const bool is_scalar = options.stream == StreamKind::kScalarStream;
  RunParameters p;
  p.name = "simulated";
  p.seed = options.seed;
  p.model->manifold = ManifoldId::kStiefel;
  p.model->shape = {16, 2};
  p.model->problem = kKpcaOps.name;
  if (options.is_product) {
    p.model->manifold = ManifoldId::kProduct;
    p.model->parts = "stiefel 8x2 polar smooth, oblique 4x3, sphere 4x1, euclidean 2x1";
    p.model->shape = {};
    set_parts(&p);
  }
  if (options.is_grassmann) {
    p.model->manifold = ManifoldId::kGrassmann;
  }
  if (options.is_fixed_rank) {
    p.model->manifold = ManifoldId::kFixedRank;
    p.model->matrix = "8x6";
    p.model->rank = 2;
    p.model->shape = {};
    p.model->problem = kCompletionOps.name;
    set_parts(&p);
  }
  p.local->solver = is_scalar || options.uploads_means ? SolverId::kProjection : options.tangent_solver;
  p.local->estimator = is_scalar ? EstimatorId::kProjectionOneSided : EstimatorId::kAnalyticGradient;
  p.local->direction_count = 4;
  p.local->local_step_count = 2;
  p.local->batch_size = 4;
  // Without a memory, a device that was not asked for some versions may get a snapshot in place of the record that its
  // correction needs. That depends on its schedule, so only a run without a correction has one digest.
  const bool is_own = options.correction_form == CorrectionForm::kLocal;
  const bool has_form =
      p.local->solver == SolverId::kProjection && (options.participation == Participation::kAll || !is_own);
  p.local->correction_form = has_form ? options.correction_form : CorrectionForm::kNone;
  p.steps->step_size = 0.05F;
  p.steps->step_decay = 0.1F;
  p.wire->upload_encoding = options.encoding;
  p.wire->record_encoding = p.has_memory() ? Encoding::kF32 : options.encoding;
  p.wire->error_feedback = options.error_feedback;
  p.fold->fold_weight = p.has_memory() && !options.memory_weighs_samples ? FoldWeight::kUniform : p.fold->fold_weight;
  p.trigger->round_count = options.round_count;
  p.trigger->device_count = options.device_count;
  p.trigger->report_deadline_ms = 3000;
  p.trigger->extension_count_max = 2;
  p.pace->retry_min_ms = 5;
  p.pace->retry_max_ms = 50;
  p.pace->arrival_rate = options.arrival_rate;
  if (p.local->solver == SolverId::kTangentMean) {
    p.local->proximal = Real{1} / 8;
  }
  if (options.proximal_form != ProximalForm::kGeodesic) {
    p.local->proximal_form = options.proximal_form;
    p.local->proximal = Real{1} / 8;
    p.local->proximal_sigma = options.proximal_form == ProximalForm::kLorentz ? 2 : 1;
    p.local->correction_form = CorrectionForm::kNone;
  }
  if (p.local->solver == SolverId::kSvrg) {
    set_svrg(&p);
  }
  if (options.chooses_step) {
    choose_step(&p);
  }
  set_participation(options, &p);
  set_policy(options, &p);
  take_own(options, &p);
  return p;
}

namespace {

// What the keys of the caller's run ask for in place of options.
std::string own_keys_obstacle(const SimOptions& options) {
  const RunParameters run = sim_parameters(options);
  if (chooses_step(run) || run.units->centre != Centre::kNone || run.units->scale != UnitScale::kNone) {
    return "step_size \"auto\", centre and scale are of the simulator's own samples; leave them out";
  }
  if (run.trigger->device_count != options.device_count) {
    return "device_count is " + std::to_string(run.trigger->device_count) + ", and the fleet has " +
           std::to_string(options.device_count) + " devices; leave device_count out";
  }
  if (!options.has_stragglers && (run.trigger->update_goal != 0 || run.trigger->update_min != 0)) {
    return "update_goal and update_min close a version early; give them with --stragglers alone";
  }
  const OwnProblem& own = *options.own;
  const Shape shape = run.model->shape;
  for (const void* const context : own.contexts) {
    if (own.ops->check_shape(context, shape) != Status::kOk) {
      return std::string("the problem ") + own.ops->name + " takes no model of " + std::to_string(shape.rows) +
             " rows and " + std::to_string(shape.cols) +
             " columns over these samples; leave rows out, or give those of the samples";
    }
  }
  return "";
}

}  // namespace

std::string own_problem_obstacle(const SimOptions& options) {
  if (options.own == nullptr) {
    return "";
  }
  const OwnProblem& own = *options.own;
  if (options.is_product || options.is_fixed_rank || options.asks_needed > 0 || options.chooses_step ||
      options.centre != Centre::kNone || options.scale != UnitScale::kNone) {
    return "product, fixed_rank, measured, auto_step, centre and scale are of the simulator's own samples; leave them "
           "out";
  }
  if (own.ops != nullptr && own.contexts.size() != options.device_count) {
    return "there are samples for " + std::to_string(own.contexts.size()) + " devices, and the fleet has " +
           std::to_string(options.device_count) + "; give a shard for each device";
  }
  return own_keys_obstacle(options);
}

}  // namespace gradstream

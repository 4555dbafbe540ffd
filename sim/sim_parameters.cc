#include "sim/sim_parameters.h"

#include "runtime/problem/problem.h"
#include "server/run/parts.h"

namespace gradstream {
namespace {

void set_participation(const SimOptions& options, RunParameters* parameters) {
  RunParameters& p = *parameters;
  p.participation = options.participation;
  if (options.participation == Participation::kSchemeOne) {
    p.cohort_size = (options.device_count + 1) / 2;
  }
  if (options.participation == Participation::kSchemeTwo) {
    p.participation_probability = "0.7 0.3 0.9 0.5";
    const bool is_biased = p.solver == SolverId::kProjection && p.correction_form != CorrectionForm::kUnbiased;
    p.participation_weights = is_biased ? ParticipationWeights::kBiased : ParticipationWeights::kCounted;
    p.fold_weight = FoldWeight::kUniform;
  }
}

void set_policy(const SimOptions& options, RunParameters* parameters) {
  RunParameters& p = *parameters;
  if (options.has_stragglers) {
    p.local_step_count = 6;
    p.steps_min = 1;
    p.task_deadline_ms = 60;
    p.work = options.is_timed ? Work::kTimed : Work::kFixed;
    p.report_deadline_ms = 300;
    const uint32_t asked = p.cohort_size > 0 ? p.cohort_size : options.device_count;
    p.update_goal = asked > 1 ? asked - 1 : 1;
    p.update_min = 1;
    p.late = p.solver == SolverId::kSvrg ? LatePolicy::kDrop : LatePolicy::kWeight;
    p.staleness_max = 3;
  }
  if (options.buffer_size > 0) {
    p.buffer_size = options.buffer_size;
    p.update_goal = p.update_min = 0;
    p.late = LatePolicy::kWeight;
    p.staleness_max = 6;
    if (p.solver == SolverId::kGradientStream) {
      p.delay_rule = DelayRule::kAsgd;
      p.fold_weight = FoldWeight::kUniform;
      p.server_step = Real{1} / 2;
    }
  }
}

}  // namespace

bool has_one_digest(const SimOptions& options) { return !options.has_stragglers && options.buffer_size == 0; }

RunParameters sim_parameters(const SimOptions& options) {
  const bool is_scalar = options.stream == StreamKind::kScalarStream;
  RunParameters p;
  p.name = "simulated";
  p.seed = options.seed;
  p.manifold = ManifoldId::kStiefel;
  p.shape = {16, 2};
  p.problem = kKpcaOps.name;
  if (options.is_product) {
    p.manifold = ManifoldId::kProduct;
    p.parts = "stiefel 8x2 polar smooth, oblique 4x3, sphere 4x1, euclidean 2x1";
    p.shape = {};
    set_parts(&p);
  }
  if (options.is_grassmann) {
    p.manifold = ManifoldId::kGrassmann;
  }
  if (options.is_fixed_rank) {
    p.manifold = ManifoldId::kFixedRank;
    p.matrix = "8x6";
    p.rank = 2;
    p.shape = {};
    p.problem = kCompletionOps.name;
    set_parts(&p);
  }
  p.solver = is_scalar || options.uploads_means ? SolverId::kProjection : options.tangent_solver;
  p.estimator = is_scalar ? EstimatorId::kProjectionOneSided : EstimatorId::kAnalyticGradient;
  p.direction_count = 4;
  p.local_step_count = 2;
  p.batch_size = 4;
  // Without a memory, a device that was not asked for some versions may get a snapshot in place of the record that its
  // correction needs. That depends on its schedule, so only a run without a correction has one digest.
  const bool is_own = options.correction_form == CorrectionForm::kLocal;
  const bool has_form = p.solver == SolverId::kProjection && (options.participation == Participation::kAll || !is_own);
  p.correction_form = has_form ? options.correction_form : CorrectionForm::kNone;
  p.step_size = 0.05F;
  p.step_decay = 0.1F;
  p.upload_encoding = options.encoding;
  p.record_encoding = p.has_memory() ? Encoding::kF32 : options.encoding;
  p.error_feedback = options.error_feedback;
  p.fold_weight = p.has_memory() && !options.memory_weighs_samples ? FoldWeight::kUniform : p.fold_weight;
  p.round_count = options.round_count;
  p.device_count = options.device_count;
  p.report_deadline_ms = 3000;
  p.extension_count_max = 2;
  p.retry_min_ms = 5;
  p.retry_max_ms = 50;
  if (p.solver == SolverId::kTangentMean) {
    p.proximal = Real{1} / 8;
  }
  if (options.proximal_form != ProximalForm::kGeodesic) {
    p.proximal_form = options.proximal_form;
    p.proximal = Real{1} / 8;
    p.proximal_sigma = options.proximal_form == ProximalForm::kLorentz ? 2 : 1;
    p.correction_form = CorrectionForm::kNone;
  }
  if (p.solver == SolverId::kSvrg) {
    p.batch_mode = BatchMode::kAll;
    p.step_rule = StepRule::kBarzilaiBorwein;
    p.step_decay = 0;
    p.barzilai_borwein = BarzilaiBorwein::kFirst;
    p.step_min = p.step_size / 8;
    p.step_max = p.step_size * 4;
  }
  set_participation(options, &p);
  set_policy(options, &p);
  p.weight_share_max = options.weight_share_max;
  return p;
}

}  // namespace gradstream

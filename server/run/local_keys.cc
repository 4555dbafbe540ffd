#include "server/run/local_keys.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "server/run/check_range.h"
#include "server/run/delay_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

// Estimators whose values are tangents, as RFedAGS transports them.
bool is_tangent(EstimatorId id) {
  return id == EstimatorId::kAnalyticGradient || id == EstimatorId::kTangentRetraction ||
         id == EstimatorId::kProjectionTangent;
}

Objection check_directions(const RunParameters& p) {
  if (p.local->directions != DirectionKind::kSign && p.local->directions != DirectionKind::kSphere) {
    return "directions: sign or sphere";
  }
  if (Objection objection = check_range(p, "direction_count")) {
    return objection;
  }
  const Objection objection = check_range(p, "smoothing");
  return objection ? objection.sentence + "; about 1e-2 suits data of order 1" : "";
}

Objection check_estimator(const RunParameters& p) {
  if (name_of(p.local->estimator) == std::string("none")) {
    return "estimator: name one";
  }
  if (p.local->solver == SolverId::kSvrg && p.local->estimator != EstimatorId::kAnalyticGradient) {
    return "estimator: solver svrg needs analytic_gradient";
  }
  if (p.local->solver != SolverId::kProjection && !is_tangent(p.local->estimator)) {
    return "estimator: solver " + std::string(name_of(p.local->solver)) +
           " works with tangents and needs analytic_gradient, tangent_retraction or projection_tangent";
  }
  const bool can_stream = p.local->solver == SolverId::kProjection && has_scalars(p.local->estimator);
  if (p.wire->upload_stream == StreamKind::kScalarStream && !can_stream) {
    return std::string("upload_stream: scalars cannot carry what solver ") + name_of(p.local->solver) + " makes of " +
           name_of(p.local->estimator) +
           ": nobody else could rebuild it; use auto or tangent, or solver projection with "
           "projection_one_sided or projection_two_sided";
  }
  return p.local->estimator == EstimatorId::kAnalyticGradient ? "" : check_directions(p);
}

Objection check_memory(const RunParameters& p) {
  if (!p.has_memory()) {
    return p.local->memory_age_max == 0
               ? ""
               : "memory_age_max: only correction_form memory and unbiased have a memory; use 0";
  }
  if (p.wire->record_encoding != Encoding::kF32) {
    return "correction_form, record_encoding: records of the memory are whole numbers of 4 bytes; leave it f32";
  }
  if (p.stream() == StreamKind::kScalarStream && p.local->directions != DirectionKind::kSign) {
    return "correction_form, directions: the memory is an exact sum of signs; use sign";
  }
  return {};
}

Objection check_local_retraction(const RunParameters& p) {
  if (p.local->local_retraction == RetractionKind::kDefault) {
    return {};
  }
  if (p.local->solver == SolverId::kProjection && p.local->estimator != EstimatorId::kTangentRetraction) {
    return "local_retraction, solver: solver projection makes its steps by the nearest point; use default";
  }
  if (find_manifold(all_manifolds(), p.model->manifold, p.local->local_retraction, TransportKind::kDefault) ==
      nullptr) {
    return "local_retraction: manifold " + std::string(name_of(p.model->manifold)) + " has no retraction " +
           name_of(p.local->local_retraction) + "; it has " + variants_of(p.model->manifold);
  }
  return {};
}

bool is_whole(Real number, uint32_t max) {
  return number >= 1 && number <= static_cast<Real>(max) && std::floor(number) == number;
}

// Where differences of entries measure a distance of points, whatever represents them.
bool has_chords(const RunParameters& p) {
  if (p.model->manifold != ManifoldId::kProduct || p.model->part_list == nullptr) {
    return is_embedded(p.model->manifold);
  }
  const std::span<const Part> parts = p.model->part_list->list();
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) { return is_embedded(part.ops->id); });
}

// Why the devices cannot add the square of the manifold's distance, or "".
Objection check_distance(const RunParameters& p) {
  const ManifoldOps* const manifold =
      find_manifold(all_manifolds(), p.model->manifold, p.model->retraction, p.model->transport);
  const bool needs_gradient = p.local->estimator == EstimatorId::kAnalyticGradient;
  if (manifold == nullptr || manifold->check_shape(p.model->shape) != Status::kOk) {
    return {};  // said by its own key
  }
  return !needs_gradient || has_distance_gradient(*manifold, p.model->shape)
             ? ""
             : std::string("proximal_form, manifold: the distance on ") + name_of(p.model->manifold) +
                   " is the norm of an inverse retraction, whose gradient is no logarithm; use proximal_form geodesic "
                   "or "
                   "chordal, or an estimator of forward passes";
}

Objection check_proximal_form(const RunParameters& p) {
  const std::string form = std::string("proximal_form, ");
  if (!(p.local->proximal > 0)) {
    return form + "proximal: a " + name_of(p.local->proximal_form) + " term needs a weight; set proximal above 0";
  }
  if (p.local->solver == SolverId::kSvrg) {
    return form +
           "solver: the mean gradient of svrg is that of the bare losses; use gradient_stream, tangent_mean or "
           "projection, or set proximal to 0";
  }
  if (p.local->solver == SolverId::kProjection && p.local->correction_form != CorrectionForm::kNone) {
    return form + "correction_form: a path that is corrected needs no proximal term; set correction_form to none";
  }
  if (p.local->proximal_form == ProximalForm::kDistance) {
    return check_distance(p);
  }
  return has_chords(p) ? ""
                       : form + "manifold: differences of entries are no distance on " + name_of(p.model->manifold) +
                             "; use proximal_form distance or geodesic";
}

// Why minibatches cannot grow in this run, or "".
Objection check_batch_growth(const RunParameters& p) {
  const LocalKeys& keys = p.local.keys();
  if (Objection objection = check_range(p, "batch_growth")) {
    return objection;
  }
  if (!(keys.batch_growth > 0)) {
    return keys.batch_size_max == 0
               ? ""
               : "batch_size_max, batch_growth: only minibatches that grow stop growing; set batch_growth above 0, or "
                 "leave batch_size_max at 0";
  }
  if (keys.batch_mode != BatchMode::kCommon) {
    return "batch_growth, batch_mode: only common draws minibatches of a size; use common, or set batch_growth to 0";
  }
  if (!keys.batch_sizes.empty()) {
    return "batch_growth, batch_sizes: two schedules would set the size of a minibatch; leave batch_sizes empty, or "
           "set batch_growth to 0";
  }
  if (keys.solver == SolverId::kCurve) {
    return "batch_growth, solver: solver curve trains by epochs of batch_size; set batch_growth to 0";
  }
  if (Objection objection = check_range(p, "batch_size_max")) {
    return objection;
  }
  return keys.batch_size_max >= keys.batch_size
             ? ""
             : "batch_size_max, batch_size: minibatches begin with " + std::to_string(keys.batch_size) +
                   " samples and cannot grow to " + std::to_string(keys.batch_size_max) +
                   "; raise batch_size_max, or lower batch_size";
}

}  // namespace

uint32_t batch_size_at(const RunParameters& p, uint32_t round) {
  const LocalKeys& keys = p.local.keys();
  if (!(keys.batch_growth > 0)) {
    return keys.batch_size;
  }
  const double size = keys.batch_size + std::floor(static_cast<double>(keys.batch_growth) * round);
  return static_cast<uint32_t>(std::min(size, static_cast<double>(keys.batch_size_max)));
}

Objection check_local_work(const RunParameters& p) {
  if (p.local->solver == SolverId::kNone) {
    return "solver: projection, gradient_stream, tangent_mean or svrg";
  }
  if (Objection objection = check_range(p, "local_step_count")) {
    return objection;
  }
  if (Objection objection = check_estimator(p)) {
    return objection;
  }
  if (Objection objection = check_local_retraction(p)) {
    return objection;
  }
  if (p.local->correction_form != CorrectionForm::kNone && p.local->solver != SolverId::kProjection) {
    return "correction_form: only solver projection has a correction; set it to none";
  }
  return check_memory(p);
}

Objection check_batches(const RunParameters& p) {
  if (p.local->batch_mode == BatchMode::kNone) {
    return "batch_mode: all, common or per_direction";
  }
  if (p.local->batch_mode == BatchMode::kPerDirection && p.local->estimator == EstimatorId::kAnalyticGradient) {
    return "batch_mode: per_direction needs an estimator with directions; use common or all";
  }
  if (p.local->batch_mode == BatchMode::kCommon) {
    if (Objection objection = check_range(p, "batch_size")) {
      return objection;
    }
  }
  if (Objection objection = check_batch_growth(p)) {
    return objection;
  }
  if (p.local->batch_sizes.empty()) {
    return {};
  }
  if (p.local->batch_mode != BatchMode::kCommon) {
    return "batch_sizes, batch_mode: only common draws minibatches; leave batch_sizes empty";
  }
  const std::vector<Real> sizes = parse_numbers(p.local->batch_sizes);
  const bool is_good = !sizes.empty() && sizes.size() <= kBatchScheduleMax &&
                       std::all_of(sizes.begin(), sizes.end(), [](Real size) { return is_whole(size, kBatchSizeMax); });
  return is_good ? ""
                 : "batch_sizes: at most " + std::to_string(kBatchScheduleMax) +
                       " whole numbers with spaces between them, each from 1 to " + std::to_string(kBatchSizeMax);
}

Objection check_proximal(const RunParameters& p) {
  for (const char* const key : {"proximal", "proximal_sigma"}) {
    if (Objection objection = check_range(p, key)) {
      return objection;
    }
  }
  if (p.local->proximal_sigma != 1 && p.local->proximal_form != ProximalForm::kLorentz) {
    return "proximal_sigma, proximal_form: only lorentzian has a sigma; leave it at 1";
  }
  if (p.local->proximal_form != ProximalForm::kGeodesic) {
    return check_proximal_form(p);
  }
  const bool has_term = p.local->solver == SolverId::kGradientStream || p.local->solver == SolverId::kTangentMean ||
                        p.local->solver == SolverId::kCurve;
  return p.local->proximal == 0 || has_term
             ? ""
             : "proximal, solver: only solvers gradient_stream, tangent_mean and curve take a proximal term along the "
               "retraction; set it to 0, or proximal_form to chordal or distance";
}

Objection check_svrg(const RunParameters& p) {
  const bool is_svrg = p.local->solver == SolverId::kSvrg;
  if (!is_svrg && (p.local->barzilai_borwein != BarzilaiBorwein::kNone || p.local->iterate != Iterate::kLast ||
                   p.steps->step_rule == StepRule::kBarzilaiBorwein)) {
    return "barzilai_borwein, iterate, step_rule: curvatures and drawn iterates belong to solver svrg";
  }
  if (!is_svrg) {
    return {};
  }
  if (p.local->batch_mode != BatchMode::kAll) {
    return "batch_mode, solver: svrg takes gradients over all samples; use all";
  }
  if (p.trigger->late != LatePolicy::kDrop) {
    return "late, solver: an update of svrg belongs to one phase of one round; use drop";
  }
  if (p.local->iterate == Iterate::kUniform && p.least_steps() != p.local->local_step_count) {
    return "iterate, steps_min: an iterate is drawn from all local steps; leave steps_min at 0";
  }
  if (p.steps->step_rule == StepRule::kBarzilaiBorwein) {
    if (p.local->barzilai_borwein == BarzilaiBorwein::kNone) {
      return "step_rule, barzilai_borwein: this rule needs a curvature; set barzilai_borwein to first or second";
    }
    for (const char* const key : {"step_min", "step_max"}) {
      if (Objection objection = check_range(p, key)) {
        return objection;
      }
    }
    if (p.steps->step_min > p.steps->step_max) {
      return "step_min, step_max: rule barzilai_borwein needs step_min <= step_max; raise step_max";
    }
  }
  return {};
}

Objection check_groups(const RunParameters& p) {
  if (p.local->group_count > p.trigger->device_count) {
    return "group_count, device_count: more groups than devices would leave some without a device; at most " +
           std::to_string(p.trigger->device_count) + ", or 0 for each device's own directions";
  }
  return {};
}

Objection check_curve(const RunParameters& p) {
  if (p.local->solver != SolverId::kCurve) {
    if (p.delay.keys().curve_control != DelayKeys().curve_control) {
      return "curve_control, solver: there is a control point with solver curve alone; leave curve_control out";
    }
    return p.local->curve_orthogonality == LocalKeys().curve_orthogonality
               ? ""
               : "curve_orthogonality: belongs to solver curve; leave it out";
  }
  if (p.model->manifold != ManifoldId::kEuclidean || p.local->estimator != EstimatorId::kAnalyticGradient ||
      p.local->batch_mode != BatchMode::kCommon || !p.local->batch_sizes.empty()) {
    return "solver, manifold, estimator, batch_mode: the curve is one of Euclidean space and trains by epochs of "
           "minibatches; use euclidean, analytic_gradient and common, without batch_sizes";
  }
  if (p.delay->delay_rule == DelayRule::kNone || p.trigger->buffer_size != 1 || p.delay->server_momentum != 0 ||
      p.steps->server_step > 1) {
    return "solver, delay_rule, buffer_size, server_momentum, server_step: a server goes along one curve at a time, at "
           "most to its end; use a delay_rule, buffer_size 1, no momentum, and server_step at most 1";
  }
  if (p.local->correction_form != CorrectionForm::kNone || p.wire->error_feedback) {
    return "solver, correction_form, error_feedback: curve takes no correction and no error feedback; use none, false";
  }
  return check_range(p, "curve_orthogonality");
}

}  // namespace gradstream

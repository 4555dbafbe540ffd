#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "server/run/check_parameters.h"
#include "server/run/names.h"

namespace gradstream {
namespace {

bool is_wire_encoding(Encoding encoding) {
  return encoding == kRealEncoding || encoding == Encoding::kBf16 || encoding == Encoding::kInt8;
}

// Estimators whose values are tangents, as RFedAGS transports them.
bool is_tangent(EstimatorId id) {
  return id == EstimatorId::kAnalyticGradient || id == EstimatorId::kTangentRetraction ||
         id == EstimatorId::kProjectionTangent;
}

std::string check_scalar_stream(const RunParameters& p) {
  if (p.directions == DirectionKind::kSphere) {
    return "directions: sphere is not reproducible between machines (it uses the C library's ln and cos), so that "
           "records of scalars cannot be replayed; use sign";
  }
  if (p.directions != DirectionKind::kSign) {
    return "directions: use sign";
  }
  if (p.local_step_count * p.direction_count > kScalarCountMax) {
    return "local_step_count, direction_count: their product is the scalars of an update, at most " +
           std::to_string(kScalarCountMax) + "; use fewer of either, or upload_stream tangent";
  }
  if (!is_wire_encoding(p.record_encoding)) {
    return "record_encoding: f32, bf16 or int8";
  }
  return "";
}

std::string check_directions(const RunParameters& p) {
  if (p.directions != DirectionKind::kSign && p.directions != DirectionKind::kSphere) {
    return "directions: sign or sphere";
  }
  if (p.direction_count == 0 || p.direction_count > kDirectionCountMax) {
    return "direction_count: from 1 to " + std::to_string(kDirectionCountMax);
  }
  if (!(p.smoothing > 0) || !std::isfinite(p.smoothing)) {
    return "smoothing: must be above 0; about 1e-2 for data of order 1";
  }
  return "";
}

std::string check_estimator(const RunParameters& p) {
  if (name_of(p.estimator) == std::string("none")) {
    return "estimator: name one";
  }
  if (p.solver == SolverId::kSvrg && p.estimator != EstimatorId::kAnalyticGradient) {
    return "estimator: solver svrg needs analytic_gradient";
  }
  if (p.solver != SolverId::kProjection && !is_tangent(p.estimator)) {
    return "estimator: solver " + std::string(name_of(p.solver)) +
           " works with tangents and needs analytic_gradient, tangent_retraction or projection_tangent";
  }
  const bool can_stream = p.solver == SolverId::kProjection && has_scalars(p.estimator);
  if (p.upload_stream == StreamKind::kScalarStream && !can_stream) {
    return std::string("upload_stream: scalars cannot carry what solver ") + name_of(p.solver) + " makes of " +
           name_of(p.estimator) +
           ": nobody else could rebuild it; use auto or tangent, or solver projection with "
           "projection_one_sided or projection_two_sided";
  }
  return p.estimator == EstimatorId::kAnalyticGradient ? "" : check_directions(p);
}

std::string check_memory(const RunParameters& p) {
  if (!p.has_memory()) {
    return p.memory_age_max == 0 ? "" : "memory_age_max: only correction_form memory and unbiased have a memory; use 0";
  }
  if (p.record_encoding != Encoding::kF32) {
    return "correction_form, record_encoding: records of the memory are whole numbers of 4 bytes; leave it f32";
  }
  if (p.stream() == StreamKind::kScalarStream && p.directions != DirectionKind::kSign) {
    return "correction_form, directions: the memory is an exact sum of signs; use sign";
  }
  return "";
}

std::string check_error_feedback(const RunParameters& p) {
  if (!p.error_feedback) {
    return "";
  }
  if (p.stream() != StreamKind::kTangentBlock ||
      (p.upload_encoding != Encoding::kInt8 && p.upload_encoding != Encoding::kBf16)) {
    return "error_feedback, upload_encoding: what is fed back is the error of tangents in int8 or bf16; scalars and "
           "f32 leave nothing out that another upload could make good; set it to false";
  }
  if (p.solver == SolverId::kSvrg) {
    return "error_feedback, solver: the uploads of svrg are gradients and steps in turn, and one cannot make good what "
           "the other left out; set it to false";
  }
  if (p.has_memory()) {
    return "error_feedback, correction_form: the memory holds an upload until the next one replaces it: nothing adds "
           "up; set it to false";
  }
  return "";
}

std::string check_local_retraction(const RunParameters& p) {
  if (p.local_retraction == RetractionKind::kDefault) {
    return "";
  }
  if (p.solver == SolverId::kProjection && p.estimator != EstimatorId::kTangentRetraction) {
    return "local_retraction, solver: solver projection makes its steps by the nearest point; use default";
  }
  if (find_manifold(all_manifolds(), p.manifold, p.local_retraction, TransportKind::kDefault) == nullptr) {
    return "local_retraction: manifold " + std::string(name_of(p.manifold)) + " has no retraction " +
           name_of(p.local_retraction) + "; it has " + variants_of(p.manifold);
  }
  return "";
}

std::string check_local_work(const RunParameters& p) {
  if (p.solver == SolverId::kNone) {
    return "solver: projection, gradient_stream, tangent_mean or svrg";
  }
  if (p.local_step_count == 0 || p.local_step_count > kLocalStepCountMax) {
    return "local_step_count: from 1 to " + std::to_string(kLocalStepCountMax);
  }
  if (std::string fault = check_estimator(p); !fault.empty()) {
    return fault;
  }
  if (std::string fault = check_local_retraction(p); !fault.empty()) {
    return fault;
  }
  if (p.correction_form != CorrectionForm::kNone && p.solver != SolverId::kProjection) {
    return "correction_form: only solver projection has a correction; set it to none";
  }
  if (std::string fault = check_memory(p); !fault.empty()) {
    return fault;
  }
  if (!is_wire_encoding(p.upload_encoding)) {
    return "upload_encoding: f32, bf16 or int8";
  }
  if (std::string fault = check_error_feedback(p); !fault.empty()) {
    return fault;
  }
  return p.stream() == StreamKind::kScalarStream ? check_scalar_stream(p) : "";
}

bool is_whole(Real number, uint32_t max) {
  return number >= 1 && number <= static_cast<Real>(max) && std::floor(number) == number;
}

std::string check_batches(const RunParameters& p) {
  if (p.batch_mode == BatchMode::kNone) {
    return "batch_mode: all, common or per_direction";
  }
  if (p.batch_mode == BatchMode::kPerDirection && p.estimator == EstimatorId::kAnalyticGradient) {
    return "batch_mode: per_direction needs an estimator with directions; use common or all";
  }
  if (p.batch_mode == BatchMode::kCommon && (p.batch_size == 0 || p.batch_size > kBatchSizeMax)) {
    return "batch_size: from 1 to " + std::to_string(kBatchSizeMax);
  }
  if (p.batch_sizes.empty()) {
    return "";
  }
  if (p.batch_mode != BatchMode::kCommon) {
    return "batch_sizes, batch_mode: only common draws minibatches; leave batch_sizes empty";
  }
  const std::vector<Real> sizes = parse_numbers(p.batch_sizes);
  const bool is_good = !sizes.empty() && sizes.size() <= kBatchScheduleMax &&
                       std::all_of(sizes.begin(), sizes.end(), [](Real size) { return is_whole(size, kBatchSizeMax); });
  return is_good ? ""
                 : "batch_sizes: at most " + std::to_string(kBatchScheduleMax) +
                       " whole numbers with spaces between them, each from 1 to " + std::to_string(kBatchSizeMax);
}

// Where differences of entries measure a distance of points, whatever represents them.
bool has_chords(const RunParameters& p) {
  if (p.manifold != ManifoldId::kProduct || p.part_list == nullptr) {
    return is_embedded(p.manifold);
  }
  const std::span<const Part> parts = p.part_list->list();
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) { return is_embedded(part.ops->id); });
}

// Why the devices cannot add the square of the manifold's distance, or "".
std::string check_distance(const RunParameters& p) {
  const ManifoldOps* const manifold = find_manifold(all_manifolds(), p.manifold, p.retraction, p.transport);
  const bool needs_gradient = p.estimator == EstimatorId::kAnalyticGradient;
  if (manifold == nullptr || manifold->check_shape(p.shape) != Status::kOk) {
    return "";  // said by its own key
  }
  return !needs_gradient || has_distance_gradient(*manifold, p.shape)
             ? ""
             : std::string("proximal_form, manifold: the distance on ") + name_of(p.manifold) +
                   " is the norm of an inverse retraction, whose gradient is no logarithm; use proximal_form geodesic "
                   "or "
                   "chordal, or an estimator of forward passes";
}

std::string check_proximal_form(const RunParameters& p) {
  const std::string form = std::string("proximal_form, ");
  if (!(p.proximal > 0)) {
    return form + "proximal: a " + name_of(p.proximal_form) + " term needs a weight; set proximal above 0";
  }
  if (p.solver == SolverId::kSvrg) {
    return form +
           "solver: the mean gradient of svrg is that of the bare losses; use gradient_stream, tangent_mean or "
           "projection, or set proximal to 0";
  }
  if (p.solver == SolverId::kCurve) {
    return form + "solver: solver curve has a proximal term of its own; use proximal_form geodesic";
  }
  if (p.solver == SolverId::kProjection && p.correction_form != CorrectionForm::kNone) {
    return form + "correction_form: a path that is corrected needs no proximal term; set correction_form to none";
  }
  if (p.proximal_form == ProximalForm::kDistance) {
    return check_distance(p);
  }
  return has_chords(p) ? ""
                       : form + "manifold: differences of entries are no distance on " + name_of(p.manifold) +
                             "; use proximal_form distance or geodesic";
}

std::string check_proximal(const RunParameters& p) {
  if (!(p.proximal >= 0) || !std::isfinite(p.proximal)) {
    return "proximal: not below 0";
  }
  if (!(p.proximal_sigma > 0) || !std::isfinite(p.proximal_sigma) ||
      (p.proximal_sigma != 1 && p.proximal_form != ProximalForm::kLorentz)) {
    return "proximal_sigma, proximal_form: above 0; of lorentzian alone, else leave it at 1";
  }
  if (p.proximal_form != ProximalForm::kGeodesic) {
    return check_proximal_form(p);
  }
  const bool has_term =
      p.solver == SolverId::kGradientStream || p.solver == SolverId::kTangentMean || p.solver == SolverId::kCurve;
  return p.proximal == 0 || has_term
             ? ""
             : "proximal, solver: only solvers gradient_stream, tangent_mean and curve take a proximal term along the "
               "retraction; set it to 0, or proximal_form to chordal or distance";
}

// 002: all samples at every step, phases that wait for nobody of an older one.
std::string check_svrg(const RunParameters& p) {
  const bool is_svrg = p.solver == SolverId::kSvrg;
  if (!is_svrg && (p.barzilai_borwein != BarzilaiBorwein::kNone || p.iterate != Iterate::kLast ||
                   p.step_rule == StepRule::kBarzilaiBorwein)) {
    return "barzilai_borwein, iterate, step_rule: curvatures and drawn iterates belong to solver svrg";
  }
  if (!is_svrg) {
    return "";
  }
  if (p.batch_mode != BatchMode::kAll) {
    return "batch_mode, solver: svrg takes gradients over all samples; use all";
  }
  if (p.late != LatePolicy::kDrop) {
    return "late, solver: an update of svrg belongs to one phase of one round; use drop";
  }
  if (p.iterate == Iterate::kUniform && p.least_steps() != p.local_step_count) {
    return "iterate, steps_min: an iterate is drawn from all local steps; leave steps_min at 0";
  }
  if (p.step_rule == StepRule::kBarzilaiBorwein) {
    if (p.barzilai_borwein == BarzilaiBorwein::kNone) {
      return "step_rule, barzilai_borwein: this rule needs a curvature; set barzilai_borwein to first or second";
    }
    if (!(p.step_min > 0) || !(p.step_min <= p.step_max) || !std::isfinite(p.step_max)) {
      return "step_min, step_max: rule barzilai_borwein needs 0 < step_min <= step_max";
    }
  }
  return "";
}

std::string check_steps(const RunParameters& p) {
  if (!(p.step_size > 0) || !std::isfinite(p.step_size) || !(p.step_decay >= 0) || !std::isfinite(p.step_decay) ||
      !(p.server_step > 0) || !std::isfinite(p.server_step)) {
    return "step_size, step_decay, server_step: step sizes must be above 0 and step_decay not below 0";
  }
  if (p.step_decay > 0 && p.step_rule != StepRule::kInverse) {
    return "step_decay, step_rule: only rule inverse reads step_decay; set it to 0";
  }
  if (!(p.step_offset >= 0) || !std::isfinite(p.step_offset) || p.step_period == 0) {
    return "step_offset, step_period: step_offset (beta or gamma) not below 0, step_period at least 1";
  }
  const bool divides_by_offset = p.step_rule == StepRule::kHarmonic || p.step_rule == StepRule::kPrinted;
  if (divides_by_offset && !(p.step_offset > 0)) {
    return "step_offset, step_rule: this rule divides by step_offset; it must be above 0";
  }
  return "";
}

}  // namespace

std::string check_work(const RunParameters& p) {
  for (const auto check : {check_local_work, check_batches, check_proximal, check_svrg, check_steps}) {
    if (std::string sentence = check(p); !sentence.empty()) {
      return sentence;
    }
  }
  return "";
}

}  // namespace gradstream

#include "server/run_parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <map>

#include "server/fold.h"
#include "server/straggler.h"

namespace gradstream {
namespace {

constexpr uint64_t kFnvPrime = 0x100000001b3ULL;
// Versions that a late update may be behind, at most. Reason: a tangent run keeps so many models in memory.
constexpr uint32_t kStalenessMax = 64;
constexpr uint32_t kNameSizeMax = 63;

std::string text_of(const std::string& value) { return value; }
[[maybe_unused]] std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(uint32_t value) { return std::to_string(value); }
template <std::floating_point Float>
std::string text_of(Float value) {
  std::array<char, 32> text = {};
  // Shortest text that reads back as the same number, whatever the locale.
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
template <typename Enum>
requires std::is_enum_v<Enum> std::string text_of(Enum value) { return name_of(value); }

std::map<std::string, std::string> parse_lines(const std::string& text) {
  std::map<std::string, std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos) {
      lines[line.substr(0, equals)] = line.substr(equals + 3);
    }
    begin = end + 1;
  }
  return lines;
}

// Estimators whose directions depend on nothing but the seed, so that scalars say all.
bool has_scalars(EstimatorId id) {
  return id == EstimatorId::kProjectionOneSided || id == EstimatorId::kProjectionTwoSided;
}

// Estimators whose values are tangents, as RFedAGS transports them.
bool is_tangent(EstimatorId id) {
  return id == EstimatorId::kAnalyticGradient || id == EstimatorId::kTangentRetraction ||
         id == EstimatorId::kProjectionTangent;
}

bool is_wire_encoding(Encoding encoding) {
  return encoding == kRealEncoding || encoding == Encoding::kBf16 || encoding == Encoding::kInt8;
}

// "polar with projection, qr with projection, ..."
std::string variants_of(ManifoldId id) {
  std::string text;
  for (const ManifoldOps* ops : all_manifolds()) {
    if (ops->id == id) {
      text += (text.empty() ? "" : ", ") + std::string(name_of(ops->retraction_kind)) + " with " +
              name_of(ops->transport_kind);
    }
  }
  return text;
}

std::string check_model(const RunParameters& p) {
  if (p.name.empty() || p.name.size() > kNameSizeMax) {
    return "name: a run needs a name of 1 to 63 characters";
  }
  if (p.name.find_first_of("\n=\"") != std::string::npos) {
    return "name: no line breaks, quotes or '='";
  }
  if (find_manifold(all_manifolds(), p.manifold) == nullptr) {
    return "manifold: this server knows none of that number";
  }
  const ManifoldOps* manifold = server_manifold(p);
  if (manifold == nullptr) {
    return "retraction, transport: manifold " + std::string(name_of(p.manifold)) + " has no retraction " +
           name_of(p.retraction) + " with transport " + name_of(p.transport) + "; it has " + variants_of(p.manifold);
  }
  if (p.shape.rows == 0 || p.shape.cols == 0 || p.shape.rows > kDimensionMax || p.shape.cols > kDimensionMax) {
    return "rows, cols: both from 1 to " + std::to_string(kDimensionMax);
  }
  if (manifold->check_shape(p.shape) != Status::kOk) {
    return "rows, cols: manifold " + std::string(manifold->name) + " has no points of shape " +
           std::to_string(p.shape.rows) + " x " + std::to_string(p.shape.cols);
  }
  if (p.problem.empty() || p.problem.size() > kProblemNameSizeMax) {
    return "problem: name what the devices minimise, in 1 to " + std::to_string(kProblemNameSizeMax) + " characters";
  }
  if (p.stream() == StreamKind::kScalarStream && !manifold->reproducible) {
    return "manifold: " + std::string(manifold->name) +
           " with retraction " + name_of(manifold->retraction_kind) +
           " is not reproducible bit for bit, so that records of scalars cannot be replayed; use solver "
           "gradient_stream";
  }
  return "";
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
  if (p.solver == SolverId::kGradientStream && !is_tangent(p.estimator)) {
    return "estimator: solver gradient_stream transports tangents and needs analytic_gradient, tangent_retraction or "
           "projection_tangent";
  }
  const bool can_stream = p.solver == SolverId::kProjection && has_scalars(p.estimator);
  if (p.upload_stream == StreamKind::kScalarStream && !can_stream) {
    return std::string("upload_stream: scalars cannot carry what solver ") + name_of(p.solver) + " makes of " +
           name_of(p.estimator) + ": nobody else could rebuild it; use auto or tangent, or solver projection with "
           "projection_one_sided or projection_two_sided";
  }
  return p.estimator == EstimatorId::kAnalyticGradient ? "" : check_directions(p);
}

std::string check_memory(const RunParameters& p) {
  if (!p.has_memory()) {
    return p.memory_age_max == 0 ? "" : "memory_age_max: only correction_form memory and unbiased have a memory; use 0";
  }
  if (p.fold_weight != FoldWeight::kUniform) {
    return "correction_form, fold_weight: in the memory every device weighs the same for ever; use fold_weight uniform";
  }
  if (p.record_encoding != Encoding::kF32) {
    return "correction_form, record_encoding: records of the memory are whole numbers of 4 bytes; leave it f32";
  }
  if (p.stream() == StreamKind::kScalarStream && p.directions != DirectionKind::kSign) {
    return "correction_form, directions: the memory is an exact sum of signs; use sign";
  }
  return "";
}

std::string check_local_work(const RunParameters& p) {
  if (p.solver != SolverId::kProjection && p.solver != SolverId::kGradientStream) {
    return "solver: projection or gradient_stream";
  }
  if (p.local_step_count == 0 || p.local_step_count > kLocalStepCountMax) {
    return "local_step_count: from 1 to " + std::to_string(kLocalStepCountMax);
  }
  if (std::string fault = check_estimator(p); !fault.empty()) {
    return fault;
  }
  if (p.batch_mode == BatchMode::kNone) {
    return "batch_mode: all, common or per_direction";
  }
  if (p.batch_mode == BatchMode::kPerDirection && p.estimator == EstimatorId::kAnalyticGradient) {
    return "batch_mode: per_direction needs an estimator with directions; use common or all";
  }
  if (p.batch_mode == BatchMode::kCommon && (p.batch_size == 0 || p.batch_size > kBatchSizeMax)) {
    return "batch_size: from 1 to " + std::to_string(kBatchSizeMax);
  }
  if (p.correction_form != CorrectionForm::kNone && p.solver != SolverId::kProjection) {
    return "correction_form: only solver projection has a correction; set it to none";
  }
  if (std::string fault = check_memory(p); !fault.empty()) {
    return fault;
  }
  if (!(p.step_size > 0) || !std::isfinite(p.step_size) || !(p.step_decay >= 0) || !std::isfinite(p.step_decay) ||
      !(p.server_step > 0) || !std::isfinite(p.server_step)) {
    return "step_size, step_decay, server_step: step sizes must be above 0 and step_decay not below 0";
  }
  if (!is_wire_encoding(p.upload_encoding)) {
    return "upload_encoding: f32, bf16 or int8";
  }
  return p.stream() == StreamKind::kScalarStream ? check_scalar_stream(p) : "";
}

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
  if (p.round_count == 0) {
    return "round_count: at least 1";
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

std::string check_straggler(const RunParameters& p) {
  const uint32_t goal = p.update_goal == 0 ? p.device_count : p.update_goal;
  if (goal > p.device_count) {
    return "update_goal, device_count: no more answers can be wanted than there are devices";
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
    if (p.update_goal == 0 && p.update_min == 0) {
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
  if (p.retry_max_ms > kRetryMaxMs / kRefusedWindowFactor) {
    return "retry_max_ms: at most " + std::to_string(kRetryMaxMs / kRefusedWindowFactor) +
           "; refused devices wait " + std::to_string(kRefusedWindowFactor) + " times as long, and none above 24 h";
  }
  if (p.retry_min_ms > p.retry_max_ms || p.retry_max_ms == 0) {
    return "retry_min_ms, retry_max_ms: a window from retry_min_ms to retry_max_ms, which is at least 1";
  }
  return "";
}

}  // namespace

template <>
const EnumNames<ManifoldId>& names_of() {
  static const EnumNames<ManifoldId> names = {
      {"euclidean", ManifoldId::kEuclidean}, {"sphere", ManifoldId::kSphere},       {"stiefel", ManifoldId::kStiefel},
      {"oblique", ManifoldId::kOblique},     {"grassmann", ManifoldId::kGrassmann}, {"spd", ManifoldId::kSpd},
      {"hyperbolic", ManifoldId::kHyperbolic}};
  return names;
}

template <>
const EnumNames<RetractionKind>& names_of() {
  static const EnumNames<RetractionKind> names = {{"default", RetractionKind::kDefault},
                                                  {"polar", RetractionKind::kPolar},
                                                  {"qr", RetractionKind::kQr},
                                                  {"projection", RetractionKind::kProjection},
                                                  {"exponential", RetractionKind::kExponential},
                                                  {"second_order", RetractionKind::kSecondOrder}};
  return names;
}

template <>
const EnumNames<TransportKind>& names_of() {
  static const EnumNames<TransportKind> names = {{"default", TransportKind::kDefault},
                                                 {"projection", TransportKind::kProjection},
                                                 {"parallel", TransportKind::kParallel},
                                                 {"smooth", TransportKind::kSmooth},
                                                 {"householder", TransportKind::kHouseholder}};
  return names;
}

template <>
const EnumNames<SolverId>& names_of() {
  static const EnumNames<SolverId> names = {{"projection", SolverId::kProjection},
                                            {"gradient_stream", SolverId::kGradientStream}};
  return names;
}

template <>
const EnumNames<EstimatorId>& names_of() {
  static const EnumNames<EstimatorId> names = {{"analytic_gradient", EstimatorId::kAnalyticGradient},
                                               {"projection_one_sided", EstimatorId::kProjectionOneSided},
                                               {"projection_two_sided", EstimatorId::kProjectionTwoSided},
                                               {"tangent_retraction", EstimatorId::kTangentRetraction},
                                               {"projection_tangent", EstimatorId::kProjectionTangent}};
  return names;
}

template <>
const EnumNames<DirectionKind>& names_of() {
  static const EnumNames<DirectionKind> names = {{"sign", DirectionKind::kSign}, {"sphere", DirectionKind::kSphere}};
  return names;
}

template <>
const EnumNames<BatchMode>& names_of() {
  static const EnumNames<BatchMode> names = {
      {"all", BatchMode::kAll}, {"common", BatchMode::kCommon}, {"per_direction", BatchMode::kPerDirection}};
  return names;
}

template <>
const EnumNames<StreamKind>& names_of() {
  static const EnumNames<StreamKind> names = {
      {"auto", StreamKind::kNone}, {"scalar", StreamKind::kScalarStream}, {"tangent", StreamKind::kTangentBlock}};
  return names;
}

template <>
const EnumNames<Encoding>& names_of() {
  static const EnumNames<Encoding> names = {
      {"f32", Encoding::kF32}, {"bf16", Encoding::kBf16}, {"int8", Encoding::kInt8}, {"f64", Encoding::kF64}};
  return names;
}

template <>
const EnumNames<FoldWeight>& names_of() {
  static const EnumNames<FoldWeight> names = {{"uniform", FoldWeight::kUniform},
                                              {"sample_count", FoldWeight::kSampleCount}};
  return names;
}

template <>
const EnumNames<CorrectionForm>& names_of() {
  static const EnumNames<CorrectionForm> names = {{"none", CorrectionForm::kNone},
                                                  {"local", CorrectionForm::kLocal},
                                                  {"memory", CorrectionForm::kMemory},
                                                  {"unbiased", CorrectionForm::kUnbiased}};
  return names;
}

template <>
const EnumNames<LatePolicy>& names_of() {
  static const EnumNames<LatePolicy> names = {{"drop", LatePolicy::kDrop}, {"weight", LatePolicy::kWeight}};
  return names;
}

template <>
const EnumNames<StalenessTable>& names_of() {
  static const EnumNames<StalenessTable> names = {{"constant", StalenessTable::kConstant},
                                                  {"inverse_sqrt", StalenessTable::kInverseSqrt},
                                                  {"polynomial", StalenessTable::kPolynomial},
                                                  {"hinge", StalenessTable::kHinge}};
  return names;
}

const ManifoldOps* server_manifold(const RunParameters& parameters) {
  return find_manifold(all_manifolds(), parameters.manifold, parameters.retraction, parameters.transport);
}

StreamKind RunParameters::stream() const {
  const bool is_scalar =
      solver == SolverId::kProjection && has_scalars(estimator) && upload_stream != StreamKind::kTangentBlock;
  return is_scalar ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
}

uint32_t RunParameters::owner_of(uint32_t client_index) const {
  return shared_directions() ? client_index % group_count : client_index;
}

Real RunParameters::step_size_at(uint32_t version) const {
  return step_size / (1 + step_decay * static_cast<Real>(version));
}

uint32_t RunParameters::value_count() const {
  return stream() == StreamKind::kScalarStream ? local_step_count * direction_count
                                               : static_cast<uint32_t>(shape.size());
}

std::string canonical_text(const RunParameters& parameters) {
  std::string text;
  visit_fields(parameters, [&text](const char* key, const auto& field) {
    text += std::string(key) + " = " + text_of(field) + "\n";
  });
  return text;
}

uint64_t parameters_digest(const RunParameters& parameters) {
  uint64_t digest = kDigestStart;
  for (const char c : canonical_text(parameters)) {
    digest = (digest ^ static_cast<uint8_t>(c)) * kFnvPrime;
  }
  return digest;
}

std::vector<std::string> differing_keys(const std::string& a, const std::string& b) {
  const std::map<std::string, std::string> lines_a = parse_lines(a);
  const std::map<std::string, std::string> lines_b = parse_lines(b);
  std::vector<std::string> keys;
  for (const auto& [key, value] : lines_a) {
    const auto other = lines_b.find(key);
    if (other == lines_b.end() || other->second != value) {
      keys.push_back(key);
    }
  }
  for (const auto& [key, value] : lines_b) {
    if (!lines_a.contains(key)) {
      keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::string check_parameters(const RunParameters& parameters) {
  for (const auto check : {check_local_work, check_model, check_fold, check_groups, check_straggler}) {
    std::string sentence = check(parameters);
    if (!sentence.empty()) {
      return sentence;
    }
  }
  return "";
}

}  // namespace gradstream

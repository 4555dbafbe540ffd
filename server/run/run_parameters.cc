#include "server/run/run_parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <map>

#include "runtime/manifold/fixed_rank.h"
#include "server/run/limits.h"
#include "server/run/pace.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// Bytes of the models that a rule keeps for late updates. Reason: several runs fit a small host.
constexpr uint64_t kModelsBytesMax = uint64_t{64} << 20;
constexpr uint32_t kNameSizeMax = 63;
// Rounds of a run. Reason: each has up to two versions, which are 32 bits.
constexpr uint32_t kRoundCountMax = 1U << 30;

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "true" : "false"; }
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

// ---- Parts of a product ----

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    const size_t last = text.find_last_not_of(' ', end - 1);
    words.push_back(first < end ? text.substr(first, last - first + 1) : "");
    begin = end + 1;
  }
  return words;
}

// "16x2"; {0, 0} if it is no such text.
Shape parse_shape(const std::string& text) {
  Shape shape;
  const char* const end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, shape.rows);
  if (rows.ec != std::errc() || rows.ptr == end || *rows.ptr != 'x') {
    return {};
  }
  const auto cols = std::from_chars(rows.ptr + 1, end, shape.cols);
  return cols.ec == std::errc() && cols.ptr == end ? shape : Shape{};
}

template <typename Enum>
Enum parse_name(const std::string& word, Enum none) {
  for (const auto& [name, value] : names_of<Enum>()) {
    if (word == name) {
      return value;
    }
  }
  return none;
}

// One part from its text; a sentence where it is none.
std::string read_part(const std::string& text, Part* out) {
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  if (words.size() < 2 || words.size() > 4) {
    return "parts: \"" + text +
           "\" should be a manifold and its shape, and perhaps its retraction and transport, such "
           "as \"stiefel 16x2\" or \"stiefel 16x2 qr projection\"";
  }
  const auto id = parse_name(words[0], ManifoldId::kNone);
  if (id == ManifoldId::kNone || id == ManifoldId::kProduct) {
    return "parts: \"" + words[0] + "\" is no manifold that a product can have";
  }
  constexpr auto kNoRetraction = static_cast<RetractionKind>(255);
  constexpr auto kNoTransport = static_cast<TransportKind>(255);
  const auto retraction = words.size() > 2 ? parse_name(words[2], kNoRetraction) : RetractionKind::kDefault;
  const auto transport = words.size() > 3 ? parse_name(words[3], kNoTransport) : TransportKind::kDefault;
  out->ops = find_manifold(all_manifolds(), id, retraction, transport);
  if (out->ops == nullptr) {
    return "parts: \"" + text + "\": manifold " + words[0] + " has " + variants_of(id);
  }
  out->shape = parse_shape(words[1]);
  if (out->shape.size() == 0 || out->ops->check_shape(out->shape) != Status::kOk) {
    return "parts: manifold " + words[0] + " has no points of shape \"" + words[1] + "\" (ROWSxCOLS)";
  }
  return "";
}

std::string read_parts(const std::string& text, Parts* out) {
  for (const std::string& one : split(text, ',')) {
    if (out->count == kPartCountMax) {
      return "parts: at most " + std::to_string(kPartCountMax);
    }
    std::string fault = read_part(one, &out->part[out->count]);
    if (!fault.empty()) {
      return fault;
    }
    ++out->count;
  }
  return "";
}

uint64_t size_of(const Parts& parts) {
  uint64_t size = 0;
  for (const Part& part : parts.list()) {
    size += part.shape.size();
  }
  return size;
}

// The blocks of a point of fixed rank; a sentence where there are none.
std::string read_matrix(const RunParameters& p, Parts* out) {
  const Shape matrix = parse_shape(p.matrix);
  if (matrix.size() == 0 || matrix.rows > kDimensionMax || matrix.cols > kDimensionMax) {
    return "matrix, manifold: manifold fixed_rank needs the shape of its matrices (ROWSxCOLS, each from 1 to " +
           std::to_string(kDimensionMax) + "), such as matrix = \"20x14\"";
  }
  const uint32_t least = std::min({matrix.rows, matrix.cols, kFixedRankMax});
  if (p.rank == 0 || p.rank > least) {
    return "rank, matrix: matrices of shape " + p.matrix + " have ranks from 1 to " + std::to_string(least) +
           " here; set rank";
  }
  *out = fixed_rank_parts(matrix.rows, matrix.cols, p.rank);
  return fixed_rank_shape(*out).rows <= kDimensionMax
             ? ""
             : "matrix, rank: its rows, columns and rank together are above " + std::to_string(kDimensionMax);
}

// The shape of a point that has parts.
Shape shape_of(const RunParameters& p, const Parts& parts) {
  return p.manifold == ManifoldId::kFixedRank
             ? fixed_rank_shape(parts)
             : Shape{static_cast<uint32_t>(std::min<uint64_t>(size_of(parts), UINT32_MAX)), 1, &parts};
}

std::string check_fixed_rank(const RunParameters& p) {
  if (p.manifold != ManifoldId::kFixedRank) {
    return p.matrix.empty() && p.rank == 0 ? ""
                                           : "matrix, rank, manifold: only manifold fixed_rank has them; leave "
                                             "them out";
  }
  Parts parts;
  if (std::string fault = read_matrix(p, &parts); !fault.empty()) {
    return fault;
  }
  if (p.shape.rows != fixed_rank_shape(parts).rows || p.shape.cols != p.rank) {
    return "rows, cols, matrix: the point of a matrix is made of its factors; leave rows and cols out";
  }
  GS_ASSERT(p.part_list != nullptr && p.shape.parts == p.part_list.get());  // set_parts() was called
  return p.estimator != EstimatorId::kProjectionTangent
             ? ""
             : "estimator, manifold: projection_tangent estimates derivatives by the numbers of the factors, whose "
               "tangent part is no gradient on fixed_rank; use tangent_retraction or analytic_gradient";
}

std::string check_parts(const RunParameters& p) {
  if (p.manifold != ManifoldId::kProduct) {
    return p.parts.empty() ? "" : "parts, manifold: only manifold product has parts; leave them out";
  }
  if (p.parts.empty()) {
    return "parts, manifold: manifold product needs a list of parts, such as [\"stiefel 16x2\", \"euclidean 10x1\"]";
  }
  Parts parts;
  if (std::string fault = read_parts(p.parts, &parts); !fault.empty()) {
    return fault;
  }
  const uint64_t size = size_of(parts);
  if (size > kDimensionMax) {
    return "parts: together they have " + std::to_string(size) + " numbers, at most " + std::to_string(kDimensionMax);
  }
  if (p.shape.rows != size || p.shape.cols != 1) {
    return "rows, cols, parts: a product is one column of all numbers of its parts; leave rows and cols out";
  }
  GS_ASSERT(p.part_list != nullptr && p.shape.parts == p.part_list.get());  // set_parts() was called
  return "";
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
  for (const auto check : {check_parts, check_fixed_rank}) {
    if (std::string fault = check(p); !fault.empty()) {
      return fault;
    }
  }
  if (p.shape.rows == 0 || p.shape.cols == 0 || p.shape.rows > kDimensionMax || p.shape.cols > kDimensionMax) {
    return "rows, cols: both needed, from 1 to " + std::to_string(kDimensionMax) + "; they are " +
           std::to_string(p.shape.rows) + " and " + std::to_string(p.shape.cols) + " (0: left out)";
  }
  if (manifold->check_shape(p.shape) != Status::kOk) {
    return "rows, cols: manifold " + std::string(manifold->name) + " has no points of shape " +
           std::to_string(p.shape.rows) + " x " + std::to_string(p.shape.cols);
  }
  if (p.problem.empty() || p.problem.size() > kProblemNameSizeMax) {
    return "problem: name what the devices minimise, in 1 to " + std::to_string(kProblemNameSizeMax) + " characters";
  }
  if (p.stream() == StreamKind::kScalarStream && !is_reproducible(*manifold, p.shape)) {
    return "manifold: " + std::string(manifold->name) + " with retraction " + name_of(manifold->retraction_kind) +
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

std::string check_groups(const RunParameters& p) {
  if (p.group_count > p.device_count) {
    return "group_count, device_count: more groups than devices would leave some without a device; at most " +
           std::to_string(p.device_count) + ", or 0 for each device's own directions";
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

std::string check_work(const RunParameters& p) {
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

// The last check: which rule serves a run is only defined where all others pass.
std::string check_kept_models(const RunParameters& p) {
  const uint64_t bytes = uint64_t{p.kept_model_count()} * p.shape.size() * sizeof(Real);
  return bytes <= kModelsBytesMax
             ? ""
             : "staleness_max, shape: the models that late updates were made at would take " + std::to_string(bytes) +
                   " bytes, at most " + std::to_string(kModelsBytesMax) + "; lower staleness_max or raise buffer_size";
}

}  // namespace

template <>
const EnumNames<ManifoldId>& names_of() {
  static const EnumNames<ManifoldId> names = {
      {"euclidean", ManifoldId::kEuclidean},   {"sphere", ManifoldId::kSphere},
      {"stiefel", ManifoldId::kStiefel},       {"oblique", ManifoldId::kOblique},
      {"grassmann", ManifoldId::kGrassmann},   {"spd", ManifoldId::kSpd},
      {"hyperbolic", ManifoldId::kHyperbolic}, {"fixed_rank", ManifoldId::kFixedRank},
      {"product", ManifoldId::kProduct}};
  return names;
}

template <>
const EnumNames<RetractionKind>& names_of() {
  static const EnumNames<RetractionKind> names = {{"default", RetractionKind::kDefault},
                                                  {"polar", RetractionKind::kPolar},
                                                  {"qr", RetractionKind::kQr},
                                                  {"projection", RetractionKind::kProjection},
                                                  {"exponential", RetractionKind::kExponential},
                                                  {"second_order", RetractionKind::kSecondOrder},
                                                  {"polar_formal", RetractionKind::kPolarFormal}};
  return names;
}

template <>
const EnumNames<TransportKind>& names_of() {
  static const EnumNames<TransportKind> names = {
      {"default", TransportKind::kDefault},         {"projection", TransportKind::kProjection},
      {"parallel", TransportKind::kParallel},       {"smooth", TransportKind::kSmooth},
      {"householder", TransportKind::kHouseholder}, {"unaligned", TransportKind::kUnaligned}};
  return names;
}

template <>
const EnumNames<SolverId>& names_of() {
  static const EnumNames<SolverId> names = {{"projection", SolverId::kProjection},
                                            {"gradient_stream", SolverId::kGradientStream},
                                            {"tangent_mean", SolverId::kTangentMean},
                                            {"svrg", SolverId::kSvrg},
                                            {"curve", SolverId::kCurve}};
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
const EnumNames<ProximalForm>& names_of() {
  static const EnumNames<ProximalForm> names = {{"geodesic", ProximalForm::kGeodesic},
                                                {"chordal", ProximalForm::kChordal},
                                                {"lorentzian", ProximalForm::kLorentz},
                                                {"distance", ProximalForm::kDistance}};
  return names;
}

template <>
const EnumNames<Participation>& names_of() {
  static const EnumNames<Participation> names = {
      {"all", Participation::kAll}, {"scheme_1", Participation::kSchemeOne}, {"scheme_2", Participation::kSchemeTwo}};
  return names;
}

template <>
const EnumNames<ParticipationWeights>& names_of() {
  static const EnumNames<ParticipationWeights> names = {{"counted", ParticipationWeights::kCounted},
                                                        {"true", ParticipationWeights::kTrue},
                                                        {"biased", ParticipationWeights::kBiased}};
  return names;
}

template <>
const EnumNames<StepRule>& names_of() {
  static const EnumNames<StepRule> names = {
      {"inverse", StepRule::kInverse},   {"fixed", StepRule::kFixed},
      {"printed", StepRule::kPrinted},   {"code", StepRule::kCode},
      {"harmonic", StepRule::kHarmonic}, {"barzilai_borwein", StepRule::kBarzilaiBorwein}};
  return names;
}

template <>
const EnumNames<BarzilaiBorwein>& names_of() {
  static const EnumNames<BarzilaiBorwein> names = {
      {"none", BarzilaiBorwein::kNone}, {"first", BarzilaiBorwein::kFirst}, {"second", BarzilaiBorwein::kSecond}};
  return names;
}

template <>
const EnumNames<Iterate>& names_of() {
  static const EnumNames<Iterate> names = {{"last", Iterate::kLast}, {"uniform", Iterate::kUniform}};
  return names;
}

template <>
const EnumNames<DelayRule>& names_of() {
  static const EnumNames<DelayRule> names = {{"none", DelayRule::kNone},
                                             {"asgd", DelayRule::kAsgd},
                                             {"fedasync", DelayRule::kFedAsync},
                                             {"dc_asgd", DelayRule::kDcAsgd},
                                             {"dc_adaptive", DelayRule::kDcAdaptive},
                                             {"dc_rank1", DelayRule::kDcRank1},
                                             {"ortho_grad", DelayRule::kOrthoGrad},
                                             {"ortho_pos", DelayRule::kOrthoPos},
                                             {"ortho_strict", DelayRule::kOrthoStrict}};
  return names;
}

template <>
const EnumNames<DelaySwitchBy>& names_of() {
  static const EnumNames<DelaySwitchBy> names = {{"version", DelaySwitchBy::kVersion},
                                                 {"cosine", DelaySwitchBy::kCosine},
                                                 {"drift_ratio", DelaySwitchBy::kDriftRatio}};
  return names;
}

template <>
const EnumNames<LatePolicy>& names_of() {
  static const EnumNames<LatePolicy> names = {{"drop", LatePolicy::kDrop}, {"weight", LatePolicy::kWeight}};
  return names;
}

template <>
const EnumNames<Work>& names_of() {
  static const EnumNames<Work> names = {{"fixed", Work::kFixed}, {"timed", Work::kTimed}};
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

bool is_embedded(ManifoldId id) {
  return id == ManifoldId::kEuclidean || id == ManifoldId::kSphere || id == ManifoldId::kStiefel ||
         id == ManifoldId::kOblique;
}

bool is_delay_rule_defined(DelayRule rule, ManifoldId manifold) {
  const bool has_entries = rule == DelayRule::kDcAsgd || rule == DelayRule::kDcAdaptive;
  return !has_entries || is_embedded(manifold);
}

uint32_t RunParameters::kept_model_count() const {
  const bool has_tangents =
      delay_rule != DelayRule::kNone ||
      (!has_memory() && (solver == SolverId::kGradientStream || solver == SolverId::kTangentMean));
  return has_tangents && late == LatePolicy::kWeight ? staleness_max + 1 : 0;
}

const ManifoldOps* server_manifold(const RunParameters& parameters) {
  return find_manifold(all_manifolds(), parameters.manifold, parameters.retraction, parameters.transport);
}

uint32_t RunParameters::model_parts() const {
  if (solver != SolverId::kSvrg) {
    return 0;
  }
  return part_bit(ModelPart::kMeanGradient) |
         (barzilai_borwein != BarzilaiBorwein::kNone ? part_bit(ModelPart::kPreviousModel) : 0);
}

StreamKind RunParameters::stream() const {
  const bool is_scalar =
      solver == SolverId::kProjection && has_scalars(estimator) && upload_stream != StreamKind::kTangentBlock;
  return is_scalar ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
}

uint32_t RunParameters::drawn_count() const {
  const double count = static_cast<double>(static_cast<float>(cohort_size) * static_cast<float>(over_selection));
  // 10 times 1.1 are 11, whatever the last bit of 1.1 says.
  return static_cast<uint32_t>(std::min(std::ceil(count * (1 - 1e-6)), static_cast<double>(UINT32_MAX)));
}

uint32_t RunParameters::owner_of(uint32_t client_index) const {
  return shared_directions() ? client_index % group_count : client_index;
}

Real RunParameters::step_size_at(uint32_t round) const {
  const auto k = static_cast<Real>(round);
  const uint32_t stage = round / step_period;
  switch (step_rule) {
    case StepRule::kInverse:
      return step_size / (1 + step_decay * k);
    case StepRule::kPrinted:
      return round == 0 ? step_size : step_size / (step_offset + static_cast<Real>(stage));
    case StepRule::kCode:
      return stage == 0 ? step_size : step_size / (step_offset + static_cast<Real>(stage));
    case StepRule::kHarmonic:
      return step_size / (step_offset + k);
    case StepRule::kFixed:
    case StepRule::kBarzilaiBorwein:  // only the aggregation rule knows the models that it is made of
      break;
  }
  return step_size;
}

std::vector<Real> parse_numbers(const std::string& text) {
  std::vector<Real> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    Real number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || !std::isfinite(number) || (stop != end && *stop != ' ')) {
      return {};
    }
    numbers.push_back(number);
    at = stop;
  }
  return numbers;
}

void set_parts(RunParameters* parameters) {
  RunParameters& p = *parameters;
  const bool has_old_shape = p.part_list != nullptr && p.shape.size() == size_of(*p.part_list);
  const auto parts = std::make_shared<Parts>();
  const bool has_parts = p.manifold == ManifoldId::kProduct     ? read_parts(p.parts, parts.get()).empty()
                         : p.manifold == ManifoldId::kFixedRank ? read_matrix(p, parts.get()).empty()
                                                                : false;
  if (has_old_shape || (p.shape.rows == 0 && p.shape.cols == 0)) {
    p.shape = has_parts ? shape_of(p, *parts) : Shape{};
  }
  p.part_list = has_parts ? parts : nullptr;
  p.shape.parts = p.part_list.get();
}

std::vector<uint32_t> batch_schedule(const RunParameters& parameters) {
  std::vector<uint32_t> sizes;
  for (const Real size : parse_numbers(parameters.batch_sizes)) {
    sizes.push_back(static_cast<uint32_t>(size));
  }
  return sizes;
}

uint32_t RunParameters::value_count() const {
  return stream() == StreamKind::kScalarStream ? local_step_count * direction_count
                                               : static_cast<uint32_t>(tangent_value_count(solver, shape));
}

std::string canonical_text(const RunParameters& parameters) {
  std::string text;
  visit_fields(parameters, [&text](const char* key, const auto& field) {
    text += std::string(key) + " = " + text_of(field) + "\n";
  });
  return text;
}

uint64_t parameters_digest(const RunParameters& parameters) {
  const std::map<std::string, std::string> defaults = parse_lines(canonical_text(RunParameters()));
  uint64_t digest = kDigestStart;
  visit_fields(parameters, [&](const char* key, const auto& field) {
    const std::string value = text_of(field);
    if (defaults.at(key) == value) {
      return;
    }
    for (const char c : std::string(key) + " = " + value + "\n") {
      digest = digest_byte(digest, static_cast<uint8_t>(c));
    }
  });
  return digest;
}

std::vector<std::string> differing_keys(const std::string& a, const std::string& b) {
  const std::map<std::string, std::string> defaults = parse_lines(canonical_text(RunParameters()));
  std::map<std::string, std::string> lines_a = parse_lines(a);
  std::map<std::string, std::string> lines_b = parse_lines(b);
  lines_a.insert(defaults.begin(), defaults.end());
  lines_b.insert(defaults.begin(), defaults.end());
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
  for (const auto check :
       {check_local_work, check_batches,      check_proximal, check_svrg,          check_steps,
        check_model,      check_fold,         check_groups,   check_participation, check_over_selection,
        check_straggler,  check_work,         check_retry,    check_weight_share,  check_buffer,
        check_delay_rule, check_delay_switch, check_average,  check_curve,         check_kept_models}) {
    std::string sentence = check(parameters);
    if (!sentence.empty()) {
      return sentence;
    }
  }
  return "";
}

std::string check_new_run(const RunParameters& p) {
  std::string sentence = check_parameters(p);
  if (!sentence.empty()) {
    return sentence;
  }
  // While one device works each of the others makes a version, even where all are of one speed. With a larger buffer
  // many devices may be away at any time, so that advice() warns instead.
  if (p.buffer_size == 1 && p.staleness_max < p.device_count - 1) {
    return "staleness_max, device_count, buffer_size: with a version for every update each of " +
           std::to_string(p.device_count) + " devices of one speed is " + std::to_string(p.device_count - 1) +
           " versions behind, and beyond staleness_max = " + std::to_string(p.staleness_max) +
           " an update is refused; raise staleness_max (at most " + std::to_string(kStalenessMax) + ") or buffer_size";
  }
  return "";
}

}  // namespace gradstream

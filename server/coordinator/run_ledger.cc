#include "server/coordinator/run_ledger.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/base/fields.h"
#include "server/rules/delay_correction.h"
#include "server/run/average_keys.h"
#include "server/run/local_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"
#include "server/run/work.h"

namespace gradstream {
namespace {

// Models kept to repair a device's own: the current one, and the one before, from which a device whose answer has just
// been folded goes on.
constexpr uint32_t kRepairModelCount = 2;
// In a run with step_size "auto" the last record is sent even where it is so many times as long as the model. Reason: a
// device has the line of a record only if it applies it. Beyond that the traffic costs more than the step is worth.
constexpr size_t kLineRecordFactor = 16;

// Replica, the rule's scratch and one drawn point: the hungriest nesting is Replica's own plus two tensors.
size_t arena_words(const RunParameters& parameters) {
  const ManifoldOps& manifold = *server_manifold(parameters);
  const size_t bytes =
      Replica::persistent_size(parameters.model->shape, parameters.has_mean(), version_parts(parameters)) +
      std::max(Replica::scratch_size(manifold, parameters.model->shape),
               DelayCorrection::scratch_size(manifold, parameters.model->shape)) +
      2 * Arena::taken_size<Real>(parameters.model->shape.size()) + kArenaAlignment;
  return bytes / sizeof(uint64_t) + 1;
}

// Of one update; the values are compared by nobody.
bool is_same_update(const FoldInput& a, const FoldInput& b) {
  return a.device == b.device && a.owner == b.owner && a.base_version == b.base_version &&
         a.steps_done == b.steps_done && a.weight == b.weight && a.sample_count == b.sample_count &&
         a.inverse_participation == b.inverse_participation;
}

}  // namespace

const char* sync_cause_name(SyncCause cause) {
  switch (cause) {
    case SyncCause::kBehind:
      return "behind";
    case SyncCause::kJoined:
      return "joined";
    case SyncCause::kShorter:
      return "shorter";
    case SyncCause::kMismatch:
      return "mismatch";
    case SyncCause::kAhead:
      return "ahead";
    case SyncCause::kPhase:
      return "phase";
    case SyncCause::kCurrent:
      break;
  }
  return "current";
}

RunLedger::RunLedger(const RunParameters& parameters, const Enrolment& enrolment, uint32_t aggregator_count)
    : parameters_(parameters),
      enrolment_(enrolment),
      memory_(arena_words(parameters)),
      arena_(memory_.data(), memory_.size() * sizeof(uint64_t)),
      models_(std::max(parameters.kept_model_count(), kRepairModelCount)),
      average_(parameters_, arena_),
      probabilities_(participation_probabilities(*parameters.cohort)),
      log_size_max_(parameters.wire->log_size_max == 0 ? snapshot_size(parameters.model->shape, parameters.has_mean())
                                                       : parameters.wire->log_size_max) {
  const Status status = replica_.prepare(*server_manifold(parameters_), parameters_.model->shape, arena_,
                                         parameters_.has_mean(), version_parts(parameters_));
  GS_ASSERT(status == Status::kOk);  // check_parameters() knows the shape, arena_words() the sizes
  aggregator_ = make_aggregator({&parameters_, &replica_, &models_, &arena_, &enrolment_, &open_, aggregator_count});
  stage_.train_version = has_stages(parameters_) ? kNoVersion : 0;
  if (chooses_step(parameters_)) {
    steps_.emplace(parameters_);
  }
}

// ---- Updates ----

Status RunLedger::prepare_fold(const FoldInput& input) {
  prepared_.reset();
  GS_TRY(aggregator_->prepare(input));
  prepared_ = input;
  prepared_->values = {};
  return Status::kOk;
}

Status RunLedger::check_fold(const FoldInput& input) {
  prepared_.reset();
  return aggregator_->check(input);
}

void RunLedger::commit_fold(const FoldInput& input) {
  GS_ASSERT(prepared_.has_value() && is_same_update(*prepared_, input));
  aggregator_->commit();
  prepared_.reset();
}

Status RunLedger::add_fold(const FoldInput& input) {
  prepared_.reset();
  return aggregator_->add(input);
}

PartialSum RunLedger::take_partial() {
  prepared_.reset();
  return aggregator_->take_partial();
}

Status RunLedger::merge(const PartialSum& sum) {
  prepared_.reset();
  return aggregator_->merge(sum);
}

Real RunLedger::inverse_participation(uint32_t device, uint32_t rounds_joined) const {
  if (asks_everybody()) {
    return 1;
  }
  return gradstream::inverse_participation(*parameters_.cohort, probabilities_, device, rounds_joined, open_.round);
}

// One step of one gradient or of one answer, or those of the run.
uint32_t RunLedger::steps_min() const {
  const bool is_gradient = stage() == TaskStage::kStart && parameters_.local->solver != SolverId::kProjection;
  return has_own_answers(stage()) || is_gradient || is_anchor_phase() ? 1 : parameters_.least_steps();
}

TaskTerms RunLedger::task_terms() const {
  if (has_own_answers(stage())) {
    return {.solver = parameters_.local->solver,
            .batch_mode = BatchMode::kAll,
            .local_step_count = 1,
            .steps_min = steps_min(),
            .step_size = stage_.fold->step_size(),
            .stage = stage(),
            .encoding = answer_encoding(stage())};
  }
  if (stage() == TaskStage::kStart && parameters_.local->solver != SolverId::kProjection) {
    // One gradient at the model: nobody moves. A device of tangent_mean may have no other solver.
    const bool has_own = parameters_.local->solver == SolverId::kTangentMean;
    return {.solver = has_own ? SolverId::kTangentMean : SolverId::kGradientStream,
            .batch_mode = parameters_.local->batch_mode,
            .batch_size = batch_size_at(parameters_, open_.round),
            .local_step_count = 1,
            .steps_min = steps_min(),
            .step_size = stage_.fold->step_size(),
            .proximal = parameters_.local->proximal,
            .stage = stage()};
  }
  if (is_anchor_phase()) {  // an anchor: -grad f_i(X)
    return {.solver = SolverId::kGradientStream,
            .batch_mode = BatchMode::kAll,
            .local_step_count = 1,
            .steps_min = steps_min(),
            .step_size = 1};
  }
  const uint32_t period = parameters_.quality->evaluation_period;
  return {
      .solver = parameters_.local->solver,
      .batch_mode = parameters_.local->batch_mode,
      .batch_size = batch_size_at(parameters_, open_.round),
      .local_step_count = parameters_.local->local_step_count,
      .steps_min = steps_min(),
      .step_size = stage_.fold != nullptr ? stage_.fold->step_size()
                   : has_anchor_          ? local_step_
                                          : open_.step_size,
      .proximal = parameters_.local->proximal,
      .curvature = parameters_.local->solver == SolverId::kCurve ? parameters_.local->curve_orthogonality : curvature_,
      .draws_iterate = parameters_.local->iterate == Iterate::kUniform,
      .stage = stage(),
      .evaluates = stage() == TaskStage::kTrain && period > 0 && open_.round % period == 0};
}

// ---- Versions ----

VersionRecord RunLedger::make_first(std::span<const Real> start) {
  GS_ASSERT(!has_version());
  const Shape shape = parameters_.model->shape;
  std::vector<Real> point(start.begin(), start.end());
  if (point.empty()) {
    RandomKey key;
    key.seed = parameters_.seed;
    key.domain = RandomDomain::kInitialPoint;
    point.resize(shape.size());
    const Status status = replica_.manifold().random_point(shape, key, point.data(), arena_);
    GS_ASSERT(status == Status::kOk);  // normals have full rank but for a set of measure zero
  }
  VersionRecord record = first_record(parameters_, enrolment_.active_count(), point.data());
  record.has_parts = parameters_.model_parts() != 0;
  record.stage.is_known = has_stages(parameters_);
  record.stage.opens = first_stage(parameters_);
  return record;
}

Status RunLedger::follow(const VersionRecord& record) {
  GS_TRY(apply_record(parameters_, record, replica_, arena_));
  return digest_with_units(replica_.digest(), units_after(record)) == record.digest ? Status::kOk
                                                                                    : Status::kDataCorrupt;
}

Status RunLedger::begin(const VersionRecord& record, ClipTally* clip) {
  GS_TRY(follow_step(record));
  begin_stage(record);
  remember(record);
  open_.round = round_after(record);
  digest_ = record.digest;
  model_digest_ = digest_values(kDigestStart, parameters_.model->shape.size(), replica_.model());
  has_anchor_ = record.has_anchor();
  open_.step_size = open_step();
  open_.is_training = stage() == TaskStage::kTrain;
  local_step_ = record.local_step;
  curvature_ = record.curvature;
  delay_switch_ = record.delay_switch.value_or(DelaySwitch());
  models_.push(version(), {replica_.model(), parameters_.model->shape.size()},
               {replica_.mean(), replica_.has_mean() ? parameters_.model->shape.size() : 0});
  if (record.stage.keeps_model) {
    aggregator_->begin();  // what START has brought is in no step
  } else {
    average_.follow(version(), replica_.model());
  }
  *clip = aggregator_->clip_tally();
  aggregator_->add_cosines(clip);
  return aggregator_->follow(record);
}

void RunLedger::remember(VersionRecord record) {
  if (record.blocks.empty()) {
    log_.clear();  // no row of records leads past a dense one
    log_size_ = 0;
    return;
  }
  const size_t size = log_size(record);
  // Nobody asks for the cohort of a version that is kept, which may be longer than all else. A checkpoint wants a
  // member of it.
  record.cohort.members.resize(std::min<size_t>(record.cohort.members.size(), 1));
  record.cohort.members.shrink_to_fit();
  log_.push_back({std::move(record), digest_, size});
  log_size_ += size;
  const size_t whole = snapshot_size(parameters_.model->shape, parameters_.has_mean());
  const size_t kept = steps_.has_value() && size <= kLineRecordFactor * whole ? 1 : 0;
  while (log_size_ > log_size_max_ && log_.size() > kept) {
    log_size_ -= log_.front().size;
    log_.pop_front();
  }
}

// A promise is stored as f32: what is beyond it is said as the most that this holds.
std::optional<float> RunLedger::promise_of(const VersionRecord& record, Status step_status) const {
  if (is_anchor_phase() || stage() != TaskStage::kTrain) {
    return std::nullopt;
  }
  double promise = step_status == Status::kOk ? record.promise.value : 0;
  if (step_status == Status::kOk && replica_.has_sum() && !record.blocks.empty()) {
    const double factor =
        static_cast<double>(estimate_factor(parameters_.model->shape, parameters_.local->direction_count));
    promise = static_cast<double>(record.step_scale) * factor * factor *
              square_sum({replica_.record_sum(), parameters_.model->shape.size()});
  }
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  return promise < most ? static_cast<float>(promise) : std::numeric_limits<float>::max();
}

uint32_t RunLedger::round_after(const VersionRecord& next) const {
  return next.version == 0 || next.has_anchor() || next.stage.keeps_model ? open_.round : open_.round + 1;
}

Status RunLedger::put_average(VersionRecord* record) const {
  if (parameters_.average->average_restart == 0) {
    return Status::kOk;
  }
  std::vector<Real> theta(parameters_.model->shape.size());
  GS_TRY(read_model(parameters_.model->shape, record->model, theta.data()));
  if (average_.replace(record->version, theta.data())) {
    record->model = model_bytes(parameters_.model->shape, theta.data());
    record->mean_direction.clear();  // the model goes elsewhere
  }
  return Status::kOk;
}

VersionRecord RunLedger::close(uint32_t asked_count, ClosingNotes* notes) {
  const bool is_trained = stage() == TaskStage::kTrain;
  notes->clip = aggregator_->clip_tally();
  VersionRecord record;
  if (!is_trained) {
    record = close_stage(&notes->stage);
    notes->status = notes->stage.status;
    GS_ASSERT(apply_record(parameters_, record, replica_, arena_) == Status::kOk);  // the model stays
  } else {
    const double scale =
        steps_.has_value() ? model_scale_of(parameters_, {replica_.model(), parameters_.model->shape.size()}) : 0;
    notes->status = finish_training(&record);
    notes->delay = record.notes;
    if (notes->status != Status::kOk) {
      record = aggregator_->stand_still();
      GS_ASSERT(put_average(&record) == Status::kOk);
      GS_ASSERT(apply_record(parameters_, record, replica_, arena_) ==
                Status::kOk);  // a point of the manifold stays one
    }
    record.stage.is_known = has_stages(parameters_);
    decide_step(scale, asked_count, &record);
  }
  record.digest = digest_with_units(replica_.digest(), units_after(record));
  record.has_parts = parameters_.model_parts() != 0;
  return record;
}

// The step of what was folded, taken.
Status RunLedger::finish_training(VersionRecord* record) {
  GS_TRY(aggregator_->finish(record));
  GS_TRY(put_average(record));
  return apply_record(parameters_, *record, replica_, arena_);
}

std::vector<const VersionRecord*> RunLedger::records_after(uint32_t held, uint64_t* digest_before) const {
  std::vector<const VersionRecord*> records;
  for (const LoggedRecord& logged : log_) {
    if (logged.record.version == held + 1) {
      *digest_before = logged.digest_before;
    }
    if (logged.record.version == held + 1 + records.size()) {
      records.push_back(&logged.record);
    }
  }
  return records;
}

std::optional<uint64_t> RunLedger::digest_of(uint32_t held) const {
  uint64_t digest = digest_;
  return held == version() || !records_after(held, &digest).empty() ? std::optional(digest) : std::nullopt;
}

SyncPlan RunLedger::plan_sync(bool has_model, uint32_t held_version, uint64_t held_digest) const {
  SyncPlan plan;
  uint64_t known_digest = digest_;
  if (has_model && held_version < version()) {
    plan.records = records_after(held_version, &known_digest);
  }
  const bool is_known = held_version == version() || !plan.records.empty();
  if (has_model && is_known && held_digest == known_digest) {
    plan.cause = plan.records.empty() ? SyncCause::kCurrent : SyncCause::kBehind;
    return plan;
  }
  const bool has_phase = has_anchor_ && held_digest == model_digest_;
  const bool has_stage = stage_.keeps_model && held_digest == stage_.digest_before && parts() != 0;
  if (has_model && held_version + 1 == version() && (has_phase || has_stage)) {
    // The phase or stage made no step: the device has the model.
    plan.cause = SyncCause::kPhase;
    plan.snapshot = replica_.model();
    plan.snapshot_version = version();
    plan.snapshot_digest = digest_;
    plan.snapshot_parts = parts();
    return plan;
  }
  plan.cause = !has_model                 ? SyncCause::kJoined
               : held_version > version() ? SyncCause::kAhead
               : is_known                 ? SyncCause::kMismatch
                                          : SyncCause::kShorter;
  plan.snapshot = is_known && has_model ? models_.find(held_version) : nullptr;
  plan.snapshot_mean = models_.find_mean(held_version);
  plan.snapshot_version = held_version;
  plan.snapshot_digest = known_digest;
  if (plan.snapshot == nullptr) {
    plan.snapshot = replica_.model();
    plan.snapshot_mean = replica_.mean();
    plan.snapshot_version = version();
    plan.snapshot_digest = digest_;
    plan.records.clear();
  }
  if (plan.snapshot_version == version()) {
    plan.snapshot_parts |= replica_.parts();
  }
  plan.snapshot_parts |= stage_.units.empty() ? 0 : part_bit(ModelPart::kUnits);
  return plan;
}

double RunLedger::gradient_norm() const {
  const ManifoldOps& manifold = replica_.manifold();
  const Shape shape = parameters_.model->shape;
  std::vector<uint64_t> memory((manifold.scratch_size(shape) + kArenaAlignment) / sizeof(uint64_t) + 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  const Real* const g = replica_.part(ModelPart::kMeanGradient);
  const Result<Real> square = manifold.inner(shape, replica_.model(), g, g, arena);
  return square.ok() ? std::sqrt(static_cast<double>(square.value())) : std::numeric_limits<double>::infinity();
}

// ---- For tests ----

std::string RunLedger::step_text() const {
  std::string text = steps_.has_value() ? steps_->text() : "";
  if (has_anchor_) {
    text += "anchor local_step=" + std::to_string(local_step_) + " curvature=" + std::to_string(curvature_) + "\n";
  }
  if (delay_switch_.sample_count > 0) {
    text += std::string("delay_rule=") + (delay_switch_.is_switched ? "late" : "early") +
            " samples=" + std::to_string(delay_switch_.sample_count) + " mean=" + std::to_string(delay_switch_.mean) +
            "\n";
  }
  if (open_.samples.device_count > 0) {
    text +=
        "samples=" + std::to_string(open_.samples.total) + " of " + std::to_string(open_.samples.device_count) + "\n";
  }
  if (average_.count() > 0) {
    text += "average=" + std::to_string(average_.count()) +
            " digest=" + hex(digest_values(kDigestStart, parameters_.model->shape.size(), average_.model().data())) +
            "\n";
  }
  return text;
}

std::string RunLedger::fold_text() const {
  if (has_own_answers(stage())) {
    return "";
  }
  VersionRecord record;
  const Status status = aggregator_->finish(&record);
  uint64_t payload_digest = kDigestStart;
  for (const uint8_t byte : encode_payload(record)) {
    payload_digest = digest_byte(payload_digest, byte);
  }
  return "fold=" + hex(payload_digest) + " status=" + status_text(status) + "\n";
}

std::string RunLedger::log_text() const {
  std::string text;
  for (const LoggedRecord& logged : log_) {
    text += "log=" + std::to_string(logged.record.version) + " digest=" + hex(logged.record.digest) + "\n";
  }
  return text;
}

}  // namespace gradstream

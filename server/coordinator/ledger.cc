#include "server/coordinator/ledger.h"

#include <algorithm>
#include <limits>

#include "server/base/fields.h"
#include "server/rules/delay_correction.h"
#include "server/run/average_keys.h"
#include "server/run/local_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"
#include "server/run/weights.h"
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

float staleness_of(const RunParameters& parameters, const JournalRecord& record) {
  return static_cast<float>(staleness_weight(*parameters.trigger, record.staleness())) /
         static_cast<float>(kStalenessOne);
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

Ledger::Ledger(const RunParameters& parameters, const std::vector<std::string>& names, uint32_t aggregator_count)
    : parameters_(parameters),
      fleet_(names, parameters.trigger.keys().seen_versions, share_versions(parameters)),
      memory_(arena_words(parameters)),
      arena_(memory_.data(), memory_.size() * sizeof(uint64_t)),
      models_(std::max(parameters.kept_model_count(), kRepairModelCount)),
      average_(parameters_, arena_),
      books_{QualityBook(quality_metric(parameters.model->problem))},
      probabilities_(participation_probabilities(*parameters.cohort)),
      progress_(parameters),
      log_size_max_(parameters.wire->log_size_max == 0 ? snapshot_size(parameters.model->shape, parameters.has_mean())
                                                       : parameters.wire->log_size_max) {
  const Status status = replica_.prepare(*server_manifold(parameters_), parameters_.model->shape, arena_,
                                         parameters_.has_mean(), version_parts(parameters_));
  GS_ASSERT(status == Status::kOk);  // check_parameters() knows the shape, arena_words() the sizes
  aggregator_ = make_aggregator({&parameters_, &replica_, &models_, &arena_, &fleet_, &open_, aggregator_count});
  stage_.train_version = has_stages(parameters_) ? kNoVersion : 0;
  if (chooses_step(parameters_)) {
    steps_.emplace(parameters_);
  }
}

Status Ledger::apply(const JournalRecord& record) { return apply(record, FoldSource::kJournal); }

Status Ledger::apply_prepared(const JournalRecord& record) { return apply(record, FoldSource::kLive); }

Status Ledger::apply(const JournalRecord& record, FoldSource source) {
  if (record.sequence() != last_sequence_ + 1) {
    return Status::kDataCorrupt;
  }
  Status status = Status::kDataCorrupt;
  switch (record.kind()) {
    case RecordKind::kTaskIssued:
      status = apply_task(record);
      break;
    case RecordKind::kUpdate:
      status = apply_update(record, source);
      break;
    case RecordKind::kVerdict:
      status = apply_verdict(record);
      break;
    case RecordKind::kVersion:
      status = apply_version(record);
      break;
    case RecordKind::kRunState:
      status = apply_run_event(record);
      break;
  }
  if (status != Status::kOk) {
    return Status::kDataCorrupt;
  }
  progress_.follow(record);
  last_sequence_ = record.sequence();
  books_.quality.take(record);
  return Status::kOk;
}

Status Ledger::apply_task(const JournalRecord& record) {
  if (!has_version() || is_paused() || !fleet_.contains(record.device()) || record.version() != version() ||
      record.task_sequence() != fleet_.at(record.device()).row.task.sequence + 1 ||
      record.task_step_count() > parameters_.local->local_step_count || record.task_sample_count() > kSampleCountMax) {
    return Status::kDataCorrupt;
  }
  FleetDevice& device = fleet_.at(record.device());
  const uint16_t samples = memory_weight(parameters_, record.task_sample_count());
  if (weighs_updates(parameters_)) {
    open_.samples.give(device.row.task.sequence == 0 ? uint16_t{0} : device.row.task.samples, samples);
  }
  const uint32_t steps = record.task_step_count() == 0 ? task_terms().local_step_count : record.task_step_count();
  follow_task(record, steps, samples, &device.row);
  fleet_.shares().add_task(record.device());
  return Status::kOk;
}

Status Ledger::prepare_fold(const FoldInput& input) {
  prepared_.reset();
  GS_TRY(aggregator_->prepare(input));
  prepared_ = input;
  prepared_->values = {};
  return Status::kOk;
}

Status Ledger::check_fold(const FoldInput& input) {
  prepared_.reset();
  return aggregator_->check(input);
}

// What a kUpdate record of a known device tells the rule, without the values.
FoldInput Ledger::input_of(const JournalRecord& record) const {
  FoldInput input;
  input.owner = parameters_.owner_of(record.device());
  input.device = record.device();
  input.base_version = record.base_version();
  input.steps_done = record.steps_done();
  input.weight = static_cast<uint16_t>(record.weight());
  input.sample_count = fleet_.at(record.device()).row.task.samples;
  input.inverse_participation = record.inverse_participation();
  return input;
}

Status Ledger::apply_update(const JournalRecord& record, FoldSource source) {
  if (!fleet_.contains(record.device()) ||
      sequence_state(fleet_.at(record.device()).row, record.task_sequence()) != SequenceState::kOpen || is_over()) {
    return Status::kDataCorrupt;
  }
  FleetDevice& device = fleet_.at(record.device());
  const bool is_late = record.verdict() == gs_Verdict_VERDICT_LATE;
  if ((!is_late && record.verdict() != gs_Verdict_VERDICT_FOLDED) || record.version() != version() + 1 ||
      record.base_version() != device.row.task.version || is_late != (record.base_version() < version()) ||
      record.weight() == 0 || record.weight() > kSampleCountMax) {
    return Status::kDataCorrupt;
  }
  UpdateNotes notes;
  GS_TRY(record.read_notes(&notes));
  FoldInput input = input_of(record);
  if (has_own_answers(stage())) {
    GS_TRY(apply_answer(record));
  } else if (source == FoldSource::kLive) {
    GS_ASSERT(prepared_.has_value() && is_same_update(*prepared_, input));
    aggregator_->commit();
    prepared_.reset();
  } else {
    std::vector<Real> values(record.payload().size() / sizeof(Real));
    GS_TRY(
        decode_values(kRealEncoding, values.size(), record.payload().data(), record.payload().size(), values.data()));
    input.values = values;
    prepared_.reset();
    GS_TRY(aggregator_->add(input));
  }
  count_line(record, notes);
  const bool is_partial = record.steps_done() < device.row.task.steps;
  follow_update(
      record, {staleness_of(parameters_, record), !asks_everybody(), has_own_answers(stage()) && is_of_units(stage())},
      &device.row);
  fleet_.note_seen(record.device());
  fleet_.shares().add_update(record.device());
  ++(is_late ? tally_.late_count : tally_.on_time_count);
  tally_.partial_count += is_partial ? 1 : 0;
  tally_.losses.take(record);
  return Status::kOk;
}

Status Ledger::apply_verdict(const JournalRecord& record) {
  if (!fleet_.contains(record.device()) ||
      sequence_state(fleet_.at(record.device()).row, record.task_sequence()) != SequenceState::kOpen) {
    return Status::kDataCorrupt;
  }
  FleetDevice& device = fleet_.at(record.device());
  follow_verdict(record, &device.row);
  if (device.row.judged.verdict == gs_Verdict_VERDICT_REFUSED) {
    fleet_.note_seen(record.device());
  }
  return Status::kOk;
}

Status Ledger::apply_version(const JournalRecord& record) {
  if (is_over() || is_paused() || record.version() != (has_version() ? version() + 1 : 0)) {
    return Status::kDataCorrupt;
  }
  VersionRecord next;
  next.version = record.version();
  next.step_scale = record.step_scale();
  next.digest = record.digest();
  GS_TRY(decode_payload(parameters_, record.payload(), &next));
  std::optional<ClipDecided> clip;
  GS_TRY(record.read_clip(&clip));
  if (clip) {
    next.clip = {clip->radius, clip->clipped_count};
  }
  if ((!next.cohort.members.empty() && !fleet_.contains(next.cohort.members.back())) ||
      (!next.stage.left_out.empty() && !fleet_.contains(next.stage.left_out.back()))) {
    return Status::kDataCorrupt;
  }
  GS_TRY(apply_record(parameters_, next, replica_, arena_));
  if (digest_with_units(replica_.digest(), units_after(next)) != record.digest()) {
    return Status::kDataCorrupt;
  }
  return begin_version(next);
}

Status Ledger::apply_run_event(const JournalRecord& record) {
  const RunEvent event = record.run_event();
  // The only events of a paused run are that it is resumed or stopped.
  const bool may_follow = event == RunEvent::kStopped || is_paused() == (event == RunEvent::kResumed);
  if (is_over() || !may_follow) {
    return Status::kDataCorrupt;
  }
  const bool has_cause = event == RunEvent::kStalled || event == RunEvent::kFinished;
  stall_ = has_cause ? decode_stall(record.payload()) : StallCause();
  switch (event) {
    case RunEvent::kExtended:
      ++extension_count_;
      return Status::kOk;
    case RunEvent::kStalled:
      run_state_ = gs_RunState_RUN_STATE_STALLED;
      return Status::kOk;
    case RunEvent::kFinished:
      run_state_ = gs_RunState_RUN_STATE_FINISHED;
      return Status::kOk;
    case RunEvent::kStopped:
      run_state_ = gs_RunState_RUN_STATE_STOPPED;
      return Status::kOk;
    case RunEvent::kPaused:
      run_state_ = gs_RunState_RUN_STATE_PAUSED;
      return Status::kOk;
    case RunEvent::kResumed:  // the open version has its time anew
      run_state_ = gs_RunState_RUN_STATE_ACTIVE;
      extension_count_ = 0;
      return Status::kOk;
    case RunEvent::kNone:
      break;
  }
  return Status::kDataCorrupt;
}

Status Ledger::begin_version(const VersionRecord& record) {
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
  fleet_.begin_version(version(), record.cohort);
  models_.push(version(), {replica_.model(), parameters_.model->shape.size()},
               {replica_.mean(), replica_.has_mean() ? parameters_.model->shape.size() : 0});
  if (record.stage.keeps_model) {
    aggregator_->begin();  // what START has brought is in no step
  } else {
    average_.follow(version(), replica_.model());
  }
  ClipTally tally = aggregator_->clip_tally();
  aggregator_->add_cosines(&tally);
  books_.norms.take(tally);
  const Status status = aggregator_->follow(record);
  tally_ = RoundTally();
  extension_count_ = 0;
  stall_ = StallCause();
  run_state_ = gs_RunState_RUN_STATE_ACTIVE;
  return status;
}

void Ledger::remember(VersionRecord record) {
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
std::optional<float> Ledger::promise_of(const VersionRecord& record, Status step_status) const {
  if (is_anchor_phase()) {
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

JournalRecord Ledger::journal_record(const VersionRecord& record, Trigger trigger, std::optional<float> promise) const {
  std::optional<ClipDecided> clip;
  if (record.clip) {
    clip = {record.clip->radius, record.clip->clipped_count};
  }
  JournalRecord out = JournalRecord::begin_version({.version = record.version,
                                                    .step_scale = record.step_scale,
                                                    .digest = record.digest,
                                                    .trigger = trigger,
                                                    .promise = promise,
                                                    .clip = clip,
                                                    .payload = encode_payload(record)});
  out.set_sequence(last_sequence_ + 1);
  return out;
}

uint32_t Ledger::round_after(const VersionRecord& next) const {
  return next.version == 0 || next.has_anchor() || next.stage.keeps_model ? open_.round : open_.round + 1;
}

// A round's cohort is asked in its last phase; the phases before it ask everybody.
Cohort Ledger::next_cohort(const VersionRecord& next) const {
  if (parameters_.cohort->participation == Participation::kAll ||
      (parameters_.phase_count() > 1 && !next.has_anchor()) || next.stage.opens.stage != TaskStage::kTrain) {
    return {};
  }
  return choose_cohort(parameters_, round_after(next), fleet_.active_count(),
                       [this](uint32_t rank) { return fleet_.active_at(rank); });
}

// One step of one gradient or of one answer, or those of the run.
uint32_t Ledger::steps_min() const {
  const bool is_gradient = stage() == TaskStage::kStart && parameters_.local->solver != SolverId::kProjection;
  return has_own_answers(stage()) || is_gradient || is_anchor_phase() ? 1 : parameters_.least_steps();
}

TaskTerms Ledger::task_terms() const {
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

Real Ledger::inverse_participation(uint32_t device) const {
  if (asks_everybody()) {
    return 1;
  }
  return gradstream::inverse_participation(*parameters_.cohort, probabilities_, device,
                                           fleet_.at(device).row.tally.rounds_joined, open_.round);
}

JournalRecord Ledger::open_first_version(std::span<const Real> start) {
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
  VersionRecord record = first_record(parameters_, fleet_.active_count(), point.data());
  record.has_parts = parameters_.model_parts() != 0;
  record.stage.is_known = has_stages(parameters_);
  record.stage.opens = first_stage(parameters_);
  record.cohort = next_cohort(record);
  JournalRecord out = journal_record(record, Trigger::kNone);
  GS_ASSERT(apply(out) == Status::kOk);
  return out;
}

Status Ledger::put_average(VersionRecord* record) const {
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

JournalRecord Ledger::close_version(Trigger trigger, ClosingNotes* notes) {
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
    decide_step(scale, &record);
  }
  record.digest = digest_with_units(replica_.digest(), units_after(record));
  record.has_parts = parameters_.model_parts() != 0;
  record.cohort = next_cohort(record);
  JournalRecord out = journal_record(record, trigger, is_trained ? promise_of(record, notes->status) : std::nullopt);
  GS_ASSERT(begin_version(record) == Status::kOk);  // the rule made the record itself
  progress_.follow(out);
  last_sequence_ = out.sequence();
  return out;
}

// The step of what was folded, taken.
Status Ledger::finish_training(VersionRecord* record) {
  GS_TRY(aggregator_->finish(record));
  GS_TRY(put_average(record));
  return apply_record(parameters_, *record, replica_, arena_);
}

std::vector<const VersionRecord*> Ledger::records_after(uint32_t held, uint64_t* digest_before) const {
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

std::optional<uint64_t> Ledger::digest_of(uint32_t held) const {
  uint64_t digest = digest_;
  return held == version() || !records_after(held, &digest).empty() ? std::optional(digest) : std::nullopt;
}

SyncPlan Ledger::plan_sync(bool has_model, uint32_t held_version, uint64_t held_digest) const {
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

namespace {

// What a device is to the open version, by the journal alone.
std::string standing_text(const Fleet& fleet, uint32_t index) {
  const DeviceRow& row = fleet.at(index).row;
  const uint32_t given = fleet.shares().update_count(index);
  return std::string(fleet.is_member(index) ? " member" : "") + (fleet.is_seen(index) ? " seen" : "") +
         (given > 0 ? " given=" + std::to_string(given) : "") + (row.refuses_units ? " refuses_units" : "") +
         (row.is_left_out ? " left_out" : "");
}

}  // namespace

std::string Ledger::state_text() const {
  std::string text = "sequence=" + std::to_string(last_sequence_) + " state=" + std::to_string(run_state_) +
                     " extensions=" + std::to_string(extension_count_);
  if (has_version()) {
    text += " version=" + std::to_string(version()) + " digest=" + hex(digest_);
  }
  text += " on_time=" + std::to_string(tally_.on_time_count) + " late=" + std::to_string(tally_.late_count) +
          " partial=" + std::to_string(tally_.partial_count) + "\n";
  if (!stall_.empty()) {
    text += std::string(is_over() ? "end=" : "stall=") + stall_.cause + " text=" + stall_.text +
            " remedy=" + stall_.remedy + "\n";
  }
  const ProgressView& progress = progress_.view();
  text += std::string("progress=") + name_of(progress.state) + " ratio=" + std::to_string(progress.ratio) +
          " kept=" + std::to_string(progress.kept) + " drifts=" + std::to_string(progress.drift_count) +
          " unfit=" + std::to_string(progress_.unfit_count()) +
          " smoothing=" + std::to_string(static_cast<int>(progress_.smoothing().fit)) + "\n";
  text += stage_text() + books_.norms.text();
  text += steps_.has_value() ? steps_->text() : "";
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
  for (const Quality& quality : books_.quality.versions()) {
    text += "quality=" + std::to_string(quality.version) + " devices=" + std::to_string(quality.device_count) +
            " samples=" + std::to_string(quality.sample_count) + " loss=" + std::to_string(quality.loss) +
            " metric=" + std::to_string(quality.metric) + "\n";
  }
  if (tally_.on_time_count + tally_.late_count > 0 && !has_own_answers(stage())) {
    VersionRecord record;
    const Status status = aggregator_->finish(&record);
    uint64_t payload_digest = kDigestStart;
    for (const uint8_t byte : encode_payload(record)) {
      payload_digest = digest_byte(payload_digest, byte);
    }
    text += "fold=" + hex(payload_digest) + " status=" + status_text(status) + "\n";
  }
  for (const LoggedRecord& logged : log_) {
    text += "log=" + std::to_string(logged.record.version) + " digest=" + hex(logged.record.digest) + "\n";
  }
  for (uint32_t i = 0; i < fleet_.size(); ++i) {
    const FleetDevice& device = fleet_.at(i);
    text += "device=" + device.name + " task=" + std::to_string(device.row.task.sequence) + "@" +
            std::to_string(device.row.task.version) + (device.row.task.is_open ? " open" : "") +
            " steps=" + std::to_string(device.row.task.steps) + " step_us=" + std::to_string(device.row.step_time_us) +
            " judged=" + std::to_string(device.row.judged.task_sequence) + ":" +
            std::to_string(device.row.judged.verdict) + ":" + std::to_string(device.row.judged.reason) + ":" +
            std::to_string(device.row.judged.version) + ":" + std::to_string(device.row.judged.record_sequence) +
            " answered=" + std::to_string(device.row.answered_version) +
            " accepted=" + std::to_string(device.row.accepted.task_sequence) + ":" +
            std::to_string(device.row.accepted.version) + " joined=" + std::to_string(device.row.tally.rounds_joined) +
            " refused=" + std::to_string(device.row.refusals.count) + standing_text(fleet_, i) +
            " folded=" + std::to_string(device.row.tally.updates_folded) +
            " late=" + std::to_string(device.row.tally.updates_late) + "\n";
  }
  return text;
}

void Ledger::fold_again_for_test(const FoldInput& input) {
  prepared_.reset();
  static_cast<void>(aggregator_->add(input));
}

}  // namespace gradstream

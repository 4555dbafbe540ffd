#include "server/coordinator/ledger.h"

#include "server/base/fields.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

float staleness_of(const RunParameters& parameters, const JournalRecord& record) {
  return static_cast<float>(staleness_weight(*parameters.trigger, record.staleness())) /
         static_cast<float>(kStalenessOne);
}

}  // namespace

Ledger::Ledger(const RunParameters& parameters, const std::vector<std::string>& names, uint32_t aggregator_count)
    : parameters_(parameters),
      fleet_(names, parameters.trigger.keys().seen_versions, share_versions(parameters)),
      run_(parameters_, fleet_, aggregator_count),
      books_{QualityBook(quality_metric(parameters.model->problem))},
      progress_(parameters) {}

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
  if (!run_.has_version() || is_paused() || !fleet_.contains(record.device()) || record.version() != run_.version() ||
      record.task_sequence() != fleet_.at(record.device()).row.task.sequence + 1 ||
      record.task_step_count() > parameters_.local->local_step_count || record.task_sample_count() > kSampleCountMax) {
    return Status::kDataCorrupt;
  }
  FleetDevice& device = fleet_.at(record.device());
  const uint16_t samples = memory_weight(parameters_, record.task_sample_count());
  if (weighs_updates(parameters_)) {
    run_.give_samples(device.row.task.sequence == 0 ? uint16_t{0} : device.row.task.samples, samples);
  }
  const uint32_t steps = record.task_step_count() == 0 ? run_.task_terms().local_step_count : record.task_step_count();
  follow_task(record, steps, samples, &device.row);
  fleet_.shares().add_task(record.device());
  return Status::kOk;
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
  if ((!is_late && record.verdict() != gs_Verdict_VERDICT_FOLDED) || record.version() != run_.version() + 1 ||
      record.base_version() != device.row.task.version || is_late != (record.base_version() < run_.version()) ||
      record.weight() == 0 || record.weight() > kSampleCountMax) {
    return Status::kDataCorrupt;
  }
  UpdateNotes notes;
  GS_TRY(record.read_notes(&notes));
  GS_TRY(fold(record, source));
  tally_.lines_dropped += run_.add_line(record, notes) ? 0 : 1;
  const bool is_partial = record.steps_done() < device.row.task.steps;
  follow_update(record, {staleness_of(parameters_, record), !run_.asks_everybody(), is_of_units(run_.stage())},
                &device.row);
  fleet_.note_seen(record.device());
  fleet_.shares().add_update(record.device());
  ++(is_late ? tally_.late_count : tally_.on_time_count);
  tally_.partial_count += is_partial ? 1 : 0;
  tally_.losses.take(record);
  return Status::kOk;
}

// What the open version's fold makes of an update.
Status Ledger::fold(const JournalRecord& record, FoldSource source) {
  if (has_own_answers(run_.stage())) {
    return record.base_version() == run_.version()
               ? run_.add_answer({record.device(), static_cast<uint16_t>(record.weight()), record.payload()})
               : Status::kDataCorrupt;
  }
  FoldInput input = input_of(record);
  if (source == FoldSource::kLive) {
    run_.commit_fold(input);
    return Status::kOk;
  }
  std::vector<Real> values(record.payload().size() / sizeof(Real));
  GS_TRY(decode_values(kRealEncoding, values.size(), record.payload().data(), record.payload().size(), values.data()));
  input.values = values;
  return run_.add_fold(input);
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
  if (is_over() || is_paused() || record.version() != (run_.has_version() ? run_.version() + 1 : 0)) {
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
  GS_TRY(run_.follow(next));
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
  ClipTally clip;
  GS_TRY(run_.begin(record, &clip));
  for (const uint32_t device : record.stage.left_out) {
    fleet_.at(device).row.is_left_out = true;
  }
  fleet_.begin_version(run_.version(), record.cohort);
  books_.norms.take(clip);
  tally_ = RoundTally();
  extension_count_ = 0;
  stall_ = StallCause();
  run_state_ = gs_RunState_RUN_STATE_ACTIVE;
  return Status::kOk;
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

// A round's cohort is asked in its last phase; the phases before it ask everybody.
Cohort Ledger::next_cohort(const VersionRecord& next) const {
  if (parameters_.cohort->participation == Participation::kAll ||
      (parameters_.phase_count() > 1 && !next.has_anchor()) || next.stage.opens.stage != TaskStage::kTrain) {
    return {};
  }
  return choose_cohort(parameters_, run_.round_after(next), fleet_.active_count(),
                       [this](uint32_t rank) { return fleet_.active_at(rank); });
}

Real Ledger::inverse_participation(uint32_t device) const {
  return run_.inverse_participation(device, fleet_.at(device).row.tally.rounds_joined);
}

JournalRecord Ledger::open_first_version(std::span<const Real> start) {
  VersionRecord record = run_.make_first(start);
  record.cohort = next_cohort(record);
  JournalRecord out = journal_record(record, Trigger::kNone);
  GS_ASSERT(apply(out) == Status::kOk);
  return out;
}

JournalRecord Ledger::close_version(Trigger trigger, ClosingNotes* notes) {
  VersionRecord record = run_.close(fleet_.asked_count(), notes);
  record.cohort = next_cohort(record);
  JournalRecord out = journal_record(record, trigger, run_.promise_of(record, notes->status));
  GS_ASSERT(begin_version(record) == Status::kOk);  // the rule made the record itself
  progress_.follow(out);
  last_sequence_ = out.sequence();
  return out;
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
  if (run_.has_version()) {
    text += " version=" + std::to_string(run_.version()) + " digest=" + hex(run_.digest());
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
  text += run_.stage_text() + books_.norms.text() + run_.step_text();
  for (const Quality& quality : books_.quality.versions()) {
    text += "quality=" + std::to_string(quality.version) + " devices=" + std::to_string(quality.device_count) +
            " samples=" + std::to_string(quality.sample_count) + " loss=" + std::to_string(quality.loss) +
            " metric=" + std::to_string(quality.metric) + "\n";
  }
  text += tally_.on_time_count + tally_.late_count > 0 ? run_.fold_text() : "";
  text += run_.log_text();
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

}  // namespace gradstream

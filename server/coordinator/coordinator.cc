#include "server/coordinator/coordinator.h"

#include <cmath>
#include <utility>

#include "runtime/base/products.h"
#include "server/coordinator/coordinator_state.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"

namespace gradstream {

Coordinator::Coordinator(uint32_t run, const RunParameters& parameters, const std::vector<std::string>& devices,
                         uint32_t aggregator_count, uint64_t run_nonce) {
  GS_ASSERT(!check_parameters(parameters));
  state_ = std::make_unique<State>(run, parameters, devices, aggregator_count, run_nonce);
}

Coordinator::~Coordinator() = default;

Status Coordinator::replay(const JournalRecord& record) {
  State& state = *state_;
  GS_ASSERT(!state.is_started);
  const RoundTally tally = state.ledger.tally();
  const uint32_t extension_count = state.ledger.extension_count();
  GS_TRY(state.ledger.apply(record));
  state.recall(record, tally, extension_count);
  state.count_for_checkpoint(record);
  state.durable_sequence = record.sequence();
  if (record.kind() == RecordKind::kVersion) {
    state.version_sequence = record.sequence();
    state.durable_version = record.version();
  }
  return Status::kOk;
}

Status Coordinator::set_first_model(std::span<const Real> model) {
  GS_ASSERT(!state_->is_started);
  if (model.size() != state_->parameters.model->shape.size()) {
    return Status::kInvalidArgument;
  }
  if (!all_finite(model.size(), model.data())) {
    return Status::kNotFinite;
  }
  state_->first_model.assign(model.begin(), model.end());
  return Status::kOk;
}

void Coordinator::set_limits(const CoordinatorLimits& limits) { state_->limits = limits; }

void Coordinator::start(uint64_t now_ms) {
  State& state = *state_;
  GS_ASSERT(!state.is_started);
  state.is_started = true;
  if (!state.ledger.run().has_version()) {
    state.open_run(now_ms);
    return;
  }
  state.log("run_recovered"_event, Fields()
                                       .add("version", state.ledger.run().version())
                                       .add_hex("digest", state.ledger.run().digest())
                                       .add("records", state.ledger.last_sequence())
                                       .add("answers", state.ledger.tally().on_time_count));
  state.review_barred(now_ms);
  state.publish();  // once more: the process may have ended between the record and the export
  const bool is_active = state.ledger.run_state() == gs_RunState_RUN_STATE_ACTIVE;
  if (is_active && state.ledger.is_done()) {
    state.run_event(RunEvent::kFinished, now_ms,
                    state.ledger.end_cause());  // the crash came between the last version and this
    return;
  }
  state.deadline_ms = is_active ? now_ms + state.parameters.trigger->report_deadline_ms : State::kNever;
  if (!state.ledger.stall().empty()) {
    state.heard_by_ms = now_ms + state.parameters.trigger->report_deadline_ms;
  }
  state.judge_open_round(now_ms);
}

void Coordinator::on_message(SessionId session, uint32_t device, const DeviceMessage& message, uint64_t now_ms) {
  State& state = *state_;
  const auto [entry, is_new] = state.sessions.try_emplace(
      session, State::Session{device, false, false, Intake(value_count_max(state.parameters))});
  if (!state.ledger.fleet().contains(device)) {
    state.refuse(session, gs_Reason_REASON_UNKNOWN_RUN);
    return;
  }
  FleetDevice& known = state.ledger.fleet().at(device);
  if (known.is_revoked) {
    state.refuse(session, known.revoked_reason);
    return;
  }
  known.session.last_seen_ms = now_ms;
  if (!state.admit(session, message, now_ms)) {
    return;
  }
  const bool is_hello = message.which_body == gs_DeviceMessage_hello_tag;  // it is refused and counted in any case
  if (message.which_body != gs_DeviceMessage_status_report_tag && state.give_up_hold(session) && !is_hello) {
    ++state.counters.messages_unexpected;
  }
  if (!entry->second.has_hello && message.which_body != gs_DeviceMessage_hello_tag) {
    ++state.counters.messages_unexpected;
    state.refuse(session, gs_Reason_REASON_UNEXPECTED_MESSAGE);
    return;
  }
  Intake& intake = entry->second.intake;
  IntakeResult taken = IntakeResult::kMore;
  switch (message.which_body) {
    case gs_DeviceMessage_hello_tag:
      state.on_hello(session, device, message.body.hello, now_ms);
      return;
    case gs_DeviceMessage_pull_tag:
      state.on_pull(session, message.body.pull, now_ms);
      return;
    case gs_DeviceMessage_update_scalars_tag:
      taken = intake.take(message.body.update_scalars);
      break;
    case gs_DeviceMessage_update_tangent_tag:
      taken = intake.take(message.body.update_tangent);
      break;
    case gs_DeviceMessage_task_refused_tag:
      state.on_task_refused(session, message.body.task_refused, now_ms);
      return;
    case gs_DeviceMessage_status_report_tag:
      state.on_report(session, message.body.status_report, now_ms);
      return;
    default:
      taken = IntakeResult::kBroken;
      break;
  }
  if (taken == IntakeResult::kBroken) {
    ++state.counters.messages_unexpected;
    state.refuse(session, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  } else if (taken == IntakeResult::kComplete) {
    state.on_upload(session, intake.upload(), now_ms);
  }
}

void Coordinator::on_session_closed(SessionId session, uint64_t now_ms) {
  State& state = *state_;
  const auto known = state.sessions.find(session);
  const bool has_held = known == state.sessions.end() || known->second.held_count > 0;
  if (state.pulls.held.contains(session)) {
    state.ledger.fleet().at(known->second.device).session.last_seen_ms = now_ms;  // as end_hold()
  }
  state.drop_session(session);
  if (!has_held) {
    return;  // skip the scan: when thousands of sessions close at once it would be quadratic
  }
  state.held.remove_if([session](const State::Held& entry) { return entry.action.session == session; });
}

void Coordinator::on_tick(uint64_t now_ms) {
  if (now_ms >= state_->deadline_ms) {
    state_->judge_open_round(now_ms);
  }
  if (now_ms >= state_->heard_by_ms && !state_->is_storage_failed) {
    state_->review_silent(now_ms);
  }
  state_->end_due_holds(now_ms);
}

void Coordinator::postpone(uint64_t by_ms) {
  for (uint64_t* const due_ms : {&state_->deadline_ms, &state_->heard_by_ms}) {
    if (*due_ms != State::kNever) {
      *due_ms += by_ms;
    }
  }
}

uint64_t Coordinator::next_tick_ms() const {
  return state_->is_storage_failed
             ? State::kNever
             : std::min({state_->deadline_ms, state_->heard_by_ms, state_->pulls.held.next_due_ms()});
}

void Coordinator::on_persisted(uint64_t sequence, uint64_t now_ms) {
  State& state = *state_;
  GS_ASSERT(sequence > state.durable_sequence && sequence <= state.ledger.last_sequence());
  const bool was_durable = state.is_version_durable();
  state.durable_sequence = sequence;
  if (!was_durable && state.is_version_durable()) {
    state.durable_version = state.ledger.run().version();
    state.publish();
    state.begin_time(now_ms);
  }
  state.release_held();
  state.answer_waiting_pulls(now_ms);
  state.wake_by_news(now_ms);
}

void Coordinator::note_chain(const ChainHead& head) { state_->noted.mark = mark_of(head); }

void Coordinator::on_mark_compared(uint32_t device, const JournalMark& said, MarkFinding finding, uint64_t now_ms) {
  State& state = *state_;
  FleetDevice& row = state.ledger.fleet().at(device);
  if (finding == MarkFinding::kSame) {
    state.forgive_fork(&row, now_ms);
  }
  if (finding != MarkFinding::kOther && finding != MarkFinding::kMissing) {
    return;
  }
  ++state.counters.history.journal_forked;
  state.noted.forked_count += row.session.forked_ms == 0 ? 1 : 0;
  row.session.forked_ms = std::max<uint64_t>(now_ms, 1);
  state.log_of(row, "journal_forked"_event,
               Fields()
                   .add("device", row.name)
                   .add("sequence", said.sequence)
                   .add("finding", finding == MarkFinding::kOther ? "another_record" : "no_such_record")
                   .add("durable", state.durable_sequence)
                   .add("devices", uint64_t{state.noted.forked_count}),
               now_ms);
}

void Coordinator::on_storage_failed(uint64_t now_ms) {
  State& state = *state_;
  if (!std::exchange(state.is_storage_failed, true)) {
    state.log("storage_failed"_event, Fields().add("durable", state.durable_sequence));
  }
  while (!state.pulls.waiting.empty()) {
    const SessionId id = state.pulls.waiting.begin()->first;
    state.pulls.waiting.erase(id);
    state.refuse(id, gs_Reason_REASON_STORAGE);
  }
  state.end_all_holds(now_ms);
  state.refuse_held();
}

void Coordinator::on_storage_recovered(uint64_t now_ms) {
  if (std::exchange(state_->is_storage_failed, false)) {
    state_->log("storage_recovered"_event, Fields().add("durable", state_->durable_sequence));
    state_->judge_open_round(now_ms);
    state_->review_blocked(now_ms);
  }
}

void Coordinator::on_device_added(const std::string& name, uint64_t now_ms) {
  state_->ledger.fleet().add(name);
  state_->open_run(now_ms);
  state_->review_blocked(now_ms);
}

void Coordinator::on_device_revoked(uint32_t device, uint64_t now_ms) {
  state_->exclude(device, gs_Reason_REASON_REVOKED, now_ms);
}

void Coordinator::on_device_disabled(uint32_t device, uint64_t now_ms) {
  state_->exclude(device, gs_Reason_REASON_INACTIVE, now_ms);
}

RunView Coordinator::State::view() const {
  RunView run = {parameters, identity};
  run.state = ledger.run_state();
  run.has_version = ledger.run().has_version();
  run.version = ledger.run().version();
  run.stage = ledger.run().stage();
  run.steps_min = ledger.run().has_version() ? ledger.run().steps_min() : 0;
  run.asks_everybody = ledger.run().asks_everybody();
  run.update_count = ledger.tally().on_time_count + ledger.tally().late_count;
  run.extension_count = ledger.extension_count();
  run.train_version = ledger.run().open_stage().train_version;
  run.is_storage_failed = is_storage_failed;
  run.durable_sequence = durable_sequence;
  run.durable_version = durable_version;
  run.version_sequence = version_sequence;
  run.run_state_sequence = run_state_sequence;
  return run;
}

FleetStanding Coordinator::State::standing(uint32_t device) const {
  const ShareWindow& shares = ledger.fleet().shares();
  return {ledger.fleet().is_asked(device), shares.update_count(device), shares.device_count()};
}

void Coordinator::State::exclude(uint32_t device, gs_Reason reason, uint64_t now_ms) {
  FleetDevice& excluded = ledger.fleet().at(device);
  const bool was_active = !excluded.is_revoked;
  if (!was_active && excluded.revoked_reason == reason) {
    return;
  }
  excluded.revoked_reason = reason;
  if (is_started) {  // else it is old news
    log(reason == gs_Reason_REASON_REVOKED ? "device_revoked"_event : "device_disabled"_event,
        Fields().add("device", excluded.name));
  }
  if (!was_active) {
    return;
  }
  noted.forked_count -= excluded.session.forked_ms != 0 ? 1 : 0;
  excluded.session.forked_ms = excluded.session.ahead_ms = 0;  // what it said counts no more
  const bool had_members = ledger.fleet().has_members();
  ledger.fleet().revoke(device);
  const bool asks_others = had_members && !ledger.fleet().has_members();
  if (excluded.session.id != 0) {
    refuse(excluded.session.id, reason);
  }
  judge_open_round(now_ms);
  review_blocked(now_ms);
  if (asks_others) {  // the cohort's last member left; else a look at all for each of many would take minutes
    wake_held(now_ms);
  }
}

void Coordinator::on_device_restored(uint32_t device, uint64_t now_ms) {
  State& state = *state_;
  if (!state.ledger.fleet().at(device).is_revoked) {
    return;
  }
  state.ledger.fleet().restore(device);
  state.log("device_restored"_event, Fields().add("device", state.ledger.fleet().at(device).name));
  state.open_run(now_ms);
  state.review_blocked(now_ms);
}

void Coordinator::stop(uint64_t now_ms) {
  if (!state_->ledger.is_over()) {
    state_->deadline_ms = State::kNever;
    state_->run_event(RunEvent::kStopped, now_ms);
    state_->end_all_holds(now_ms);
  }
}

void Coordinator::pause(uint64_t now_ms) {
  if (!state_->ledger.is_over() && !state_->ledger.is_paused()) {
    state_->deadline_ms = State::kNever;
    state_->run_event(RunEvent::kPaused, now_ms);
    state_->end_all_holds(now_ms);
  }
}

void Coordinator::drain(uint64_t now_ms) {
  state_->pulls.is_draining = true;
  state_->end_all_holds(now_ms);
}

SessionId Coordinator::end_longest_hold(uint64_t now_ms) {
  const SessionId session = state_->pulls.held.longest();
  if (const std::optional<EndedHold> ended = state_->pulls.held.take(session)) {
    state_->end_hold(*ended, now_ms);
  }
  return session;
}

void Coordinator::resume(uint64_t now_ms) {
  State& state = *state_;
  if (!state.ledger.is_paused()) {
    return;
  }
  state.run_event(RunEvent::kResumed, now_ms);
  state.open_run(now_ms);
  if (state.ledger.run().has_version() && state.is_version_durable()) {
    state.begin_time(now_ms);
    state.judge_open_round(now_ms);
  }
}

bool Coordinator::is_held(SessionId session) const { return state_->pulls.held.contains(session); }

std::vector<Action> Coordinator::take_actions(std::vector<Action> used) {
  used.clear();
  if (used.capacity() > kUsedActionCountMax) {
    used = {};
  }
  return std::exchange(state_->actions, std::move(used));
}

const Replica& Coordinator::model() const { return state_->ledger.run().replica(); }
uint64_t Coordinator::digest() const { return state_->ledger.run().digest(); }
std::span<const uint8_t> Coordinator::units() const { return state_->ledger.run().open_stage().units; }
TaskStage Coordinator::stage() const { return state_->ledger.run().stage(); }
const ModelAverage& Coordinator::average() const { return state_->ledger.run().average(); }
const QualityBook& Coordinator::quality() const { return state_->ledger.quality(); }
gs_RunState Coordinator::run_state() const { return state_->ledger.run_state(); }
uint32_t Coordinator::durable_version() const { return state_->durable_version; }
gs_RetryWindow Coordinator::retry_window() const { return state_->window(1); }
const CoordinatorCounters& Coordinator::counters() const { return state_->counters; }

std::string refusal_text(const LastReason& last) {
  const std::string reason = reason_name(last.reason);
  return last.floor == gs_Floor_FLOOR_NONE ? reason : reason + ", floor " + floor_name(last.floor);
}

std::vector<DeviceStatus> Coordinator::device_statuses() const {
  const Fleet& fleet = state_->ledger.fleet();
  std::vector<DeviceStatus> statuses;
  statuses.reserve(fleet.size());
  for (uint32_t index = 0; index < fleet.size(); ++index) {
    const FleetDevice& device = fleet.at(index);
    DeviceStatus& status = statuses.emplace_back();
    status.name = device.name;
    status.index = index;
    status.is_revoked = device.is_revoked;
    status.connected = device.session.id != 0;
    status.is_asked = fleet.is_asked(index);
    status.is_capable = device.session.is_capable;
    status.waits.is_awaited = state_->awaits_answers() && fleet.is_awaited(index);
    status.has_answered =
        state_->ledger.run().has_version() && device.row.answered_version == state_->ledger.run().version();
    status.has_task = device.row.task.is_open;
    status.waits.holds = device.session.id != 0 && state_->pulls.held.contains(device.session.id);
    status.task_version = device.row.task.version;
    status.task_issued_ms = device.row.task.issued_ms;
    status.version_held = device.session.version_held;
    status.last_seen_ms = device.session.last_seen_ms;
    status.updates_folded = device.row.tally.updates_folded;
    status.updates_late = device.row.tally.updates_late;
    status.updates_partial = device.row.tally.updates_partial;
    status.snapshots_sent = device.session.snapshots_sent;
    status.step_time_us = device.row.step_time_us;
    status.last_verdict = device.row.judged.verdict;
    const bool is_private = device.row.judged.reason == gs_Reason_REASON_PRIVACY;
    status.last_reason = {device.row.judged.reason,
                          is_private ? device.session.refusals.complaint.floor : gs_Floor_FLOOR_NONE};
    status.last_staleness = device.row.tally.last_staleness;
    status.last_staleness_weight = device.row.accepted.staleness_weight;
    status.last_steps = device.row.tally.last_steps;
    status.last_steps_asked = device.row.tally.last_steps_asked;
    status.sample_count = device.session.sample_count;
    status.oddity.is_left_out = device.row.is_left_out;
    status.oddity.knows_other_journal = device.session.forked_ms != 0;
    status.oddity.holds_later_version = device.session.ahead_ms != 0;
    if (const DeviceNorms* const norms = state_->ledger.norms().find(index); norms != nullptr) {
      status.oddity.norm_ratio = norms->ratio();
      status.oddity.clipped_share = norms->clipped_share();
      status.oddity.cosine = norms->cosine();
      status.oddity.has_long_updates = norms->is_outlier();
    }
    status.image = {device.session.image.arena_size, device.session.image.features, device.session.image.problems,
                    device.session.image.lacks, device.session.image.reset_cause};
    status.firmware_version = device.session.image.firmware_version;
    status.board = device.session.image.board;
    status.report = device.session.report;
  }
  return statuses;
}

uint32_t Coordinator::rounds_done() const { return state_->ledger.run().round(); }
const std::vector<OutlierView>& Coordinator::outliers() const { return state_->noted.outliers; }
uint32_t Coordinator::answers_in() const { return state_->ledger.tally().on_time_count; }

RoundProgressView Coordinator::round_progress() const {
  State& state = *state_;
  const RoundTally& tally = state.ledger.tally();
  RoundProgressView view;
  view.asked = state.ledger.fleet().asked_count();
  view.answers = tally.on_time_count;
  view.wanted = state.wanted_answers();
  view.late = tally.late_count;
  view.partial = tally.partial_count;
  view.extensions = state.ledger.extension_count();
  view.opened_ms = state.opened_ms;
  view.deadline_ms = state.deadline_ms == State::kNever ? 0 : state.deadline_ms;
  view.awaited = state.awaits_answers() ? state_->ledger.fleet().awaited_count() : 0;
  view.held = static_cast<uint32_t>(state.pulls.held.size());
  const uint64_t radius = state.ledger.norms().radius();
  view.clip_radius = radius == kNoClipRadius ? 0
                                             : std::ldexp(static_cast<double>(radius),
                                                          -static_cast<int>(state.parameters.fold->fold_scale_log2));
  view.least_cosine = state.ledger.norms().least_cosine();
  return view;
}

const StallCause& Coordinator::stall_cause() const { return state_->ledger.stall(); }
const StallCause& Coordinator::end_cause() const { return state_->ledger.end(); }
const RoundSummary& Coordinator::last_round() const { return state_->last_round; }
const std::deque<RoundSummary>& Coordinator::replayed_rounds() const { return state_->replayed_rounds; }
bool Coordinator::is_storage_failed() const { return state_->is_storage_failed; }
const ProgressView& Coordinator::progress() const { return state_->ledger.progress().view(); }
const RunProgress& Coordinator::run_progress() const { return state_->ledger.progress(); }
const Fleet& Coordinator::fleet() const { return state_->ledger.fleet(); }
uint64_t Coordinator::last_sequence() const { return state_->ledger.last_sequence(); }

std::string Coordinator::state_text() const { return state_->ledger.state_text(); }
void Coordinator::plant_double_fold_for_test() { state_->folds_duplicates = true; }

}  // namespace gradstream

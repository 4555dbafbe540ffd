#include "server/engine/front.h"

#include <algorithm>
#include <utility>

#include "server/rules/kept_update.h"
#include "server/run/run_stages.h"

namespace gradstream {
namespace {

// FrontPlant::kOtherSum changes an update of one batch in so many, where a batch has updates.
constexpr uint64_t kPlantedBatchPeriod = 5;

void spoil(StoredUpdate* update) {
  KeptUpdate kept;
  GS_ASSERT(decode_kept(update->bytes, &kept) == Status::kOk);  // this front has just made it
  kept.shares.front() += kept.shares.front() < 0 ? 1 << 20 : -(1 << 20);
  update->bytes = encode_kept(kept);
}

}  // namespace

Front::Front(const RunIdentity& identity, const RunParameters& parameters, uint32_t device_count, EngineNode& engine)
    : identity_(identity),
      run_(parameters, device_count),
      engine_(engine),
      fleet_{std::vector<gs_Reason>(device_count, gs_Reason_REASON_NONE), device_count} {}

void Front::start(uint64_t now_ms) {
  silence_.since_ms = now_ms;
  join();
  ask_versions(now_ms);
}

// ---- Sessions ----

void Front::on_message(SessionId id, uint32_t device, const DeviceMessage& message, uint64_t now_ms) {
  if (const gs_Reason standing = standing_of(device); standing != gs_Reason_REASON_NONE) {
    refuse(id, standing);
    return;
  }
  if (trouble_ != NodeTrouble::kNone) {
    refuse(id, gs_Reason_REASON_STORAGE);
    return;
  }
  if (is_draining_ && message.which_body == gs_DeviceMessage_hello_tag && !sessions_.contains(id)) {
    act(drain_answer(id));
    return;
  }
  const auto [known, is_new] =
      sessions_.try_emplace(id, Session{device, false, false, Intake(value_count_max(run_.parameters())), {}});
  Session& session = known->second;
  if (is_new) {
    devices_[device].sessions.push_back(id);
  }
  devices_[device].session.last_seen_ms = now_ms;
  IntakeResult taken = IntakeResult::kComplete;
  Item item = {id, message, {}};
  if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
    taken = session.intake.take(message.body.update_scalars);
  } else if (message.which_body == gs_DeviceMessage_update_tangent_tag) {
    taken = session.intake.take(message.body.update_tangent);
  } else if (message.which_body == gs_DeviceMessage_status_report_tag) {
    devices_[device].session.report = message.body.status_report;
    return;
  } else if (message.which_body != gs_DeviceMessage_hello_tag && message.which_body != gs_DeviceMessage_pull_tag &&
             message.which_body != gs_DeviceMessage_task_refused_tag) {
    taken = IntakeResult::kBroken;
  }
  if (taken == IntakeResult::kMore) {
    return;
  }
  if (taken == IntakeResult::kBroken || session.items.size() >= kWaitingMessagesMax) {
    refuse(id, taken == IntakeResult::kBroken ? gs_Reason_REASON_UNEXPECTED_MESSAGE : gs_Reason_REASON_OVERLOADED);
    return;
  }
  const bool is_upload = message.which_body == gs_DeviceMessage_update_scalars_tag ||
                         message.which_body == gs_DeviceMessage_update_tangent_tag;
  if (is_upload) {
    item.upload = session.intake.upload();
  }
  session.items.push_back(std::move(item));
  make_ready(id);
  go_on(now_ms);
}

void Front::on_session_closed(SessionId id) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) {
    return;
  }
  const uint32_t device = session->second.device;
  if (session->second.is_ready) {
    std::erase(ready_, id);
  }
  sessions_.erase(session);
  std::erase(devices_.at(device).sessions, id);
  forget_if_gone(device);
}

void Front::on_fleet(std::vector<gs_Reason> standings, uint64_t now_ms) {
  fleet_.standings = std::move(standings);
  fleet_.active_count =
      static_cast<uint32_t>(std::count(fleet_.standings.begin(), fleet_.standings.end(), gs_Reason_REASON_NONE));
  std::vector<std::pair<SessionId, gs_Reason>> leaving;
  for (const auto& [id, session] : sessions_) {
    if (standing_of(session.device) != gs_Reason_REASON_NONE) {
      leaving.emplace_back(id, standing_of(session.device));
    }
  }
  for (const auto& [id, reason] : leaving) {
    refuse(id, reason);
  }
  if (!leaving.empty()) {
    judge_again(&gathered_);  // without theirs
  }
  go_on(now_ms);
}

bool Front::is_drained() const {
  const bool is_idle =
      flight_.empty() && gathered_.empty() && loads_.under_way.empty() && loads_.wanted.empty() &&
      std::all_of(sessions_.begin(), sessions_.end(), [](const auto& entry) { return entry.second.items.empty(); });
  return trouble_ != NodeTrouble::kNone || (is_draining_ && is_idle);
}

// A device without a session is forgotten as soon as nothing about it is under way.
void Front::forget_if_gone(uint32_t device) {
  const auto known = devices_.find(device);
  if (known != devices_.end() && known->second.sessions.empty() && !known->second.is_busy) {
    devices_.erase(known);
  }
}

void Front::release(uint32_t device) {
  devices_.at(device).is_busy = false;
  wake(device);
  forget_if_gone(device);
}

void Front::wake(uint32_t device) {
  for (const SessionId id : devices_.at(device).sessions) {
    make_ready(id);
  }
}

// Once, however many of its messages wait.
void Front::make_ready(SessionId id) {
  Session& session = sessions_.at(id);
  if (!std::exchange(session.is_ready, true)) {
    ready_.push_back(id);
  }
}

// ---- What is next ----

// Judges what may be judged, and calls the engine for what is to be loaded or committed.
void Front::go_on(uint64_t now_ms) {
  if (trouble_ != NodeTrouble::kNone) {
    return;
  }
  // Sessions wait while the front is behind, and while a batch is as large as it may be.
  look_for_engine(now_ms);
  while (!ready_.empty() && may_judge() && trouble_ == NodeTrouble::kNone && !is_batch_full()) {
    const SessionId id = ready_.front();
    ready_.pop_front();
    sessions_.at(id).is_ready = false;
    advance(id, engine_time(now_ms));
  }
  if (!silence_.is_away) {
    send_loads();
  }
  if (phase_ == Phase::kReady && is_current() && !gathered_.empty()) {
    send_batch();
  }
  if (phase_ != Phase::kJoining && front_.open_version > std::max(run_.version(), told_.asked_version)) {
    told_.asked_version = front_.open_version;
    ask_versions(now_ms);
  }
}

// What has gathered, and Hellos whose rows are not there, are answered as if they came while it is away.
void Front::look_for_engine(uint64_t now_ms) {
  if (now_ms <= silence_.since_ms + kEngineAwayMs) {
    silence_.is_away = false;
    return;
  }
  silence_.is_away = true;
  judge_again(&gathered_);
  for (const auto& [device, item] : std::exchange(loads_.wanted, {})) {
    if (sessions_.contains(item.session)) {
      refuse(item.session, gs_Reason_REASON_STORAGE);
    }
    release(device);
  }
}

// now_ms: by the engine's clock.
void Front::advance(SessionId id, uint64_t now_ms) {
  for (auto session = sessions_.find(id); session != sessions_.end() && !session->second.items.empty() &&
                                          !devices_.at(session->second.device).is_busy && !is_batch_full();
       session = sessions_.find(id)) {  // a refusal may have ended it
    const Item item = std::move(session->second.items.front());
    session->second.items.pop_front();
    judge(item, now_ms);
  }
  const auto session = sessions_.find(id);
  if (session != sessions_.end() && !session->second.items.empty() && is_batch_full()) {
    make_ready(id);
  }
}

void Front::on_tick(uint64_t now_ms) {
  if (trouble_ != NodeTrouble::kNone) {
    return;
  }
  if (now_ms >= poll_ms_) {
    ask_versions(now_ms);
  }
  if (pause_.end(now_ms)) {
    call_again();
  }
  if (loads_.pause.end(now_ms)) {
    send_loads();
  }
  if (now_ms > silence_.since_ms + kEngineAwayMs) {
    go_on(now_ms);
  }
}

// What is under way may be answered still, and nobody waits for it.
void Front::break_off(NodeTrouble trouble) {
  trouble_ = trouble;
  while (!sessions_.empty()) {
    refuse(sessions_.begin()->first, gs_Reason_REASON_STORAGE);
  }
}

bool Front::on_reply(const EngineReply& reply, uint64_t now_ms) {
  if (trouble_ != NodeTrouble::kNone) {
    return reply.ticket == versions_ticket_ || reply.ticket == loads_.ticket || reply.ticket == ticket_;
  }
  // An engine whose disk is full reads on. So while a batch's call is under way, that alone ends the silence.
  if (reply.outcome != EngineOutcome::kUnknown && (phase_ == Phase::kReady || reply.ticket == ticket_)) {
    silence_.since_ms = now_ms;
  }
  if (reply.ticket == versions_ticket_) {
    versions_ticket_ = 0;
    take_versions(reply, now_ms);
  } else if (reply.ticket == loads_.ticket) {
    loads_.ticket = 0;
    take_loads(reply, now_ms);
  } else if (reply.ticket == ticket_) {
    ticket_ = 0;
    on_batch_reply(reply, now_ms);
  } else {
    return false;
  }
  go_on(now_ms);
  return true;
}

// ---- Versions ----

void Front::ask_versions(uint64_t now_ms) {
  poll_ms_ = now_ms + kVersionPollMs;
  if (versions_ticket_ == 0) {
    clock_.ask(now_ms);
    versions_ticket_ = engine_.read_versions(run_.version() + 1, told_.state);
  }
}

// What was gathered for the version before is judged anew. The batch under way has its sum already: it is in that
// version, or cut.
void Front::take_versions(const EngineReply& reply, uint64_t now_ms) {
  if (front_.open_version > run_.version()) {
    poll_ms_ = now_ms + kSealedPollMs;  // where the version is not there yet
  }
  if (reply.outcome == EngineOutcome::kUnknown) {
    poll_ms_ = now_ms + version_pause_.take();
    return;
  }
  version_pause_.reset();
  clock_.answer(now_ms, reply.engine_ms);
  if (reply.outcome == EngineOutcome::kCommitted) {
    take_state(reply.state, now_ms);
  }
  if (trouble_ != NodeTrouble::kNone || reply.outcome != EngineOutcome::kCommitted || reply.versions.empty()) {
    return;
  }
  judge_again(&gathered_);
  for (const PublishedVersion& version : reply.versions) {
    if (run_.follow(version) != Status::kOk) {
      break_off(NodeTrouble::kUnfit);
      return;
    }
  }
  front_.open_version = std::max(front_.open_version, run_.version());  // publishing has moved the row
  poll_ms_ = now_ms + kVersionPollMs;
}

// A run that is stopped stays so. Tasks that no batch has taken yet are judged anew: their devices are to wait.
void Front::take_state(EngineRunState state, uint64_t now_ms) {
  if (state == told_.state) {
    return;
  }
  if (told_.state == EngineRunState::kStopped) {
    break_off(NodeTrouble::kRestored);
    return;
  }
  told_.state = state;
  told_.state_since_ms = engine_time(now_ms);
  judge_again(&gathered_);
}

// ---- Rows ----

void Front::send_loads() {
  // Each of them may bring a change: a task that its device has lost.
  const size_t most = std::min(kLoadDevicesMax, kBatchChangesMax - gathered_.size());
  if (loads_.ticket != 0 || loads_.wanted.empty() || phase_ == Phase::kJoining || most == 0 ||
      loads_.pause.due_ms() != UINT64_MAX) {
    return;
  }
  std::vector<uint32_t> devices;
  while (devices.size() < most && !loads_.wanted.empty()) {
    devices.push_back(loads_.wanted.begin()->first);
    loads_.under_way.insert(loads_.wanted.extract(loads_.wanted.begin()));
  }
  loads_.ticket = engine_.load(devices);
}

void Front::take_loads(const EngineReply& reply, uint64_t now_ms) {
  std::map<uint32_t, Item> loaded = std::exchange(loads_.under_way, {});
  if (reply.outcome != EngineOutcome::kCommitted || reply.rows.size() != loaded.size()) {
    loads_.wanted.merge(loaded);
    loads_.pause.begin(now_ms);
    return;
  }
  loads_.pause.reset();
  size_t i = 0;
  for (const auto& [device, item] : loaded) {
    if (gathered_.size() >= kBatchChangesMax) {  // more has gathered meanwhile: loaded once more when it has left
      loads_.wanted.insert_or_assign(device, item);
      continue;
    }
    devices_.at(device).row = reply.rows[i++];
    if (sessions_.contains(item.session)) {
      judge_hello_of(item, engine_time(now_ms));
    }
    if (!gathered_.contains(device)) {
      release(device);
    }
  }
}

// ---- Batches ----

void Front::join() {
  phase_ = Phase::kJoining;
  ticket_ = engine_.join();
}

// Whether one decision more might be too many. What an update takes is known when it is judged, and none takes more
// than a whole one.
bool Front::is_batch_full() const {
  const uint64_t most = run_.keeps_updates() ? kept_bytes(run_.parameters().value_count()) : 0;
  return gathered_.size() >= kBatchChangesMax || (gathered_bytes_ > 0 && gathered_bytes_ + most > kBatchUpdateBytesMax);
}

void Front::send_batch() {
  flight_ = std::exchange(gathered_, {});
  gathered_bytes_ = 0;
  batch_ = EngineBatch();
  for (const auto& [device, decision] : flight_) {
    batch_.changes.push_back(decision.change);
    batch_.on_time_count += decision.is_on_time ? 1 : 0;
    batch_.late_count += decision.is_late ? 1 : 0;
  }
  if (batch_.on_time_count + batch_.late_count > 0) {
    run_.take_part(&batch_);
    if (plant_ == FrontPlant::kOtherSum && counters_.batches % kPlantedBatchPeriod == 0 && !batch_.updates.empty()) {
      spoil(&batch_.updates.back());
    }
  }
  commit_flight();
}

void Front::commit_flight() {
  batch_.epoch = front_.epoch;
  batch_.open_version = front_.open_version;
  batch_.number = front_.batch + 1;
  phase_ = Phase::kCommitting;
  ticket_ = engine_.commit(batch_);
}

void Front::reload_flight() {
  std::vector<uint32_t> devices;
  for (const auto& [device, decision] : flight_) {
    devices.push_back(device);
  }
  phase_ = Phase::kReloading;
  ticket_ = engine_.load(devices);
}

// Whether the reply says what was asked. A batch of unknown outcome is asked for, which is something else.
bool Front::is_answered(const EngineReply& reply) const {
  switch (phase_) {
    case Phase::kJoining:
      return reply.outcome == EngineOutcome::kCommitted;
    case Phase::kResolving:
      return reply.outcome != EngineOutcome::kUnknown;
    case Phase::kReloading:
      return reply.outcome == EngineOutcome::kCommitted && reply.rows.size() == flight_.size();
    case Phase::kCommitting:
    case Phase::kReady:
      break;
  }
  return true;
}

void Front::call_again() {
  if (phase_ == Phase::kJoining) {
    join();
  } else if (phase_ == Phase::kResolving) {
    ticket_ = engine_.resolve(batch_.epoch, batch_.number);
  } else if (phase_ == Phase::kReloading) {
    reload_flight();
  }
}

// Whether the engine has lost what it said before. Its versions, epochs and batches only grow, and a batch is for a
// version that was there when it left.
bool Front::is_behind(const EngineReply& reply) const {
  if (phase_ == Phase::kReloading || reply.outcome == EngineOutcome::kUnknown) {
    return false;
  }
  const FrontRow& row = reply.front;
  const uint32_t open_version =
      phase_ == Phase::kCommitting ? std::max(told_.row.open_version, batch_.open_version) : told_.row.open_version;
  return row.open_version < open_version || row.epoch < told_.row.epoch ||
         (row.epoch == told_.row.epoch && row.batch < told_.row.batch);
}

// An epoch that no call of this front can have begun is of another node by its name.
void Front::note_epoch(const EngineReply& reply) {
  const bool begins = phase_ == Phase::kJoining || phase_ == Phase::kResolving;
  if (reply.outcome == EngineOutcome::kUnknown) {
    told_.lost_joins += begins ? 1 : 0;
    return;
  }
  const uint64_t own = begins && reply.outcome != EngineOutcome::kConflict ? 1 : 0;
  const uint64_t known = told_.row.epoch + own;
  const uint64_t more = reply.front.epoch > known && told_.row.epoch > 0 ? reply.front.epoch - known : 0;
  counters_.fences += more > told_.lost_joins ? 1 : 0;
  told_.lost_joins -= std::min(told_.lost_joins, more);
  told_.lost_joins = own > 0 ? std::min(told_.lost_joins, kLateJoinsMax) : told_.lost_joins;
  told_.row = reply.front;
}

void Front::on_batch_reply(const EngineReply& reply, uint64_t now_ms) {
  if (is_behind(reply)) {
    break_off(NodeTrouble::kRestored);
    return;
  }
  if (phase_ != Phase::kReloading) {
    note_epoch(reply);
  }
  if (!is_answered(reply)) {
    pause_.begin(now_ms);
    return;
  }
  pause_.reset();
  switch (phase_) {
    case Phase::kJoining:
      // The versions may have been read since the join was executed.
      front_ = reply.front;
      front_.open_version = std::max(front_.open_version, run_.version());
      phase_ = Phase::kReady;
      if (after_reload_.is_blind) {
        reload_flight();
      }
      return;
    case Phase::kCommitting:
      on_commit(reply);
      return;
    case Phase::kResolving:
      on_resolved(reply);
      return;
    case Phase::kReloading:
      on_reloaded(reply);
      return;
    case Phase::kReady:
      return;
  }
}

void Front::on_commit(const EngineReply& reply) {
  switch (reply.outcome) {
    case EngineOutcome::kCommitted:
      // A version may have been read since the batch was committed into the one before.
      front_ = reply.front;
      front_.open_version = std::max(front_.open_version, run_.version());
      finish_flight();
      return;
    case EngineOutcome::kCut:
      ++counters_.cuts;
      on_cut(reply);
      return;
    case EngineOutcome::kConflict:
      ++counters_.conflicts;
      reload_flight();
      return;
    case EngineOutcome::kUnknown:
      ++counters_.unknowns;
      if (plant_ == FrontPlant::kNoResolve) {
        after_reload_.is_blind = true;
        join();
        return;
      }
      phase_ = Phase::kResolving;
      ticket_ = engine_.resolve(batch_.epoch, batch_.number);
      return;
  }
}

// Nothing of the batch happened. The version is over, or the front's epoch is: then the node joins anew.
void Front::on_cut(const EngineReply& reply) {
  const bool is_own = reply.front.epoch == batch_.epoch && reply.front.batch + 1 == batch_.number;
  if (is_own && plant_ == FrontPlant::kNoCutCheck) {
    front_ = reply.front;
    commit_flight();
    return;
  }
  phase_ = Phase::kReady;
  judge_again(&flight_);
  if (!is_own) {
    join();
    return;
  }
  front_.open_version = std::max(reply.front.open_version, run_.version());
}

void Front::on_resolved(const EngineReply& reply) {
  switch (reply.outcome) {
    case EngineOutcome::kConflict:
      // Nobody can tell. The rows can: what is judged in them is answered by its first verdict. No batch of an epoch
      // before the one that is joined then can come any more.
      after_reload_.must_join = true;
      reload_flight();
      return;
    case EngineOutcome::kUnknown:  // is_answered() has it
    case EngineOutcome::kCommitted:
    case EngineOutcome::kCut:
      break;
  }
  front_ = reply.front;
  front_.open_version = std::max(front_.open_version, run_.version());
  phase_ = Phase::kReady;
  if (reply.outcome == EngineOutcome::kCommitted) {
    finish_flight();
  } else {
    judge_again(&flight_);
  }
}

void Front::on_reloaded(const EngineReply& reply) {
  size_t i = 0;
  for (auto& [device, decision] : flight_) {
    const DeviceRow& row = reply.rows[i];
    devices_.at(device).row = row;
    batch_.changes[i].task_sequence = row.task.sequence;
    batch_.changes[i++].is_open = row.task.is_open;
  }
  if (std::exchange(after_reload_.is_blind, false)) {
    commit_flight();
    return;
  }
  phase_ = Phase::kReady;
  judge_again(&flight_);
  if (std::exchange(after_reload_.must_join, false)) {
    join();
  }
}

void Front::finish_flight() {
  phase_ = Phase::kReady;
  ++counters_.batches;
  for (auto& [device, decision] : std::exchange(flight_, {})) {
    devices_.at(device).row = decision.change.row;
    counters_.updates_accepted += decision.is_on_time || decision.is_late ? 1 : 0;
    for (FrontAction& action : decision.answers) {
      if (sessions_.contains(action.session)) {
        act(action);
      }
    }
    release(device);
  }
}

// They go back to where they came from, and are judged by the row and the version as they are then.
void Front::judge_again(Decisions* decisions) {
  if (decisions == &gathered_ && !gathered_.empty()) {
    run_.forget_part();
    gathered_bytes_ = 0;
  }
  for (auto& [device, decision] : std::exchange(*decisions, {})) {
    ++counters_.judged_anew;
    if (const auto session = sessions_.find(decision.item.session); session != sessions_.end()) {
      session->second.has_hello =
          session->second.has_hello && decision.item.message.which_body != gs_DeviceMessage_hello_tag;
      session->second.items.push_front(std::move(decision.item));
    }
    release(device);
  }
}

}  // namespace gradstream

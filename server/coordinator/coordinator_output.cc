// The coordinator's output: actions in order, and the actions that are held back until their record is durable.
#include <algorithm>
#include <set>
#include <utility>

#include "server/coordinator/coordinator_state.h"
#include "server/run/pace.h"

namespace gradstream {
namespace {

// Messages held back for one session, at most. Reason: a Welcome, an Ack and the end of one answer to a Pull, with
// room; beyond it the peer floods. Messages of a snapshot or log do not count, because a Pull itself waits for the
// version's record. It is answered earlier only where versions follow each other faster than commits.
constexpr uint32_t kHeldMax = 64;

}  // namespace

void Coordinator::State::log(const EventRow& event, const Fields& fields) {
  Action action;
  action.kind = ActionKind::kLog;
  action.event = &event;
  action.text = fields_of(event, fields).text();
  actions.push_back(std::move(action));
}

// Keeps the order of one session's messages: behind a held message every message is held.
void Coordinator::State::hold_or_act(Action action, uint64_t required, bool is_sync) {
  const auto session = sessions.find(action.session);
  const bool is_behind = session != sessions.end() && session->second.held_count > 0;
  if (required <= durable_sequence && !is_behind) {
    actions.push_back(std::move(action));
    return;
  }
  if (session != sessions.end()) {
    ++session->second.held_count;
    session->second.held_sync_count += is_sync ? 1 : 0;
  }
  held.push({std::move(action), required, is_sync});
}

void Coordinator::State::respond(SessionId id, const ServerMessage& message, uint64_t required) {
  const auto session = sessions.find(id);
  if (session != sessions.end() && session->second.held_count - session->second.held_sync_count >= kHeldMax) {
    drop_session(id);
    close(id, gs_Reason_REASON_OVERLOADED);
    return;
  }
  Action action;
  action.kind = ActionKind::kSend;
  action.session = id;
  action.message = message;
  hold_or_act(std::move(action), required);
}

// Sends pieces of the open version. is_end: after the last piece only a Task or Wait is left of the answer. The last
// piece may then leave together with it, because a device can do nothing before that. Earlier pieces leave at once.
void Coordinator::State::respond_sync(SessionId id, const std::vector<ServerMessage>& pieces, bool is_end) {
  for (const ServerMessage& piece : pieces) {
    Action action;
    action.kind = ActionKind::kSend;
    action.session = id;
    action.message = piece;
    action.has_more = is_end && &piece == &pieces.back();
    hold_or_act(std::move(action), version_sequence, true);
  }
}

void Coordinator::State::close(SessionId id, gs_Reason reason) {
  Action action;
  action.kind = ActionKind::kClose;
  action.session = id;
  action.reason = reason;
  hold_or_act(std::move(action), 0);
}

void Coordinator::State::release_held() {
  while (!held.empty() && held.front().required <= durable_sequence) {
    const auto session = sessions.find(held.front().action.session);
    if (session != sessions.end()) {
      --session->second.held_count;
      session->second.held_sync_count -= held.front().is_sync ? 1 : 0;
    }
    actions.push_back(std::move(held.front().action));
    held.pop();
  }
}

// The record is in the ledger already; it leaves for the disk.
void Coordinator::State::persist(JournalRecord record, uint64_t now_ms) {
  record.set_time_ms(now_ms);
  count_for_checkpoint(record);
  Action action;
  action.kind = ActionKind::kPersist;
  action.record = std::move(record);
  actions.push_back(std::move(action));
}

// Moves the ledger by a record just decided and sends it to the disk. Returns its sequence. source: kLive for the
// update that the ledger has prepared.
uint64_t Coordinator::State::decide(JournalRecord record, uint64_t now_ms, FoldSource source) {
  record.set_sequence(ledger.last_sequence() + 1);
  record.set_time_ms(now_ms);
  const Status status = source == FoldSource::kLive ? ledger.apply_prepared(record) : ledger.apply(record);
  GS_ASSERT(status == Status::kOk);  // what was decided follows from the ledger
  const uint64_t sequence = record.sequence();
  persist(std::move(record), now_ms);
  return sequence;
}

// The window counts all enrolled devices, because the server cannot know which of them are away for good.
gs_RetryWindow Coordinator::State::window(uint32_t factor) const {
  return gradstream::retry_window(*parameters.pace, ledger.fleet().active_count(), factor);
}

gs_RetryWindow Coordinator::State::window(WindowKind kind, uint64_t now_ms) const {
  switch (kind) {
    case WindowKind::kLong:
      return window(kRefusedWindowFactor);
    case WindowKind::kRefused:
      return refused_window();
    case WindowKind::kIdle:
      return idle_window(now_ms);
    case WindowKind::kPaced:
      break;
  }
  return window(1);
}

gs_RetryWindow Coordinator::State::refused_window() const {
  return gradstream::refused_window(*parameters.pace, ledger.fleet().active_count());
}

gs_RetryWindow Coordinator::State::idle_window(uint64_t now_ms) const {
  return gradstream::idle_window(*parameters.pace, ledger.fleet().active_count(),
                                 now_ms - std::min(now_ms, idle_since_ms));
}

// The disk has failed. Who waits for a Task, a model or a Welcome would hear nothing until it is mended, and is told to
// come again. Where an Ack is all, it stays: its update is decided, and need not be sent again.
void Coordinator::State::refuse_held() {
  std::set<SessionId> waiting_for_more;
  for (const Held& entry : held) {
    const bool is_message = entry.action.kind == ActionKind::kSend;
    if (is_message && entry.action.message.which_body != gs_ServerMessage_ack_tag &&
        sessions.contains(entry.action.session)) {
      waiting_for_more.insert(entry.action.session);
    }
  }
  held.remove_if([&](const Held& entry) { return waiting_for_more.contains(entry.action.session); });
  for (const SessionId id : waiting_for_more) {
    sessions.at(id).held_count = 0;
    sessions.at(id).held_sync_count = 0;
    refuse(id, gs_Reason_REASON_STORAGE);
  }
}

void Coordinator::State::refuse(SessionId id, gs_Reason reason) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_refuse_tag;
  message.body.refuse.reason = reason;
  message.body.refuse.has_retry = true;
  message.body.refuse.retry = refused_window();
  respond(id, message, 0);
  close(id, reason);
  drop_session(id);
}

void Coordinator::State::publish() {
  Action action;
  action.kind = ActionKind::kPublish;
  action.version = durable_version;
  actions.push_back(std::move(action));
}

// required: the record that the cause depends on. Of a run that is over the window is that of an idle one; what the
// device said last was said now, or has waited for the disk.
void Coordinator::State::wait(SessionId id, gs_WaitCause cause, gs_RetryWindow retry, uint64_t required) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  message.body.wait.cause = cause;
  message.body.wait.has_retry = true;
  const uint64_t heard_ms = ledger.fleet().at(sessions.at(id).device).session.last_seen_ms;
  message.body.wait.retry = ledger.is_over() ? idle_window(heard_ms) : retry;
  respond(id, message, required);
}

// The coordinator forgets the session; what is held for it still leaves, in order.
void Coordinator::State::drop_session(SessionId id) {
  const auto session = sessions.find(id);
  if (session == sessions.end()) {
    return;
  }
  Fleet& fleet = ledger.fleet();
  if (fleet.contains(session->second.device) && fleet.at(session->second.device).session.id == id) {
    fleet.at(session->second.device).session.id = 0;
  }
  pulls.waiting.erase(id);
  pulls.held.erase(id);
  sessions.erase(session);
}

}  // namespace gradstream

// Pulls: those that wait for a record, those that are held until there is something to send, and what ends a hold.
//
//   Pull --> waits for its version's record --> answered: records, snapshot, Task or Wait
//                    ^                    \--> held, where the answer would be a Wait that only news can end
//                    '---- news, its time, the run's end, a place that is wanted ----'
#include <algorithm>
#include <utility>

#include "runtime/base/random.h"
#include "server/coordinator/coordinator_state.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"

namespace gradstream {
namespace {

// Apart from the draw of cohorts, whose step is 0.
constexpr uint32_t kWakeStep = 1;

// Who is woken first: another order in every version, so that nobody is always first, and the same in every replay.
uint32_t wake_draw(uint32_t seed, uint32_t version, uint32_t device) {
  RandomKey key;
  key.seed = seed;
  key.domain = RandomDomain::kClientSampling;
  key.version = version;
  key.owner = device;
  key.step = kWakeStep;
  return RandomStream(key).next();
}

}  // namespace

void Coordinator::State::on_pull(SessionId id, const gs_Pull& pull, uint64_t now_ms) {
  Session& session = sessions.at(id);
  session.has_pulled = true;
  session.hold_max_ms =
      has_feature(ledger.fleet().at(session.device).session.image, gs_Feature_FEATURE_HELD_PULL) ? pull.hold_max_ms : 0;
  gs_Pull known = pull;
  known.hold_max_ms = session.hold_max_ms;
  take_pull(id, known, now_ms);
}

// pull.hold_max_ms: for how long from now on it may be held; 0: it is answered as soon as its version is durable.
void Coordinator::State::take_pull(SessionId id, const gs_Pull& pull, uint64_t now_ms) {
  if (!ledger.run().has_version()) {
    if (hold(id, pull, now_ms, now_ms)) {
      return;
    }
    const bool is_paused = ledger.is_paused();
    wait(id, is_paused ? gs_WaitCause_WAIT_CAUSE_PAUSED : gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN,
         is_paused ? idle_window(now_ms) : window(kRefusedWindowFactor), run_state_sequence);
    return;
  }
  if (!is_version_durable() || sessions.at(id).held_count > 0) {
    if (is_storage_failed) {
      refuse(id, gs_Reason_REASON_STORAGE);
    } else {
      pulls.waiting[id] = {pull, version_sequence, now_ms};
      pulls.waited_for = std::min(pulls.waited_for, version_sequence);
    }
    return;
  }
  answer_pull(id, pull, now_ms, now_ms);
}

// With the open version, which leaves when it is durable. came_ms: when the Pull came.
void Coordinator::State::answer_pull(SessionId id, const gs_Pull& pull, uint64_t came_ms, uint64_t now_ms) {
  const uint32_t device = sessions.at(id).device;
  pulls.waiting.erase(id);
  if (hold(id, pull, came_ms, now_ms)) {
    return;
  }
  if (send_sync(id, device, pull, now_ms)) {
    send_task_or_wait(id, device, pull, now_ms);
  } else {
    wait(id, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN, refused_window(), version_sequence);
  }
}

// Answers the Pulls whose version is durable by now, also if further versions have been decided since. Reason: in a run
// without rounds the version last decided may always be on its way to the disk. An answer may hold other Pulls back
// again, but closes no session.
void Coordinator::State::answer_waiting_pulls(uint64_t now_ms) {
  if (durable_sequence < pulls.waited_for) {
    return;  // without a look at all of them for each commit
  }
  pulls.waited_for = UINT64_MAX;
  std::vector<std::pair<SessionId, WaitingPull>> answerable;
  for (const auto& [id, waits] : pulls.waiting) {
    if (durable_sequence >= waits.required && sessions.at(id).held_count == 0) {
      answerable.emplace_back(id, waits);
    } else {
      pulls.waited_for = std::min(pulls.waited_for, waits.required);
    }
  }
  for (const auto& [id, waits] : answerable) {
    if (sessions.contains(id)) {
      answer_pull(id, waits.pull, waits.came_ms, now_ms);
    }
  }
}

// ---- Held Pulls ----

// Whether the server holds a Pull of this device.
bool Coordinator::State::may_hold(uint32_t index) const {
  const FleetDevice& device = ledger.fleet().at(index);
  return limits.pull_hold_ms > 0 && !pulls.is_draining &&
         may_hold_pull(view(), standing(index), device.row, device.session);
}

// Whether the Pull is held from now on, for what is left of its time.
bool Coordinator::State::hold(SessionId id, const gs_Pull& pull, uint64_t came_ms, uint64_t now_ms) {
  const uint64_t end_ms = came_ms + std::min(pull.hold_max_ms, limits.pull_hold_ms);
  if (pull.hold_max_ms == 0 || end_ms <= now_ms) {
    return false;
  }
  const uint32_t index = sessions.at(id).device;
  if (ledger.fleet().at(index).session.is_barred) {
    note_barred(index, now_ms);  // its time may be over
  }
  if (!may_hold(index)) {
    return false;
  }
  pulls.held.hold(id, pull, now_ms, static_cast<uint32_t>(end_ms - now_ms));
  return true;
}

// The device has said something else: it waits for no answer any more.
bool Coordinator::State::give_up_hold(SessionId id) {
  const bool was_held = pulls.held.erase(id);
  const bool was_waiting = sessions.at(id).acked_task != 0 && pulls.waiting.erase(id) > 0;
  if (was_held || was_waiting) {
    sessions.at(id).acked_task = 0;
  }
  return was_held || was_waiting;
}

// Answers what was held as a Pull that comes now. The device was there all the time: it said nothing, as it was to.
void Coordinator::State::end_hold(const EndedHold& ended, uint64_t now_ms) {
  const auto session = sessions.find(ended.session);
  if (session != sessions.end()) {
    ledger.fleet().at(session->second.device).session.last_seen_ms = now_ms;
    take_pull(ended.session, ended.pull, now_ms);
  }
}

void Coordinator::State::end_due_holds(uint64_t now_ms) {
  while (const std::optional<EndedHold> ended = pulls.held.take_due(now_ms)) {
    end_hold(*ended, now_ms);
  }
}

void Coordinator::State::end_all_holds(uint64_t now_ms) {
  for (const SessionId id : pulls.held.sessions()) {
    if (const std::optional<EndedHold> ended = pulls.held.take(id)) {
      end_hold(*ended, now_ms);
    }
  }
}

// Wakes whoever is held and would not be held now: all at once, or where the run has an arrival_rate one after the
// other at that rate. Those that are woken already keep their time.
void Coordinator::State::wake_held(uint64_t now_ms) {
  const uint32_t version = ledger.run().has_version() ? ledger.run().version() : 0;
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, SessionId>> ready;
  const auto look_at = [&](SessionId id) {
    const uint32_t index = sessions.at(id).device;
    if (!may_hold(index)) {
      ready.push_back({{wake_draw(parameters.seed, version, index), index}, id});
    }
  };
  if (ledger.fleet().asks_members()) {  // nobody else has anything to do, and they may be few of many that are held
    for (const uint32_t index : ledger.fleet().members()) {
      const SessionId id = std::as_const(ledger.fleet()).at(index).session.id;
      if (pulls.held.is_asleep(id)) {
        look_at(id);
      }
    }
  } else {
    for (const SessionId id : pulls.held.sleepers()) {
      look_at(id);
    }
  }
  std::sort(ready.begin(), ready.end());
  for (const auto& [draw, id] : ready) {
    pulls.held.wake(id, pulls.next_wake_ms(parameters.pace->arrival_rate, now_ms));
  }
  end_due_holds(now_ms);
}

// When the next device may be woken, so that no more than `rate` are in a second; 0: at once.
uint64_t Coordinator::State::Pulls::next_wake_ms(uint32_t rate, uint64_t now_ms) {
  if (rate == 0) {
    return now_ms;
  }
  const uint64_t at_ms = wakes_begun_ms + wake_count * 1000 / rate;
  if (at_ms < now_ms || wake_count == 0) {
    wakes_begun_ms = now_ms;
    wake_count = 0;
  }
  return wakes_begun_ms + wake_count++ * 1000 / rate;
}

// A version is decided. Those that are held learn of it once its record is durable, whatever is decided meanwhile.
void Coordinator::State::note_version(uint64_t sequence) {
  version_sequence = sequence;
  pulls.news_sequence = pulls.news_sequence == 0 ? sequence : pulls.news_sequence;
}

void Coordinator::State::wake_by_news(uint64_t now_ms) {
  if (pulls.news_sequence != 0 && pulls.news_sequence <= durable_sequence) {
    pulls.news_sequence = is_version_durable() ? 0 : version_sequence;
    wake_held(now_ms);
  }
}

// ---- The Ack that stands for the next Pull ----

// Whether the Ack of an update says that a Pull now would be held. In rounds it is held until the version that this
// very update may close; without rounds such a device takes its window, which paces the run.
bool Coordinator::State::may_hold_after(SessionId id, const Upload& upload) const {
  const Session& session = sessions.at(id);
  const bool is_single = stands_for_pull(session.device, upload);
  const bool is_willing = session.has_pulled ? session.hold_max_ms > 0 : !is_single;
  const uint32_t answers = ledger.tally().on_time_count + ledger.tally().late_count;
  const bool may_close = parameters.trigger->buffer_size > 0 && answers >= parameters.trigger->buffer_size;
  const bool was_answered = is_single && session.acked_task == upload.task_sequence;
  return is_willing && !may_close && !was_answered && may_hold(session.device);
}

bool Coordinator::State::stands_for_pull(uint32_t index, const Upload& upload) const {
  return upload.base_digest != 0 && has_feature(ledger.fleet().at(index).session.image, gs_Feature_FEATURE_HELD_PULL) &&
         has_feature(ledger.fleet().at(index).session.image, gs_Feature_FEATURE_SINGLE_FLIGHT);
}

// The Pull that the device does not send, as its Ack stands for it.
void Coordinator::State::take_ack_as_pull(SessionId id, const AckedPull& acked, uint64_t now_ms) {
  const auto session = sessions.find(id);
  if (session == sessions.end()) {
    return;  // it was closed with what it was told last
  }
  session->second.acked_task = acked.task_sequence;
  gs_Pull known = acked.pull;
  known.hold_max_ms = session->second.hold_max_ms;
  take_pull(id, known, now_ms);
}

}  // namespace gradstream

#include "server/program/fleet_follower.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/log.h"

namespace gradstream {

FleetFollower::FleetFollower(asio::io_context& io, Parts parts, std::vector<EnrolledDevice> devices, Reports reports)
    : parts_(std::move(parts)), devices_(std::move(devices)), reports_(std::move(reports)), timer_(io) {}

void FleetFollower::exclude_inactive() {
  for (const EnrolledDevice& device : devices_) {
    if (!device.is_active()) {
      exclude(device);
    }
  }
}

void FleetFollower::exclude(const EnrolledDevice& device) {
  if (device.state == DeviceState::kRevoked) {
    parts_.coordinator.on_device_revoked(device.index, parts_.now_ms());
  } else {
    parts_.coordinator.on_device_disabled(device.index, parts_.now_ms());
  }
}

void FleetFollower::poll() {
  follow_file();
  const Expected<uint64_t> count = parts_.fleet.change_count();
  if (!count.is_ok()) {
    fail();
  } else if (*count == change_count_ || refresh_to(*count)) {
    parts_.alarm.clear();
    follow_time();
  }
  // What expires ends at its time: a server that is killed a moment later must not forget it.
  const uint64_t now_ms = parts_.now_ms();
  const uint64_t left_ms = next_expiry_ms_ > now_ms ? next_expiry_ms_ - now_ms : kPeriodMs;
  timer_.expires_after(std::chrono::milliseconds(std::min<uint64_t>(left_ms, kPeriodMs)));
  timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      poll();
    }
  });
}

// A file that was removed or replaced can be written and read to the end of the server, and then it is gone.
void FleetFollower::follow_file() {
  const bool is_in_place = parts_.fleet.check_in_place() == StoreStatus::kOk;
  const std::string before = std::exchange(file_fault_, is_in_place ? "" : parts_.fleet.error());
  if (file_fault_ == before) {
    return;
  }
  change_count_.reset();  // whose number it was nobody knows
  if (!is_in_place) {
    log_event("database_moved"_event, Fields().add("cause", file_fault_));
  } else {
    log_event("database_back"_event, Fields().add("remedy", "none needed: the server stores again"));
  }
}

void FleetFollower::follow_time() {
  const uint64_t now_ms = parts_.now_ms();
  if (now_ms >= next_expiry_ms_) {
    const Expected<uint64_t> next_ms = parts_.fleet.end_expired(now_ms);
    next_expiry_ms_ = next_ms.is_ok() ? *next_ms : next_expiry_ms_;
    judge_stored(next_ms.status());
  }
  if (now_ms >= note_due_ms_) {
    note_time();
  }
}

void FleetFollower::note_time() {
  uint64_t now_ms = parts_.now_ms();
  note_due_ms_ = now_ms + kNotePeriodMs;
  judge_stored(parts_.fleet.note_time(&now_ms));
}

// Handshakes are judged by the clock in any case: what could not be stored can wait for the next period.
void FleetFollower::judge_stored(StoreStatus status) {
  if (status != StoreStatus::kOk) {
    next_expiry_ms_ = std::max(next_expiry_ms_, parts_.now_ms() + kNotePeriodMs);
    log_event("time_not_stored"_event,
              Fields()
                  .add("cause", parts_.fleet.error())
                  .add("remedy", status == StoreStatus::kCorrupt
                                     ? "restore the database from a copy"
                                     : "free space on the disk; do not set the clock back before the next start"));
  }
}

bool FleetFollower::fail() {
  parts_.alarm.raise(parts_.fleet);
  return false;
}

bool FleetFollower::refresh() {
  const Expected<uint64_t> count = parts_.fleet.change_count();
  return count.is_ok() ? refresh_to(*count) : fail();
}

// change: the database's, read before its rows. A change that comes meanwhile has a larger number, and is read again.
bool FleetFollower::refresh_to(uint64_t change) {
  bool is_all = false;
  Expected<std::vector<EnrolledDevice>> rows = read_rows(change, &is_all);
  if (!rows.is_ok()) {
    return fail();
  }
  row_count_ += rows->size();
  const size_t count = rows->size();
  for (EnrolledDevice& row : *rows) {
    take(std::move(row));
  }
  if (is_all) {
    take_missing(count);
  }
  const bool has_runs = refresh_runs();
  reports_.on_told();
  if (has_runs) {  // only then: what could not be read is looked for again
    next_expiry_ms_ = change == change_count_ ? next_expiry_ms_ : 0;
    change_count_ = change;
  }
  return has_runs;
}

// *is_all: they are all devices, and not those that have changed since the last time.
Expected<std::vector<EnrolledDevice>> FleetFollower::read_rows(uint64_t change, bool* is_all) {
  *is_all = !change_count_ || change < *change_count_;
  if (*is_all) {
    return parts_.fleet.devices();
  }
  Expected<std::vector<EnrolledDevice>> rows = parts_.fleet.devices_changed_after(*change_count_);
  size_t next = devices_.size();
  const bool has_gap = rows.is_ok() && std::any_of(rows->begin(), rows->end(), [&next](const EnrolledDevice& row) {
                         next += row.index == next ? 1 : 0;
                         return row.index >= next;
                       });
  if (has_gap) {  // devices were added that no number above ours has: another file
    row_count_ += rows->size();
    *is_all = true;
    return parts_.fleet.devices();
  }
  return rows;
}

// An index belongs to one name for good. Where an older copy has taken the database's place it may be another's by now.
void FleetFollower::take(EnrolledDevice row) {
  if (row.index < devices_.size() && row.name != devices_[row.index].name) {
    log_event("device_replaced"_event,
              Fields().add("device", devices_[row.index].name).add("by", row.name).add("index", uint64_t{row.index}));
    row.name = devices_[row.index].name;
    row.state = DeviceState::kDisabled;
  }
  tell_of(row);
  tell_of_key_change(row);
  if (row.index < devices_.size()) {
    tell_of_key(row);
    devices_[row.index] = std::move(row);
  } else {
    devices_.push_back(std::move(row));
  }
}

// Once for each rotation: when its window is over, or at once where it has none. What is told of has no window here.
void FleetFollower::tell_of_key(EnrolledDevice& row) {
  const EnrolledDevice& before = devices_[row.index];
  const bool is_rotated = row.generation != before.generation || before.previous_until_ms != 0;
  if (is_rotated && row.previous_until_ms <= parts_.now_ms()) {
    row.previous_until_ms = 0;
    reports_.on_session_over(row.index);
  } else if (row.key_change_since_ms > before.key_change_since_ms) {
    reports_.on_session_over(row.index);
  }
}

// As far as it has not been told of.
void FleetFollower::tell_of_key_change(const EnrolledDevice& row) const {
  const bool is_known = row.index < devices_.size();
  if (row.key_change_since_ms > (is_known ? devices_[row.index].key_change_since_ms : 0)) {
    log_event("key_change_asked"_event, Fields().add("device", row.name).add("since_ms", row.key_change_since_ms));
  }
}

// Devices from `count` on, which the database does not hold any more.
void FleetFollower::take_missing(size_t count) {
  for (size_t index = count; index < devices_.size(); ++index) {
    if (devices_[index].is_active()) {
      EnrolledDevice gone = devices_[index];
      gone.state = DeviceState::kDisabled;
      tell_of(gone);
      devices_[index] = std::move(gone);
    }
  }
}

void FleetFollower::tell_of(const EnrolledDevice& row) {
  const bool is_new = row.index >= devices_.size();
  if (is_new) {
    log_event("device_added"_event, Fields().add("device", row.name).add("index", uint64_t{row.index}));
    parts_.coordinator.on_device_added(row.name, parts_.now_ms());
  }
  const bool is_changed = !is_new && row.state != devices_[row.index].state;
  if (is_changed) {
    log_event("device_state"_event, Fields().add("device", row.name).add("state", device_state_text(row.state)));
  }
  if ((is_new || is_changed) && !row.is_active()) {
    exclude(row);
  } else if (is_changed) {
    parts_.coordinator.on_device_restored(row.index, parts_.now_ms());
  }
}

// What the verbs of `run` have changed.
bool FleetFollower::refresh_runs() {
  const Expected<std::optional<RunRow>> run = parts_.fleet.find_run(parts_.run);
  if (!run.is_ok()) {
    return fail();
  }
  const Expected<std::optional<RunRow>> found = parts_.fleet.current_run();
  if (!found.is_ok()) {
    return fail();
  }
  const std::optional<RunRow>& current = *found;
  if (*run && !is_over()) {
    follow_wish((*run)->state);
  }
  // Only once the end or the pause is durable: the next server of this run must find it so.
  const bool is_idle = is_over() || marked_state_ == StoredRunState::kPaused;
  if (current && current->id != parts_.run && is_active(current->state) && is_idle) {
    reports_.on_next_run(current->id);
  }
  return true;
}

void FleetFollower::follow_wish(StoredRunState wish) {
  switch (wish) {
    case StoredRunState::kStopRequested:
    case StoredRunState::kStopped:
      log_event("stop_requested"_event, Fields().add("run", uint64_t{parts_.run}));
      parts_.coordinator.stop(parts_.now_ms());
      break;
    case StoredRunState::kPauseRequested:
    case StoredRunState::kPaused:
      parts_.coordinator.pause(parts_.now_ms());
      break;
    case StoredRunState::kResumeRequested:
    case StoredRunState::kActive:
      parts_.coordinator.resume(parts_.now_ms());
      break;
    case StoredRunState::kFinished:
      break;
  }
}

std::optional<StoredRunState> FleetFollower::take_run_state() {
  const gs_RunState run_state = parts_.coordinator.run_state();
  const StoredRunState state = run_state == gs_RunState_RUN_STATE_FINISHED  ? StoredRunState::kFinished
                               : run_state == gs_RunState_RUN_STATE_STOPPED ? StoredRunState::kStopped
                               : run_state == gs_RunState_RUN_STATE_PAUSED  ? StoredRunState::kPaused
                                                                            : StoredRunState::kActive;
  if (state == marked_state_) {
    return std::nullopt;
  }
  marked_state_ = state;
  return state;
}

bool FleetFollower::is_over() const {
  return marked_state_ == StoredRunState::kFinished || marked_state_ == StoredRunState::kStopped;
}

}  // namespace gradstream

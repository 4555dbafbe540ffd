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
  } else if (*count == change_count_ || refresh()) {
    if (*count != change_count_) {
      next_expiry_ms_ = 0;
    }
    change_count_ = *count;  // only now: what could not be read is looked for again
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
  if (!is_in_place) {
    log_event(LogLevel::kError, "database_moved", Fields().add("cause", file_fault_));
  } else {
    log_event(LogLevel::kInfo, "database_back", Fields().add("remedy", "none needed: the server stores again"));
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
    log_event(LogLevel::kWarn, "time_not_stored",
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
  Expected<std::vector<EnrolledDevice>> rows = parts_.fleet.devices();
  if (!rows.is_ok()) {
    return fail();
  }
  for (const EnrolledDevice& row : *rows) {
    tell_of(row);
  }
  devices_ = *std::move(rows);
  const bool has_runs = refresh_runs();
  reports_.on_told();
  return has_runs;
}

void FleetFollower::tell_of(const EnrolledDevice& row) {
  const bool is_new = row.index >= devices_.size();
  if (is_new) {
    log_event(LogLevel::kInfo, "device_added", Fields().add("device", row.name).add("index", uint64_t{row.index}));
    parts_.coordinator.on_device_added(row.name, parts_.now_ms());
  }
  const bool is_changed = !is_new && row.state != devices_[row.index].state;
  if (is_changed) {
    log_event(LogLevel::kInfo, "device_state",
              Fields().add("device", row.name).add("state", device_state_text(row.state)));
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
      log_event(LogLevel::kInfo, "stop_requested", Fields().add("run", uint64_t{parts_.run}));
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

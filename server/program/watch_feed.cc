#include "server/program/watch_feed.h"

#include <chrono>

#include "server/base/ports.h"
#include "server/run/pace.h"
#include "server/run/run_core.h"

namespace gradstream {

WatchFeed::WatchFeed(WatchBoard& board, const Coordinator& coordinator, const RunRow& run,
                     const RunParameters& parameters)
    : board_(board),
      coordinator_(coordinator),
      run_(run.id),
      run_name_(run.name),
      parameters_(std::make_shared<RunParameters>(parameters)) {
  for (const RoundSummary& round : coordinator_.replayed_rounds()) {
    rounds_.push_back({round, 0, 0});
  }
}

bool WatchFeed::has_new_round() const {
  const RoundSummary& last = coordinator_.last_round();
  return last.version != 0 && (rounds_.empty() || rounds_.back().summary.version != last.version);
}

void WatchFeed::note_round(const ShellCounters& counters) {
  rounds_.push_back(
      {coordinator_.last_round(), counters.traffic.wire_bytes_received, counters.traffic.wire_bytes_sent});
  if (rounds_.size() > kRoundHistoryMax) {
    rounds_.pop_front();
  }
}

void WatchFeed::publish(uint64_t now_ms, const std::vector<EnrolledDevice>& devices, const WatchedShell& shell) {
  const auto snapshot = std::make_shared<WatchSnapshot>();
  snapshot->taken_ms = now_ms;
  snapshot->taken_steady_ms = steady_ms();
  static const uint64_t started_ms = snapshot->taken_ms;  // of the process, which may serve several runs
  snapshot->started_ms = started_ms;
  snapshot->run = run_;
  snapshot->run_name = run_name_;
  snapshot->run_state = coordinator_.run_state();
  snapshot->stall = coordinator_.stall_cause();
  const Replica& model = coordinator_.model();
  snapshot->has_version = model.has_model();
  if (model.has_model()) {
    snapshot->version = model.version();
    snapshot->digest = coordinator_.digest();
  }
  snapshot->round_count = parameters_->trigger->round_count;
  snapshot->parameters = parameters_;
  snapshot->round = coordinator_.round_progress();
  snapshot->progress = coordinator_.progress();
  const QualityBook& quality = coordinator_.quality();
  snapshot->quality.metric = quality.metric();
  if (quality.latest() != nullptr) {
    snapshot->quality.latest = *quality.latest();
  }
  snapshot->silent_after_ms = silent_after_ms(devices.size());
  for (const EnrolledDevice& device : devices) {
    ++(device.state == DeviceState::kPending    ? snapshot->devices_pending
       : device.state == DeviceState::kDisabled ? snapshot->devices_disabled
       : device.state == DeviceState::kRevoked  ? snapshot->devices_revoked
                                                : snapshot->devices_active);
  }
  snapshot->sessions = shell.sessions;
  snapshot->handshakes = shell.handshakes;
  snapshot->is_storage_failed = coordinator_.is_storage_failed();
  snapshot->is_draining = shell.is_draining;
  snapshot->database_fault = shell.database_fault;
  snapshot->shell = shell.counters;
  snapshot->coordinator = coordinator_.counters();
  snapshot->rounds.assign(rounds_.begin(), rounds_.end());
  copy_devices(snapshot->taken_ms, snapshot->taken_steady_ms);
  snapshot->devices = devices_;
  snapshot->devices_taken_ms = devices_ms_;
  board_.publish(snapshot);
}

void WatchFeed::copy_devices(uint64_t now_ms, uint64_t steady_ms) {
  if (devices_ != nullptr && steady_ms < devices_at_ms_) {
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  devices_ = std::make_shared<std::vector<DeviceStatus>>(coordinator_.device_statuses());
  devices_ms_ = now_ms;
  const auto cost = (std::chrono::steady_clock::now() - begin) * kDeviceCopyShare;
  devices_at_ms_ =
      steady_ms + static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(cost).count());
}

// Who has no task may stay away for the widest window, who has one for a round too.
uint64_t WatchFeed::silent_after_ms(size_t device_count) const {
  const gs_RunState state = coordinator_.run_state();
  const bool is_idle = state == gs_RunState_RUN_STATE_PAUSED || state == gs_RunState_RUN_STATE_FINISHED ||
                       state == gs_RunState_RUN_STATE_STOPPED;
  const auto count = static_cast<uint32_t>(device_count);
  const gs_RetryWindow window =
      is_idle ? idle_window(*parameters_->pace, count) : refused_window(*parameters_->pace, count);
  return uint64_t{parameters_->trigger->report_deadline_ms} + window.max_ms;
}

}  // namespace gradstream

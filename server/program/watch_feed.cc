#include "server/program/watch_feed.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "server/base/ports.h"
#include "server/run/pace.h"
#include "server/run/run_core.h"

namespace gradstream {

WatchFeed::WatchFeed(WatchBoard& board, const Coordinator& coordinator, const RunRow& run,
                     const RunParameters& parameters, Clock clock)
    : board_(board),
      coordinator_(coordinator),
      run_(run.id),
      run_name_(run.name),
      run_created_ms_(run.created_ms),
      clock_(clock),
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
  snapshot->stall = coordinator_.end_cause().empty() ? coordinator_.stall_cause() : coordinator_.end_cause();
  const Replica& model = coordinator_.model();
  snapshot->has_version = model.has_model();
  if (model.has_model()) {
    snapshot->version = model.version();
    snapshot->digest = coordinator_.digest();
  }
  snapshot->round_count = parameters_->trigger->round_count;
  snapshot->rounds_done = coordinator_.rounds_done();
  snapshot->outliers = coordinator_.outliers();
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
    ++(device.state == DeviceState::kPending    ? snapshot->enrolled.pending
       : device.state == DeviceState::kDisabled ? snapshot->enrolled.disabled
       : device.state == DeviceState::kRevoked  ? snapshot->enrolled.revoked
                                                : snapshot->enrolled.active);
  }
  snapshot->sessions = shell.sessions;
  snapshot->handshakes = shell.handshakes;
  begun_ms_ = begun_ms_ == 0 ? now_ms : begun_ms_;
  snapshot->place = shell.place;
  snapshot->place.run_created_ms = run_created_ms_;
  snapshot->place.command_options = board_.command_options();
  snapshot->place.served_since_ms = begun_ms_;
  snapshot->place.is_storage_failed = coordinator_.is_storage_failed();
  snapshot->place.refusals = refusals_lately(now_ms, shell.counters);
  snapshot->is_draining = shell.is_draining;
  snapshot->shell = shell.counters;
  snapshot->coordinator = coordinator_.counters();
  snapshot->rounds.assign(rounds_.begin(), rounds_.end());
  copy_devices(snapshot->taken_ms);
  snapshot->devices = devices_;
  snapshot->devices_taken_ms = devices_ms_;
  snapshot->past_runs = past_runs_;
  snapshot->model = board_.wants_model() ? copy_model() : nullptr;
  board_.publish(snapshot);
}

void WatchFeed::set_past_runs(std::vector<PastRun> runs) {
  past_runs_ = std::make_shared<const std::vector<PastRun>>(std::move(runs));
}

// Null: there is no version, or the last one is on its way to the disk.
std::shared_ptr<const WatchedModel> WatchFeed::copy_model() const {
  const Replica& model = coordinator_.model();
  if (!model.has_model() || model.version() != coordinator_.durable_version()) {
    return nullptr;
  }
  const auto copy = std::make_shared<WatchedModel>();
  copy->version = model.version();
  copy->digest = coordinator_.digest();
  copy->values.assign(model.model(), model.model() + parameters_->model->shape.size());
  copy->units.assign(coordinator_.units().begin(), coordinator_.units().end());
  return copy;
}

namespace {

// Counters of handshakes that failed by what the peer is or brings.
bool is_refusal(std::string_view key) {
  constexpr std::string_view kKeys[] = {"plain_text_peers",     "tls_version_peers",    "unknown_identities",
                                        "revoked_identities",   "inactive_identities",  "expired_keys",
                                        "wrong_keys",           "tls_other_faults",     "certificates_expired",
                                        "certificates_early",   "certificates_foreign", "certificates_misused",
                                        "certificates_unnamed", "certificates_unusable"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace

WatchedRefusals WatchFeed::refusals_lately(uint64_t now_ms, const ShellCounters& counters) {
  Failures now = {now_ms, {}};
  std::vector<const char*> keys;
  visit_shell_counters(counters, [&](const char* key, const char*, uint64_t count) {
    if (is_refusal(key)) {
      now.counts.push_back(count);
      keys.push_back(key);
    }
  });
  failures_.push_back(now);
  while (failures_.front().time_ms + kRefusalWindowMs < now_ms) {
    failures_.pop_front();
  }
  WatchedRefusals lately;
  uint64_t most = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t count = now.counts[i] - failures_.front().counts[i];
    lately.count += count;
    if (count > most) {
      most = count;
      lately.most = keys[i];
    }
  }
  return lately;
}

void WatchFeed::copy_devices(uint64_t now_ms) {
  const auto begin = clock_();
  if (devices_ != nullptr && begin < devices_due_) {
    return;
  }
  devices_ = std::make_shared<std::vector<DeviceStatus>>(coordinator_.device_statuses());
  devices_ms_ = now_ms;
  devices_due_ = begin + (clock_() - begin) * kDeviceCopyShare;
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

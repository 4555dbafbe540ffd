// What an operator may see of a running server: a snapshot that the coordinator's thread publishes, and the forms in
// which the HTTP port shows it.
//
//   io thread: Server --publish()--> WatchBoard --read()--> http thread: metrics_text(), status_json(), ...
//
// A snapshot is a copy that nobody changes any more. Publishing takes a lock for the time of one pointer's exchange.
#ifndef GRADSTREAM_SERVER_WATCH_WATCH_H_
#define GRADSTREAM_SERVER_WATCH_WATCH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/link/shell_counters.h"
#include "server/watch/http.h"
#include "server/watch/words.h"

namespace gradstream {

// How often a snapshot is published, and how old the newest may be until /healthz says that the server hangs. Reasons:
// a person looks at it; ten times that with room for a slow machine.
inline constexpr uint32_t kWatchPeriodMs = 1000;
inline constexpr uint32_t kWatchStaleMs = 10000;
// Versions whose summaries are kept for /status. Reason: a curve's width in pixels.
inline constexpr size_t kRoundHistoryMax = kReplayedRoundMax;

// A round with what the wire had carried since the server's start when it closed, TLS and all; 0: it closed before.
struct WatchedRound {
  RoundSummary summary;
  uint64_t wire_bytes_received = 0;
  uint64_t wire_bytes_sent = 0;
};

struct WatchedQuality {
  std::optional<Quality> latest;  // of the newest version that devices have evaluated
  QualityMetric metric = QualityMetric::kLoss;
};

// Enrolled devices by state.
struct WatchedFleet {
  uint32_t pending = 0;
  uint32_t active = 0;
  uint32_t disabled = 0;
  uint32_t revoked = 0;
};

// Handshakes that failed within the last kRefusalWindowMs.
inline constexpr uint64_t kRefusalWindowMs = 60'000;
struct WatchedRefusals {
  uint64_t count = 0;
  std::string most;  // the counter of visit_shell_counters() that grew most; "": none did
};

// What is around the run: disk, clock, certificates, places.
struct WatchedPlace {
  bool is_storage_failed = false;
  std::string database_fault;    // why its file is not the one that commands find; empty: it is
  uint64_t disk_free_bytes = 0;  // of the database's file system, for its user
  uint64_t disk_size_bytes = 0;  // 0: not known
  uint64_t run_created_ms = 0;
  uint64_t served_since_ms = 0;  // when the server began with the run; 0: no server does
  uint64_t places = 0;           // connections that devices can have at a time; 0: not known
  uint64_t clock_behind_ms = 0;  // behind the latest time that the database has seen
  std::string certificate;       // of the server's certificate and its CA the one that ends first; "": there is none
  uint64_t certificate_ends_ms = 0;
  WatchedRefusals refusals;
  std::string command_options;  // WatchBoard::command_options()
};

// A run of the database that is not the one that is served.
struct PastRun {
  uint32_t number = 0;
  std::string name;
  std::string problem;
  std::string state;  // stored_run_state_text()
  uint32_t versions = 0;
  uint64_t began_ms = 0;
  uint64_t ended_ms = 0;       // of its last record; 0: it is not over
  std::optional<double> loss;  // mean loss of the devices, of its last version
  std::string quality;         // quality_text() of its last evaluation; "": there is none
};

// The model of a version, for a download.
struct WatchedModel {
  uint32_t version = 0;
  uint64_t digest = 0;
  std::vector<Real> values;
  std::vector<uint8_t> units;  // Coordinator::units()
};

struct WatchSnapshot {
  uint64_t taken_ms = 0;         // since the epoch, as all times here
  uint64_t taken_steady_ms = 0;  // by the clock that nobody sets
  uint64_t started_ms = 0;
  uint32_t run = 0;
  std::string run_name;
  gs_RunState run_state = gs_RunState_RUN_STATE_NONE;
  // Why no waiting helps the run, or why it was finished before its rounds were done; empty: neither.
  StallCause stall;
  bool has_version = false;
  uint32_t version = 0;
  uint64_t digest = 0;
  uint32_t round_count = 0;
  uint32_t rounds_done = 0;
  std::vector<OutlierView> outliers;
  std::shared_ptr<const RunParameters> parameters;  // of the run; null: not told
  RoundProgressView round;
  ProgressView progress;
  WatchedQuality quality;
  // A device that is not connected is silent when nothing has been heard of it for longer than this. By then it had the
  // time of a round and of the widest retry window.
  uint64_t silent_after_ms = 0;
  WatchedFleet enrolled;
  uint64_t sessions = 0;
  uint64_t handshakes = 0;  // of these, not established yet
  WatchedPlace place;
  bool is_draining = false;
  ShellCounters shell;
  CoordinatorCounters coordinator;
  std::vector<WatchedRound> rounds;  // the last ones, oldest first
  // Copied less often than the rest if the fleet is large; the snapshots between two copies share one.
  std::shared_ptr<const std::vector<DeviceStatus>> devices;
  uint64_t devices_taken_ms = 0;
  std::shared_ptr<const std::vector<PastRun>> past_runs;  // by number; null: not told
  std::shared_ptr<const WatchedModel> model;              // null: there is none yet, or nobody wanted it
};

// Copying the devices takes at most one part in this many of the coordinator thread's time. Reason: at 10,000 devices a
// copy takes up to 14 ms (docs/how-to/watch.md), and all copies together are to stay below the noise.
inline constexpr uint32_t kDeviceCopyShare = 1000;

class WatchBoard {
 public:
  // What a command of this program needs to act on the server's database, such as "--config /srv/fleet.toml"; "":
  // nothing. Set before the first snapshot.
  void set_command_options(std::string options) { command_options_ = std::move(options); }
  const std::string& command_options() const { return command_options_; }
  void publish(std::shared_ptr<const WatchSnapshot> snapshot);
  // Null before the first one.
  std::shared_ptr<const WatchSnapshot> read() const;
  // Wishes for a copy of the model, and waits for a snapshot of that run with one of that version or a newer one. Null:
  // there was none within timeout_ms.
  std::shared_ptr<const WatchSnapshot> wait_for_model(uint32_t run, uint32_t version, uint32_t timeout_ms);
  // Whether somebody waits for one.
  bool wants_model() const { return wants_model_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::atomic<bool> wants_model_ = false;
  std::string command_options_;
  std::shared_ptr<const WatchSnapshot> snapshot_;
};

// visit(key, help, value): key as in the log line event=counters; the metric is gradstream_KEY_total.
template <typename Visit>
void visit_counters(const ShellCounters& s, const CoordinatorCounters& c, Visit&& visit) {
  visit_shell_counters(s, visit);
  visit("updates_folded", "Updates folded in time.", c.updates_folded);
  visit("updates_late", "Updates folded late.", c.updates_late);
  visit("updates_partial", "Folded updates of fewer steps than asked.", c.updates_partial);
  visit("updates_refused", "Updates refused.", c.updates_refused);
  visit("updates_without_time", "Of these, with more steps than there was time for.", c.updates_without_time);
  visit("updates_loss_not_finite", "Of these, with a loss that is no number.", c.updates_loss_not_finite);
  visit("updates_clipped", "Updates that were longer than the clip's radius.", c.notes.updates_clipped);
  visit("lines_not_finite", "Lines of updates that were no numbers.", c.notes.lines_not_finite);
  visit("evaluations_not_finite", "Evaluations that were no numbers.", c.notes.evaluations_not_finite);
  visit("updates_still", "Updates of delay rules whose displacement was 0.", c.updates_still);
  visit("steps_clamped", "Steps of delay rules that were shortened to the radius of their manifold.", c.steps_clamped);
  visit("curves_antiparallel", "Curves without a rotation to the model of now.", c.curves_antiparallel);
  visit("updates_duplicate", "Updates sent again.", c.updates_duplicate);
  visit("updates_changed", "Updates sent again with other content.", c.updates_changed);
  visit("updates_superseded", "Updates of tasks that a later one replaced.", c.updates_superseded);
  visit("tasks_issued", "Tasks given.", c.tasks_issued);
  visit("tasks_abandoned", "Tasks that their devices lost.", c.tasks_abandoned);
  visit("tasks_refused", "Tasks that their devices refused.", c.tasks_refused);
  visit("rounds_closed", "Versions made.", c.rounds_closed);
  visit("rounds_extended", "Rounds that went on past their deadline.", c.rounds_extended);
  visit("snapshots_sent", "Models sent whole.", c.snapshots_sent);
  visit("copies_refused", "Models asked for again and again in one version.", c.copies_refused);
  visit("records_sent", "Versions sent as records.", c.records_sent);
  visit("digest_mismatches", "Devices whose model differed.", c.digest_mismatches);
  visit("devices_ahead", "Pulls from versions that a restored database does not have.", c.history.devices_ahead);
  visit("journal_forked", "Hellos of devices that know another journal of the run.", c.history.journal_forked);
  visit("sessions_replaced", "Sessions that a newer one of the same device ended.", c.sessions_replaced);
  visit("messages_unexpected", "Messages out of turn.", c.messages_unexpected);
  visit("messages_over_rate", "Messages beyond device_messages_per_s_max.", c.messages_over_rate);
  visit("steps_failed", "Versions whose updates made no step.", c.steps_failed);
  visit("lines_dropped", "Lines of updates along no record of the last two.", c.lines_dropped);
  visit("drifts", "Times that the losses moved away after they had settled.", c.drifts);
}

// Prometheus' text form, version 0.0.4: base units, and labels of closed sets only.
std::string metrics_text(const WatchSnapshot& snapshot, const HttpCounters& http);
// The run with its parameters, the open round, counters and those of the last rounds that made versions above `after`.
std::string status_json(const WatchSnapshot& snapshot, const HttpCounters& http, uint32_t after = 0);
// All runs of the database that are told, by number, the one that is served with what it is at now.
std::string runs_json(const WatchSnapshot& snapshot);
// One object a device: a snapshot's size grows with the fleet.
std::string devices_json(const WatchSnapshot& snapshot);

// What a device is to the run; DeviceStanding has the order of the tests.
DeviceStanding standing_of(const DeviceStatus& device, const WatchSnapshot& snapshot);

// /metrics, /healthz (the coordinator lives), /readyz (devices get work, and it can store), /status (with
// ?after=VERSION), /status/runs, /status/devices; 404 otherwise. snapshot may be null; now_steady_ms: of the same clock
// as taken_steady_ms.
HttpResponse watch_response(const HttpTarget& target, const WatchSnapshot* snapshot, const HttpCounters& http,
                            uint64_t now_steady_ms);

// The word of a gs_Verdict, the same for the HTTP port and the command line; "none" for none.
const char* verdict_text(uint32_t verdict);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_WATCH_H_

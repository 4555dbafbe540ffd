// Makes the snapshot that HTTP readers see (server/watch/watch.h), out of what the coordinator, the fleet and the shell
// say at one moment.
//
//   server's thread: Coordinator, devices, WatchedShell --publish()--> WatchBoard --read()--> HTTP thread
//
// Publishing costs a copy of the numbers. The devices' statuses, which grow with the fleet, are copied less often: at
// most one part in kDeviceCopyShare of the time goes into them. All on the coordinator's thread.
#ifndef GRADSTREAM_SERVER_PROGRAM_WATCH_FEED_H_
#define GRADSTREAM_SERVER_PROGRAM_WATCH_FEED_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/link/shell_counters.h"
#include "server/store/sqlite_database.h"
#include "server/watch/watch.h"

namespace gradstream {

// What the shell alone knows.
struct WatchedShell {
  uint64_t sessions = 0;    // connections that wait for one included
  uint64_t handshakes = 0;  // of these, not established yet
  bool is_draining = false;
  ShellCounters counters;   // of all threads
  WatchedPlace place = {};  // without served_since_ms, is_storage_failed and refusals
};

class WatchFeed {
 public:
  using Clock = std::chrono::steady_clock::time_point (*)();

  // The board and the coordinator must outlive the feed. The rounds that the coordinator has replayed are shown first.
  // clock: measures what a copy of the devices costs.
  WatchFeed(WatchBoard& board, const Coordinator& coordinator, const RunRow& run, const RunParameters& parameters,
            Clock clock = std::chrono::steady_clock::now);

  // Whether a round has closed that note_round() has not noted. To be asked before the next one may close.
  bool has_new_round() const;
  // Keeps the summary of the round that closed last, with what the wire has carried until now, for the snapshots to
  // come: the last kRoundHistoryMax.
  void note_round(const ShellCounters& counters);

  // What the other runs have come to, for the snapshots from now on.
  void set_past_runs(std::vector<PastRun> runs);
  const std::vector<PastRun>& past_runs() const { return *past_runs_; }

  // now_ms: since the epoch. devices: the fleet, in any state.
  void publish(uint64_t now_ms, const std::vector<EnrolledDevice>& devices, const WatchedShell& shell);

 private:
  void copy_devices(uint64_t now_ms);
  std::shared_ptr<const WatchedModel> copy_model() const;
  WatchedRefusals refusals_lately(uint64_t now_ms, const ShellCounters& counters);
  uint64_t silent_after_ms(size_t device_count) const;

  WatchBoard& board_;
  const Coordinator& coordinator_;
  const uint32_t run_;
  const std::string run_name_;
  const uint64_t run_created_ms_;
  const Clock clock_;
  const std::shared_ptr<const RunParameters> parameters_;
  std::shared_ptr<const std::vector<PastRun>> past_runs_ = std::make_shared<std::vector<PastRun>>();
  std::deque<WatchedRound> rounds_;  // the last kRoundHistoryMax, oldest first
  std::shared_ptr<const std::vector<DeviceStatus>> devices_;
  // Handshakes that failed, by counter, at the publications of the last kRefusalWindowMs.
  struct Failures {
    uint64_t time_ms = 0;
    std::vector<uint64_t> counts;
  };
  std::deque<Failures> failures_;
  uint64_t begun_ms_ = 0;                                   // the first publication
  uint64_t devices_ms_ = 0;                                 // when they were copied
  std::chrono::steady_clock::time_point devices_due_ = {};  // when they are again
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_WATCH_FEED_H_

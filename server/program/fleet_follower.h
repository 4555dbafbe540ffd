// Follows what commands write into the database while a server runs: devices that come, go and come back, and what the
// operator wants of the run. And says what the run has come to, so that commands can read it.
//
//   `device add`, `run pause`, ... --> database --every 250 ms--> FleetFollower --on_...()--> Coordinator
//   `mv`, `rm` of the database ------------^
//   `run list` <-- database <-- store thread <-- server <-- take_run_state()
//
// What is read is what has changed: each change of the database has a number, and each device that of its last one. So
// the enrolment of one device costs one row, however large the fleet is. Everything is read at the start, after a file
// was moved away or put back, and where the number has gone back, as that of an older copy.
//
// The coordinator's actions are not executed here: on_told says when there may be some. All on the server's thread.
#ifndef GRADSTREAM_SERVER_PROGRAM_FLEET_FOLLOWER_H_
#define GRADSTREAM_SERVER_PROGRAM_FLEET_FOLLOWER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/coordinator/coordinator.h"
#include "server/program/fleet_alarm.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

class FleetFollower {
 public:
  // Of one run. All must outlive the follower. now_ms: milliseconds since the epoch, never going back.
  struct Parts {
    SqliteDatabase& fleet;
    FleetAlarm& alarm;
    Coordinator& coordinator;
    uint32_t run;
    std::function<uint64_t()> now_ms;
  };
  struct Reports {
    std::function<void()> on_told;                  // of what refresh() has read; after on_next_run, if that is due
    std::function<void(uint32_t run)> on_next_run;  // another run is active, and this one is durably paused or over;
                                                    // at every refresh() as long as that is so
    // What this device has begun is to end and to begin anew: the key that a rotation has replaced counts no more, or
    // the device is asked for a new one. Before on_told.
    std::function<void(uint32_t device)> on_session_over;
  };
  // devices: those that the coordinator was made with, in order of enrolment index.
  FleetFollower(asio::io_context& io, Parts parts, std::vector<EnrolledDevice> devices, Reports reports);
  FleetFollower(const FleetFollower&) = delete;
  FleetFollower& operator=(const FleetFollower&) = delete;

  // Before Coordinator::start(): tells the coordinator which of its devices are not active.
  void exclude_inactive();
  // Looks for a change now, and from then on every kPeriodMs until cancel(). One that could not be read is looked for
  // again. Reason for the period: it is one row, from the page cache.
  void poll();
  void cancel() { timer_.cancel(); }
  // Keeps the time in the database, for a server that starts with a clock that was set back.
  void note_time();
  // Reads what has changed of the devices, and the runs, changed or not. False when they could not be read, which
  // raises the alarm.
  bool refresh();

  // Why the database's file is not the one that commands find; empty: it is. As of the last poll().
  const std::string& file_fault() const { return file_fault_; }
  // As of the last refresh(), in order of enrolment index, without their keys.
  const std::vector<EnrolledDevice>& devices() const { return devices_; }
  // Rows of devices that were read since the beginning.
  uint64_t row_count() const { return row_count_; }
  // What the database is to say of the run once all records of now are durable; none if that is what the last call
  // returned. The first call always returns a state: what the database says then may be a wish of before this server.
  std::optional<StoredRunState> take_run_state();
  // Whether the run is finished or stopped, by the last take_run_state().
  bool is_over() const;

  static constexpr uint32_t kPeriodMs = 250;
  // How much time a server forgets if it is killed. Reason: it costs one write to the disk.
  static constexpr uint32_t kNotePeriodMs = 60000;

 private:
  void exclude(const EnrolledDevice& device);
  bool refresh_to(uint64_t change);
  Expected<std::vector<EnrolledDevice>> read_rows(uint64_t change, bool* is_all);
  void take(EnrolledDevice row);
  void take_missing(size_t count);
  void tell_of(const EnrolledDevice& row);
  void tell_of_key(EnrolledDevice& row);
  void tell_of_key_change(const EnrolledDevice& row) const;
  bool refresh_runs();
  void follow_file();
  void follow_time();
  void judge_stored(StoreStatus status);
  void follow_wish(StoredRunState wish);
  bool fail();

  Parts parts_;
  std::vector<EnrolledDevice> devices_;
  const Reports reports_;
  SteadyTimer timer_;
  std::optional<uint64_t> change_count_;  // of the database, as far as it has been read; none: all is to be read
  uint64_t row_count_ = 0;
  uint64_t next_expiry_ms_ = 0;                 // of a claim or a previous key, as far as the database has been read
  std::string file_fault_;                      // logged once
  uint64_t note_due_ms_ = 0;                    // when the time is to be kept again
  std::optional<StoredRunState> marked_state_;  // by the last take_run_state()
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_FLEET_FOLLOWER_H_

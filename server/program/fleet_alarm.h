// Says in the log that the fleet cannot be read: once for a series of failures, whichever thread meets them.
//
// The server's thread and the threads with sessions share one alarm, because a database that fails one fails them all.
#ifndef GRADSTREAM_SERVER_PROGRAM_FLEET_ALARM_H_
#define GRADSTREAM_SERVER_PROGRAM_FLEET_ALARM_H_

#include <atomic>

#include "server/base/log.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

class FleetAlarm {
 public:
  // After a call of this connection that failed, on its thread. Logs event=fleet_unreadable unless the alarm is on.
  void raise(const SqliteDatabase& fleet) {
    if (!is_on_.exchange(true)) {
      log_event("fleet_unreadable"_event, Fields().add("cause", fleet.error()));
    }
  }
  // The fleet has been read: the next failure is logged again.
  void clear() { is_on_ = false; }

 private:
  std::atomic<bool> is_on_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_FLEET_ALARM_H_

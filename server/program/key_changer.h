// Keys that devices draw at the operator's wish (docs/wire.md, A key that the device draws).
//
//   `device rotate NAME --by-device` --> database --find()--> device, by its session
//   device's answer --judge()--> database: the new key, and the one before for its window --> device
//
// Whatever is lost on the way is asked for again, or answered again: the database says what has become of the change.
// All on the server's thread.
#ifndef GRADSTREAM_SERVER_PROGRAM_KEY_CHANGER_H_
#define GRADSTREAM_SERVER_PROGRAM_KEY_CHANGER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "runtime/link/key_agreement.h"
#include "runtime/wire/key_change.h"
#include "server/base/rate_limit.h"
#include "server/program/fleet_alarm.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

class KeyChanger {
 public:
  // now_ms: milliseconds since the epoch, never going back. All must outlive it.
  KeyChanger(SqliteDatabase& fleet, FleetAlarm& alarm, std::function<uint64_t()> now_ms);

  // A device has said Hello, for which a request waits (EnrolledDevice::key_change_since_ms). What it is to be asked;
  // none: the request is over, or the database failed, which raises the alarm. is_able: it has said FEATURE_KEY_CHANGE;
  // of one that has not, event=key_change_waits says so once for each request.
  std::optional<KeyChange> find(const EnrolledDevice& device, bool is_able);

  struct Ruling {
    std::optional<KeyChange> answer;  // none: the database failed, and the device comes again
    bool is_changed = false;          // its key counts, by this call or an earlier one
  };
  // A device offers a key. Waits for the disk where it is taken: that happens once in a generation. Logs
  // event=key_changed or, within kFaultLines, event=key_change_refused. The reasons of the latter: not_asked, no
  // request waits; wrong_generation; key_taken, this generation has another key; device_not_proven, it has found
  // another key than this end.
  Ruling judge(const std::string& name, const KeyChange& offer);

 private:
  Ruling accept(const EnrolledDevice& device, const KeyChangeRow& row, const KeyChange& offer);
  Ruling refuse(const std::string& name, const KeyChange& offer, const char* reason);
  Ruling fail();

  SqliteDatabase& fleet_;
  FleetAlarm& alarm_;
  const std::function<uint64_t()> now_ms_;
  RateMeter lines_;                                  // of kFaultLines
  std::set<std::pair<uint32_t, uint64_t>> waiting_;  // device and request that the log has told of
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_KEY_CHANGER_H_

// Who was to be waited for, and who had given its share, again: from the records, by the rules' definitions
// (docs/how-to/slow_devices.md) and not by the server's code.
#ifndef GRADSTREAM_SIM_ORACLE_ATTENDANCE_H_
#define GRADSTREAM_SIM_ORACLE_ATTENDANCE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/journal/journal_record.h"
#include "server/run/run_parameters.h"

namespace gradstream {

class OracleAttendance {
 public:
  // All devices are enrolled from the begin, and none is revoked.
  explicit OracleAttendance(const RunParameters& parameters) : parameters_(parameters) {}
  // A sentence on what is wrong, or nothing. is_training: the open version is no stage before training.
  std::string on_record(const JournalRecord& record, bool is_training);

 private:
  bool has_used_share(uint32_t device) const;
  std::set<uint32_t> awaited() const;
  std::string on_close(const JournalRecord& record) const;

  const RunParameters parameters_;
  bool has_version_ = false;
  uint32_t open_ = 0;
  uint32_t extension_count_ = 0;
  bool is_stalled_ = false;
  std::map<uint32_t, std::set<uint32_t>> seen_;       // devices by version
  std::set<uint32_t> answered_;                       // the open version, in time
  std::set<uint32_t> refused_;                        // in the open version: they may be blocked
  std::vector<std::pair<uint32_t, uint32_t>> given_;  // version and device of each update of the last versions
  std::vector<std::pair<uint32_t, uint32_t>> here_;   // the same of updates and tasks
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_ORACLE_ATTENDANCE_H_

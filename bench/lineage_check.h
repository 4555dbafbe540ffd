// The checker of a lineage: every version of a run is folded again from what its devices were told, by the rules of one
// server. What the devices, the versions and the devices' rows say must agree.
#ifndef GRADSTREAM_BENCH_LINEAGE_CHECK_H_
#define GRADSTREAM_BENCH_LINEAGE_CHECK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/lineage.h"
#include "server/base/objection.h"
#include "server/engine/followed_run.h"
#include "server/rules/partial_sum.h"

namespace gradstream {

// What whoever keeps a run has of it, a database or an engine.
struct LineageSource {
  struct Version {
    PublishedVersion published;
    std::optional<uint32_t> update_count;  // that the keeper counted into it; none: it does not say
  };
  RunParameters parameters;       // that take_run_source() has taken
  std::vector<Version> versions;  // from 1, in their order
  std::vector<DeviceRow> rows;    // by enrolment index
  std::vector<PartialSum> sums;   // of the open version
};

struct LineageFigures {
  uint64_t acked = 0;          // updates that a device was told to be in
  uint64_t refused = 0;        // updates with another verdict
  uint64_t lost = 0;           // acked, and no version has them
  uint64_t doubled = 0;        // a task that has a second Ack: it was given out twice, or is in two versions
  uint64_t unrecorded = 0;     // in a version, and no device was told
  uint64_t foreign = 0;        // of other values than those of its checksum
  uint64_t versions = 0;       // that are published
  uint64_t digests_wrong = 0;  // of these and the sum of the open one: the records come to another model
  bool is_sound() const { return lost + doubled + unrecorded + foreign + digests_wrong == 0; }
};

// The keys of a run as its keeper has them. Objects to a run whose rule does not merge, or keeps updates in place of
// sums: its sums cannot be compared. Objects to a fold that weighs samples too, of which the records tell nothing.
Objection take_run_source(const std::string& text, RunParameters* out);

// read() for each file, then check() once.
class LineageCheck {
 public:
  // Objects to a file that cannot be read, and to a line of an Ack that is torn.
  Objection read(const std::string& path);
  // Objects to versions that do not follow from each other. findings(): a line for each fault.
  Objection check(const LineageSource& source);
  const LineageFigures& figures() const { return figures_; }
  const std::vector<std::string>& findings() const { return findings_; }

 private:
  void take(const LineageAck& ack);
  void find_foreign(const RunParameters& parameters, const LineageAck& ack);
  void begin_ledger(const LineageSource& source);
  Status fold(const LineageSource& source, uint32_t version);
  Objection check_version(const LineageSource& source, const LineageSource::Version& version);
  void check_open(const LineageSource& source, uint32_t version);
  void check_rows(const LineageSource& source);

  LineageFigures figures_;
  std::vector<std::string> findings_;
  std::map<std::pair<uint32_t, uint32_t>, LineageAck> judged_;  // by device and task
  std::map<uint32_t, std::vector<LineageAck>> accepted_;        // by version
  std::map<uint32_t, uint64_t> counts_;                         // of accepted updates, by device
  std::vector<VersionRecord> followed_;                         // the published ones, up to the ledger's version
  std::unique_ptr<FollowedEnrolment> enrolment_;
  std::unique_ptr<RunLedger> ledger_;  // of the one server
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LINEAGE_CHECK_H_

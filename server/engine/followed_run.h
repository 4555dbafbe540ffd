// A run as a node of a cluster follows it: the published versions, one after the other, make the run's ledger.
//
// Version 0 is published by nobody: every node makes it from the run's seed, and all make the same.
#ifndef GRADSTREAM_SERVER_ENGINE_FOLLOWED_RUN_H_
#define GRADSTREAM_SERVER_ENGINE_FOLLOWED_RUN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/base/objection.h"
#include "server/coordinator/run_ledger.h"
#include "server/engine/engine.h"
#include "server/rules/enrolment.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {

// Why several nodes cannot train this run together: its rule does not merge, or its rounds need what no engine keeps
// yet. The sentence names the key, and ends with the remedy.
Objection check_cluster_run(const RunParameters& parameters);

// The record of a version as the engine keeps it. Bytes, little-endian, as StateArchive has them: form u8, trigger u8,
// step_scale, digest u64, then the payload of server/rules/record.h behind its size u32.
std::vector<uint8_t> encode_published(const VersionRecord& record, Trigger trigger);
// kDataCorrupt: bytes that encode_published() does not make for a version of this run.
Status decode_published(const RunParameters& parameters, const PublishedVersion& published, VersionRecord* record);

// The devices as a run began with them, for its records: these must not depend on when a node hears of a change. A rule
// that looks at who has left is none that nodes train.
class FixedEnrolment : public Enrolment {
 public:
  explicit FixedEnrolment(uint32_t device_count) : device_count_(device_count) {}
  uint32_t active_count() const override { return device_count_; }
  bool has_left(uint32_t) const override { return false; }

 private:
  uint32_t device_count_;
};

class FollowedRun {
 public:
  // The run stands at version 0. device_count: as the node knows the fleet. Nodes may differ in it: no digest of a run
  // that check_cluster_run() takes depends on it. Asserts that this has no objection.
  FollowedRun(const RunParameters& parameters, uint32_t device_count);
  FollowedRun(const FollowedRun&) = delete;  // the ledger refers to the parameters and the enrolment beside it
  FollowedRun& operator=(const FollowedRun&) = delete;

  RunLedger& ledger() { return *ledger_; }
  const RunLedger& ledger() const { return *ledger_; }
  const RunParameters& parameters() const { return parameters_; }
  uint32_t version() const { return ledger_->version(); }
  uint32_t device_count() const { return enrolment_.active_count(); }
  // Whether all rounds are done.
  bool is_done() const;

  // The next version, as an engine has it. What was folded into the open one is forgotten. kDataCorrupt: it does not
  // follow from the versions before it. The run is then of no more use.
  Status follow(const PublishedVersion& published);
  // Adds the sum of a batch to the open version. Codes of RunLedger::merge(); on an error nothing has been added.
  Status merge(const PartialSum& sum);
  // The record that ends the open version with what was folded and merged. Until begin() or reopen() nothing else may
  // be asked.
  VersionRecord close();
  // The record was published: the version that it leads to is open. Codes of RunLedger::begin().
  Status begin(const VersionRecord& record);
  // The open version as it was before the first merge() or close(): what these have made was not published. Where there
  // was none, nothing happens.
  void reopen();

 private:
  void exchange(StateArchive& io);
  void keep();

  RunParameters parameters_;
  FixedEnrolment enrolment_;
  std::unique_ptr<RunLedger> ledger_;
  std::vector<uint8_t> saved_;  // for reopen(): the open version without its sums; empty: nothing to go back from
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_FOLLOWED_RUN_H_

// A run as a node of a cluster follows it: the published versions, one after the other, make the run's ledger.
//
// Version 0 is published by nobody: every node makes it from the run's seed, and all make the same.
#ifndef GRADSTREAM_SERVER_ENGINE_FOLLOWED_RUN_H_
#define GRADSTREAM_SERVER_ENGINE_FOLLOWED_RUN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/base/objection.h"
#include "server/coordinator/run_ledger.h"
#include "server/engine/engine.h"
#include "server/rules/enrolment.h"
#include "server/rules/kept_update.h"
#include "server/run/limits.h"
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

// Devices of a run whose rule has a memory, at most. Reason: a device may have two updates in a version, and a leader
// takes in kKeptUpdateCountMax.
inline constexpr uint32_t kClusterMemoryDevicesMax = kKeptUpdateCountMax / 2;

// The devices of a run, for its records. A record of a rule without a memory does not depend on them. One of a memory
// says by how many the weights are shared and who has left, so that only the leader that makes it needs to know.
class FollowedEnrolment : public Enrolment {
 public:
  explicit FollowedEnrolment(uint32_t device_count) : active_count_(device_count) {}
  void set(uint32_t active_count, std::vector<bool> has_left) {
    active_count_ = active_count;
    has_left_ = std::move(has_left);
  }
  uint32_t active_count() const override { return active_count_; }
  bool has_left(uint32_t device) const override { return device < has_left_.size() && has_left_[device]; }

 private:
  uint32_t active_count_;
  std::vector<bool> has_left_;
};

class FollowedRun {
 public:
  // The run stands at version 0. device_count: as the node knows the fleet. Nodes may differ in it: no digest of a rule
  // without a memory depends on it. Records of a memory have the fleet of the leader that made them (set_fleet()). A
  // memory begins with device_count of the run's keys, as its import wants. Asserts that check_cluster_run() has no
  // objection.
  FollowedRun(const RunParameters& parameters, uint32_t device_count);
  FollowedRun(const FollowedRun&) = delete;  // the ledger refers to the parameters and the enrolment beside it
  FollowedRun& operator=(const FollowedRun&) = delete;

  RunLedger& ledger() { return *ledger_; }
  const RunLedger& ledger() const { return *ledger_; }
  const RunParameters& parameters() const { return parameters_; }
  uint32_t version() const { return ledger_->version(); }
  // The devices as they are now: what close() makes of a memory goes by them.
  void set_fleet(uint32_t active_count, std::vector<bool> has_left);
  // Whether all rounds are done.
  bool is_done() const;

  // The next version, as an engine has it. What was folded into the open one is forgotten. kDataCorrupt: it does not
  // follow from the versions before it. The run is then of no more use.
  Status follow(const PublishedVersion& published);
  // Adds the sum of a batch to the open version. Codes of RunLedger::merge(); on an error nothing has been added.
  Status merge(const PartialSum& sum);

  // ---- Of a run whose rule has a memory (server/rules/kept_update.h): no sum stands for its updates ----
  bool keeps_updates() const { return ledger_->keeper() != nullptr; }
  // Whether what the rule remembers of devices is here. It is after end_memory(), until follow() or reopen().
  bool has_memory() const { return keeps_updates() && ledger_->keeper()->has_memory(); }
  // What is there of a memory that has not ended is forgotten.
  void begin_memory();
  // The memory, as an engine has it, in its order. kDataCorrupt: it is not that of the open version.
  Status remember(const StoredUpdate& update);
  Status end_memory();
  // Adds an update of a batch to the open version. Codes of UpdateKeeper::add_update().
  Status add_update(const StoredUpdate& update);
  // 1 + base version of the device's update that the open version's mean holds, as a Task says it; 0: none.
  uint32_t memory_stamp(uint32_t device, const RowMemory& memory) const;
  // What was folded since the version began or the last call, as a batch has it, and forgets it. Of any run.
  void take_part(EngineBatch* batch);
  void forget_part();

  // The record that ends the open version with what was folded and merged. Until begin() or reopen() nothing else may
  // be asked. None: the mean behind it would leave the range of numbers, so that no node could follow it.
  std::optional<VersionRecord> close();
  // The record was published: the version that it leads to is open. Codes of RunLedger::begin().
  Status begin(const VersionRecord& record);
  // The open version as it was before the first merge() or close(): what these have made was not published. Where there
  // was none, nothing happens.
  void reopen();

 private:
  std::unique_ptr<RunLedger> make_ledger() const;
  void exchange(StateArchive& io);
  void keep();

  RunParameters parameters_;
  FollowedEnrolment enrolment_;
  std::unique_ptr<RunLedger> ledger_;
  std::vector<uint8_t> saved_;  // for reopen(): the open version without its sums; empty: nothing to go back from
  std::map<uint32_t, uint32_t> forgotten_;  // by device: the last version whose record has forgotten its update
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_FOLLOWED_RUN_H_

// What several nodes of a cluster share of a run: rows that an engine keeps, and the few calls that move them.
//
//   node 1..N: fronts judge updates and commit batches of verdicts     one of them holds the lease and publishes
//   versions
//
// Each call is one transaction: all of it happens, or nothing. A call is asynchronous: it gives a ticket, and its reply
// comes by take_replies(). Replies come in any order. A node never asks another node anything.
//
// Exactly once rests on two rows. A device's row goes from an open task to a judged one by a comparison with what the
// batch expects, and the sum of a batch is stored with its verdicts or not at all. A front's row has the version that
// it commits into and the number of its last batch: publishing moves all of them, so that a batch is in the version
// before or finds itself cut.
//
// A version closes in two steps. seal() moves the fronts' rows: the sums of the version are a fixed set then, however
// steadily updates come. publish() gives the record that was made of them. No batch for the next version comes between,
// since a front judges for a version when it has read its record.
//
// Where a rule has a memory, no sum stands for its updates. A batch then has the updates themselves. They stay behind
// the version that they go into: the last one of each device is what the rule remembers of it. Whoever leads reads the
// memory once, at the first close of its term, and the updates of each version that it closes. A front needs no memory:
// what a Task says of it is in the device's row.
//
// The engine speaks for its own durability: what is committed outlives the engine's fail-over. It has the only clock of
// leases. Sums, updates and records are bytes to it.
#ifndef GRADSTREAM_SERVER_ENGINE_ENGINE_H_
#define GRADSTREAM_SERVER_ENGINE_ENGINE_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "server/coordinator/device_row.h"

namespace gradstream {

using EngineTicket = uint64_t;  // of a call, given by its node's connection; 0: none

enum class EngineOutcome : uint8_t {
  kCommitted,  // it happened, and is durable
  kCut,        // nothing happened: version, epoch, batch or term is not what the call names. The reply has what it is
  kConflict,   // nothing happened: the row of one of the devices, or the epoch that is asked about, is not what the
               // call expects
  kUnknown,    // nobody knows yet whether it happened: the answer was lost. A batch asks resolve(). Other calls are
               // made again after a pause. If publish() had happened, it finds the cut of another leader's version
};

// What an operator has made of a run. It stands in the run's row, which seal() looks at: from the change on no version
// is sealed, unless the run is active. One that is sealed already is published all the same.
enum class EngineRunState : uint8_t {
  kActive = 0,
  kPaused = 1,   // until it is active again: devices get no tasks, and their answers count
  kStopped = 2,  // for good
};

// A node's part of the open version.
struct FrontRow {
  uint64_t epoch = 0;           // raised by each join() and resolve(): what an older one sends is cut
  uint32_t open_version = 0;    // that its batches go into: the open one, or behind a sealed one the next
  uint64_t batch = 0;           // number of its last batch in this epoch; 0: none
  uint64_t previous_batch = 0;  // in the epoch before: resolve() is asked again where its own answer is lost
  uint32_t on_time_count = 0;   // updates in the open version, until the next one is published
  uint32_t late_count = 0;
  friend bool operator==(const FrontRow&, const FrontRow&) = default;
};

// What a device's row becomes, if its last task and whether that is open are still what they were.
struct RowChange {
  uint32_t device = 0;  // enrolment index
  uint32_t task_sequence = 0;
  bool is_open = false;
  DeviceRow row;
};

// An update as a batch stores it, where the run's rule has a memory. A device has one of each base version, and they
// come by ascending base version: its front refuses another one by the device's row. So no engine looks for it. A batch
// that has one all the same is owed no outcome.
struct UpdatePlace {
  uint32_t device = 0;  // enrolment index
  uint64_t base_version = 0;
};
struct StoredUpdate {
  uint32_t device = 0;  // enrolment index
  uint32_t base_version = 0;
  std::vector<uint8_t> bytes;  // encode_kept()
  UpdatePlace place_behind() const { return {device, uint64_t{base_version} + 1}; }
  friend bool operator==(const StoredUpdate&, const StoredUpdate&) = default;
};

// Which of them a read gives.
enum class UpdatePart : uint8_t {
  kOpen,    // those that batches have brought for the open version
  kMemory,  // those of the versions before it: the last one of each device
};

// Tasks issued and verdicts given by one node, and the exact sum of the updates among them.
struct EngineBatch {
  uint64_t epoch = 0;
  uint32_t open_version = 0;
  uint64_t number = 0;             // one more than the front's last batch
  std::vector<RowChange> changes;  // by ascending device, one for each
  uint32_t on_time_count = 0;
  uint32_t late_count = 0;
  std::vector<uint8_t> sum;  // encode_partial() of the accepted updates; empty: there are none, or they are below
  std::vector<StoredUpdate> updates;  // where the rule has a memory; by ascending device, one for each
};

// Who publishes the versions of a run.
struct LeaseRow {
  std::string node;       // that holds it; empty: nobody ever did, or the last one gave it back
  uint64_t term = 0;      // raised when it changes hands
  uint64_t until_ms = 0;  // by the engine's clock
};

// What a leader decides by: of the open version, and of all fronts together.
struct VersionProgress {
  uint32_t on_time_count = 0;  // updates; a version has no more than kFoldUpdateCountMax
  uint32_t late_count = 0;
  bool is_sealed = false;
  EngineRunState state = EngineRunState::kActive;  // of the run; it may not be durable yet
};

// The batch that a sum came with. Sums of a version are read in the order of their places. That is the engine's own
// order of names, so nobody else may compare them.
struct SumPlace {
  std::string node;  // empty: before all others
  uint64_t epoch = 0;
  uint64_t batch = 0;
  friend bool operator==(const SumPlace&, const SumPlace&) = default;
  friend bool operator<(const SumPlace& a, const SumPlace& b) {
    return std::tie(a.node, a.epoch, a.batch) < std::tie(b.node, b.epoch, b.batch);
  }
};

struct BatchSum {
  SumPlace place;
  std::vector<uint8_t> bytes;  // EngineBatch::sum
};

// A version that was published, as a node follows it.
struct PublishedVersion {
  uint32_t version = 0;
  std::vector<uint8_t> record;  // as server/rules/record.h writes it
  // Enrolment indices of devices whose stored updates end with it, ascending. A read leaves them out.
  std::vector<uint32_t> forgotten = {};
  friend bool operator==(const PublishedVersion&, const PublishedVersion&) = default;
};

// Who is enrolled changes by changes with numbers of their own, from 1 on, each of which writes some rows. A row that
// no change has written is of change 0. Rows are read in the order of their places: change, devices before claims,
// number.
struct FleetPlace {
  uint64_t change = 0;
  bool is_claim = false;
  uint64_t number = 0;
};

// A device or a claim as it is now. content: as whoever stored it reads it.
struct FleetChange {
  uint64_t change = 0;  // the last one that has written it
  bool is_claim = false;
  uint32_t number = 0;
  std::string name;
  std::vector<uint8_t> content;
  FleetPlace place_behind() const { return {change, is_claim, uint64_t{number} + 1}; }
  friend bool operator==(const FleetChange&, const FleetChange&) = default;
};

// The reply to a call; of the parts behind the outcome it has those that the call promises.
struct EngineReply {
  EngineTicket ticket = 0;
  EngineOutcome outcome = EngineOutcome::kUnknown;
  FrontRow front;
  LeaseRow lease;
  std::vector<DeviceRow> rows;
  VersionProgress progress;
  std::vector<BatchSum> sums;
  std::vector<StoredUpdate> updates;
  std::vector<PublishedVersion> versions;
  uint64_t engine_ms = 0;
  EngineRunState state = EngineRunState::kActive;
  std::vector<FleetChange> fleet;
  uint64_t fleet_change = 0;
};

// One node's connection to the engine, for one run. Calls do not fail at once: whatever goes wrong is an outcome.
class EngineNode {
 public:
  virtual ~EngineNode() = default;

  // The node commits into the open version from now on, in a new epoch. A batch of unknown outcome is resolved first:
  // the row tells of one epoch before, and a join() that is made again may begin two. front.
  virtual EngineTicket join() = 0;
  // rows: of these devices, in their order. A device that the engine does not know has an empty one.
  virtual EngineTicket load(const std::vector<uint32_t>& devices) = 0;
  // The front's row moves first: kCut where epoch, version or number do not follow from it. Then kConflict where a
  // device's row is not what its change expects. front: as it is then.
  virtual EngineTicket commit(const EngineBatch& batch) = 0;
  // Of a batch whose outcome is unknown: kCommitted, it happened; kCut, it did not and never will. A new epoch begins
  // either way. kConflict: the front's epoch is neither this one nor the next, so that nobody can tell. front.
  virtual EngineTicket resolve(uint64_t epoch, uint64_t number) = 0;
  // The node takes the lease where it is free or its own: kCommitted; else kCut. lease.
  virtual EngineTicket take_lease() = 0;
  // The holder of the lease of this term gives it back: it is free from then on, and whoever takes it does so in
  // another term. kCut where node or term is another, or it was given back already. lease.
  virtual EngineTicket release_lease(uint64_t term) = 0;
  // How far the version is, however many batches are in. kCut: it is not open. progress.
  virtual EngineTicket read_progress(uint32_t version) = 0;
  // Some of the version's sums, from the one behind this place on, in their order. None: there is none behind it. A
  // reply is bounded, in sums and in bytes, and has at least one where there is one. Of a sealed version the sums are a
  // fixed set. Before that a batch may come to a place that was passed. kCut: the version is not open. sums.
  virtual EngineTicket read_sums(uint32_t version, const SumPlace& after) = 0;
  // Some of the stored updates, from this place on, by ascending device and base version. None: there is none from
  // there on. A reply is bounded, in updates and in bytes, and has at least one where there is one. Of a sealed version
  // they are a fixed set, and the memory changes by publish() alone. kCut: the version is not open. updates.
  virtual EngineTicket read_updates(uint32_t version, UpdatePart part, const UpdatePlace& from) = 0;
  // Closes the open version to batches, by the holder of the lease of this term: a batch is in it by then, or is cut.
  // Every front's open_version moves to the one behind it, and a join() or resolve() from then on finds that one. The
  // counts stay. kCut where node, term or version is another, or the run is not active. Of a version that is sealed
  // already nothing changes: kCommitted. A seal has no end but publish(): the next leader goes on with it. lease.
  virtual EngineTicket seal(uint64_t term, uint32_t version) = 0;
  // The version behind the open one, by the holder of the lease of this term. sum_count: the sums that it was made of,
  // as read_sums() gave them in all its replies, and the updates, as read_updates() gave those of kOpen. kCut where
  // node, term, version or count is another, or the open version is not sealed. Else an update that was committed after
  // the leader had read would be acknowledged, and in no version. The sums of the version before are dropped, and the
  // counts of the fronts begin anew. Of each device the last update stays alone, and of those that are forgotten none.
  // lease.
  virtual EngineTicket publish(uint64_t term, uint64_t sum_count, const PublishedVersion& next) = 0;
  // versions: some of them, from this one on, in their order and without a gap. None: there is none. engine_ms: what
  // the clock of leases showed while the call was executed, in ms since 1970. What a node writes into rows is by it.
  // state: of the run. Where it is another than `known`, it is durable.
  virtual EngineTicket read_versions(uint32_t from, EngineRunState known) = 0;
  // fleet: some of the rows from this place on, in their order; of all runs. None: there is none from there on. A reply
  // is bounded, in rows and in bytes, and has at least one where there is one. A row that is changed comes again, at
  // its new place. fleet_change: the last change that there was, at least. It goes back where the engine was restored.
  virtual EngineTicket read_fleet(const FleetPlace& from) = 0;

  // Those that have come since the last call.
  virtual std::vector<EngineReply> take_replies() = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_ENGINE_H_

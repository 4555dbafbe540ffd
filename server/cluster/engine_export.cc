#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "server/cluster/engine_commands.h"
#include "server/cluster/engine_moves.h"
#include "server/cluster/node_fleet.h"
#include "server/coordinator/device_row.h"
#include "server/engine/followed_run.h"
#include "server/postgresql/engine_stored.h"
#include "server/program/replay.h"
#include "server/rules/kept_update.h"
#include "server/rules/partial_sum.h"
#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "server/store/database_lock.h"
#include "server/store/fleet_copy.h"
#include "server/store/journal_table.h"

namespace gradstream {
namespace {

constexpr const char* kFilesOfDatabase[] = {"", "-wal", "-shm"};

// A new database, which goes with its log unless it is kept. Nobody else makes one of this name meanwhile.
class NewDatabase {
 public:
  explicit NewDatabase(std::string path) : path_(std::move(path)) { remove(); }  // of an export that did not end
  ~NewDatabase() {
    database = nullptr;
    remove();
  }
  NewDatabase(const NewDatabase&) = delete;
  NewDatabase& operator=(const NewDatabase&) = delete;
  const std::string& path() const { return path_; }
  std::unique_ptr<SqliteDatabase> database = std::make_unique<SqliteDatabase>();

 private:
  void remove() const {
    for (const char* const end : kFilesOfDatabase) {
      ::unlink((path_ + end).c_str());
    }
  }
  const std::string path_;
};

// Objects to files of that name. Reason: SQLite would take a log that was left behind for that of the new database.
Objection find_old_file(const std::string& to) {
  for (const char* const end : kFilesOfDatabase) {
    if (const std::string path = to + end; ::access(path.c_str(), F_OK) == 0) {
      return path + " exists; remove it, or give another name";
    }
  }
  return {};
}

// Keeps the name for this export. kExitOk, or an error already printed.
int take_name(const std::string& to, DatabaseLock* lock) {
  if (const Objection taken = lock->take(to)) {
    DatabaseOwner owner;
    const Objection unknown = DatabaseLock::probe(to, &owner);
    return fail(kExitFile, !unknown && owner.is_held
                               ? "another export, or a server, is at work on " + to + ", process " +
                                     std::to_string(owner.process) + "; wait for its end, or give another name"
                               : taken.sentence);
  }
  const Objection old = find_old_file(to);  // another export may have ended just now
  return old ? fail(kExitFile, old.sentence) : int{kExitOk};
}

// The run as a single server would have made it.
struct MadeRun {
  RunParameters parameters;
  std::vector<std::string> names;
  std::vector<EnrolledDevice> devices;  // as a replay wants them: their names
  std::vector<JournalRecord> records;   // of versions
  std::unique_ptr<Coordinator> coordinator;
};

JournalRecord record_of_version(const VersionRecord& version, Trigger trigger) {
  return JournalRecord::begin_version({.version = version.version,
                                       .step_scale = version.step_scale,
                                       .digest = version.digest,
                                       .trigger = trigger,
                                       .payload = encode_payload(version)});
}

// As kPersist gives it: version 0, which every node makes of the run's seed. Nodes share the weights of a memory among
// device_count then, whoever was enrolled since.
JournalRecord first_record(const EnginePlan& plan, const MadeRun& made, uint64_t now_ms) {
  Coordinator beginner(plan.run, made.parameters, made.names, 1, plan.nonce);
  beginner.start(now_ms);
  for (const Action& action : beginner.take_actions()) {
    VersionRecord first;
    if (action.kind != ActionKind::kPersist || action.record.kind() != RecordKind::kVersion) {
      continue;
    }
    if (!made.parameters.has_memory() ||
        decode_payload(made.parameters, action.record.payload(), &first) != Status::kOk) {
      return action.record;
    }
    first.digest = action.record.digest();
    first.weight_total = made.parameters.memory_weighs_samples() ? 0 : made.parameters.trigger->device_count;
    return record_of_version(first, action.record.trigger());
  }
  return {};
}

// Puts the record behind those that are there. Whether it follows from them.
bool add_record(MadeRun* made, JournalRecord record, uint64_t now_ms) {
  record.set_sequence(made->records.size() + 1);
  record.set_time_ms(now_ms);
  made->records.push_back(record);
  return made->coordinator->replay(record) == Status::kOk;
}

bool has_updates(const EngineStored& stored) { return !stored.sums.empty() || !stored.updates.empty(); }

const char* const kUnfit = ": its versions do not follow from each other; use the release that the cluster runs";

Objection add_stored_versions(EngineReader& reader, const EngineStored& stored, MadeRun* made, FollowedRun* followed,
                              uint64_t now_ms) {
  const std::string name = "run " + std::to_string(stored.plan.run);
  std::vector<PublishedVersion> versions;
  do {
    if (Objection objection = reader.read_versions(followed->version() + 1, &versions)) {
      return objection;
    }
    for (const PublishedVersion& one : versions) {
      VersionRecord version;
      if (decode_published(made->parameters, one, &version) != Status::kOk || followed->follow(one) != Status::kOk ||
          !add_record(made, record_of_version(version, static_cast<Trigger>(one.record[1])), now_ms)) {  // trigger u8
        return name + kUnfit;
      }
    }
  } while (!versions.empty());
  return followed->version() == stored.open_version ? "" : name + kUnfit;
}

// What the nodes' rule remembers, as the engine has it.
Objection add_memory(const EngineStored& stored, FollowedRun* followed) {
  if (!followed->keeps_updates()) {
    return {};
  }
  for (const StoredUpdate& update : stored.memory) {
    if (followed->remember(update) != Status::kOk) {
      return "run " + std::to_string(stored.plan.run) + kUnfit;
    }
  }
  return followed->end_memory() == Status::kOk ? "" : "run " + std::to_string(stored.plan.run) + kUnfit;
}

// The single server's rule has it from now on.
Objection move_memory(const EngineStored& stored, FollowedRun* followed, MadeRun* made) {
  UpdateKeeper* const keeper = made->coordinator->keeper();
  if (keeper == nullptr) {
    return {};
  }
  for (const KeptUpdate& update : followed->ledger().keeper()->memory()) {
    if (keeper->remember(update) != Status::kOk) {
      return "run " + std::to_string(stored.plan.run) + kUnfit;
    }
  }
  if (keeper->end_memory() != Status::kOk) {
    return "run " + std::to_string(stored.plan.run) + kUnfit;
  }
  keeper->own();
  return {};
}

// The version that the updates of the open one make, as a leader closes it at its deadline.
Objection close_open_version(const EngineStored& stored, MadeRun* made, FollowedRun* followed, uint64_t now_ms) {
  for (const std::vector<uint8_t>& bytes : stored.sums) {
    PartialSum sum;
    if (decode_partial(bytes, &sum) != Status::kOk || followed->ledger().merge(sum) != Status::kOk) {
      return "run " + std::to_string(stored.plan.run) +
             ": a sum of its open version does not read; use the release "
             "that the cluster runs";
    }
  }
  for (const StoredUpdate& update : stored.updates) {
    if (followed->add_update(update) != Status::kOk) {
      return "run " + std::to_string(stored.plan.run) +
             ": an update of its open version does not read; use the release "
             "that the cluster runs";
    }
  }
  const std::optional<VersionRecord> closed = followed->close();
  if (!closed) {
    return "run " + std::to_string(stored.plan.run) +
           ": the mean of its open version leaves the range of numbers, so that no server can close it; without "
           "--close a run is exported whose open version is empty";
  }
  return add_record(made, record_of_version(*closed, Trigger::kDeadline), now_ms) &&
                 followed->begin(*closed) == Status::kOk
             ? ""
             : "run " + std::to_string(stored.plan.run) + kUnfit;
}

// A version that is sealed is published whatever the run's state is.
std::string way_out_of_open(const EngineStored& stored) {
  if (stored.state == EngineRunState::kActive) {
    return "let a node publish that version, or close it with --close";
  }
  return stored.is_sealed ? "that version is sealed: start a node, which publishes it, or close it with --close"
                          : "no node publishes it while the run is not active: close it with --close";
}

// The devices as a node tells its leader of them.
Objection follow_fleet(const EngineStored& stored, FollowedRun* followed) {
  NodeFleet fleet(wall_clock_ms);
  if (const Objection objection = fleet.begin(stored.devices)) {
    return "the engine's fleet: " + objection.sentence;
  }
  const std::vector<gs_Reason> standings = fleet.standings();
  std::vector<bool> has_left;
  has_left.reserve(standings.size());
  for (const gs_Reason standing : standings) {
    has_left.push_back(standing != gs_Reason_REASON_NONE);
  }
  followed->set_fleet(static_cast<uint32_t>(std::ranges::count(standings, gs_Reason_REASON_NONE)), std::move(has_left));
  return {};
}

// kExitOk, or an error already printed.
int make_run(EngineReader& reader, const EngineSession& session, const EngineStored& stored, bool closes,
             MadeRun* made) {
  const std::string name = "run " + std::to_string(stored.plan.run);
  if (const Objection error = parse_run_source(stored.plan.source, &made->parameters)) {
    return fail(kExitDatabase, error.sentence + "use the release that the cluster runs");
  }
  if (const Objection objection = check_cluster_run(made->parameters)) {
    return fail(kExitFrozen, name + ": " + objection.sentence);
  }
  if (!stored.leader.empty()) {
    return fail(kExitDatabase, name + " is led by node " + stored.leader +
                                   ", or was in the last 10 s, and would go on in two places; stop all nodes, wait "
                                   "10 s, and export it then");
  }
  if (has_updates(stored) && !closes) {
    return fail(kExitDatabase,
                name + " has updates in its open version, which a journal could not prove; " + way_out_of_open(stored));
  }
  for (const EngineFleetRow& device : stored.devices) {
    made->names.push_back(device.name);
    made->devices.emplace_back().name = device.name;
  }
  const uint64_t now_ms = wall_clock_ms();
  made->coordinator =
      std::make_unique<Coordinator>(stored.plan.run, made->parameters, made->names, 1, stored.plan.nonce);
  if (UpdateKeeper* const keeper = made->coordinator->keeper()) {
    keeper->share();
  }
  FollowedRun followed(made->parameters, static_cast<uint32_t>(made->names.size()));
  Objection objection = add_record(made, first_record(stored.plan, *made, now_ms), now_ms) ? "" : name + kUnfit;
  objection = objection ? objection : add_stored_versions(reader, stored, made, &followed, now_ms);
  objection = objection ? objection : add_memory(stored, &followed);
  objection = objection ? objection : follow_fleet(stored, &followed);
  objection = objection || !has_updates(stored) ? objection : close_open_version(stored, made, &followed, now_ms);
  objection = objection ? objection : move_memory(stored, &followed, made);
  objection = objection ? objection : reader.finish();
  if (objection) {
    return fail_engine(session, objection);
  }
  for (const auto& [device, row] : stored.rows) {
    made->coordinator->adopt_row(device, row);
  }
  return kExitOk;
}

FleetCopy fleet_of(const EngineStored& stored) {
  FleetCopy fleet;
  for (const EngineFleetRow& row : stored.devices) {
    fleet.devices.push_back({row.number, row.name, row.content});
  }
  for (const EngineFleetRow& row : stored.claims) {
    fleet.claims.push_back({row.number, row.name, row.content});
  }
  return fleet;
}

// A run that is done has the state that its journal tells of.
StoredRunState state_of(const EngineStored& stored) {
  const StoredRunState state = stored_state_of(stored.state, stored.plan.source, stored.open_version);
  return state == StoredRunState::kFinished ? StoredRunState::kActive : state;
}

// The journal begins at its last version: the checkpoint there alone has what the devices have done, and a replay of
// the versions before it would know of no task. kExitOk, or an error already printed.
int write_run(const EngineStored& stored, const MadeRun& made, SqliteDatabase& database) {
  const EnginePlan& plan = stored.plan;
  const RunRow row = {plan.run,    plan.name,        plan.parameters, plan.source,
                      plan.digest, state_of(stored), plan.created_ms, plan.nonce};
  if (const Objection objection = write_fleet(database, fleet_of(stored), row)) {
    return fail(kExitFile, objection.sentence);
  }
  SqliteStore journal(database, plan.run);
  const Checkpoint checkpoint = made.coordinator->checkpoint();
  StoreStatus status = journal.append(made.records);
  for (uint64_t written = 0; status == StoreStatus::kOk && written < checkpoint.head.size;) {
    status = journal.write_checkpoint(checkpoint, &written);
  }
  if (status != StoreStatus::kOk) {
    return fail_database(database);
  }
  if (const Objection objection = drop_records_before(database, plan.run, checkpoint.head.sequence)) {
    return fail(kExitFile, objection.sentence);
  }
  std::string error;
  const auto again = replay_journal(row, made.parameters, made.devices, journal, UINT32_MAX, &error);
  if (again == nullptr || again->state_text() != made.coordinator->state_text()) {
    return fail(kExitDatabase, "the exported run does not read back, so nothing was written; check the disk" +
                                   (error.empty() ? "" : ": " + error));
  }
  return kExitOk;
}

int write_file(const std::string& to, const EngineStored& stored, const MadeRun& made) {
  DatabaseLock lock;
  if (const int code = take_name(to, &lock); code != kExitOk) {
    return code;
  }
  NewDatabase fresh(to + ".partial");
  SqliteOptions file;
  file.path = fresh.path();
  if (fresh.database->open(file) != StoreStatus::kOk) {
    return fail_database(*fresh.database);
  }
  if (const int code = write_run(stored, made, *fresh.database); code != kExitOk) {
    return code;
  }
  fresh.database = nullptr;  // its log goes into the file
  if (const int cause = rename_durably(fresh.path().c_str(), to.c_str()); cause != 0) {
    return fail(kExitFile, "cannot rename " + fresh.path() + ": " + cause_text(cause) + "; check that disk");
  }
  return kExitOk;
}

}  // namespace

int engine_export(const CommonOptions& options, const std::string& to, bool closes) {
  if (const Objection fault = find_out_fault("--to", to)) {
    return fail(kExitUsage, fault.sentence);
  }
  if (const Objection old = find_old_file(to)) {
    return fail(kExitFile, old.sentence);
  }
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  EngineReport report;
  EngineStored stored;
  EngineReader reader(engine->session, engine->durability);
  bool is_there = false;
  Objection objection = read_engine_report(engine->session, &report);
  objection = objection ? objection : trouble_of(report, engine->durability);
  objection = objection ? objection : secrecy_of(*engine, report);
  objection = objection ? objection : reader.read_run(&stored, &is_there);
  if (objection) {
    return fail_engine(engine->session, objection);
  }
  if (!is_there) {
    return fail(kExitNotFound, "the engine has no run that can be exported; gradstream engine import brings one");
  }
  MadeRun made;
  if (const int code = make_run(reader, engine->session, stored, closes, &made); code != kExitOk) {
    return code;
  }
  if (const int code = write_file(to, stored, made); code != kExitOk) {
    return code;
  }
  OutputLine()
      .add("run", uint64_t{stored.plan.run})
      .add("state", "exported")
      .add("to", to)
      .add("version", uint64_t{made.coordinator->model().version()})
      .add_hex("digest", made.coordinator->digest())
      .add("devices", uint64_t{stored.devices.size()})
      .add("claims", uint64_t{stored.claims.size()})
      .add_flag("closed", has_updates(stored))
      .print(options);
  return kExitOk;
}

}  // namespace gradstream

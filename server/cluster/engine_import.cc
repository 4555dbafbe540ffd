#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "server/cluster/engine_commands.h"
#include "server/cluster/engine_moves.h"
#include "server/coordinator/fleet.h"
#include "server/engine/followed_run.h"
#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_transfer.h"
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

// A run as its database has it. The lock goes last, after the connection.
struct SourceRun {
  DatabaseLock lock;  // no server may begin meanwhile
  SqliteDatabase database;
  RunRow row;
  RunParameters parameters;
  FleetCopy fleet;
  std::vector<EnrolledDevice> devices;
  std::unique_ptr<Coordinator> coordinator;  // that has replayed all of it
};

std::string name_of_run(const RunRow& row) { return "run " + std::to_string(row.id); }

// kExitOk, or an error already printed.
int open_source(const std::string& from, uint32_t run, SourceRun* out) {
  SqliteOptions options;
  options.is_locked_here = is_database_there(from);
  if (const Objection taken = options.is_locked_here ? out->lock.take(from) : "") {
    return fail(kExitDatabase, taken.sentence + "; a run goes into an engine while no server runs");
  }
  options.path = from;
  options.may_create = false;
  options.check_integrity = true;
  if (out->database.open(options) != StoreStatus::kOk) {
    return fail_database(out->database);
  }
  const Expected<std::optional<RunRow>> found = run == 0 ? out->database.current_run() : out->database.find_run(run);
  const Expected<std::vector<EnrolledDevice>> devices = out->database.devices();
  if (!found.is_ok() || !devices.is_ok()) {
    return fail_database(out->database);
  }
  if (!*found) {
    return fail(kExitNotFound, "database " + from + " has no run" + (run == 0 ? "" : " " + std::to_string(run)) +
                                   "; `gradstream run list` shows all");
  }
  out->row = **found;
  out->devices = *devices;
  const Objection objection = read_fleet(out->database, &out->fleet);
  return objection ? fail(kExitDatabase, "database " + from + ": " + objection.sentence) : int{kExitOk};
}

// Whether nodes can go on with the run. kExitOk, or an error already printed.
int check_source(SourceRun* source, SqliteStore& journal) {
  const RunRow& row = source->row;
  if (const Objection error = parse_run_source(row.source, &source->parameters)) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  if (const Objection objection = check_cluster_run(source->parameters)) {
    return fail(kExitFrozen, name_of_run(row) + ": " + objection.sentence);
  }
  if (source->parameters.has_memory() && source->devices.size() > kClusterMemoryDevicesMax) {
    return fail(kExitFrozen, name_of_run(row) + " has a memory (correction_form) and " +
                                 std::to_string(source->devices.size()) + " enrolled devices, and an engine keeps " +
                                 "the updates of " + std::to_string(kClusterMemoryDevicesMax) +
                                 " devices at most; let one server go on with it");
  }
  if (row.state == StoredRunState::kFinished || row.state == StoredRunState::kStopped ||
      row.state == StoredRunState::kStopRequested) {
    return fail(kExitFrozen, name_of_run(row) + " is " + stored_run_state_text(row.state) +
                                 ", and nodes go on with one that is active or paused");
  }
  CheckpointHead start;
  if (journal.read_start(&start) != StoreStatus::kOk) {
    return fail_database(source->database);
  }
  if (start.sequence != 0) {
    return fail(kExitFrozen, name_of_run(row) + " has lost the records before version " +
                                 std::to_string(start.version) +
                                 (start.is_behind_forgotten ? " (gradstream run forget)" : " (server.journal_keep)") +
                                 ", and nodes read every version from the first on; begin a new run on the engine");
  }
  std::string error;
  source->coordinator = replay_journal(row, source->parameters, source->devices, journal, UINT32_MAX, &error);
  if (source->coordinator == nullptr) {
    return error.empty() ? fail_database(source->database) : fail(kExitDatabase, error);
  }
  if (source->coordinator->last_sequence() == 0) {
    return fail(kExitFrozen, name_of_run(row) + " has no version yet; let a server serve it once");
  }
  const gs_RunState state = source->coordinator->run_state();
  if (state != gs_RunState_RUN_STATE_ACTIVE && state != gs_RunState_RUN_STATE_PAUSED) {
    return fail(kExitFrozen, name_of_run(row) + " is over or stalled, and nodes go on with one that trains");
  }
  return kExitOk;
}

// The versions, as nodes will read them; each is followed as a node follows it.
Objection add_versions(const SourceRun& source, SqliteStore& journal, EngineImport* import) {
  FollowedRun followed(source.parameters, static_cast<uint32_t>(source.devices.size()));
  Objection objection;
  const std::string unfit = name_of_run(source.row) + ": nodes would come to another model at version ";
  const bool shares_evenly = source.parameters.has_memory() && !source.parameters.memory_weighs_samples();
  const StoreStatus status = journal.read([&](const JournalRecord& record) {
    if (record.kind() != RecordKind::kVersion) {
      return true;
    }
    VersionRecord version;
    version.version = record.version();
    version.step_scale = record.step_scale();
    version.digest = record.digest();
    PublishedVersion published = {record.version(), {}};
    bool is_same = decode_payload(source.parameters, record.payload(), &version) == Status::kOk;
    if (record.version() == 0 && shares_evenly && version.weight_total != source.parameters.trigger->device_count) {
      objection = name_of_run(source.row) + " began with " + std::to_string(version.weight_total) +
                  " devices, and nodes share the weights of its memory among device_count, which is " +
                  std::to_string(source.parameters.trigger->device_count) +
                  "; begin it on one server with a device_count of its active devices, and import that";
      return false;
    }
    if (record.version() > 0 && is_same) {
      published.record = encode_published(version, record.trigger());
      is_same = followed.follow(published) == Status::kOk;
    }
    if (!is_same || followed.ledger().digest() != record.digest()) {
      objection = unfit + std::to_string(record.version()) +
                  (record.version() > 0 ? "; report it with the database"
                                        : ", since it began at server.first_model; begin a new run on the engine");
    } else if (record.version() > 0) {
      objection = import->add_version(std::move(published));
    }
    return !objection;
  });
  return objection || status == StoreStatus::kOk ? objection : source.database.error();
}

EnginePlan plan_of(const RunRow& row) {
  return {row.id, row.name, row.parameters, row.source, row.digest, row.run_nonce, row.created_ms};
}

std::vector<EngineFleetRow> rows_of(const std::vector<FleetCopy::Row>& rows) {
  std::vector<EngineFleetRow> all;
  all.reserve(rows.size());
  for (const FleetCopy::Row& row : rows) {
    all.push_back({row.number, row.name, row.content});
  }
  return all;
}

std::vector<StoredUpdate> stored_of(const std::vector<KeptUpdate>& all) {
  std::vector<StoredUpdate> stored;
  stored.reserve(all.size());
  for (const KeptUpdate& update : all) {
    stored.push_back({update.device, update.base_version, encode_kept(update)});
  }
  return stored;
}

// What a front says of the memory in a Task. What is remembered has gone into the open version at the latest, and was
// not forgotten since.
void add_memory(const EngineOpenVersion& open, std::vector<DeviceRow>* rows) {
  for (const StoredUpdate& update : open.memory) {
    rows->at(update.device).memory.last = {update.base_version, open.version};
  }
  for (const StoredUpdate& update : open.updates) {
    RowMemory& memory = rows->at(update.device).memory;
    memory.before = memory.last.version > open.version ? memory.before : memory.last;
    memory.last = {update.base_version, open.version + 1};
  }
}

// Nodes add up what they take in apart, so that no update may lead out of the mean's range whatever the others are.
Objection check_updates(const SourceRun& source, const EngineOpenVersion& open) {
  const auto fits = [&source](const StoredUpdate& update) {
    KeptUpdate kept;
    return decode_kept(update.bytes, &kept) == Status::kOk && source.coordinator->keeper()->fits_at_any_weight(kept);
  };
  return std::ranges::all_of(open.memory, fits) && std::ranges::all_of(open.updates, fits)
             ? ""
             : name_of_run(source.row) +
                   " remembers an update that is near the limit of numbers, and nodes take none of that size; "
                   "begin a new run on the engine, with a lower fold_scale_log2";
}

// What is in for the open version; the coordinator forgets it. wish: of the run's row, which counts before the journal
// where no server has followed it yet.
EngineOpenVersion take_open_version(Coordinator& coordinator, StoredRunState wish) {
  const RoundProgressView progress = coordinator.round_progress();
  const bool is_paused = wish == StoredRunState::kPaused || wish == StoredRunState::kPauseRequested;
  EngineOpenVersion open;
  open.version = coordinator.model().version();
  open.on_time_count = progress.answers;
  open.late_count = progress.late;
  open.state = is_paused ? EngineRunState::kPaused : EngineRunState::kActive;
  if (UpdateKeeper* const keeper = coordinator.keeper()) {
    open.memory = stored_of(keeper->memory());
    open.updates = stored_of(keeper->take_updates());
    return open;
  }
  const PartialSum sum = coordinator.take_partial();
  if (!sum.blocks.empty()) {
    open.sum = encode_partial(sum);
  }
  return open;
}

}  // namespace

int engine_import(const CommonOptions& options, const std::string& from, uint32_t run) {
  SourceRun source;
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  if (const int code = open_source(from, run, &source); code != kExitOk) {
    return code;
  }
  SqliteStore journal(source.database, source.row.id);
  if (const int code = check_source(&source, journal); code != kExitOk) {
    return code;
  }
  EngineReport report;
  Objection objection = read_engine_report(engine->session, &report);
  objection = objection ? objection : trouble_of(report, engine->durability);
  objection = objection ? objection : secrecy_of(*engine, report);
  EngineImport import(engine->session, engine->durability);
  objection = objection ? objection : import.begin(plan_of(source.row));
  objection = objection ? objection : import.add_fleet(rows_of(source.fleet.devices), rows_of(source.fleet.claims));
  objection = objection ? objection : add_versions(source, journal, &import);
  std::vector<DeviceRow> rows;
  for (uint32_t index = 0; index < source.devices.size(); ++index) {
    rows.push_back(source.coordinator->fleet().at(index).row);
  }
  const EngineOpenVersion open = take_open_version(*source.coordinator, source.row.state);
  objection = objection ? objection : check_updates(source, open);
  add_memory(open, &rows);
  objection = objection ? objection : import.end(open, rows);
  if (objection) {
    return fail_engine(engine->session, objection);
  }
  OutputLine()
      .add("run", uint64_t{source.row.id})
      .add("state", "imported")
      .add("from", from)
      .add("version", uint64_t{open.version})
      .add_hex("digest", source.coordinator->digest())
      .add("devices", uint64_t{source.devices.size()})
      .add("claims", uint64_t{source.fleet.claims.size()})
      .add_flag("paused", open.state == EngineRunState::kPaused)
      .add("on_time", uint64_t{open.on_time_count})
      .add("late", uint64_t{open.late_count})
      .print(options);
  return kExitOk;
}

}  // namespace gradstream

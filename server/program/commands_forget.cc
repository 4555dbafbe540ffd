// The verb `run forget`: what a device has sent leaves the journal, and the chain stays whole.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "server/program/commands.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"

namespace gradstream {

namespace {

// The number of the last version that the records make; none: there is no version.
Expected<std::optional<uint32_t>> last_version(SqliteStore& journal) {
  std::optional<uint32_t> version;
  GS_TRY_STORE(journal.skim_back(UINT32_MAX, [&](const JournalRecord& record) {
    version = record.kind() == RecordKind::kVersion ? std::optional(record.version()) : std::nullopt;
    return !version;
  }));
  return version;
}

// A checkpoint at the last version without the device's figures: there, and read back to the same state. kExitOk, or an
// error already printed.
int keep_checkpoint(SqliteDatabase& database, SqliteStore& journal, const RunRow& run, const RunParameters& parameters,
                    const std::vector<EnrolledDevice>& devices, uint32_t forgotten, uint32_t version,
                    CheckpointHead* out) {
  std::string error;
  const auto coordinator = replay_journal(run, parameters, devices, journal, version, &error);
  if (coordinator == nullptr) {
    return error.empty() ? fail_database(database) : fail(kExitDatabase, error);
  }
  coordinator->forget_figures(forgotten);
  const Checkpoint checkpoint = coordinator->checkpoint();
  *out = checkpoint.head;
  for (uint64_t written = 0; written < checkpoint.head.size;) {
    if (journal.write_checkpoint(checkpoint, &written) != StoreStatus::kOk) {
      return fail_database(database);
    }
  }
  const auto again = replay_journal(run, parameters, devices, journal, version, &error);
  if (again == nullptr || again->state_text() != coordinator->state_text()) {
    return fail(kExitDatabase, "the checkpoint of run " + std::to_string(run.id) + " at version " +
                                   std::to_string(version) +
                                   " does not read back, so nothing was forgotten; check the disk");
  }
  return kExitOk;
}

// What of one run is forgotten. kExitOk, or an error already printed; kExitUsage: the run is one of which nothing can
// be.
int forget_in(Opened& opened, const RunRow& run, const std::vector<EnrolledDevice>& devices,
              const EnrolledDevice& device) {
  RunParameters parameters;
  if (const Objection error = parse_run_source(run.source, &parameters)) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  if (parameters.has_memory()) {
    return fail(kExitUsage, "run " + std::to_string(run.id) + " has correction_form " +
                                name_of(parameters.local->correction_form) +
                                ", and its state is made of the last update of each device, so nothing of it can be "
                                "forgotten; where the update must go, begin a new database and remove this one");
  }
  SqliteStore journal(opened.database, run.id);
  const Expected<std::optional<uint32_t>> version = last_version(journal);
  if (!version.is_ok()) {
    return fail_database(opened.database);
  }
  uint64_t count = 0;
  if (*version) {
    CheckpointHead base;
    const int code =
        keep_checkpoint(opened.database, journal, run, parameters, devices, device.index, **version, &base);
    if (code != kExitOk) {
      return code;
    }
    if (journal.forget(device.index, base, &count) != StoreStatus::kOk || journal.scrub() != StoreStatus::kOk) {
      return fail_database(opened.database);
    }
  }
  OutputLine()
      .add("run", uint64_t{run.id})
      .add("device", device.name)
      .add("forgotten", count)
      .add("version", *version ? std::to_string(**version) : "none")
      .print(opened.options);
  return kExitOk;
}

}  // namespace

int run_forget(const CommonOptions& options, uint32_t run_id, const std::string& name) {
  DatabaseLock lock;  // no server may begin meanwhile
  Opened opened;
  opened.options = options;
  if (const int code = load_beside_no_engine(options, &opened.config); code != kExitOk) {
    return code;
  }
  SqliteOptions file;
  file.path = opened.config.server.database;
  file.may_create = false;
  file.is_locked_here = is_database_there(file.path);
  if (const Objection taken = file.is_locked_here ? lock.take(file.path) : "") {
    return fail(kExitDatabase, taken.sentence + "; what a device has sent is forgotten while no server runs");
  }
  if (opened.database.open(file) != StoreStatus::kOk) {
    return fail_database(opened.database);
  }
  const Expected<std::vector<EnrolledDevice>> devices = opened.database.devices();
  const Expected<std::vector<RunRow>> runs = opened.database.runs();
  if (!devices.is_ok() || !runs.is_ok()) {
    return fail_database(opened.database);
  }
  const auto device =
      std::find_if(devices->begin(), devices->end(), [&name](const EnrolledDevice& one) { return one.name == name; });
  if (device == devices->end()) {
    return fail(kExitNotFound, "no device " + name + "; `gradstream device list` shows all");
  }
  bool has_run = run_id == 0;
  int code = kExitOk;
  for (const RunRow& run : *runs) {
    if ((code == kExitOk || code == kExitUsage) && (run_id == 0 || run.id == run_id)) {
      has_run = true;
      const int done = forget_in(opened, run, *devices, *device);
      code = done != kExitOk ? done : code;
    }
  }
  return has_run ? code : fail(kExitNotFound, "no run " + std::to_string(run_id) + "; `gradstream run list` shows all");
}

}  // namespace gradstream

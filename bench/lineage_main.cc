// gradstream-lineage: whether a server's database holds what the devices of gradstream-load were told.
//
//   gradstream-lineage DATABASE FILE...
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/lineage_program.h"
#include "server/coordinator/fleet.h"
#include "server/program/replay.h"
#include "server/rules/record.h"
#include "server/store/journal_table.h"
#include "server/store/sqlite_database.h"

namespace gradstream {
namespace {

// The versions of the journal, and the updates that it has of each.
Objection read_journal(SqliteStore& journal, const SqliteDatabase& database, LineageSource* out) {
  uint32_t update_count = 0;
  bool is_read = true;
  const StoreStatus status = journal.read([&](const JournalRecord& record) {
    update_count += record.kind() == RecordKind::kUpdate ? 1 : 0;
    if (record.kind() != RecordKind::kVersion || record.version() == 0) {
      return true;
    }
    VersionRecord version;
    version.version = record.version();
    version.step_scale = record.step_scale();
    version.digest = record.digest();
    is_read = decode_payload(out->parameters, record.payload(), &version) == Status::kOk;
    out->versions.push_back({{record.version(), encode_published(version, record.trigger())}, update_count});
    update_count = 0;
    return is_read;
  });
  return status != StoreStatus::kOk ? database.error() : Objection(is_read ? "" : "a version does not read");
}

Objection read_database(const std::string& place, LineageSource* out) {
  SqliteOptions options;
  options.path = place;
  options.may_create = false;
  SqliteDatabase database;
  if (database.open(options) != StoreStatus::kOk) {
    return database.error();
  }
  const Expected<std::optional<RunRow>> run = database.current_run();
  const Expected<std::vector<EnrolledDevice>> devices = database.devices();
  if (!run.is_ok() || !devices.is_ok()) {
    return database.error();
  }
  if (!*run) {
    return place + " has no run; let a server serve it once";
  }
  if (Objection objection = take_run_source((*run)->source, &out->parameters)) {
    return objection;
  }
  SqliteStore journal(database, (*run)->id);
  CheckpointHead start;
  if (journal.read_start(&start) != StoreStatus::kOk) {
    return database.error();
  }
  if (start.sequence != 0) {
    return place + " has lost the records before version " + std::to_string(start.version) +
           "; of an engine's export ask gradstream-engine-lineage in place of it";
  }
  std::string error;
  const std::unique_ptr<Coordinator> coordinator =
      replay_journal(**run, out->parameters, *devices, journal, UINT32_MAX, &error);
  if (coordinator == nullptr) {
    return error.empty() ? database.error() : error;
  }
  for (uint32_t index = 0; index < devices->size(); ++index) {
    out->rows.push_back(coordinator->fleet().at(index).row);
  }
  out->sums.push_back(coordinator->take_partial());
  return read_journal(journal, database, out);
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  return gradstream::run_lineage_program("gradstream-lineage", "of a server, which has ended",
                                         gradstream::read_database, argc, argv);
}

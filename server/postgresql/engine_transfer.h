// A whole run on its way into an engine and out of it, each in one transaction.
//
// The updates that were in for the open version are one sum, of a node whose name no node has. Where the run's rule has
// a memory, they are updates of no batch.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_TRANSFER_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_TRANSFER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/coordinator/device_row.h"
#include "server/engine/engine.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {

// Of the node that the sum of an import is of. Reason: a name of a machine has no blank.
inline constexpr const char* kImportNode = "an import";

// What is stored of a run, beside what trains.
struct EnginePlan {
  uint32_t run = 0;
  std::string name;
  std::string parameters;  // canonical text
  std::string source;      // the table [run] in TOML
  uint64_t digest = 0;
  uint64_t nonce = 0;
  uint64_t created_ms = 0;
};

// A device or a claim; content: as whoever stored it reads it.
struct EngineFleetRow {
  uint32_t number = 0;
  std::string name;
  std::vector<uint8_t> content;
};

// Sends rows in statements of a bounded size. statement: with the change as $1::bigint, and numbers, names and contents
// as $2::bigint[], $3::bytea[] and $4::bytea[]. Objects to the first statement that fails.
Objection send_fleet_rows(EngineSession& session, const char* statement, uint64_t change,
                          const std::vector<EngineFleetRow>& rows);

// The open version of a run.
struct EngineOpenVersion {
  uint32_t version = 0;
  uint32_t on_time_count = 0;
  uint32_t late_count = 0;
  std::vector<uint8_t> sum;                        // encode_partial(); empty: no update is in, or the rule has a memory
  std::vector<StoredUpdate> updates = {};          // of that version, where it has one
  std::vector<StoredUpdate> memory = {};           // the last one of each device, of the versions before
  EngineRunState state = EngineRunState::kActive;  // of the run
};

// Into an engine without runs and devices. Each call may object, and then nothing of the run is in the engine once the
// session ends. begin() -> add_fleet() -> add_version(), in their order -> end()
class EngineImport {
 public:
  EngineImport(EngineSession& session, EngineDurability durability) : session_(session), durability_(durability) {}

  Objection begin(const EnginePlan& plan);
  Objection add_fleet(const std::vector<EngineFleetRow>& devices, const std::vector<EngineFleetRow>& claims);
  Objection add_version(PublishedVersion version);
  // rows: of the devices, by enrolment index. It may have happened where the session is away afterwards.
  Objection end(const EngineOpenVersion& open, const std::vector<DeviceRow>& rows);

 private:
  Objection name_what_is_there(const EnginePlan& plan);
  Objection send_versions();
  Objection add_rows(const std::vector<DeviceRow>& rows);
  Objection add_open(const EngineOpenVersion& open);
  Objection add_updates(const std::vector<StoredUpdate>& updates, uint32_t version);

  EngineSession& session_;
  const EngineDurability durability_;
  uint32_t run_ = 0;
  std::vector<PublishedVersion> versions_;  // not sent yet
  size_t size_ = 0;                         // of their records, bytes
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_TRANSFER_H_

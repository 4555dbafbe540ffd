// The verbs of the program `gradstream-engine`, as those of server/program/commands.h.
#ifndef GRADSTREAM_SERVER_CLUSTER_ENGINE_COMMANDS_H_
#define GRADSTREAM_SERVER_CLUSTER_ENGINE_COMMANDS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/engine/engine.h"
#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"
#include "server/program/commands.h"

namespace gradstream {

// Makes the tables in the database of engine.address. kExitDatabase: its server could lose what it commits, or there is
// a schema already. kExitNetwork: no server was reached, or none answered.
int engine_init(const CommonOptions& options);
// Brings the tables to the version of this release. kExitDatabase: there are none, or newer ones.
int engine_migrate(const CommonOptions& options);
// A line of the engine, and a line a run. kExitDatabase, after the lines: nodes would refuse the engine.
int engine_status(const CommonOptions& options);
// A line for each check of the engine (server/postgresql/engine_findings.h). kExitDatabase, after them: one failed.
int engine_doctor(const CommonOptions& options);

// ---- Shared by the verbs ----

// What a verb works with.
struct OpenedEngine {
  OpenedEngine(const CommonOptions& asked, const Config& read);
  CommonOptions options;
  Config config;
  EngineDurability durability = EngineDurability::kStandby;
  EngineSession session;
};
// kExitOk and *out, or an error already printed.
int open_engine(const CommonOptions& options, std::unique_ptr<OpenedEngine>* out);
// What nodes would say of the engine, of whichever run.
Objection trouble_of(const EngineReport& report, EngineDurability durability);
// Objects to a way to the server on which others could read the keys of the devices.
Objection secrecy_of(const OpenedEngine& engine, const EngineReport& report);
// What a run of the engine has come to, in the words of a database: also `finished`, once all its rounds are done.
// source: its table [run]; empty: nobody knows the rounds.
StoredRunState stored_state_of(EngineRunState state, const std::string& source, uint32_t open_version);
// Prints an objection of the session; the exit code.
int fail_engine(const EngineSession& session, const Objection& objection);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_ENGINE_COMMANDS_H_

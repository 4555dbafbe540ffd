// A run goes from a SQLite database into an engine, and back: what a single server has made, nodes go on with.
#ifndef GRADSTREAM_SERVER_CLUSTER_ENGINE_MOVES_H_
#define GRADSTREAM_SERVER_CLUSTER_ENGINE_MOVES_H_

#include <cstdint>
#include <string>

#include "server/program/commands.h"

namespace gradstream {

// Devices, claims and one run of the database `from`, which stays as it is, into the engine of the configuration: all
// of it or nothing. No server may serve the database meanwhile. run: its number; 0: the active one, else the latest.
//
// kExitDatabase: the database is served, missing or damaged, or the engine has a run or devices already. kExitNotFound:
// there is no such run. kExitFrozen: nodes cannot train the run, as it is or as it stands.
int engine_import(const CommonOptions& options, const std::string& from, uint32_t run);

// The run that an import has brought, into a new SQLite database that a single server serves: its last version, its
// fleet, and each device's last verdicts. The engine stays as it is. closes: updates in the open version make one more
// version, as at its deadline; else they are refused.
//
// kExitDatabase: nodes still lead the run, or it has updates in its open version. kExitFile: there is such a file, or
// it cannot be written. kExitNotFound: there is no such run.
int engine_export(const CommonOptions& options, const std::string& to, bool closes);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_ENGINE_MOVES_H_

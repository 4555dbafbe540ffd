// What a node's HTTP port asks its engine while somebody looks: one small statement by a connection of its own.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_WATCH_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_WATCH_H_

#include <cstdint>

#include "server/base/objection.h"
#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {

// The run's row with its nodes, and the counts of its open version. Name, version_count and device_count stay empty:
// they would be read from tables that grow. Objects where the engine has no such run.
Objection read_watched_run(EngineSession& session, uint32_t run, EngineRunReport* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_WATCH_H_

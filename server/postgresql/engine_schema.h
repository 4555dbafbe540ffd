// The tables of an engine on PostgreSQL, the functions that are its transactions, and how both come into a database.
//
//   gradstream.cluster      one row: version of the schema, incarnation, number of the fleet's last change
//   gradstream.run          open version, lease, and what an operator has made of the run
//   gradstream.run_device   what a batch compares, and the rest of a device's row as bytes
//   gradstream.front        a node's part of the open version
//   gradstream.node         of a node: its release, and when it was seen last
//   gradstream.partial      the sum of a batch
//   gradstream.version      records of versions
//   gradstream.plan         what a run is: its name, its parameters
//   gradstream.device, gradstream.claim   who is enrolled, with keys, and the number of the row's last change
//
// Each call of server/engine/engine.h whose answer has to be durable is one function, so that it takes one message, one
// answer and one commit. Whatever a function refuses, it refuses before it has written.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_SCHEMA_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_SCHEMA_H_

#include <cstdint>
#include <string>

#include "server/base/objection.h"

namespace gradstream {

// The statements that make the schema, in a database without one.
const char* engine_schema_text();
// The statements that bring a schema of this version to the next one. Empty: there is no such version.
std::string engine_migration_text(uint64_t from);

// Makes the schema where there is none; where there is one of this version, nothing happens. server: as libpq takes it,
// key=value or a URI. Blocks for deadline_ms at most, beside libpq's look-up of a name. An objection: no connection, no
// right to do it, a schema of another version, or an answer that did not come in time. It may have happened then: call
// it again.
Objection init_engine(const std::string& server, uint32_t deadline_ms);
// The same of a run, at version 0 and without devices. One that is there stays as it is.
Objection add_engine_run(const std::string& server, uint32_t run, uint32_t deadline_ms);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_SCHEMA_H_

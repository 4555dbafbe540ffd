// What an operator does with an engine on PostgreSQL, beside what nodes do: its schema is made, and looked at.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ADMIN_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ADMIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/engine/engine.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {

// A node of a run.
struct EngineNodeReport {
  std::string node;
  std::string release;        // of its program; empty: it has not said
  uint64_t seen_ms = 0;       // since it said last that it runs, by the server's clock; UINT64_MAX: it never has
  uint64_t epoch = 0;         // of its front ...
  uint64_t batch = 0;         // ... and its last batch in that
  uint32_t open_version = 0;  // that it commits into
};

// A run as the engine has it.
struct EngineRunReport {
  uint32_t run = 0;
  std::string name;    // empty: no import has brought the run
  std::string source;  // the table [run] in TOML; empty as the name is
  EngineRunState state = EngineRunState::kActive;
  uint32_t open_version = 0;
  bool is_sealed = false;               // no batch goes into the open version any more
  std::string leader;                   // empty: nobody ever was, or the last one gave its lease back
  uint64_t term = 0;                    // of the leader
  uint64_t lease_ms = 0;                // that are left; 0: it is over
  uint64_t version_count = 0;           // that are published
  uint64_t device_count = 0;            // that have a row
  uint64_t on_time_count = 0;           // updates in the open version ...
  uint64_t late_count = 0;              // ... and into it from older ones
  std::vector<EngineNodeReport> nodes;  // that ever joined; an import, whose sum has a front, is none
};

// An engine and its server.
struct EngineReport {
  EngineFacts facts;
  bool has_other_schema = false;  // a schema of our name without our tables
  std::string primary;            // HOST:PORT by which it was reached; empty: by a socket of the machine
  std::string standbys;           // NAME:STATE, joined by commas; empty: none is connected
  bool has_tls = false;           // of this connection
  uint64_t connections_left = 0;  // that the server would still take
  uint64_t clock_ms = 0;          // of the server, since the epoch
  std::vector<EngineRunReport> runs;
};

// Of a run whose state no release up to this one has written. Whoever reads it says so.
inline constexpr char kUnreadEngineRun[] =
    "the engine has a run that this release does not read. Use the release that the cluster runs.";

// Facts and server alone where there is no schema of this release.
Objection read_engine_report(EngineSession& session, EngineReport* out);
// Behind a commit that the session has answered. Objects where the standby may lack it: its wait was cut, or nobody
// waits for a standby any more. done: what the commit did, as the beginning of the sentence.
Objection check_last_commit(EngineSession& session, EngineDurability durability, const std::string& done);
// Makes the schema in a database without one. Objects to a server that check_engine_server() refuses, and to a schema
// that is there, whoever made it. It may have happened where the session is away afterwards: report it again.
Objection make_engine(EngineSession& session, EngineDurability durability);
// Brings the schema to the version of this release, in one transaction. *from: the version that it had. Objects to a
// newer one. It may have happened where the session is away afterwards: call it again.
Objection migrate_engine(EngineSession& session, EngineDurability durability, uint64_t* from);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ADMIN_H_

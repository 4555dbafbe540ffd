// Whether a PostgreSQL server keeps what the engine promises: it is asked at each connection, and refused by name.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_CHECKS_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_CHECKS_H_

#include <cstdint>
#include <string>

#include "server/base/objection.h"
#include "server/postgresql/pg_values.h"

namespace gradstream {

// The oldest server, as server_version_num has it. Reason: the oldest release that every test has run on, and the one
// of Debian 12.
inline constexpr uint64_t kEngineServerMin = 150000;
// Of the tables and functions in engine_schema.cc.
inline constexpr uint64_t kEngineSchemaVersion = 2;

// Who answers for a transaction that outlives the death of the primary's machine.
enum class EngineDurability : uint8_t {
  kStandby,  // a synchronous standby, which the server has to show
  kStorage,  // the storage below the server, by the operator's word: a managed service that replicates it
};

// What a server says of itself.
struct EngineFacts {
  uint64_t server_version = 0;  // server_version_num
  bool is_read_only = false;    // a standby, or default_transaction_read_only
  bool has_fsync = false;
  bool has_full_page_writes = false;
  bool may_see_standbys = false;  // of the role: pg_read_all_stats
  std::string standby_names;      // synchronous_standby_names
  uint64_t standby_count = 0;     // synchronous ones that are connected
  bool has_schema = false;
  uint64_t schema_version = 0;
  std::string incarnation;  // drawn when the schema was made
  bool has_run = false;
};

// Asks for a row with the facts up to has_schema; more columns may be added to its end.
extern const char* const kEngineFactsQuery;
inline constexpr size_t kEngineFactsColumns = 8;
EngineFacts engine_facts_of(PgTable& table);

struct EngineDemands {
  EngineDurability durability = EngineDurability::kStandby;
  std::string incarnation;  // of the connection before; empty: there was none
  uint32_t run = 0;
};

// Whether the error concerns one transaction, so that the server serves the next one: a deadlock, a serialisation, rows
// that another transaction held for too long, a cancellation. With any other error it serves no call of ours until
// somebody has repaired something.
bool is_passing_error(const std::string& sql_state);
// Of an error that does not pass. words: the server's.
std::string sentence_of_error(const std::string& sql_state, const std::string& words);
// Of synchronous_standby_names: no commit waits for a standby where they are empty.
Objection check_standby_names(const std::string& names);
// Of all but the schema. An objection begins with what is wrong, and names value, limit and remedy.
Objection check_engine_server(const EngineFacts& facts, EngineDurability durability);
// The same, and then of the schema and the run.
Objection check_engine(const EngineFacts& facts, const EngineDemands& demands);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_CHECKS_H_

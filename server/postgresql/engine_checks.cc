#include "server/postgresql/engine_checks.h"

namespace gradstream {
namespace {

std::string release_of(uint64_t version_number) {
  return std::to_string(version_number / 10'000) + "." + std::to_string(version_number % 10'000);
}

Objection check_durability(const EngineFacts& facts) {
  if (Objection objection = check_standby_names(facts.standby_names)) {
    return objection;
  }
  if (!facts.may_see_standbys) {
    return "the engine's role may not see the standbys of its server. Run on the primary: GRANT pg_read_all_stats TO "
           "that role.";
  }
  if (facts.standby_count == 0) {
    return "none of the engine's synchronous standbys (" + facts.standby_names +
           ") is connected, and at least 1 must be. Start a standby, or repair its connection to the primary.";
  }
  return {};
}

Objection check_schema(const EngineFacts& facts, const EngineDemands& demands) {
  if (!facts.has_schema) {
    return "the engine's database has no schema gradstream. Name the database that was initialised, or initialise this "
           "one by gradstream engine init.";
  }
  if (facts.schema_version > kEngineSchemaVersion) {
    return "the engine's schema is of version " + std::to_string(facts.schema_version) +
           ", and this release knows up to " + std::to_string(kEngineSchemaVersion) + ". Install a newer release.";
  }
  if (facts.schema_version < kEngineSchemaVersion) {
    return "the engine's schema is of version " + std::to_string(facts.schema_version) + ", and this release needs " +
           std::to_string(kEngineSchemaVersion) + ". Bring the schema to it by gradstream engine migrate.";
  }
  if (!demands.incarnation.empty() && facts.incarnation != demands.incarnation) {
    return "the engine is another one (incarnation " + facts.incarnation + ", and " + demands.incarnation +
           " before): the database was initialised anew, or the address leads to another cluster. Correct the address, "
           "or start this node again.";
  }
  if (!facts.has_run) {
    return "the engine does not know run " + std::to_string(demands.run) +
           ". Bring it there by gradstream engine import.";
  }
  return {};
}

}  // namespace

const char* const kEngineFactsQuery =
    "SELECT current_setting('server_version_num')::bigint, "
    "pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, "
    "current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean, "
    "pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_setting('synchronous_standby_names'), "
    "(SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')), "
    "to_regclass('gradstream.cluster') IS NOT NULL";

EngineFacts engine_facts_of(PgTable& table) {
  EngineFacts facts;
  facts.server_version = table.number(0, 0);
  facts.is_read_only = table.flag(0, 1);
  facts.has_fsync = table.flag(0, 2);
  facts.has_full_page_writes = table.flag(0, 3);
  facts.may_see_standbys = table.flag(0, 4);
  facts.standby_names = table.text(0, 5);
  facts.standby_count = table.number(0, 6);
  facts.has_schema = table.flag(0, 7);
  return facts;
}

bool is_passing_error(const std::string& sql_state) {
  return sql_state == "40P01" || sql_state == "40001" || sql_state == "55P03" || sql_state == "57014";
}

std::string sentence_of_error(const std::string& sql_state, const std::string& words) {
  const std::string cause = words + " (SQLSTATE " + sql_state + "). ";
  if (sql_state == "42501") {
    return "the engine's role has too few rights: " + cause +
           "Run as the owner of the schema, for that role: GRANT USAGE ON SCHEMA gradstream, and GRANT SELECT, INSERT, "
           "UPDATE, DELETE ON ALL TABLES IN SCHEMA gradstream.";
  }
  return "the engine's server serves no calls: " + cause +
         "Repair on the server what its words name; this node asks again by itself.";
}

Objection check_standby_names(const std::string& names) {
  if (names.empty()) {
    return "the engine has no synchronous standby (synchronous_standby_names is empty): a fail-over would lose updates "
           "that were acknowledged. Set synchronous_standby_names on the primary, or engine.durability = \"storage\" "
           "where the storage below the server is replicated.";
  }
  return {};
}

Objection check_engine_server(const EngineFacts& facts, EngineDurability durability) {
  if (facts.server_version < kEngineServerMin) {
    return "the engine's server is PostgreSQL " + release_of(facts.server_version) +
           ", and the oldest that serves is " + release_of(kEngineServerMin) + ". Upgrade the server.";
  }
  if (facts.is_read_only) {
    return "the engine's server is read-only: it is a standby, or default_transaction_read_only is on. Name all "
           "servers in the address, with target_session_attrs=read-write.";
  }
  if (!facts.has_fsync) {
    return "the engine's server runs with fsync off, and a power cut would destroy it. Set fsync = on.";
  }
  if (!facts.has_full_page_writes) {
    return "the engine's server runs with full_page_writes off, and a power cut would damage its pages. Set "
           "full_page_writes = on.";
  }
  return durability == EngineDurability::kStandby ? check_durability(facts) : Objection();
}

Objection check_engine(const EngineFacts& facts, const EngineDemands& demands) {
  const Objection objection = check_engine_server(facts, demands.durability);
  return objection ? objection : check_schema(facts, demands);
}

}  // namespace gradstream

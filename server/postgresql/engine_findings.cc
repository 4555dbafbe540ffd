#include "server/postgresql/engine_findings.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "server/postgresql/engine_address.h"

namespace gradstream {
namespace {

constexpr char kClockQuery[] = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
constexpr char kOldestQuery[] =
    "SELECT greatest(0, floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000))::bigint, "
    "'process ' || pid || ' of ' || coalesce(usename, 'nobody') || "
    "CASE WHEN application_name = '' THEN '' ELSE ' (' || application_name || ')' END "
    "FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend' ORDER BY xact_start LIMIT 1";

uint64_t epoch_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

// What every check of the server passes.
EngineFacts facts_without_fault() {
  EngineFacts facts;
  facts.server_version = kEngineServerMin;
  facts.has_fsync = facts.has_full_page_writes = facts.may_see_standbys = true;
  facts.standby_names = "*";
  facts.standby_count = 1;
  facts.has_schema = facts.has_run = true;
  facts.schema_version = kEngineSchemaVersion;
  return facts;
}

// The trouble with one fact alone, in the words that a node has for it. take: copies the fact.
template <typename Take>
std::string trouble_with(const EngineFacts& facts, EngineDurability durability, Take take) {
  EngineFacts one = facts_without_fault();
  take(facts, one);
  EngineDemands demands;
  demands.durability = durability;
  return check_engine(one, demands).sentence;
}

void add_server(const EngineFacts& facts, EngineDurability durability, std::vector<EngineFinding>* out) {
  const auto add = [&](const char* check, const std::string& value, auto take) {
    out->push_back({check, value, trouble_with(facts, durability, take)});
  };
  const auto word = [](bool is_on) { return std::string(is_on ? "on" : "off"); };
  add("server_version",
      std::to_string(facts.server_version / 10'000) + "." + std::to_string(facts.server_version % 10'000),
      [](const EngineFacts& from, EngineFacts& to) { to.server_version = from.server_version; });
  add("role", facts.is_read_only ? "read_only" : "primary",
      [](const EngineFacts& from, EngineFacts& to) { to.is_read_only = from.is_read_only; });
  add("fsync", word(facts.has_fsync), [](const EngineFacts& from, EngineFacts& to) { to.has_fsync = from.has_fsync; });
  add("full_page_writes", word(facts.has_full_page_writes),
      [](const EngineFacts& from, EngineFacts& to) { to.has_full_page_writes = from.has_full_page_writes; });
  add("synchronous_standbys", std::to_string(facts.standby_count), [](const EngineFacts& from, EngineFacts& to) {
    to.standby_names = from.standby_names;
    to.standby_count = from.standby_count;
    to.may_see_standbys = from.may_see_standbys;
  });
  add("schema", facts.has_schema ? std::to_string(facts.schema_version) : "none",
      [](const EngineFacts& from, EngineFacts& to) {
        to.has_schema = from.has_schema;
        to.schema_version = from.schema_version;
      });
}

EngineFinding clock_finding(const EngineMeasures& measures) {
  const auto offset = static_cast<uint64_t>(std::llabs(measures.clock_offset_ms));
  const bool is_off = offset > kClockOffsetMaxMs + measures.clock_doubt_ms;
  return {"clock_offset_ms", std::to_string(measures.clock_offset_ms),
          is_off ? "the clock of the engine's server is " + std::to_string(offset) + " ms " +
                       (measures.clock_offset_ms > 0 ? "ahead of" : "behind") + " this machine's, and at most " +
                       std::to_string(kClockOffsetMaxMs) + " ms are well. Set both by NTP."
                 : ""};
}

EngineFinding connections_finding(uint64_t left) {
  return {"connections_left", std::to_string(left),
          left < kConnectionsLeftMin ? "the engine's server would take " + std::to_string(left) +
                                           " more connections, and at least " + std::to_string(kConnectionsLeftMin) +
                                           " should be left. Raise max_connections, or end what holds "
                                           "them."
                                     : ""};
}

EngineFinding transaction_finding(const EngineMeasures& measures) {
  return {"oldest_transaction_ms", std::to_string(measures.oldest_ms),
          measures.oldest_ms > kTransactionAgeMaxMs
              ? "a transaction on the engine's server is " + std::to_string(measures.oldest_ms) +
                    " ms old, and rows that were replaced since stay. It is that of " + measures.oldest +
                    ". End it: pg_terminate_backend() takes the process."
              : ""};
}

EngineFinding lease_finding(const EngineRunReport& run) {
  const std::string name = "run " + std::to_string(run.run);
  return {"lease_of_run_" + std::to_string(run.run), std::to_string(run.lease_ms),
          run.lease_ms == 0
              ? "no node leads " + name + (run.leader.empty() ? "" : "; " + run.leader + " was the last one") +
                    ": its open version is not closed. Start a node, or look into the log of those that run."
              : ""};
}

}  // namespace

Objection measure_engine(EngineSession& session, EngineMeasures* out) {
  PgResult rows;
  const auto asked = std::chrono::steady_clock::now();
  if (Objection objection = session.ask(kClockQuery, {}, &rows)) {
    return objection;
  }
  const auto trip = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - asked);
  const uint64_t here_ms = epoch_ms();
  PgTable clock(rows.get());
  out->clock_doubt_ms = static_cast<uint64_t>(trip.count()) / 2 + 1;
  out->clock_offset_ms = static_cast<int64_t>(clock.number(0, 0) + out->clock_doubt_ms) - static_cast<int64_t>(here_ms);
  if (Objection objection = session.ask(kOldestQuery, {}, &rows)) {
    return objection;
  }
  PgTable oldest(rows.get());
  if (oldest.row_count() > 0) {
    out->oldest_ms = oldest.number(0, 0);
    out->oldest = oldest.text(0, 1);
  }
  return clock.is_sound() && oldest.is_sound()
             ? ""
             : "the engine's server does not tell its clock and its transactions. Use a release of PostgreSQL that "
               "docs/how-to/engine.md names.";
}

std::vector<EngineFinding> findings_of(const EngineReport& report, EngineDurability durability,
                                       const EngineMeasures& measures, const std::string& address) {
  std::vector<EngineFinding> all;
  add_server(report.facts, durability, &all);
  all.push_back(
      {"tls", report.has_tls ? "on" : "off", check_secrecy(report.has_tls, report.primary, address).sentence});
  all.push_back(connections_finding(report.connections_left));
  all.push_back(clock_finding(measures));
  all.push_back(transaction_finding(measures));
  for (const EngineRunReport& run : report.runs) {
    all.push_back(lease_finding(run));
  }
  return all;
}

}  // namespace gradstream

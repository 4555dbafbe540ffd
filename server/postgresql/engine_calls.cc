#include "server/postgresql/engine_calls.h"

#include <map>
#include <utility>

#include "runtime/base/status.h"
#include "server/postgresql/engine_rows.h"

namespace gradstream {
namespace {

// Kinds of the rows that a read of sums or updates gives.
constexpr uint64_t kOpenRow = 0;
// The same of one that gives the fleet; 0: there is none.
constexpr uint64_t kClaimRow = 2;

// One statement sees one moment, and so what read_progress, read_sums and read_updates tell is of one version. It need
// not wait: a leader tells nobody of it but by seal() and publish(), and the server's log is durable in its order.
constexpr std::array<EngineStatement, kEngineVerbCount> kStatements = {{
    {"join", "SELECT * FROM gradstream.join_run($1::bigint, $2::text, $3::text)", true},
    {"load", "SELECT * FROM gradstream.load_devices($1::bigint, $2::bigint[])", true},
    {"commit",
     "SELECT * FROM gradstream.commit_batch($1::bigint, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint[], "
     "$7::bigint[], $8::boolean[], $9::bigint[], $10::boolean[], $11::bytea[], $12::bigint, $13::bigint, $14::bytea, "
     "$15::bigint[], $16::bigint[], $17::bytea[])",
     true},
    {"resolve", "SELECT * FROM gradstream.resolve_batch($1::bigint, $2::text, $3::bigint, $4::bigint)", true},
    {"take_lease", "SELECT * FROM gradstream.take_lease($1::bigint, $2::text, $3::bigint)", true},
    {"read_progress",
     "SELECT r.is_sealed, coalesce(sum(f.on_time), 0)::bigint, coalesce(sum(f.late), 0)::bigint, r.state "
     "FROM gradstream.run r LEFT JOIN gradstream.front f ON f.run = r.run AND f.open_version >= r.open_version "
     "WHERE r.run = $1::bigint AND r.open_version = $2::bigint GROUP BY r.run",
     false},
    {"read_sums",
     "SELECT kind, node, epoch, batch, content FROM ("
     "SELECT 0 AS kind, '' AS node, 0::bigint AS epoch, 0::bigint AS batch, ''::bytea AS content FROM gradstream.run "
     "WHERE run = $1::bigint AND open_version = $2::bigint "
     "UNION ALL SELECT 1, node, epoch, batch, content FROM ("
     "SELECT node, epoch, batch, content, row_number() OVER places AS number, "
     "sum(octet_length(content)) OVER places AS bytes "
     "FROM gradstream.partial WHERE run = $1::bigint AND version = $2::bigint "
     "AND (node, epoch, batch) > ($3::text, $4::bigint, $5::bigint) "
     "WINDOW places AS (ORDER BY node, epoch, batch) ORDER BY node, epoch, batch LIMIT $6::bigint) part "
     "WHERE number = 1 OR bytes <= $7::bigint) all_rows ORDER BY kind, node, epoch, batch",
     false},
    {"seal", "SELECT * FROM gradstream.seal_version($1::bigint, $2::text, $3::bigint, $4::bigint)", true},
    {"publish",
     "SELECT * FROM gradstream.publish_version($1::bigint, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bytea, "
     "$7::bigint[])",
     true},
    // One row at least, for the clock and the run's state.
    {"read_versions",
     "SELECT v.found_version, v.found_content, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, "
     "run.state FROM (SELECT gradstream.read_state($1::bigint, $4::bigint) AS state) run "
     "LEFT JOIN gradstream.read_versions($1::bigint, $2::bigint, $3::bigint) v ON true "
     "ORDER BY v.found_version",
     true},
    {"release_lease", "SELECT * FROM gradstream.release_lease($1::bigint, $2::text, $3::bigint)", true},
    // The number is read first: a change that comes meanwhile is told of again, and none is left out.
    {"read_fleet",
     "SELECT c.fleet_change, f.found_kind, f.found_number, f.found_name, f.found_content, f.found_change "
     "FROM gradstream.cluster c LEFT JOIN gradstream.read_fleet($1::bigint, $2::bigint, $3::bigint, $4::bigint, "
     "$5::bigint, $6::bigint) f ON true ORDER BY f.found_change, f.found_kind, f.found_number",
     true},
    {"read_updates",
     "SELECT kind, device, base_version, content FROM ("
     "SELECT 0 AS kind, 0::bigint AS device, 0::bigint AS base_version, ''::bytea AS content FROM gradstream.run "
     "WHERE run = $1::bigint AND open_version = $2::bigint "
     "UNION ALL SELECT 1, device, base_version, content FROM ("
     "SELECT device, base_version, content, row_number() OVER places AS number, "
     "sum(octet_length(content)) OVER places AS bytes "
     "FROM gradstream.kept_update WHERE run = $1::bigint AND (version = $2::bigint) = ($3::bigint = 1) "
     "AND (device, base_version) >= ($4::bigint, $5::bigint) "
     "WINDOW places AS (ORDER BY device, base_version) ORDER BY device, base_version LIMIT $6::bigint) part "
     "WHERE number = 1 OR bytes <= $7::bigint) all_rows ORDER BY kind, device, base_version",
     false},
}};

FrontRow front_of(PgTable& table, size_t row) {
  FrontRow front;
  front.epoch = table.number(row, 1);
  front.open_version = static_cast<uint32_t>(table.number(row, 2));
  front.batch = table.number(row, 3);
  front.previous_batch = table.number(row, 4);
  front.on_time_count = static_cast<uint32_t>(table.number(row, 5));
  front.late_count = static_cast<uint32_t>(table.number(row, 6));
  return front;
}

std::vector<uint8_t> bytes_of(PgTable& table, size_t row, size_t column) {
  const std::span<const uint8_t> bytes = table.bytes(row, column);
  return {bytes.begin(), bytes.end()};
}

bool read_rows(PgTable& table, const std::vector<uint32_t>& devices, EngineReply* reply) {
  std::map<uint64_t, DeviceRow> known;
  for (size_t i = 0; i < table.row_count(); ++i) {
    if (!decode_engine_row(table.bytes(i, 1), &known[table.number(i, 0)])) {
      return false;
    }
  }
  for (const uint32_t device : devices) {
    const auto row = known.find(device);
    reply->rows.push_back(row == known.end() ? DeviceRow() : row->second);
  }
  return true;
}

// False: it is of a newer release.
bool read_state(PgTable& table, size_t column, EngineRunState* state) {
  const uint64_t number = table.number(0, column);
  *state = static_cast<EngineRunState>(number);
  return number <= static_cast<uint64_t>(EngineRunState::kStopped);
}

bool read_progress(PgTable& table, EngineReply* reply) {
  if (table.row_count() == 0) {
    reply->outcome = EngineOutcome::kCut;
    return true;
  }
  reply->progress = {static_cast<uint32_t>(table.number(0, 1)), static_cast<uint32_t>(table.number(0, 2)),
                     table.flag(0, 0), EngineRunState::kActive};
  return read_state(table, 3, &reply->progress.state);
}

void read_sums(PgTable& table, EngineReply* reply) {
  const bool is_open = table.row_count() > 0 && table.number(0, 0) == kOpenRow;
  reply->outcome = is_open ? EngineOutcome::kCommitted : EngineOutcome::kCut;
  for (size_t i = 1; is_open && i < table.row_count(); ++i) {
    reply->sums.push_back({{table.text(i, 1), table.number(i, 2), table.number(i, 3)}, bytes_of(table, i, 4)});
  }
}

void read_updates(PgTable& table, EngineReply* reply) {
  const bool is_open = table.row_count() > 0 && table.number(0, 0) == kOpenRow;
  reply->outcome = is_open ? EngineOutcome::kCommitted : EngineOutcome::kCut;
  for (size_t i = 1; is_open && i < table.row_count(); ++i) {
    reply->updates.push_back(
        {static_cast<uint32_t>(table.number(i, 1)), static_cast<uint32_t>(table.number(i, 2)), bytes_of(table, i, 3)});
  }
}

bool read_versions(PgTable& table, EngineReply* reply) {
  reply->engine_ms = table.number(0, 2);
  for (size_t i = 0; i < table.row_count(); ++i) {
    const auto version = static_cast<uint32_t>(table.number(i, 0));
    if (version > 0) {  // else NULL: there is none, and version 0 is published by nobody
      reply->versions.push_back({version, bytes_of(table, i, 1)});
    }
  }
  return read_state(table, 3, &reply->state);
}

void read_fleet(PgTable& table, EngineReply* reply) {
  reply->fleet_change = table.number(0, 0);
  for (size_t i = 0; i < table.row_count(); ++i) {
    if (const uint64_t kind = table.number(i, 1); kind != 0) {
      reply->fleet.push_back({table.number(i, 5), kind == kClaimRow, static_cast<uint32_t>(table.number(i, 2)),
                              table.text(i, 3), bytes_of(table, i, 4)});
    }
  }
}

// The first column of a function's row.
EngineOutcome outcome_of(PgTable& table) {
  switch (table.number(0, 0)) {
    case 0:
      return EngineOutcome::kCommitted;
    case 1:
      return EngineOutcome::kCut;
    case 2:
      return EngineOutcome::kConflict;
    default:
      return EngineOutcome::kUnknown;
  }
}

bool read_table(EngineVerb verb, PgTable& table, const std::vector<uint32_t>& devices, EngineReply* reply) {
  reply->outcome = EngineOutcome::kCommitted;
  switch (verb) {
    case EngineVerb::kLoad:
      return read_rows(table, devices, reply);
    case EngineVerb::kReadProgress:
      return read_progress(table, reply);
    case EngineVerb::kReadSums:
      read_sums(table, reply);
      return true;
    case EngineVerb::kReadUpdates:
      read_updates(table, reply);
      return true;
    case EngineVerb::kReadVersions:
      return read_versions(table, reply);
    case EngineVerb::kReadFleet:
      read_fleet(table, reply);
      return true;
    case EngineVerb::kTakeLease:
    case EngineVerb::kReleaseLease:
    case EngineVerb::kSeal:
    case EngineVerb::kPublish:
      reply->outcome = outcome_of(table);
      reply->lease = {table.text(0, 1), table.number(0, 2), table.number(0, 3)};
      return true;
    case EngineVerb::kJoin:
    case EngineVerb::kCommit:
    case EngineVerb::kResolve:
      reply->outcome = outcome_of(table);
      reply->front = front_of(table, 0);
      return true;
  }
  return false;
}

void add_updates(const EngineBatch& batch, PgParameters* parameters) {
  std::vector<uint64_t> devices, base_versions;
  std::vector<std::vector<uint8_t>> contents;
  for (const StoredUpdate& update : batch.updates) {
    devices.push_back(update.device);
    base_versions.push_back(update.base_version);
    contents.push_back(update.bytes);
  }
  parameters->numbers(devices);
  parameters->numbers(base_versions);
  parameters->all_bytes(contents);
}

}  // namespace

const std::array<EngineStatement, kEngineVerbCount>& engine_statements() { return kStatements; }

PgParameters parameters_of_run(const PostgresOptions& options) {
  PgParameters parameters;
  parameters.number(options.run);
  return parameters;
}

PgParameters parameters_of_node(const PostgresOptions& options) {
  PgParameters parameters = parameters_of_run(options);
  parameters.text(options.node);
  return parameters;
}

PgParameters parameters_of_sums(const PostgresOptions& options, uint32_t version, const SumPlace& after) {
  PgParameters parameters = parameters_of_run(options);
  parameters.number(version);
  parameters.text(after.node);
  parameters.number(after.epoch);
  parameters.number(after.batch);
  parameters.number(kEngineSumCountMax);
  parameters.number(kEngineSumBytesMax);
  return parameters;
}

PgParameters parameters_of_updates(const PostgresOptions& options, uint32_t version, UpdatePart part,
                                   const UpdatePlace& from) {
  PgParameters parameters = parameters_of_run(options);
  parameters.number(version);
  parameters.number(part == UpdatePart::kOpen ? 1 : 0);
  parameters.number(from.device);
  parameters.number(from.base_version);
  parameters.number(kEngineUpdateCountMax);
  parameters.number(kEngineUpdateBytesMax);
  return parameters;
}

PgParameters parameters_of_publish(const PostgresOptions& options, uint64_t term, uint64_t sum_count,
                                   const PublishedVersion& next) {
  PgParameters parameters = parameters_of_node(options);
  parameters.number(term);
  parameters.number(sum_count);
  parameters.number(next.version);
  parameters.bytes(next.record);
  parameters.numbers(std::vector<uint64_t>(next.forgotten.begin(), next.forgotten.end()));
  return parameters;
}

PgParameters parameters_of_join(const PostgresOptions& options) {
  PgParameters parameters = parameters_of_node(options);
  parameters.text(options.release);
  return parameters;
}

// A place among devices is before all claims of its change, and one among claims is behind all devices of it.
PgParameters parameters_of_fleet(const FleetPlace& from) {
  PgParameters parameters;
  parameters.number(from.is_claim ? from.change + 1 : from.change);
  parameters.number(from.is_claim ? 0 : from.number);
  parameters.number(from.change);
  parameters.number(from.is_claim ? from.number : 0);
  parameters.number(kEngineFleetCountMax);
  parameters.number(kEngineFleetBytesMax);
  return parameters;
}

PgParameters parameters_of_devices(const PostgresOptions& options, const std::vector<uint32_t>& devices) {
  PgParameters parameters = parameters_of_run(options);
  parameters.numbers(std::vector<uint64_t>(devices.begin(), devices.end()));
  return parameters;
}

PgParameters parameters_of_batch(const PostgresOptions& options, const EngineBatch& batch) {
  std::vector<uint64_t> devices, sequences, next_sequences;
  std::vector<bool> opens, next_opens;
  std::vector<std::vector<uint8_t>> contents;
  for (const RowChange& change : batch.changes) {
    GS_ASSERT(devices.empty() || devices.back() < change.device);
    devices.push_back(change.device);
    sequences.push_back(change.task_sequence);
    opens.push_back(change.is_open);
    next_sequences.push_back(change.row.task.sequence);
    next_opens.push_back(change.row.task.is_open);
    contents.push_back(encode_engine_row(change.row));
  }
  PgParameters parameters = parameters_of_node(options);
  parameters.number(batch.epoch);
  parameters.number(batch.open_version);
  parameters.number(batch.number);
  parameters.numbers(devices);
  parameters.numbers(sequences);
  parameters.flags(opens);
  parameters.numbers(next_sequences);
  parameters.flags(next_opens);
  parameters.all_bytes(contents);
  parameters.number(batch.on_time_count);
  parameters.number(batch.late_count);
  if (batch.sum.empty()) {
    parameters.no_bytes();
  } else {
    parameters.bytes(batch.sum);
  }
  add_updates(batch, &parameters);
  return parameters;
}

// An error has no row of the front, which every other outcome of a batch promises. So it is unknown too, and resolve()
// tells of both.
bool read_engine_reply(EngineVerb verb, const PgAnswer& answer, const std::vector<uint32_t>& devices,
                       EngineReply* reply) {
  if (answer.is_doubtful || answer.table == nullptr) {
    return true;
  }
  PgTable table(answer.table);
  if (read_table(verb, table, devices, reply) && table.is_sound()) {
    return true;
  }
  *reply = EngineReply();
  return false;
}

}  // namespace gradstream

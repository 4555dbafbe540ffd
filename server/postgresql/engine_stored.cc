#include "server/postgresql/engine_stored.h"

#include <span>
#include <utility>

#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_calls.h"
#include "server/postgresql/engine_fleet.h"
#include "server/postgresql/engine_rows.h"

namespace gradstream {
namespace {

constexpr uint64_t kVersionsAtOnce = 64;  // Reason: some megabytes where a version has a hundred thousand numbers

// One update at least, however large it is.
constexpr char kReadUpdates[] =
    "SELECT device, base_version, version, content FROM ("
    "SELECT device, base_version, version, content, row_number() OVER places AS number, "
    "sum(octet_length(content)) OVER places AS bytes FROM gradstream.kept_update "
    "WHERE run = $1::bigint AND (device, base_version) >= ($2::bigint, $3::bigint) "
    "WINDOW places AS (ORDER BY device, base_version) ORDER BY device, base_version LIMIT $4::bigint) part "
    "WHERE number = 1 OR bytes <= $5::bigint ORDER BY device, base_version";

constexpr char kUnread[] =
    "the engine has a row that this release does not read. Use the release that the cluster runs.";

uint64_t number_of(std::span<const uint8_t> bytes) {
  uint64_t number = 0;
  for (const uint8_t byte : bytes) {
    number = number << 8 | byte;
  }
  return number;
}

std::vector<uint8_t> copy_of(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

Objection EngineReader::read_start(EngineStored* out, bool* is_there) {
  *out = {};
  Objection objection = session_.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
  objection = objection ? objection : session_.execute("SET LOCAL idle_in_transaction_session_timeout = 600000");
  objection = objection ? objection : read_plan(&out->plan, is_there);
  if (objection || !*is_there) {
    return objection;
  }
  EngineFleetRows fleet;
  objection = read_fleet_rows(session_, &fleet);
  out->devices = std::move(fleet.devices);
  out->claims = std::move(fleet.claims);
  return objection;
}

Objection EngineReader::read_run(EngineStored* out, bool* is_there) {
  Objection objection = read_start(out, is_there);
  if (objection || !*is_there) {
    return objection;
  }
  objection = read_rows(out);
  objection = objection ? objection : read_open_version(out);
  return objection ? objection : read_updates(out);
}

Objection EngineReader::read_plan(EnginePlan* out, bool* is_there) {
  PgResult rows;
  if (Objection objection = session_.ask(
          "SELECT run, name, parameters, source, digest, nonce, created_ms FROM gradstream.plan", {}, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  *is_there = table.row_count() == 1;
  if (*is_there) {
    run_ = static_cast<uint32_t>(table.number(0, 0));
    *out = {run_,
            table.text(0, 1),
            table.text(0, 2),
            table.text(0, 3),
            number_of(table.bytes(0, 4)),
            number_of(table.bytes(0, 5)),
            table.number(0, 6)};
  }
  return table.is_sound() ? "" : kUnread;
}

Objection EngineReader::read_rows(EngineStored* out) {
  PgResult rows;
  PgParameters run;
  run.number(run_);
  if (Objection objection = session_.ask(
          "SELECT device, content FROM gradstream.run_device WHERE run = $1::bigint ORDER BY device", run, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  for (size_t i = 0; i < table.row_count(); ++i) {
    auto& [device, row] = out->rows.emplace_back(static_cast<uint32_t>(table.number(i, 0)), DeviceRow());
    if (!decode_engine_row(table.bytes(i, 1), &row) || device >= out->devices.size()) {
      return kUnread;
    }
  }
  return table.is_sound() ? "" : kUnread;
}

// Ten seconds without a lease. Reason: a cluster in which nodes still run has a leader again within three.
Objection EngineReader::read_open_version(EngineStored* out) {
  PgResult rows;
  PgParameters run;
  run.number(run_);
  if (Objection objection =
          session_.ask("SELECT open_version, CASE WHEN lease_until > clock_timestamp() - interval '10 s' THEN leader "
                       "ELSE '' END, state, is_sealed FROM gradstream.run WHERE run = $1::bigint",
                       run, &rows)) {
    return objection;
  }
  PgTable open(rows.get());
  out->open_version = static_cast<uint32_t>(open.number(0, 0));
  out->leader = open.text(0, 1);
  const uint64_t state = open.number(0, 2);
  out->state = static_cast<EngineRunState>(state);
  out->is_sealed = open.flag(0, 3);
  if (!open.is_sound() || state > static_cast<uint64_t>(EngineRunState::kStopped)) {  // the cast cuts a number short
    return kUnread;
  }
  run.number(out->open_version);
  if (Objection objection =
          session_.ask("SELECT content FROM gradstream.partial WHERE run = $1::bigint AND version = $2::bigint "
                       "ORDER BY node COLLATE \"C\", epoch, batch",
                       run, &rows)) {
    return objection;
  }
  PgTable sums(rows.get());
  for (size_t i = 0; i < sums.row_count(); ++i) {
    out->sums.push_back(copy_of(sums.bytes(i, 0)));
  }
  return sums.is_sound() ? "" : kUnread;
}

// From place to place, as a leader reads them: all of them may be gigabytes, and no answer comes in time then.
Objection EngineReader::read_updates(EngineStored* out) {
  UpdatePlace from;
  for (bool has_more = true; has_more;) {
    if (Objection objection = read_updates_from(&from, out, &has_more)) {
      return objection;
    }
  }
  return {};
}

// *from: moves behind those that were read.
Objection EngineReader::read_updates_from(UpdatePlace* from, EngineStored* out, bool* has_more) {
  PgResult rows;
  PgParameters values;
  values.number(run_);
  values.number(from->device);
  values.number(from->base_version);
  values.number(kEngineUpdateCountMax);
  values.number(kEngineUpdateBytesMax);
  if (Objection objection = session_.ask(kReadUpdates, values, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  *has_more = table.row_count() > 0;
  for (size_t i = 0; i < table.row_count(); ++i) {
    if (table.number(i, 0) >= out->devices.size()) {
      return kUnread;
    }
    const bool is_open = table.number(i, 2) == out->open_version;
    std::vector<StoredUpdate>& part = is_open ? out->updates : out->memory;
    part.push_back({static_cast<uint32_t>(table.number(i, 0)), static_cast<uint32_t>(table.number(i, 1)),
                    copy_of(table.bytes(i, 3))});
    *from = part.back().place_behind();
  }
  return table.is_sound() ? "" : kUnread;
}

Objection EngineReader::read_versions(uint32_t from, std::vector<PublishedVersion>* out) {
  out->clear();
  PgResult rows;
  PgParameters values;
  values.number(run_);
  values.number(from);
  values.number(kVersionsAtOnce);
  if (Objection objection = session_.ask("SELECT version, content FROM gradstream.version WHERE run = $1::bigint AND "
                                         "version >= $2::bigint ORDER BY version LIMIT $3::bigint",
                                         values, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  for (size_t i = 0; i < table.row_count(); ++i) {
    out->push_back({static_cast<uint32_t>(table.number(i, 0)), copy_of(table.bytes(i, 1))});
  }
  return table.is_sound() ? "" : kUnread;
}

// What was read may be the primary's alone: its commit was cut in its wait. So a message goes behind it in the log, and
// waits for the standby.
Objection EngineReader::finish() {
  Objection objection = session_.execute("COMMIT");
  objection = objection ? objection : session_.execute("SELECT pg_logical_emit_message(true, 'gradstream', '')");
  return objection ? objection : check_last_commit(session_, durability_, "the run was read");
}

}  // namespace gradstream

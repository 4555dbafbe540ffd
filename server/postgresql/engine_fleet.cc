#include "server/postgresql/engine_fleet.h"

#include <span>

#include "server/postgresql/engine_admin.h"

namespace gradstream {
namespace {

constexpr char kReadCluster[] =
    "SELECT fleet_change, incarnation, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
    "FROM gradstream.cluster";
constexpr char kLockCluster[] = "SELECT fleet_change, incarnation FROM gradstream.cluster FOR UPDATE";
constexpr char kWriteDevices[] =
    "INSERT INTO gradstream.device(device, name, content, change) "
    "SELECT number, convert_from(name, 'UTF8'), content, $1::bigint "
    "FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) c(number, name, content) "
    "ON CONFLICT (device) DO UPDATE SET content = excluded.content, change = excluded.change";
constexpr char kWriteClaims[] =
    "INSERT INTO gradstream.claim(claim, name, content, change) "
    "SELECT number, convert_from(name, 'UTF8'), content, $1::bigint "
    "FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) c(number, name, content) "
    "ON CONFLICT (claim) DO UPDATE SET content = excluded.content, change = excluded.change";
constexpr char kUnreadFleet[] =
    "the engine has a device or a claim that this release does not read. Use the release that the cluster runs.";

Objection read_rows_of(EngineSession& session, const char* statement, std::vector<EngineFleetRow>* out) {
  out->clear();
  PgResult rows;
  if (Objection objection = session.ask(statement, {}, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  out->reserve(table.row_count());
  for (size_t i = 0; i < table.row_count(); ++i) {
    const std::span<const uint8_t> content = table.bytes(i, 2);
    out->push_back({static_cast<uint32_t>(table.number(i, 0)), table.text(i, 1), {content.begin(), content.end()}});
  }
  return table.is_sound() ? "" : kUnreadFleet;
}

}  // namespace

Objection read_fleet_rows(EngineSession& session, EngineFleetRows* out) {
  const Objection objection =
      read_rows_of(session, "SELECT device, name, content FROM gradstream.device ORDER BY device", &out->devices);
  return objection
             ? objection
             : read_rows_of(session, "SELECT claim, name, content FROM gradstream.claim ORDER BY claim", &out->claims);
}

Objection EngineFleet::read(EngineFleetRows* out) {
  PgResult rows;
  Objection objection = session_.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
  objection = objection ? objection : session_.ask(kReadCluster, {}, &rows);
  if (objection) {
    return objection;
  }
  PgTable table(rows.get());
  change_ = table.number(0, 0);
  incarnation_ = table.text(0, 1);
  clock_ms_ = table.number(0, 2);
  objection = table.is_sound() ? read_fleet_rows(session_, out) : Objection(kUnreadFleet);
  return objection ? objection : session_.execute("COMMIT");
}

// What was read may be the primary's alone. So a message goes behind it in the log, and waits for the standby.
Objection EngineFleet::confirm() {
  const Objection objection = session_.execute("SELECT pg_logical_emit_message(true, 'gradstream', '')");
  return objection ? objection : check_last_commit(session_, durability_, "the fleet was read");
}

// Two changes at once: the second one waits for the first one's end, and then finds another number.
Objection EngineFleet::begin(bool* is_beaten) {
  PgResult rows;
  Objection objection = session_.execute("BEGIN");
  objection = objection ? objection : session_.ask(kLockCluster, {}, &rows);
  if (objection) {
    return objection;
  }
  PgTable table(rows.get());
  *is_beaten = table.row_count() != 1 || table.number(0, 0) != change_ || table.text(0, 1) != incarnation_;
  return {};
}

Objection EngineFleet::send_all(const EngineFleetRows& changed) {
  Objection objection = send_fleet_rows(session_, kWriteDevices, change_ + 1, changed.devices);
  objection = objection ? objection : send_fleet_rows(session_, kWriteClaims, change_ + 1, changed.claims);
  PgParameters number;
  number.number(change_ + 1);
  return objection ? objection : session_.ask("UPDATE gradstream.cluster SET fleet_change = $1::bigint", number);
}

// Before COMMIT is sent, whatever fails takes all of it back: the server ends the transaction with the connection.
FleetWrite EngineFleet::write(const EngineFleetRows& changed, Objection* why) {
  bool is_beaten = false;
  *why = begin(&is_beaten);
  *why = *why || is_beaten ? *why : send_all(changed);
  if (*why || is_beaten) {
    static_cast<void>(session_.is_away() ? Objection() : session_.execute("ROLLBACK"));
    return *why ? FleetWrite::kRefused : FleetWrite::kBeaten;
  }
  *why = session_.execute("COMMIT");
  if (*why) {
    return session_.is_away() ? FleetWrite::kDoubted : FleetWrite::kRefused;
  }
  *why = check_last_commit(session_, durability_, "the fleet was changed");
  return *why ? FleetWrite::kDoubted : FleetWrite::kDone;
}

}  // namespace gradstream

#include "server/store/fleet_copy.h"

#include <span>

#include "runtime/base/status.h"
#include "server/base/state_archive.h"
#include "server/store/statement.h"

namespace gradstream {
namespace {

constexpr uint8_t kFleetForm = 1;  // of a row's content

constexpr const char* kReadDevices =
    "SELECT device_index,name,key,created_ms,state,generation,previous_key,previous_until_ms,claim,key_change_secret,"
    "key_change_since_ms,key_change_window_s,key_change_receipt,is_whole FROM checked_devices ORDER BY 1";
constexpr int kDeviceIsWhole = 13;
constexpr const char* kWriteDevice =
    "INSERT INTO devices (device_index,name,key,created_ms,state,generation,previous_key,previous_until_ms,claim,"
    "key_change_secret,key_change_since_ms,key_change_window_s,key_change_receipt,changed)"
    " VALUES (?1,?2,?3,?4,?5,?6,nullif(?7,x''),?8,?9,nullif(?10,x''),?11,?12,nullif(?13,x''),1)";
constexpr const char* kReadClaims =
    "SELECT id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended,server_secret,is_whole"
    " FROM checked_claims ORDER BY 1";
constexpr int kClaimIsWhole = 10;
constexpr const char* kWriteClaim =
    "INSERT INTO claims (id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended,server_secret)"
    " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,nullif(?10,x''))";
constexpr const char* kWriteRun =
    "INSERT INTO runs (id,name,parameters,source,digest,state,created_ms,run_nonce) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)";

using Bytes = std::vector<uint8_t>;  // empty: NULL

Bytes bytes_of(const Use& use, int column) {
  const std::span<const uint8_t> blob = use.blob(column);
  return {blob.begin(), blob.end()};
}

// Columns in the order of the statements above, behind number and name.
struct DeviceColumns {
  Bytes key, previous_key, change_secret, change_receipt;
  uint64_t created_ms = 0, state = 0, generation = 0, previous_until_ms = 0, claim = 0, change_since_ms = 0,
           change_window_s = 0;

  void exchange(StateArchive& io) {
    for (Bytes* const one : {&key, &previous_key, &change_secret, &change_receipt}) {
      io.numbers(*one);
    }
    io.values(created_ms, state, generation, previous_until_ms, claim, change_since_ms, change_window_s);
  }
  void read(const Use& use) {
    key = bytes_of(use, 2);
    created_ms = use.number(3);
    state = use.number(4);
    generation = use.number(5);
    previous_key = bytes_of(use, 6);
    previous_until_ms = use.number(7);
    claim = use.number(8);
    change_secret = bytes_of(use, 9);
    change_since_ms = use.number(10);
    change_window_s = use.number(11);
    change_receipt = bytes_of(use, 12);
  }
  void bind(Use& use) const {
    use.bind_blob(3, key);
    use.bind(4, created_ms);
    use.bind(5, state);
    use.bind(6, generation);
    use.bind_blob(7, previous_key);
    use.bind(8, previous_until_ms);
    use.bind(9, claim);
    use.bind_blob(10, change_secret);
    use.bind(11, change_since_ms);
    use.bind(12, change_window_s);
    use.bind_blob(13, change_receipt);
  }
};

struct ClaimColumns {
  Bytes key, server_secret;
  uint64_t count_max = 0, count_used = 0, expires_ms = 0, device_state = 0, created_ms = 0, is_ended = 0;

  void exchange(StateArchive& io) {
    io.numbers(key);
    io.numbers(server_secret);
    io.values(count_max, count_used, expires_ms, device_state, created_ms, is_ended);
  }
  void read(const Use& use) {
    key = bytes_of(use, 2);
    count_max = use.number(3);
    count_used = use.number(4);
    expires_ms = use.number(5);
    device_state = use.number(6);
    created_ms = use.number(7);
    is_ended = use.number(8);
    server_secret = bytes_of(use, 9);
  }
  void bind(Use& use) const {
    use.bind_blob(3, key);
    use.bind(4, count_max);
    use.bind(5, count_used);
    use.bind(6, expires_ms);
    use.bind(7, device_state);
    use.bind(8, created_ms);
    use.bind(9, is_ended);
    use.bind_blob(10, server_secret);
  }
};

template <typename Columns>
Objection read_rows(SqliteDatabase& database, const char* sql, int is_whole, std::vector<FleetCopy::Row>* out) {
  Use use(database, sql);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    FleetCopy::Row row = {use.number32(0), use.text(1), {}};
    if (use.number(is_whole) == 0) {
      return "the row of " + row.name + " is damaged; restore the last good copy (gradstream restore)";
    }
    Columns columns;
    columns.read(use);
    StateArchive io;
    uint8_t form = kFleetForm;
    io.values(form);
    columns.exchange(io);
    row.content = io.take_bytes();
    out->push_back(std::move(row));
  }
  return code == SQLITE_DONE ? Objection()
                             : std::string("the fleet cannot be read: ") + sqlite3_errstr(code) + "; check the disk";
}

// Objects to content that read_rows() does not make.
template <typename Columns>
Objection read_content(const FleetCopy::Row& row, Columns* columns) {
  StateArchive io(row.content);
  uint8_t form = 0;
  io.values(form);
  columns->exchange(io);
  return io.is_sound() && io.is_at_end() && form == kFleetForm
             ? ""
             : "the row of " + row.name + " is of another release; use the one that wrote it";
}

template <typename Columns>
Objection write_rows(SqliteDatabase& database, const char* sql, const std::vector<FleetCopy::Row>& rows) {
  for (const FleetCopy::Row& row : rows) {
    Columns columns;
    if (Objection objection = read_content(row, &columns)) {
      return objection;
    }
    Use use(database, sql);
    use.bind(1, row.number);
    use.bind_text(2, row.name);
    columns.bind(use);
    if (const int code = use.step(); code != SQLITE_DONE) {
      return "the row of " + row.name + " cannot be written: " + sqlite3_errstr(code) + "; check the disk";
    }
  }
  return {};
}

Objection write_run(SqliteDatabase& database, const RunRow& run) {
  Use use(database, kWriteRun);
  use.bind(1, run.id);
  use.bind_text(2, run.name);
  use.bind_text(3, run.parameters);
  use.bind_text(4, run.source);
  use.bind(5, run.digest);
  use.bind(6, static_cast<uint64_t>(run.state));
  use.bind(7, run.created_ms);
  use.bind(8, run.run_nonce);
  const int code = use.step();
  return code == SQLITE_DONE ? Objection()
                             : std::string("the run cannot be written: ") + sqlite3_errstr(code) + "; check the disk";
}

}  // namespace

Objection read_fleet(SqliteDatabase& database, FleetCopy* out) {
  *out = {};
  const Objection objection = read_rows<DeviceColumns>(database, kReadDevices, kDeviceIsWhole, &out->devices);
  return objection ? objection : read_rows<ClaimColumns>(database, kReadClaims, kClaimIsWhole, &out->claims);
}

namespace {

// run: none where it is null.
Objection write_all(SqliteDatabase& database, const FleetCopy& fleet, const RunRow* run) {
  Transaction transaction(database);
  if (transaction.begin() != StoreStatus::kOk) {
    return database.error();
  }
  Objection objection = write_rows<DeviceColumns>(database, kWriteDevice, fleet.devices);
  objection = objection ? objection : write_rows<ClaimColumns>(database, kWriteClaim, fleet.claims);
  objection = objection || run == nullptr ? objection : write_run(database, *run);
  if (objection || transaction.commit() == StoreStatus::kOk) {
    return objection;
  }
  return database.error();
}

std::vector<FleetCopy::Row> changed_of(const std::vector<FleetCopy::Row>& before,
                                       const std::vector<FleetCopy::Row>& after) {
  std::vector<FleetCopy::Row> changed;
  auto old = before.begin();
  for (const FleetCopy::Row& row : after) {
    const bool is_known = old != before.end() && old->number == row.number;
    if (!is_known || *old != row) {
      changed.push_back(row);
    }
    old += is_known ? 1 : 0;
  }
  GS_ASSERT(old == before.end());
  return changed;
}

}  // namespace

Objection write_fleet(SqliteDatabase& database, const FleetCopy& fleet, const RunRow& run) {
  return write_all(database, fleet, &run);
}

Objection write_fleet(SqliteDatabase& database, const FleetCopy& fleet) { return write_all(database, fleet, nullptr); }

FleetCopy changed_rows(const FleetCopy& before, const FleetCopy& after) {
  return {changed_of(before.devices, after.devices), changed_of(before.claims, after.claims)};
}

Objection read_device(const FleetCopy::Row& row, EnrolledDevice* out) {
  DeviceColumns columns;
  if (Objection objection = read_content(row, &columns)) {
    return objection;
  }
  const auto read_key = [](const Bytes& bytes, DeviceKey* key) {
    const bool is_whole = bytes.size() == DeviceKey::size();
    if (is_whole) {
      *key = DeviceKey(std::span<const uint8_t, DeviceKey::size()>(bytes.data(), DeviceKey::size()));
    }
    return is_whole;
  };
  *out = {};
  out->index = row.number;
  out->name = row.name;
  out->state = static_cast<DeviceState>(columns.state);
  out->generation = static_cast<uint32_t>(columns.generation);
  out->previous_until_ms = columns.previous_until_ms;
  out->created_ms = columns.created_ms;
  out->key_change_since_ms = columns.change_since_ms;
  const bool has_state = columns.state >= static_cast<uint64_t>(DeviceState::kPending) &&
                         columns.state <= static_cast<uint64_t>(DeviceState::kRevoked);
  const bool has_previous = columns.previous_key.empty() || read_key(columns.previous_key, &out->previous_key);
  return has_state && has_previous && columns.generation <= UINT32_MAX && read_key(columns.key, &out->key)
             ? ""
             : "the row of " + row.name + " is damaged; restore the last good copy";
}

Objection read_claim(const FleetCopy::Row& row, uint64_t now_ms, bool* is_open) {
  ClaimColumns columns;
  Objection objection = read_content(row, &columns);
  *is_open = !objection && columns.is_ended == 0 && now_ms < columns.expires_ms;
  return objection;
}

Objection drop_records_before(SqliteDatabase& database, uint32_t run, uint64_t sequence) {
  Use use(database, "DELETE FROM journal WHERE run=?1 AND sequence<?2");
  use.bind(1, run);
  use.bind(2, sequence);
  const int code = use.step();
  return code == SQLITE_DONE
             ? Objection()
             : std::string("the records cannot be dropped: ") + sqlite3_errstr(code) + "; check the disk";
}

}  // namespace gradstream

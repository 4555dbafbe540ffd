#include "server/postgresql/engine_transfer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_rows.h"

namespace gradstream {
namespace {

// Rows of one statement, and bytes of the versions or updates of one. Reason: a message of a few megabytes, and a
// statement of some milliseconds.
constexpr size_t kRowsAtOnce = 1000;
constexpr size_t kBytesAtOnce = size_t{4} << 20;
// How long the server waits for the next statement of an import, ms. Reason: the journal is replayed meanwhile, and a
// million updates take ten seconds.
constexpr char kReplayMost[] = "SET LOCAL idle_in_transaction_session_timeout = 600000";

// Of the rows of an import: no change has written them.
constexpr uint64_t kNoChange = 0;
constexpr char kAddDevices[] =
    "INSERT INTO gradstream.device(device, name, content, change) "
    "SELECT number, convert_from(name, 'UTF8'), content, $1::bigint "
    "FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) c(number, name, content)";
constexpr char kAddClaims[] =
    "INSERT INTO gradstream.claim(claim, name, content, change) "
    "SELECT number, convert_from(name, 'UTF8'), content, $1::bigint "
    "FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) c(number, name, content)";

std::array<uint8_t, 8> bytes_of(uint64_t number) {
  std::array<uint8_t, 8> bytes = {};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(number >> (56 - 8 * i));
  }
  return bytes;
}

}  // namespace

Objection send_fleet_rows(EngineSession& session, const char* statement, uint64_t change,
                          const std::vector<EngineFleetRow>& rows) {
  for (size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    std::vector<uint64_t> numbers;
    std::vector<std::vector<uint8_t>> names, contents;
    for (size_t i = first; i < std::min(rows.size(), first + kRowsAtOnce); ++i) {
      numbers.push_back(rows[i].number);
      names.emplace_back(rows[i].name.begin(), rows[i].name.end());
      contents.push_back(rows[i].content);
    }
    PgParameters values;
    values.number(change);
    values.numbers(numbers);
    values.all_bytes(names);
    values.all_bytes(contents);
    if (Objection objection = session.ask(statement, values)) {
      return objection;
    }
  }
  return {};
}

// An import whose last answer was lost may have brought its run.
Objection EngineImport::name_what_is_there(const EnginePlan& plan) {
  PgParameters same;
  same.number(plan.run);
  same.bytes(bytes_of(plan.digest));
  same.bytes(bytes_of(plan.nonce));
  PgResult rows;
  if (Objection objection =
          session_.ask("SELECT run FROM gradstream.plan WHERE run = $1::bigint AND digest = $2::bytea AND "
                       "nonce = $3::bytea",
                       same, &rows)) {
    return objection;
  }
  if (PgTable(rows.get()).row_count() > 0) {
    return "the engine has this run " + std::to_string(plan.run) +
           " already: an import has brought it, and its answer may have been lost. gradstream engine status shows it.";
  }
  return "the engine has a run or devices already, and an import fills an empty one. Name a database of its own for "
         "this run; gradstream engine init makes its tables.";
}

Objection EngineImport::begin(const EnginePlan& plan) {
  run_ = plan.run;
  std::string is_used;
  Objection objection = session_.execute("BEGIN");
  objection = objection ? objection : session_.execute(kReplayMost);
  // Two imports at once: the second one waits for the first one's end, and then finds its run.
  objection = objection ? objection : session_.execute("LOCK TABLE gradstream.plan IN EXCLUSIVE MODE");
  objection = objection ? objection
                        : session_.execute(
                              "SELECT EXISTS (SELECT FROM gradstream.run) OR "
                              "EXISTS (SELECT FROM gradstream.device)",
                              &is_used);
  if (objection) {
    return objection;
  }
  if (is_used != "f") {
    return name_what_is_there(plan);
  }
  PgParameters values;
  values.number(plan.run);
  values.text(plan.name);
  values.text(plan.parameters);
  values.text(plan.source);
  values.bytes(bytes_of(plan.digest));
  values.bytes(bytes_of(plan.nonce));
  values.number(plan.created_ms);
  return session_.ask(
      "INSERT INTO gradstream.plan VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::bytea, $7::bigint)",
      values);
}

Objection EngineImport::add_fleet(const std::vector<EngineFleetRow>& devices,
                                  const std::vector<EngineFleetRow>& claims) {
  const Objection objection = send_fleet_rows(session_, kAddDevices, kNoChange, devices);
  return objection ? objection : send_fleet_rows(session_, kAddClaims, kNoChange, claims);
}

Objection EngineImport::add_version(PublishedVersion version) {
  size_ += version.record.size();
  versions_.push_back(std::move(version));
  return size_ < kBytesAtOnce && versions_.size() < kRowsAtOnce ? Objection() : send_versions();
}

Objection EngineImport::send_versions() {
  std::vector<uint64_t> numbers;
  std::vector<std::vector<uint8_t>> contents;
  for (PublishedVersion& one : versions_) {
    numbers.push_back(one.version);
    contents.push_back(std::move(one.record));
  }
  versions_.clear();
  size_ = 0;
  PgParameters values;
  values.number(run_);
  values.numbers(numbers);
  values.all_bytes(contents);
  return session_.ask(
      "INSERT INTO gradstream.version(run, version, term, content) SELECT $1::bigint, number, 0, content "
      "FROM unnest($2::bigint[], $3::bytea[]) c(number, content)",
      values);
}

Objection EngineImport::add_rows(const std::vector<DeviceRow>& rows) {
  Objection objection;
  for (size_t first = 0; !objection && first < rows.size(); first += kRowsAtOnce) {
    std::vector<uint64_t> devices, sequences;
    std::vector<bool> opens;
    std::vector<std::vector<uint8_t>> contents;
    for (size_t i = first; i < std::min(rows.size(), first + kRowsAtOnce); ++i) {
      DeviceRow row = rows[i];
      // Of the journal that is left behind; an engine has none.
      row.task.record_sequence = row.judged.record_sequence = row.accepted.record_sequence = 0;
      if (row.task.sequence != 0) {  // else it is as one without a row
        devices.push_back(i);
        sequences.push_back(row.task.sequence);
        opens.push_back(row.task.is_open);
        contents.push_back(encode_engine_row(row));
      }
    }
    PgParameters values;
    values.number(run_);
    values.numbers(devices);
    values.numbers(sequences);
    values.flags(opens);
    values.all_bytes(contents);
    objection = session_.ask(
        "INSERT INTO gradstream.run_device(run, device, task_sequence, is_open, content) "
        "SELECT $1::bigint, device, sequence, is_open, content "
        "FROM unnest($2::bigint[], $3::bigint[], $4::boolean[], $5::bytea[]) c(device, sequence, is_open, content)",
        values);
  }
  return objection;
}

Objection EngineImport::add_updates(const std::vector<StoredUpdate>& updates, uint32_t version) {
  Objection objection;
  for (size_t next = 0; !objection && next < updates.size();) {
    std::vector<uint64_t> devices, base_versions;
    std::vector<std::vector<uint8_t>> contents;
    for (size_t size = 0; next < updates.size() && size < kBytesAtOnce && devices.size() < kRowsAtOnce; ++next) {
      devices.push_back(updates[next].device);
      base_versions.push_back(updates[next].base_version);
      contents.push_back(updates[next].bytes);
      size += contents.back().size();
    }
    PgParameters values;
    values.number(run_);
    values.number(version);
    values.numbers(devices);
    values.numbers(base_versions);
    values.all_bytes(contents);
    objection = session_.ask(
        "INSERT INTO gradstream.kept_update(run, device, base_version, version, content) "
        "SELECT $1::bigint, device, base_version, $2::bigint, content "
        "FROM unnest($3::bigint[], $4::bigint[], $5::bytea[]) c(device, base_version, content)",
        values);
  }
  return objection;
}

Objection EngineImport::add_open(const EngineOpenVersion& open) {
  PgParameters run;
  run.number(run_);
  run.number(open.version);
  run.number(static_cast<uint64_t>(open.state));
  Objection objection = session_.ask(
      "INSERT INTO gradstream.run(run, open_version, state) VALUES ($1::bigint, $2::bigint, $3::bigint)", run);
  objection = objection || open.memory.empty() ? objection : add_updates(open.memory, open.version - 1);
  objection = objection ? objection : add_updates(open.updates, open.version);
  if (!objection && open.on_time_count + open.late_count > 0) {
    PgParameters front;
    front.number(run_);
    front.text(kImportNode);
    front.number(open.version);
    front.number(open.on_time_count);
    front.number(open.late_count);
    if (open.sum.empty()) {
      front.no_bytes();
    } else {
      front.bytes(open.sum);
    }
    objection = session_.ask(
        "WITH joined AS (INSERT INTO gradstream.front(run, node, epoch, open_version, batch, previous_batch, on_time, "
        "late) VALUES ($1::bigint, $2::text, 1, $3::bigint, 1, 0, $4::bigint, $5::bigint)) "
        "INSERT INTO gradstream.partial(run, version, node, epoch, batch, content) "
        "SELECT $1::bigint, $3::bigint, $2::text, 1, 1, $6::bytea WHERE $6::bytea IS NOT NULL",
        front);
  }
  return objection;
}

Objection EngineImport::end(const EngineOpenVersion& open, const std::vector<DeviceRow>& rows) {
  Objection objection = send_versions();
  objection = objection ? objection : add_rows(rows);
  objection = objection ? objection : add_open(open);
  if (objection) {
    return objection;
  }
  if (Objection lost = session_.execute("COMMIT")) {
    return session_.is_away() ? lost.sentence + " The run may be in nevertheless: gradstream engine status shows it."
                              : lost;
  }
  return check_last_commit(session_, durability_, "the run was imported");
}

}  // namespace gradstream

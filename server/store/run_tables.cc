// The runs of a SqliteDatabase.
#include <utility>

#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kSelectRun =
    "SELECT id,name,parameters,source,digest,state,created_ms,run_nonce,is_whole FROM checked_runs WHERE id=?1";
constexpr const char* kSelectRuns =
    "SELECT id,name,parameters,source,digest,state,created_ms,run_nonce,is_whole FROM checked_runs ORDER BY id";

RunRow run_of(const Use& use) {
  RunRow row;
  row.id = use.number32(0);
  row.name = use.text(1);
  row.parameters = use.text(2);
  row.source = use.text(3);
  row.digest = use.number(4);
  row.state = static_cast<StoredRunState>(use.number(5));
  row.created_ms = use.number(6);
  row.run_nonce = use.number(7);
  return row;
}

constexpr int kRunIsWhole = 8;  // the column

}  // namespace

Expected<uint32_t> SqliteDatabase::create_run(const RunRow& row) {
  return change([&]() -> Expected<uint32_t> {
    Use use(*this,
            "INSERT INTO runs (name,parameters,source,digest,state,created_ms,run_nonce)"
            " VALUES (?1,?2,?3,?4,?5,?6,?7)");
    use.bind_text(1, row.name);
    use.bind_text(2, row.parameters);
    use.bind_text(3, row.source);
    use.bind(4, row.digest);
    use.bind(5, static_cast<uint64_t>(row.state));
    use.bind(6, row.created_ms);
    use.bind(7, row.run_nonce);
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "create the run");
    }
    return static_cast<uint32_t>(sqlite3_last_insert_rowid(connection_));
  });
}

Expected<std::optional<RunRow>> SqliteDatabase::find_run(uint32_t id) {
  Use use(*this, kSelectRun);
  use.bind(1, id);
  const int code = use.step();
  if (code == SQLITE_DONE) {
    return std::nullopt;
  }
  if (code != SQLITE_ROW) {
    return fail(code, "read the run");
  }
  if (use.number(kRunIsWhole) == 0) {
    return fail_damaged("runs", std::to_string(id));
  }
  return run_of(use);
}

Expected<std::vector<RunRow>> SqliteDatabase::runs() {
  std::vector<RunRow> rows;
  Use use(*this, kSelectRuns);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    rows.push_back(run_of(use));
    if (use.number(kRunIsWhole) == 0) {
      return fail_damaged("runs", std::to_string(rows.back().id));
    }
  }
  if (code != SQLITE_DONE) {
    return fail(code, "read the runs");
  }
  return rows;
}

StoreStatus SqliteDatabase::set_run_state(uint32_t run, StoredRunState state) {
  return change([&] {
    Use use(*this, "UPDATE runs SET state=?2 WHERE id=?1");
    use.bind(1, run);
    use.bind(2, static_cast<uint64_t>(state));
    const int code = use.step();
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "set the run's state");
  });
}

Expected<bool> SqliteDatabase::exchange_run_state(uint32_t run, StoredRunState from, StoredRunState to) {
  return change([&]() -> Expected<bool> {
    Use use(*this, "UPDATE runs SET state=?3 WHERE id=?1 AND state=?2");
    use.bind(1, run);
    use.bind(2, static_cast<uint64_t>(from));
    use.bind(3, static_cast<uint64_t>(to));
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "set the run's state");
    }
    return sqlite3_changes(connection_) == 1;
  });
}

Expected<std::optional<RunRow>> SqliteDatabase::current_run() {
  Expected<std::vector<RunRow>> rows = runs();
  GS_TRY_STORE(rows);
  std::optional<RunRow> current;
  for (RunRow& row : *rows) {
    if (is_active(row.state) || !current || !is_active(current->state)) {
      current = std::move(row);
    }
  }
  return current;
}

}  // namespace gradstream

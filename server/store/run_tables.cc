// The runs of a SqliteDatabase.
#include <utility>

#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kSelectRun =
    "SELECT id,name,parameters,source,digest,state,created_ms,is_whole FROM checked_runs WHERE id=?1";
constexpr const char* kSelectRuns =
    "SELECT id,name,parameters,source,digest,state,created_ms,is_whole FROM checked_runs ORDER BY id";

RunRow run_of(const Use& use) {
  RunRow row;
  row.id = use.number32(0);
  row.name = use.text(1);
  row.parameters = use.text(2);
  row.source = use.text(3);
  row.digest = use.number(4);
  row.state = static_cast<StoredRunState>(use.number(5));
  row.created_ms = use.number(6);
  return row;
}

constexpr int kRunIsWhole = 7;  // the column

}  // namespace

StoreStatus SqliteDatabase::create_run(RunRow* row) {
  return change([&] {
    Use use(*this, "INSERT INTO runs (name,parameters,source,digest,state,created_ms) VALUES (?1,?2,?3,?4,?5,?6)");
    use.bind_text(1, row->name);
    use.bind_text(2, row->parameters);
    use.bind_text(3, row->source);
    use.bind(4, row->digest);
    use.bind(5, static_cast<uint64_t>(row->state));
    use.bind(6, row->created_ms);
    const int code = use.step();
    row->id = static_cast<uint32_t>(sqlite3_last_insert_rowid(connection_));
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "create the run");
  });
}

StoreStatus SqliteDatabase::find_run(uint32_t id, std::optional<RunRow>* out) {
  out->reset();
  Use use(*this, kSelectRun);
  use.bind(1, id);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    if (use.number(kRunIsWhole) == 0) {
      return fail_damaged("runs", std::to_string(id));
    }
    *out = run_of(use);
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the run");
}

StoreStatus SqliteDatabase::runs(std::vector<RunRow>* out) {
  out->clear();
  Use use(*this, kSelectRuns);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    out->push_back(run_of(use));
    if (use.number(kRunIsWhole) == 0) {
      return fail_damaged("runs", std::to_string(out->back().id));
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the runs");
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

StoreStatus SqliteDatabase::exchange_run_state(uint32_t run, StoredRunState from, StoredRunState to, bool* changed) {
  return change([&] {
    Use use(*this, "UPDATE runs SET state=?3 WHERE id=?1 AND state=?2");
    use.bind(1, run);
    use.bind(2, static_cast<uint64_t>(from));
    use.bind(3, static_cast<uint64_t>(to));
    const int code = use.step();
    if (changed != nullptr) {
      *changed = sqlite3_changes(connection_) == 1;
    }
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "set the run's state");
  });
}

StoreStatus SqliteDatabase::current_run(std::optional<RunRow>* out) {
  std::vector<RunRow> rows;
  const StoreStatus status = runs(&rows);
  out->reset();
  for (RunRow& row : rows) {
    if (is_active(row.state) || !out->has_value() || !is_active((*out)->state)) {
      *out = std::move(row);
    }
  }
  return status;
}

}  // namespace gradstream

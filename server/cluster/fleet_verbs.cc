#include "server/cluster/fleet_verbs.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/engine_commands.h"
#include "server/engine/followed_run.h"
#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_fleet.h"
#include "server/store/fleet_copy.h"

namespace gradstream {
namespace {

std::vector<FleetCopy::Row> copy_rows(const std::vector<EngineFleetRow>& rows) {
  std::vector<FleetCopy::Row> all;
  all.reserve(rows.size());
  for (const EngineFleetRow& row : rows) {
    all.push_back({row.number, row.name, row.content});
  }
  return all;
}

std::vector<EngineFleetRow> engine_rows(const std::vector<FleetCopy::Row>& rows) {
  std::vector<EngineFleetRow> all;
  all.reserve(rows.size());
  for (const FleetCopy::Row& row : rows) {
    all.push_back({row.number, row.name, row.content});
  }
  return all;
}

// The fleet of an engine, in memory from open() to commit().
class MemoryFleet : public FleetHome {
 public:
  explicit MemoryFleet(const CommonOptions& options) : FleetHome(options) {}

  int open(FleetUse use) override;
  // The engine's clock, as far as this machine's has gone on since.
  uint64_t now_ms() const override;
  FleetCommit commit() override;
  bool is_of_nodes() const override { return true; }
  void add_place(OutputLine* line) const override;
  // Whether the last commit() was too late for its rows.
  bool is_beaten() const { return is_beaten_; }

 private:
  int connect();
  int check(const EngineReport& report);
  void note_room(const EngineReport& report);
  int fill(EngineFleet& fleet);
  Objection check_room(const FleetCopy& changed) const;
  FleetCommit bring_back(const FleetCopy& changed);

  std::unique_ptr<OpenedEngine> engine_;
  std::unique_ptr<EngineFleet> fleet_;
  std::string server_;  // HOST:PORT, or "local"
  Objection full_;      // why the engine's run takes no more devices than kClusterMemoryDevicesMax; none: it does
  FleetCopy before_;
  std::chrono::steady_clock::time_point read_at_;
  bool is_beaten_ = false;
};

// Once for all tries.
int MemoryFleet::connect() {
  if (engine_ != nullptr) {
    return kExitOk;
  }
  const int code = open_engine(options_, &engine_);
  if (code == kExitOk) {
    config_ = engine_->config;
  }
  return code;
}

// What nodes would refuse is not changed either: the change could be lost.
int MemoryFleet::check(const EngineReport& report) {
  Objection objection = trouble_of(report, engine_->durability);
  objection = objection ? objection : secrecy_of(*engine_, report);
  server_ = report.primary.empty() ? "local" : report.primary;
  return objection ? fail_engine(engine_->session, objection) : int{kExitOk};
}

int MemoryFleet::fill(EngineFleet& fleet) {
  EngineFleetRows rows;
  if (const Objection objection = fleet.read(&rows)) {
    return fail_engine(engine_->session, objection);
  }
  read_at_ = std::chrono::steady_clock::now();
  before_ = {copy_rows(rows.devices), copy_rows(rows.claims)};
  SqliteOptions options;
  options.path = "of the engine's fleet in memory";
  options.is_in_memory = true;
  database_ = std::make_unique<SqliteDatabase>();
  if (database_->open(options) != StoreStatus::kOk) {
    return fail_database(*database_);
  }
  const Objection objection = write_fleet(*database_, before_);
  return objection ? fail(kExitDatabase, "the engine's fleet: " + objection.sentence) : int{kExitOk};
}

int MemoryFleet::open(FleetUse use) {
  if (const int code = connect(); code != kExitOk) {
    return code;
  }
  is_beaten_ = false;
  EngineReport report;
  if (const Objection objection = read_engine_report(engine_->session, &report)) {
    return fail_engine(engine_->session, objection);
  }
  if (const int code = check(report); code != kExitOk) {
    return code;
  }
  note_room(report);
  fleet_ = std::make_unique<EngineFleet>(engine_->session, engine_->durability);
  if (const int code = fill(*fleet_); code != kExitOk) {
    return code;
  }
  const Objection objection = use == FleetUse::kLook ? fleet_->confirm() : "";
  return objection ? fail_engine(engine_->session, objection) : int{kExitOk};
}

uint64_t MemoryFleet::now_ms() const {
  const auto since = std::chrono::steady_clock::now() - read_at_;
  return fleet_->clock_ms() +
         static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

void MemoryFleet::add_place(OutputLine* line) const { line->add("engine", server_); }

FleetCommit MemoryFleet::commit() {
  FleetCopy after;
  if (const Objection objection = read_fleet(*database_, &after)) {
    return {fail(kExitDatabase, "the engine's fleet: " + objection.sentence), false};
  }
  const FleetCopy changed = changed_rows(before_, after);
  if (!changed.devices.empty() || !changed.claims.empty()) {
    return bring_back(changed);
  }
  // It was so already; but the standby has to know that too before anybody is told.
  const Objection objection = fleet_->confirm();
  return {objection ? fail_engine(engine_->session, objection) : int{kExitOk}, false};
}

void MemoryFleet::note_room(const EngineReport& report) {
  full_ = {};
  for (const EngineRunReport& run : report.runs) {
    RunParameters parameters;
    if (!run.source.empty() && !parse_run_source(run.source, &parameters) && parameters.has_memory()) {
      full_ = "run " + std::to_string(run.run) +
              " has a memory (correction_form), for which an engine keeps the updates of " +
              std::to_string(kClusterMemoryDevicesMax) +
              " devices at most, and the fleet stays as it is; export the run for one server, which takes more";
    }
  }
}

// Who is there already may change, whatever the index.
Objection MemoryFleet::check_room(const FleetCopy& changed) const {
  const bool has_more = std::ranges::any_of(changed.devices, [this](const FleetCopy::Row& row) {
    return row.number >= std::max<size_t>(kClusterMemoryDevicesMax, before_.devices.size());
  });
  return full_ && has_more ? full_ : "";
}

FleetCommit MemoryFleet::bring_back(const FleetCopy& changed) {
  if (const Objection objection = check_room(changed)) {
    return {fail(kExitFrozen, objection.sentence), false};
  }
  Objection why;
  switch (fleet_->write({engine_rows(changed.devices), engine_rows(changed.claims)}, &why)) {
    case FleetWrite::kDone:
      return {};
    case FleetWrite::kBeaten:
      is_beaten_ = true;
      return {kExitTemporary, false};
    case FleetWrite::kRefused:
      return {fail_engine(engine_->session, why.sentence + " The fleet is as it was."), false};
    case FleetWrite::kDoubted:
      break;
  }
  return {fail_engine(engine_->session,
                      why.sentence + " The change may be in nevertheless: gradstream device list and claim list tell."),
          true};
}

}  // namespace

int run_fleet_verb(const CommonOptions& options, const std::function<int(FleetHome&)>& verb) {
  MemoryFleet fleet(options);
  for (int i = 0; i < kFleetTriesMax; ++i) {
    const int code = verb(fleet);
    if (!fleet.is_beaten()) {
      return code;
    }
  }
  return fail(kExitTemporary, "others have changed the engine's fleet each time while this verb was at work, " +
                                  std::to_string(kFleetTriesMax) +
                                  " times; it is as they left it: try again once they are done");
}

}  // namespace gradstream

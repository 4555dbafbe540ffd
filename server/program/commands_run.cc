// The verbs `run start`, `keys`, `list`, `stop`, `pause` and `resume`: what the operator wants of runs. A verb writes
// the wish into the database, and the run's server follows it (server/program/fleet_follower.h).
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/program/commands.h"
#include "server/run/check_parameters.h"
#include "server/run/key_table.h"
#include "server/run/model_keys.h"
#include "server/store/journal_table.h"

namespace gradstream {

namespace {

// What makes a server serve a run that was just begun.
std::string next_step(const DatabaseOwner& owner, uint32_t run) {
  if (!owner.is_held || owner.may_serve(run)) {
    return "gradstream serve";
  }
  return "none: the server (process " + std::to_string(owner.process) + ") goes over to it";
}

// A device takes part in one run at a time: kExitOk where no run but `run` is active.
int find_no_other_active(SqliteDatabase& database, uint32_t run) {
  std::optional<RunRow> current;
  if (database.current_run(&current) != StoreStatus::kOk) {
    return fail_database(database);
  }
  if (!current || current->id == run || !is_active(current->state)) {
    return kExitOk;
  }
  return fail(kExitNotFound, "run " + std::to_string(current->id) + " (" + current->name +
                                 ") is active; end it with `gradstream run stop`, or keep it for later with "
                                 "`gradstream run pause`");
}

// Earlier runs that are looked at for what devices have trained, and records of each. Reason: a journal may have
// gigabytes, and devices answer in its first rounds.
constexpr size_t kRunsSeenMax = 8;
constexpr uint32_t kRecordsSeenMax = 20'000;

// By problem, the active devices whose updates earlier runs have taken, newest runs first.
int find_trained(SqliteDatabase& database, const std::set<uint32_t>& active, uint32_t new_run,
                 std::map<std::string, std::set<uint32_t>>* out) {
  std::vector<RunRow> runs;
  if (database.runs(&runs) != StoreStatus::kOk) {
    return fail_database(database);
  }
  std::sort(runs.begin(), runs.end(), [](const RunRow& a, const RunRow& b) { return a.id > b.id; });
  size_t seen = 0;
  for (const RunRow& run : runs) {
    RunParameters parameters;
    if (run.id == new_run || !parse_run_source(run.source, &parameters).empty()) {
      continue;
    }
    std::set<uint32_t>& devices = (*out)[parameters.model->problem];
    uint32_t records = 0;
    SqliteStore journal(database, run.id);
    const StoreStatus read = journal.read([&](const JournalRecord& record) {
      if (record.kind == RecordKind::kUpdate && active.contains(record.device)) {
        devices.insert(record.device);
      }
      return ++records < kRecordsSeenMax && devices.size() < active.size();
    });
    if (read != StoreStatus::kOk) {
      return fail_database(database);
    }
    if (++seen == kRunsSeenMax) {
      break;
    }
  }
  return kExitOk;
}

// Adds how many devices are known to do the problem of the new run, and a note where none is.
int add_experience(SqliteDatabase& database, const Config& config, uint32_t run, OutputLine* line) {
  std::vector<EnrolledDevice> devices;
  if (database.devices(&devices) != StoreStatus::kOk) {
    return fail_database(database);
  }
  std::set<uint32_t> active;
  for (const EnrolledDevice& device : devices) {
    if (device.is_active()) {
      active.insert(device.index);
    }
  }
  std::map<std::string, std::set<uint32_t>> trained;
  if (const int code = find_trained(database, active, run, &trained); code != kExitOk) {
    return code;
  }
  const std::string& problem = config.run.model->problem;
  const size_t count = trained[problem].size();
  line->add("devices", uint64_t{active.size()}).add("have_trained", uint64_t{count});
  std::string others;
  for (const auto& [name, indices] : trained) {
    others += name == problem || indices.empty()
                  ? ""
                  : (others.empty() ? "" : ", ") + std::to_string(indices.size()) + " have trained " + name;
  }
  if (count == 0 && !others.empty()) {
    line->add_quoted("note", "none of the " + std::to_string(active.size()) + " devices has trained " + problem +
                                 " so far, " + others + "; a device whose image lacks it logs not_capable");
  }
  return kExitOk;
}

// What a verb asks of a run.
struct RunRequest {
  bool (*may_follow)(StoredRunState state) = nullptr;
  const char* refusal = "";                                 // after "run N is STATE"
  StoredRunState requested = StoredRunState::kActive;       // of the run's server, which makes it so within a second
  StoredRunState without_server = StoredRunState::kActive;  // the next server finds it
  bool is_activating = false;
};

// From the state that it was read in: the server may be writing what came of the last request.
int ask_once(const RunRequest& request, Opened& opened, const RunRow& run, bool* changed) {
  const std::string name = "run " + std::to_string(run.id);
  if (!request.may_follow(run.state)) {
    return fail(kExitNotFound, name + " is " + stored_run_state_text(run.state) + request.refusal);
  }
  DatabaseOwner owner;
  int code = request.is_activating ? find_no_other_active(opened.database, run.id) : int{kExitOk};
  if (code == kExitOk) {
    code = probe_server(opened.config, &owner);
  }
  if (code != kExitOk) {
    return code;
  }
  const StoredRunState state = owner.may_serve(run.id) ? request.requested : request.without_server;
  if (opened.database.exchange_run_state(run.id, run.state, state, changed) != StoreStatus::kOk) {
    return fail_database(opened.database);
  }
  if (*changed) {
    OutputLine().add("run", uint64_t{run.id}).add_quoted("state", stored_run_state_text(state)).print(opened.options);
  }
  return kExitOk;
}

int ask(const RunRequest& request, const CommonOptions& options, uint32_t id) {
  // Reason: a run that changes its state more often than this while it is asked once is in nobody's hands.
  constexpr int kAttemptsMax = 10;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    Opened opened;
    RunRow run;
    bool changed = false;
    int code = open_run(options, id, &opened, &run);
    if (code == kExitOk) {
      code = ask_once(request, opened, run, &changed);
    }
    if (code != kExitOk || changed) {
      return code;
    }
  }
  return fail(kExitDatabase, "the run's state changes all the time; let no other program write to it, and try again");
}

// Whether `serve` could begin this run: a run that it refuses would be frozen for nothing. A first model that is moved
// onto its manifold is told, as the server will tell it in its log.
int check_start(const Config& config) {
  if (const Objection objection = check_new_run(config.run)) {
    return fail(kExitConfig, "[run] " + objection.sentence);
  }
  std::vector<Real> model;
  std::string projected;
  std::string problem = read_first_model(config, &model);
  problem = problem.empty() ? settle_first_model(config, model, &projected) : problem;
  if (!projected.empty()) {
    std::fprintf(stderr, "gradstream: warning: server.first_model %s is moved onto its manifold: %s\n",
                 config.server.first_model.c_str(), projected.c_str());
  }
  return problem.empty() ? int{kExitOk} : fail(kExitFile, problem + "; no run was begun");
}

}  // namespace

int run_start(const CommonOptions& options) {
  Config config;
  SqliteDatabase database;
  int code = load(options, &config);
  if (code == kExitOk && !config.has_run) {
    code = fail(kExitConfig, options.config + " has no section [run]");
  }
  if (code == kExitOk) {
    code = check_start(config);
  }
  if (code == kExitOk) {
    code = open_database(config, true, &database);
  }
  if (code != kExitOk) {
    return code;
  }
  if (code = find_no_other_active(database, 0); code != kExitOk) {
    return code;
  }
  RunRow run;
  code = create_run(database, config, &run);
  DatabaseOwner owner;
  if (code == kExitOk) {
    code = probe_server(config, &owner);
  }
  if (code == kExitOk) {
    OutputLine line;
    line.add("run", uint64_t{run.id})
        .add("name", run.name)
        .add_hex("parameters", run.digest)
        .add("state", "active")
        .add_quoted("next", next_step(owner, run.id));
    // The run is begun, whatever can be said of the devices.
    static_cast<void>(add_experience(database, config, run.id, &line));
    line.print(options);
  }
  return code;
}

int run_keys(const CommonOptions& options, bool as_markdown) {
  if (as_markdown) {
    std::fputs(key_table().c_str(), stdout);
    return kExitOk;
  }
  for (const KeyRow& row : key_rows()) {
    OutputLine()
        .add("key", row.name)
        .add("group", row.group)
        .add("default", row.value)
        .add("takes", row.takes)
        .add("meaning", row.sentence)
        .print(options);
  }
  return kExitOk;
}

int run_list(const CommonOptions& options) {
  Opened opened;
  if (const int code = open_both(options, false, &opened); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = opened.database;
  std::vector<RunRow> runs;
  if (database.runs(&runs) != StoreStatus::kOk) {
    return fail_database(database);
  }
  for (const RunRow& run : runs) {
    OutputLine()
        .add("run", uint64_t{run.id})
        .add("name", run.name)
        .add_hex("parameters", run.digest)
        .add_quoted("state", stored_run_state_text(run.state))
        .add("created_ms", run.created_ms)
        .print(options);
  }
  return kExitOk;
}

int run_stop(const CommonOptions& options, uint32_t id) {
  const auto may_stop = [](StoredRunState state) {
    return state != StoredRunState::kFinished && state != StoredRunState::kStopped &&
           state != StoredRunState::kStopRequested;
  };
  return ask({may_stop, " already", StoredRunState::kStopRequested, StoredRunState::kStopped}, options, id);
}

int run_pause(const CommonOptions& options, uint32_t id) {
  const auto may_pause = [](StoredRunState state) {
    return state == StoredRunState::kActive || state == StoredRunState::kResumeRequested;
  };
  return ask(
      {may_pause, "; only an active run can be paused", StoredRunState::kPauseRequested, StoredRunState::kPaused},
      options, id);
}

int run_resume(const CommonOptions& options, uint32_t id) {
  const auto may_resume = [](StoredRunState state) {
    return state == StoredRunState::kPaused || state == StoredRunState::kPauseRequested;
  };
  return ask({may_resume, "; only a paused run can be resumed (--run N names another one)",
              StoredRunState::kResumeRequested, StoredRunState::kActive, true},
             options, id);
}

}  // namespace gradstream

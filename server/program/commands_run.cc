// The verbs `run start`, `keys`, `list`, `stop`, `pause` and `resume`: what the operator wants of runs. A verb writes
// the wish into the database, and the run's server follows it (server/program/fleet_follower.h).
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "host/standard_files.h"
#include "server/program/commands.h"
#include "server/program/past_runs.h"
#include "server/program/watch_client.h"
#include "server/run/key_table.h"
#include "server/run/run_core.h"
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

// How long a verb waits until a server has taken note of what an earlier verb has asked for, and how often it looks.
// Reason: the server looks four times a second, and then waits for its disk, which may be busy for seconds.
constexpr uint32_t kNoteWaitMaxMs = 10'000;
constexpr uint32_t kNoteLookMs = 50;

// What a run comes to by the request that stands in the database; its own state where nothing is asked of it.
StoredRunState outcome_of(StoredRunState state) {
  return state == StoredRunState::kStopRequested    ? StoredRunState::kStopped
         : state == StoredRunState::kPauseRequested ? StoredRunState::kPaused
                                                    : state;
}

// Waits until the active run is one that nothing ends, or none is left; *out: as it stands then.
int wait_for_requests(SqliteDatabase& database, const Config& config, std::optional<RunRow>* out) {
  for (uint32_t waited_ms = 0; waited_ms <= kNoteWaitMaxMs; waited_ms += kNoteLookMs) {
    const Expected<std::optional<RunRow>> current = database.current_run();
    if (!current.is_ok()) {
      return fail_database(database);
    }
    *out = *current;
    const StoredRunState outcome = *out ? outcome_of((*out)->state) : StoredRunState::kActive;
    if (!*out || outcome == (*out)->state) {
      return kExitOk;
    }
    DatabaseOwner owner;
    if (const int code = probe_server(config, &owner); code != kExitOk) {
      return code;
    }
    if (owner.may_serve((*out)->id)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kNoteLookMs));
    } else if (!database.exchange_run_state((*out)->id, (*out)->state, outcome).is_ok()) {
      return fail_database(database);  // its server has ended before it took note; the next one finds it so
    }
  }
  return kExitOk;
}

// A device takes part in one run at a time: kExitOk where no run but `run` is active.
int find_no_other_active(SqliteDatabase& database, const Config& config, uint32_t run) {
  std::optional<RunRow> current;
  if (const int code = wait_for_requests(database, config, &current); code != kExitOk) {
    return code;
  }
  if (!current || current->id == run || !is_active(current->state)) {
    return kExitOk;
  }
  if (outcome_of(current->state) != current->state) {
    return fail(kExitNotFound, "run " + std::to_string(current->id) + " (" + current->name + ") is `" +
                                   stored_run_state_text(current->state) + "`, and its server has not followed for " +
                                   std::to_string(kNoteWaitMaxMs / 1000) +
                                   " s; see store_failed in the server's log, and try again");
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
  Expected<std::vector<RunRow>> runs = database.runs();
  if (!runs.is_ok()) {
    return fail_database(database);
  }
  std::reverse(runs->begin(), runs->end());
  size_t seen = 0;
  for (const RunRow& run : *runs) {
    RunParameters parameters;
    if (run.id == new_run || parse_run_source(run.source, &parameters)) {
      continue;
    }
    std::set<uint32_t>& devices = (*out)[parameters.model->problem];
    SqliteStore journal(database, run.id);
    const StoreStatus read = journal.skim(kRecordsSeenMax, [&](RecordKind kind, uint32_t device) {
      if (kind == RecordKind::kUpdate && active.contains(device)) {
        devices.insert(device);
      }
      return devices.size() < active.size();
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

// How many devices are known to do the problem of the new run, and a note where none is.
int print_experience(SqliteDatabase& database, const Config& config, uint32_t run, const CommonOptions& options) {
  const Expected<std::vector<EnrolledDevice>> devices = database.devices();
  if (!devices.is_ok()) {
    return fail_database(database);
  }
  std::set<uint32_t> active;
  for (const EnrolledDevice& device : *devices) {
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
  OutputLine line;
  line.add("run", uint64_t{run}).add("devices", uint64_t{active.size()}).add("have_trained", uint64_t{count});
  std::string others;
  for (const auto& [name, indices] : trained) {
    others += name == problem || indices.empty()
                  ? ""
                  : (others.empty() ? "" : ", ") + std::to_string(indices.size()) + " have trained " + name;
  }
  if (count == 0 && !others.empty()) {
    line.add_quoted("note", "none of the " + std::to_string(active.size()) + " devices has trained " + problem +
                                " so far, " + others + "; a device whose image lacks it logs not_capable");
  }
  line.print(options);
  return kExitOk;
}

// Objects where devices of the running server have said in their last Hellos what they can do, and none of them can do
// the problem.
Objection find_incapable(const Config& config) {
  const std::optional<std::string> body = ask_server(config.server, "/status/devices");
  const nlohmann::json status = body ? nlohmann::json::parse(*body, nullptr, false) : nlohmann::json();
  if (!status.is_object() || !status.contains("devices") || !status["devices"].is_array()) {
    return {};
  }
  const std::string& problem = config.run.model->problem;
  size_t count = 0;
  std::set<std::string> others;
  for (const nlohmann::json& device : status["devices"]) {
    const std::string problems = device.is_object() ? device.value("problems", std::string()) : "";
    if (problems.empty() || !device.value("active", false)) {
      continue;
    }
    ++count;
    for (size_t at = 0; at <= problems.size();) {
      const size_t end = std::min(problems.find(',', at), problems.size());
      others.insert(problems.substr(at, end - at));
      at = end + 1;
    }
  }
  if (count == 0 || others.contains(problem)) {
    return {};
  }
  std::string known;
  for (const std::string& name : others) {
    known += (known.empty() ? "" : ", ") + name;
  }
  return "0 of " + std::to_string(count) + " devices have said that they can do " + problem + ", but they can do " +
         known + "; give them an image that has it (Linux clients: --problem any)";
}

// What a verb asks of a run.
struct RunRequest {
  bool (*may_follow)(StoredRunState state) = nullptr;
  bool (*is_there)(StoredRunState state) = nullptr;         // nothing is left to ask for
  const char* refusal = "";                                 // after "run N is STATE"
  StoredRunState requested = StoredRunState::kActive;       // of the run's server, which makes it so within a second
  StoredRunState without_server = StoredRunState::kActive;  // the next server finds it
  bool is_activating = false;
};

// From the state that it was read in: the server may be writing what came of the last request.
int ask_once(const RunRequest& request, Opened& opened, const RunRow& run, bool* done) {
  const std::string sentence = "run " + std::to_string(run.id) + " is " + stored_run_state_text(run.state);
  if (request.is_there(run.state)) {
    OutputLine()
        .add("run", uint64_t{run.id})
        .add("state", stored_run_state_text(run.state))
        .add_quoted("note", sentence + " already; nothing was changed")
        .print(opened.options);
    *done = true;
    return kExitOk;
  }
  if (!request.may_follow(run.state)) {
    return fail(kExitNotFound, sentence + request.refusal);
  }
  DatabaseOwner owner;
  int code = request.is_activating ? find_no_other_active(opened.database, opened.config, run.id) : int{kExitOk};
  if (code == kExitOk) {
    code = probe_server(opened.config, &owner);
  }
  if (code != kExitOk) {
    return code;
  }
  const StoredRunState state = owner.may_serve(run.id) ? request.requested : request.without_server;
  const Expected<bool> exchanged = opened.database.exchange_run_state(run.id, run.state, state);
  if (!exchanged.is_ok()) {
    return fail_database(opened.database);
  }
  *done = *exchanged;
  if (*done) {
    OutputLine().add("run", uint64_t{run.id}).add("state", stored_run_state_text(state)).print(opened.options);
  }
  return kExitOk;
}

int ask(const RunRequest& request, const CommonOptions& options, uint32_t id) {
  // Reason: a run that changes its state more often than this while it is asked once is in nobody's hands.
  constexpr int kAttemptsMax = 10;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    Opened opened;
    RunRow run;
    bool is_done = false;
    int code = open_run(options, id, &opened, &run);
    if (code == kExitOk) {
      code = ask_once(request, opened, run, &is_done);
    }
    if (code != kExitOk || is_done) {
      return code;
    }
  }
  return fail(kExitDatabase, "the run's state changes all the time; let no other program write to it, and try again");
}

}  // namespace

int run_start(const CommonOptions& options, bool force) {
  Config config;
  SqliteDatabase database;
  int code = load_beside_no_engine(options, &config);
  if (code == kExitOk && !config.has_run) {
    code = fail(kExitConfig, options.config + " has no section [run]");
  }
  std::string projected;
  if (code == kExitOk) {
    code = settle_network(&config);
  }
  if (code == kExitOk) {
    code = check_run(config, &projected);
  }
  if (!projected.empty()) {
    warn(projected);
  }
  if (code == kExitOk) {
    code = open_database(config, true, &database);
  }
  if (code == kExitOk) {
    code = find_no_other_active(database, config, 0);
  }
  if (code != kExitOk) {
    return code;
  }
  // Before the run is begun: from there on nothing may fail that keeps its number back.
  DatabaseOwner owner;
  code = probe_server(config, &owner);
  RunRow run;
  if (const Objection incapable = code == kExitOk && owner.is_held ? find_incapable(config) : Objection()) {
    if (!force) {
      return fail(kExitNotFound, incapable.sentence + ", or start anyway: --force");
    }
    warn(incapable.sentence);
  }
  if (code == kExitOk) {
    code = create_run(database, config, draw_run_nonce(), &run);
  }
  if (code == kExitOk) {
    OutputLine line;
    line.add("run", uint64_t{run.id})
        .add("name", run.name)
        .add_hex("parameters", run.digest)
        .add("state", "active")
        .add_quoted("next", next_step(owner, run.id));
    line.print(options);
    // The run is begun, whatever can be said of the devices, and however long that takes.
    static_cast<void>(flush_output());
    static_cast<void>(print_experience(database, config, run.id, options));
  }
  return code;
}

int run_keys(const CommonOptions& options, bool as_markdown) {
  if (as_markdown) {
    print_output(key_table());
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
  const Expected<std::vector<RunRow>> runs = database.runs();
  if (!runs.is_ok()) {
    return fail_database(database);
  }
  for (const RunRow& run : *runs) {
    PastRun past;
    if (read_past_run(database, run, &past) != StoreStatus::kOk) {
      return fail_database(database);
    }
    OutputLine line;
    line.add("run", uint64_t{run.id})
        .add("name", run.name)
        .add_hex("parameters", run.digest)
        .add("state", past.state)
        .add("created_ms", run.created_ms)
        .add_quoted("created", time_text(run.created_ms))
        .add_quoted("began", time_text(past.began_ms))
        .add_quoted("ended", time_text(past.ended_ms))
        .add("problem", past.problem)
        .add("versions", uint64_t{past.versions});
    if (past.loss) {
      line.add_real("loss", *past.loss);
    }
    line.add_quoted("quality", past.quality).print(options);
  }
  return kExitOk;
}

int run_stop(const CommonOptions& options, uint32_t id) {
  const auto is_there = [](StoredRunState state) {
    return state == StoredRunState::kFinished || outcome_of(state) == StoredRunState::kStopped;
  };
  const auto may_stop = [](StoredRunState) { return true; };
  return ask({may_stop, is_there, "", StoredRunState::kStopRequested, StoredRunState::kStopped}, options, id);
}

int run_pause(const CommonOptions& options, uint32_t id) {
  const auto is_there = [](StoredRunState state) { return outcome_of(state) == StoredRunState::kPaused; };
  const auto may_pause = [](StoredRunState state) {
    return state == StoredRunState::kActive || state == StoredRunState::kResumeRequested;
  };
  return ask({may_pause, is_there, "; only an active run can be paused", StoredRunState::kPauseRequested,
              StoredRunState::kPaused},
             options, id);
}

int run_resume(const CommonOptions& options, uint32_t id) {
  const auto is_there = [](StoredRunState state) {
    return state == StoredRunState::kActive || state == StoredRunState::kResumeRequested;
  };
  const auto may_resume = [](StoredRunState state) {
    return state == StoredRunState::kPaused || state == StoredRunState::kPauseRequested;
  };
  return ask({may_resume, is_there, "; only a paused run can be resumed (--run N names another one)",
              StoredRunState::kResumeRequested, StoredRunState::kActive, true},
             options, id);
}

}  // namespace gradstream

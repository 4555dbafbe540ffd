#include "server/program/commands.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "host/file_cause.h"
#include "host/standard_files.h"
#include "server/coordinator/fleet.h"
#include "server/coordinator/run_progress.h"
#include "server/coordinator/stall.h"
#include "server/program/model_export.h"
#include "server/program/model_npz.h"
#include "server/program/run_export.h"
#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/watch/watch.h"
#include "server/watch/words.h"

namespace gradstream {

OutputLine& OutputLine::add(const std::string& key, const std::string& value) {
  pairs_.push_back({key, value});
  return *this;
}

OutputLine& OutputLine::add(const std::string& key, uint64_t value) {
  pairs_.push_back({key, std::to_string(value), Kind::kNumber});
  return *this;
}

OutputLine& OutputLine::add_hex(const std::string& key, uint64_t value) { return add(key, hex(value)); }

OutputLine& OutputLine::add_real(const std::string& key, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  pairs_.push_back({key, text, Kind::kReal});
  return *this;
}

OutputLine& OutputLine::add_reals(const std::string& key, const std::vector<double>& values) {
  Pair pair = {key, "", Kind::kReals};
  for (const double value : values) {
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", value);
    pair.value += (pair.value.empty() ? "" : ",") + std::string(text);
    pair.all.emplace_back(text);
  }
  pairs_.push_back(pair);
  return *this;
}

OutputLine& OutputLine::add_quoted(const std::string& key, const std::string& value) {
  pairs_.push_back({key, value, Kind::kQuoted});
  return *this;
}

OutputLine& OutputLine::add_flag(const std::string& key, bool value) {
  pairs_.push_back({key, value ? "yes" : "no", Kind::kFlag});
  return *this;
}

OutputLine& OutputLine::add_list(const std::string& key, const std::string& text, std::vector<std::string> all) {
  pairs_.push_back({key, text, Kind::kList, std::move(all)});
  return *this;
}

void OutputLine::print(const CommonOptions& options) const {
  if (options.format == "json") {
    nlohmann::ordered_json json;
    for (const Pair& pair : pairs_) {
      switch (pair.kind) {
        case Kind::kNumber:
          json[pair.key] = std::stoull(pair.value);
          break;
        case Kind::kReal:
          json[pair.key] = std::strtod(pair.value.c_str(), nullptr);
          break;
        case Kind::kReals:
          json[pair.key] = nlohmann::ordered_json::array();
          for (const std::string& value : pair.all) {
            json[pair.key].push_back(std::strtod(value.c_str(), nullptr));
          }
          break;
        case Kind::kFlag:
          json[pair.key] = pair.value == "yes";
          break;
        case Kind::kList:
          json[pair.key] = pair.all;
          break;
        default:
          json[pair.key] = pair.value;
      }
    }
    print_output(json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return;
  }
  std::string text;
  for (const Pair& pair : pairs_) {
    text += text.empty() ? "" : " ";
    text +=
        pair.kind == Kind::kQuoted ? pair.key + "=\"" + pair.value + "\"" : Fields().add(pair.key, pair.value).text();
  }
  print_output(text + "\n");
}

int load(const CommonOptions& options, Config* out, ConfigOrigins* origins) {
  if (options.config.empty()) {
    return fail(kExitUsage, "no configuration: name one with --config FILE or GRADSTREAM_CONFIG");
  }
  Objection errors = load_config({options.config, process_environment(), options.overrides}, out, origins);
  for (const std::string& warning : out->warnings) {
    log_event(LogLevel::kWarn, "variable_ignored", Fields().add("cause", warning));
  }
  for (const std::string& ignored : out->ignored_files) {
    log_event(LogLevel::kWarn, "file_ignored", Fields().add("cause", ignored));
  }
  if (!errors) {
    return kExitOk;
  }
  errors.sentence.pop_back();  // the last newline
  return fail(is_temporary(find_path_fault(options.config.c_str(), false)) ? kExitTemporary : kExitConfig,
              errors.sentence);
}

int open_database(const Config& config, bool may_create, SqliteDatabase* out) {
  SqliteOptions options;
  options.path = config.server.database;
  options.may_create = may_create;
  options.keeps_unused = false;
  return out->open(options) == StoreStatus::kOk ? int{kExitOk} : fail_database(*out);
}

int open_both(const CommonOptions& options, bool may_create, Opened* out) {
  out->options = options;
  const int code = load(options, &out->config);
  return code == kExitOk ? open_database(out->config, may_create, &out->database) : code;
}

int open_run(const CommonOptions& options, uint32_t id, Opened* out, RunRow* run) {
  const int code = open_both(options, false, out);
  if (code != kExitOk) {
    return code;
  }
  const Expected<std::optional<RunRow>> found = id == 0 ? out->database.current_run() : out->database.find_run(id);
  if (!found.is_ok()) {
    return fail_database(out->database);
  }
  if (!*found && id != 0) {
    return fail(kExitNotFound, "no run " + std::to_string(id) + "; `gradstream run list` shows all");
  }
  if (!*found) {
    return fail(kExitNotFound, "database " + out->config.server.database +
                                   " holds no run; `gradstream serve` or `gradstream run start` begins one");
  }
  *run = **found;
  return kExitOk;
}

int probe_server(const Config& config, DatabaseOwner* out) {
  const Objection problem = DatabaseLock::probe(config.server.database, out);
  return problem ? fail(kExitDatabase, problem.sentence) : int{kExitOk};
}

uint64_t wall_clock_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
}

std::unique_ptr<Coordinator> replay_journal(const RunRow& run, const RunParameters& parameters,
                                            const std::vector<EnrolledDevice>& devices, Store& journal,
                                            uint32_t version_last, std::string* error) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const EnrolledDevice& device : devices) {
    names.push_back(device.name);
  }
  auto coordinator = std::make_unique<Coordinator>(run.id, parameters, std::move(names));
  const StoreStatus read = journal.read([&](const JournalRecord& record) {
    if (coordinator->replay(record) != Status::kOk) {
      *error = "the journal of run " + std::to_string(run.id) + " does not replay at sequence " +
               std::to_string(record.sequence()) +
               "; restore the database from a copy, or use the release that wrote it";
      return false;
    }
    return record.kind() != RecordKind::kVersion || record.version() < version_last;
  });
  if (!error->empty() || read != StoreStatus::kOk) {
    return nullptr;
  }
  return coordinator;
}

// ---- Status --------------------------------------------------------------------------------------------------------

namespace {

struct DeviceTally {
  uint64_t tasks = 0;
  uint64_t folded = 0;
  uint64_t late = 0;
  uint64_t refused = 0;
  uint32_t last_task = 0;
  uint32_t last_verdict = 0;
  uint32_t last_version = 0;
};

void tally(const JournalRecord& record, DeviceTally* device) {
  if (record.kind() == RecordKind::kTaskIssued) {
    ++device->tasks;
    device->last_task = record.task_sequence();
    return;
  }
  device->folded += record.verdict() == gs_Verdict_VERDICT_FOLDED ? 1 : 0;
  device->late += record.verdict() == gs_Verdict_VERDICT_LATE ? 1 : 0;
  device->refused += record.verdict() == gs_Verdict_VERDICT_REFUSED ? 1 : 0;
  device->last_verdict = record.verdict();
  device->last_version = record.version();
}

// The open round, from the records after the last version.
struct RoundView {
  bool has_version = false;
  uint32_t version = 0;
  uint64_t digest = 0;
  RunEvent event = RunEvent::kNone;
  std::set<uint32_t> answered;
  std::vector<uint8_t> opened_by;  // the record that led to the version: who is asked in it
  StallCause stall;                // as the last stall's record says

  void take(const JournalRecord& record) {
    if (record.kind() == RecordKind::kVersion) {
      *this = {true, record.version(), record.digest(), RunEvent::kNone, {}, record.payload(), {}};
    } else if (record.kind() == RecordKind::kRunState) {
      event = record.run_event();
      stall = event == RunEvent::kStalled ? decode_stall(record.payload()) : StallCause();
    } else if (record.kind() == RecordKind::kUpdate && record.verdict() == gs_Verdict_VERDICT_FOLDED) {
      answered.insert(record.device());
    }
  }
  const char* state() const {
    if (event == RunEvent::kNone || event == RunEvent::kResumed) {
      return name_of(has_version ? gs_RunState_RUN_STATE_ACTIVE : gs_RunState_RUN_STATE_NONE);
    }
    return name_of(event, "unknown");
  }
};

// wanted: the goal before the deadline, after it the least number that closes the round.
void print_round(const CommonOptions& options, const RunRow& run, const RoundView& round,
                 const RunParameters& parameters, const std::vector<EnrolledDevice>& devices) {
  std::vector<std::string> names(devices.size());
  for (const EnrolledDevice& device : devices) {
    names[device.index] = device.name;
  }
  Fleet fleet(names);
  for (const EnrolledDevice& device : devices) {
    if (!device.is_active()) {
      fleet.revoke(device.index);
    }
    fleet.at(device.index).answered_version = round.answered.contains(device.index) ? round.version : kNoVersion;
  }
  VersionRecord opened;
  opened.version = round.version;
  if (round.has_version && decode_payload(parameters, round.opened_by, &opened) == Status::kOk) {
    fleet.set_cohort(opened.cohort);
  }
  const bool is_past_deadline = round.event == RunEvent::kExtended || round.event == RunEvent::kStalled;
  const uint32_t wanted =
      is_past_deadline ? update_least(parameters, fleet.asked_count()) : update_goal(parameters, fleet.asked_count());
  if (!is_active(run.state)) {  // nobody is waited for
    OutputLine().add("round", uint64_t{round.version}).add("state", stored_run_state_text(run.state)).print(options);
    return;
  }
  OutputLine line;
  line.add("round", uint64_t{round.version})
      .add("state", round.state())
      .add("answers", uint64_t{round.answered.size()})
      .add("wanted", uint64_t{wanted})
      .add_list("missing", fleet.missing(round.version), fleet.missing_names(round.version));
  if (!round.stall.empty()) {
    line.add_quoted("cause", round.stall.cause)
        .add_quoted("text", round.stall.text)
        .add_quoted("remedy", round.stall.remedy);
  }
  line.print(options);
}

// What `status` takes of a journal.
struct JournalView {
  explicit JournalView(const RunParameters& parameters)
      : progress(parameters), quality(quality_metric(parameters.model->problem)) {}
  void take(const JournalRecord& record) {
    ++records;
    round.take(record);
    progress.follow(record);
    quality.take(record);
    if (record.has_device()) {
      tally(record, &tallies[record.device()]);
    }
  }
  RoundView round;
  RunProgress progress;
  QualityBook quality;
  uint64_t records = 0;
  std::map<uint32_t, DeviceTally> tallies;
};

// Whether the run improves, with the likely cause and the remedy where there is one.
void print_progress(const CommonOptions& options, const ProgressView& view, const RunParameters& parameters) {
  OutputLine line;
  line.add("progress", name_of(view.state))
      .add_real("promise_ratio", view.ratio)
      .add_real("kept", view.kept)
      .add("drifts", uint64_t{view.drift_count});
  const ProgressWords words = progress_words(view, parameters);
  if (!words.text.empty()) {
    line.add_quoted("text", words.text).add_quoted("remedy", words.remedy);
  }
  line.print(options);
}

// A line where devices have evaluated a version.
void print_quality(const CommonOptions& options, const QualityBook& book) {
  if (book.latest() == nullptr) {
    return;
  }
  const Quality& quality = *book.latest();
  OutputLine()
      .add_quoted("text", quality_text(book.metric(), quality.metric))
      .add("evaluated", uint64_t{quality.version})
      .add("metric", quality_metric_name(book.metric()))
      .add_real("value", quality.metric)
      .add_real("loss", quality.loss)
      .add("devices", uint64_t{quality.device_count})
      .add("samples", quality.sample_count)
      .print(options);
}

void print_devices(const CommonOptions& options, const std::vector<EnrolledDevice>& devices,
                   std::map<uint32_t, DeviceTally>& tallies) {
  for (const EnrolledDevice& device : devices) {
    const DeviceTally& t = tallies[device.index];
    OutputLine()
        .add("device", device.name)
        .add("index", uint64_t{device.index})
        .add("state", device_state_text(device.state))
        .add("tasks", t.tasks)
        .add("folded", t.folded)
        .add("late", t.late)
        .add("refused", t.refused)
        .add("last_task", uint64_t{t.last_task})
        .add("last_verdict", verdict_text(t.last_verdict))
        .add("last_version", uint64_t{t.last_version})
        .print(options);
  }
}

}  // namespace

int status(const CommonOptions& options, uint32_t run_id) {
  Opened opened;
  RunRow run;
  if (const int code = open_run(options, run_id, &opened, &run); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = opened.database;
  RunParameters parameters;
  const Objection error = parse_run_source(run.source, &parameters);
  if (error) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  JournalView view(parameters);
  SqliteStore journal(database, run.id);
  const StoreStatus read = journal.read([&](const JournalRecord& record) {
    view.take(record);
    return true;
  });
  const Expected<std::vector<EnrolledDevice>> found = read == StoreStatus::kOk ? database.devices() : read;
  if (!found.is_ok()) {
    return fail_database(database);
  }
  const std::vector<EnrolledDevice>& devices = *found;
  DatabaseOwner owner;
  if (const int code = probe_server(opened.config, &owner); code != kExitOk) {
    return code;
  }
  const bool is_served = owner.is_held && owner.run == run.id;
  const auto count = [&devices](DeviceState state) {
    return static_cast<uint64_t>(
        std::count_if(devices.begin(), devices.end(), [state](const EnrolledDevice& d) { return d.state == state; }));
  };
  OutputLine line;
  line.add("run", uint64_t{run.id})
      .add("name", run.name)
      .add_quoted("state", stored_run_state_text(run.state))
      .add("version", uint64_t{view.round.version})
      .add_hex("digest", view.round.digest)
      .add("records", view.records)
      .add("devices", count(DeviceState::kActive))
      .add("revoked", count(DeviceState::kRevoked))
      .add_flag("served", is_served)
      .add("pending", count(DeviceState::kPending))
      .add("disabled", count(DeviceState::kDisabled))
      .print(options);
  print_round(options, run, view.round, parameters, devices);
  if (view.round.has_version) {
    print_progress(options, view.progress.view(), parameters);
  }
  print_quality(options, view.quality);
  print_devices(options, devices, view.tallies);
  return kExitOk;
}

}  // namespace gradstream

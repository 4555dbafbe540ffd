// The verb `status`: a run and what each device did in it, from the journal, and on top of it what needs attention. Of
// that a running server knows more than the journal, and is asked on its HTTP port where it has one.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/statvfs.h>

#include "host/standard_files.h"
#include "server/base/asio_alias.h"
#include "server/base/listen_address.h"
#include "server/coordinator/fleet.h"
#include "server/coordinator/ledger.h"
#include "server/coordinator/run_progress.h"
#include "server/coordinator/stall.h"
#include "server/program/commands.h"
#include "server/program/watch_client.h"
#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/run/trigger_keys.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/watch/attention.h"
#include "server/watch/sentence_words.h"
#include "server/watch/words.h"

namespace gradstream {

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
  uint64_t opened_ms = 0;  // when the version was decided
  std::set<uint32_t> answered;
  std::vector<uint8_t> opened_by;  // the record that led to the version: who is asked in it
  StallCause stall;                // as the record of the last stall, or of the run's end, says

  void take(const JournalRecord& record) {
    if (record.kind() == RecordKind::kVersion) {
      *this = {true, record.version(), record.digest(), RunEvent::kNone, record.time_ms(), {}, record.payload(), {}};
    } else if (record.kind() == RecordKind::kRunState) {
      event = record.run_event();
      opened_ms = event == RunEvent::kResumed ? record.time_ms() : opened_ms;
      const bool has_cause = event == RunEvent::kStalled || event == RunEvent::kFinished;
      stall = has_cause ? decode_stall(record.payload()) : StallCause();
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

void add_cause(const StallCause& cause, OutputLine* line) {
  if (!cause.empty()) {
    line->add_quoted("cause", cause.cause).add_quoted("text", cause.text).add_quoted("remedy", cause.remedy);
  }
}

// Names of the active devices that the open version waits for, of a run that awaits_seen(); seen: by enrolment index
// the last version that a device was seen in.
std::vector<std::string> awaited_names(const RoundView& round, const std::vector<EnrolledDevice>& devices,
                                       const std::map<uint32_t, uint32_t>& seen, uint32_t seen_versions) {
  const auto is_seen = [&](const EnrolledDevice& device) {
    const auto last = seen.find(device.index);
    return device.is_active() && last != seen.end() && last->second < round.version &&
           round.version - last->second <= seen_versions;
  };
  const bool is_anybody_seen = std::any_of(devices.begin(), devices.end(), is_seen);
  std::vector<std::string> names;
  for (const EnrolledDevice& device : devices) {
    if (device.is_active() && !round.answered.contains(device.index) && (is_seen(device) || !is_anybody_seen)) {
      names.push_back(device.name);
    }
  }
  return names;
}

// wanted: the goal before the deadline, after it the least number that closes the round. seen: as awaited_names().
void print_round(const CommonOptions& options, const RunRow& run, const RoundView& round,
                 const RunParameters& parameters, const std::vector<EnrolledDevice>& devices,
                 const std::map<uint32_t, uint32_t>& seen) {
  std::vector<std::string> names(devices.size());
  for (const EnrolledDevice& device : devices) {
    names[device.index] = device.name;
  }
  Fleet fleet(names);
  for (const EnrolledDevice& device : devices) {
    if (!device.is_active()) {
      fleet.revoke(device.index);
    }
    fleet.at(device.index).row.answered_version = round.answered.contains(device.index) ? round.version : kNoVersion;
  }
  VersionRecord opened;
  opened.version = round.version;
  if (round.has_version) {
    const Status status = decode_payload(parameters, round.opened_by, &opened);
    fleet.begin_version(round.version, status == Status::kOk ? opened.cohort : Cohort());
  }
  const bool is_past_deadline = round.event == RunEvent::kExtended || round.event == RunEvent::kStalled;
  const bool knows_seen = awaits_seen(parameters) && round.has_version;
  const std::vector<std::string> awaited =
      knows_seen ? awaited_names(round, devices, seen, parameters.trigger.keys().seen_versions)
                 : std::vector<std::string>();
  const uint32_t wanted = knows_seen ? std::max(1U, static_cast<uint32_t>(round.answered.size() + awaited.size()))
                          : is_past_deadline ? update_least(parameters, fleet.asked_count())
                                             : update_goal(parameters, fleet.asked_count());
  if (!is_active(run.state)) {  // nobody is waited for
    OutputLine over;
    over.add("round", uint64_t{round.version}).add("state", stored_run_state_text(run.state));
    add_cause(round.stall, &over);
    over.print(options);
    return;
  }
  OutputLine line;
  line.add("round", uint64_t{round.version})
      .add("state", round.state())
      .add("answers", uint64_t{round.answered.size()})
      .add("wanted", uint64_t{wanted})
      .add_list("missing", fleet.missing(), fleet.missing_names());
  if (knows_seen) {
    NameList list;
    for (const std::string& name : awaited) {
      list.add(name);
    }
    line.add_list("awaited", list.text(), awaited)
        .add("open_s", (wall_clock_ms() - std::min(wall_clock_ms(), round.opened_ms)) / 1000);
  }
  add_cause(round.stall, &line);
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
    if (record.is_judgement() && record.verdict() != gs_Verdict_VERDICT_ABANDONED) {
      seen[record.device()] = round.version;
    }
    if (record.kind() == RecordKind::kUpdate) {
      losses.take(record);
    } else if (record.kind() == RecordKind::kVersion) {
      close_round(record);
    }
  }
  // What the records that were dropped have made, as the checkpoint has it that the journal begins at.
  void begin(const Coordinator& start) {
    records = start.last_sequence();
    round.has_version = true;
    round.version = start.durable_version();
    round.digest = start.digest();
    progress = start.run_progress();
    quality = start.quality();
    for (uint32_t index = 0; index < start.fleet().size(); ++index) {
      const FleetDevice& row = start.fleet().at(index);
      if (row.row.task.sequence > 0) {
        tallies[index] = {row.row.task.sequence,       row.row.tally.updates_folded,
                          row.row.tally.updates_late,  row.row.tally.tasks_refused,
                          row.row.task.sequence,       static_cast<uint32_t>(row.row.judged.verdict),
                          row.row.tally.judged_version};
      }
    }
    for (uint32_t index = 0; index < start.fleet().size(); ++index) {
      if (const std::optional<uint32_t> last = start.fleet().last_seen(index)) {
        seen[index] = *last;
      }
    }
    for (const RoundSummary& summary : start.replayed_rounds()) {
      rounds.emplace_back().summary = summary;
    }
  }
  // Of the version that the record makes.
  void close_round(const JournalRecord& record) {
    WatchedRound made;
    made.summary.version = record.version();
    made.summary.time_ms = record.time_ms();
    made.summary.has_losses = losses.count > 0 && record.promise().has_value();
    made.summary.loss_before = made.summary.has_losses ? losses.mean_before() : 0;
    if (record.version() > 0) {
      rounds.push_back(made);
    }
    if (rounds.size() > kRoundHistoryMax) {
      rounds.pop_front();
    }
    losses = LossTally();
  }
  RoundView round;
  RunProgress progress;
  QualityBook quality;
  uint64_t records = 0;
  std::map<uint32_t, DeviceTally> tallies;
  std::map<uint32_t, uint32_t> seen;  // as awaited_names()
  std::deque<WatchedRound> rounds;
  LossTally losses;
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
    OutputLine line;
    line.add("device", device.name)
        .add("index", uint64_t{device.index})
        .add("state", device_state_text(device.state))
        .add("tasks", t.tasks)
        .add("folded", t.folded)
        .add("late", t.late)
        .add("refused", t.refused)
        .add("last_task", uint64_t{t.last_task})
        .add("last_verdict", verdict_text(t.last_verdict))
        .add("last_version", uint64_t{t.last_version});
    add_key_change(device, wall_clock_ms(), &line);
    line.print(options);
  }
}

// What needs attention, and how fast the run goes.
struct Report {
  std::vector<Attention> attention;
  WatchPace pace;
  // The ids that a server has sent; attention points to them.
  std::deque<std::string> ids;
};

std::optional<double> number_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// What the server of the run says of it. False: it does not.
bool ask_report(const ServerConfig& server, uint32_t run, Report* out) {
  const std::optional<std::string> body = ask_server(server, "/status?after=" + std::to_string(UINT32_MAX));
  const nlohmann::json status = body ? nlohmann::json::parse(*body, nullptr, false) : nlohmann::json();
  if (!status.is_object() || !status.contains("run") || !status["run"].is_object() ||
      number_of(status["run"], "number") != run || !status.contains("attention") || !status["attention"].is_array()) {
    return false;
  }
  for (const nlohmann::json& entry : status["attention"]) {
    if (!entry.is_object()) {
      continue;
    }
    Attention& one = out->attention.emplace_back();
    one.id = out->ids.emplace_back(text_of(entry, "id")).c_str();
    for (const auto& [word, level] : names_of<AttentionLevel>()) {
      one.level = text_of(entry, "level") == word ? level : one.level;
    }
    one.text = text_of(entry, "text");
    one.remedy = text_of(entry, "remedy");
    one.command = text_of(entry, "command");
  }
  if (status.contains("pace") && status["pace"].is_object()) {
    const nlohmann::json& pace = status["pace"];
    out->pace = {number_of(pace, "versions_per_minute"), number_of(pace, "seconds_left"), number_of(pace, "best_loss")};
  }
  return true;
}

gs_RunState state_of(const RoundView& round) {
  for (const auto& [word, state] : names_of<gs_RunState>()) {
    if (std::string_view(word) == round.state()) {
      return state;
    }
  }
  return gs_RunState_RUN_STATE_ACTIVE;  // an extended round
}

// The same by the journal alone: who is connected it does not know.
Report make_report(const ServerConfig& server, const RunRow& run, const RunParameters& parameters,
                   const JournalView& view, const std::vector<EnrolledDevice>& devices, bool is_served) {
  WatchSnapshot snapshot;
  snapshot.taken_ms = wall_clock_ms();
  snapshot.run = run.id;
  snapshot.run_state = run.state == StoredRunState::kPaused ? gs_RunState_RUN_STATE_PAUSED : state_of(view.round);
  snapshot.stall = view.round.stall;
  snapshot.has_version = view.round.has_version;
  snapshot.version = view.round.version;
  snapshot.round_count = parameters.trigger->round_count;
  snapshot.rounds_done = view.round.version / parameters.phase_count();
  snapshot.parameters = std::make_shared<RunParameters>(parameters);
  snapshot.progress = view.progress.view();
  snapshot.rounds.assign(view.rounds.begin(), view.rounds.end());
  for (const EnrolledDevice& device : devices) {
    snapshot.enrolled.active += device.is_active() ? 1 : 0;
    snapshot.enrolled.pending += device.state == DeviceState::kPending ? 1 : 0;
  }
  snapshot.round.asked = snapshot.enrolled.active;
  snapshot.round.answers = static_cast<uint32_t>(view.round.answered.size());
  snapshot.round.wanted = update_least(parameters, snapshot.enrolled.active);
  struct statvfs disk = {};
  if (::statvfs(server.database.c_str(), &disk) == 0) {
    snapshot.place.disk_free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
    snapshot.place.disk_size_bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
  }
  Report report;
  report.attention = attention_of(snapshot);
  if (is_served) {
    report.pace = pace_of(snapshot);
  } else {
    report.pace.best_loss = pace_of(snapshot).best_loss;
  }
  if (is_active(run.state) && !is_served) {
    report.attention.insert(report.attention.begin(),
                            {"not_served", AttentionLevel::kStops,
                             "No server serves run " + std::to_string(run.id) + " (" + run.name + ").",
                             "Start one with this configuration.", "gradstream serve"});
  }
  return report;
}

// A command of this program with the configuration that this one was given, so that it acts on the same database.
std::string with_configuration(const std::string& command, const CommonOptions& options) {
  const std::string words = configuration_words(options);
  if (!command.starts_with("gradstream ") || words.empty()) {
    return command;
  }
  const size_t names = std::min(command.find(" -- "), command.size());  // what stands behind it are names
  return command.substr(0, names) + " " + words + command.substr(names);
}

void print_attention(const CommonOptions& options, const Report& report) {
  for (const Attention& one : report.attention) {
    OutputLine()
        .add("attention", one.id)
        .add("level", name_of(one.level))
        .add_quoted("text", one.text)
        .add_quoted("remedy", one.remedy)
        .add_quoted("command", with_configuration(one.command, options))
        .print(options);
  }
}

// A line where something is known.
void print_pace(const CommonOptions& options, const WatchPace& pace) {
  OutputLine line;
  bool has_any = false;
  for (const auto& [key, value] :
       {std::pair("versions_per_minute", pace.versions_per_minute), std::pair("seconds_left", pace.seconds_left),
        std::pair("best_loss", pace.best_loss)}) {
    if (value) {
      line.add_real(key, *value);
      has_any = true;
    }
  }
  if (has_any) {
    line.print(options);
  }
}

// The line of the run itself.
void print_run(const CommonOptions& options, const RunRow& run, const JournalView& view,
               const std::vector<EnrolledDevice>& devices, bool is_served) {
  const auto count = [&devices](DeviceState state) {
    return static_cast<uint64_t>(
        std::count_if(devices.begin(), devices.end(), [state](const EnrolledDevice& d) { return d.state == state; }));
  };
  OutputLine()
      .add("run", uint64_t{run.id})
      .add("name", run.name)
      .add("state", stored_run_state_text(run.state))
      .add("version", uint64_t{view.round.version})
      .add_hex("digest", view.round.digest)
      .add("records", view.records)
      .add("devices", count(DeviceState::kActive))
      .add("revoked", count(DeviceState::kRevoked))
      .add_flag("served", is_served)
      .add("pending", count(DeviceState::kPending))
      .add("disabled", count(DeviceState::kDisabled))
      .print(options);
}

}  // namespace

int status(const CommonOptions& options, uint32_t run_id) {
  Opened opened;
  RunRow run;
  if (const int code = open_journal(options, run_id, &opened, &run); code != kExitOk) {
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
  const Expected<std::vector<EnrolledDevice>> found = database.devices();
  if (!found.is_ok()) {
    return fail_database(database);
  }
  const std::vector<EnrolledDevice>& devices = *found;
  CheckpointHead start;
  std::string fault;
  const auto beginning = begin_replay(run, parameters, devices, journal, &start, &fault, Beginning::kReadable);
  if (beginning == nullptr) {
    return fault.empty() ? fail_database(database) : fail(kExitDatabase, fault);
  }
  if (start.sequence != 0) {
    view.begin(*beginning);
  }
  const StoreStatus read = journal.read_after(start.sequence, [&](const JournalRecord& record) {
    view.take(record);
    return true;
  });
  if (read != StoreStatus::kOk) {
    return fail_database(database);
  }
  DatabaseOwner owner;
  if (const int code = probe_server(opened.config, &owner); code != kExitOk) {
    return code;
  }
  const bool is_served = owner.is_held && owner.run == run.id;
  Report report;
  if (!is_served || !ask_report(opened.config.server, run.id, &report)) {
    report = make_report(opened.config.server, run, parameters, view, devices, is_served);
  }
  const bool is_json = options.format == "json";  // programs know the order of the lines that were there before
  if (!is_json) {
    print_attention(options, report);
  }
  print_run(options, run, view, devices, is_served);
  print_round(options, run, view.round, parameters, devices, view.seen);
  if (view.round.has_version) {
    print_progress(options, view.progress.view(), parameters);
  }
  print_quality(options, view.quality);
  print_pace(options, report.pace);
  print_devices(options, devices, view.tallies);
  if (is_json) {
    print_attention(options, report);
  }
  return kExitOk;
}

int status_alive(const CommonOptions& options) {
  Config config;
  if (const int code = load(options, &config); code != kExitOk) {
    return code;
  }
  const std::string& address = config.server.http_listen;
  if (Tcp::endpoint endpoint; !parse_listen_address(address, &endpoint) || endpoint.port() == 0) {
    return fail(kExitConfig, "status --alive asks the port of server.http_listen, which is \"" + address +
                                 "\": set it to an address with a port, such as 127.0.0.1:7434");
  }
  if (!ask_server(config.server, "/healthz")) {
    return fail(kExitNetwork, "no server answers /healthz at " + address + " within " + std::to_string(kAskServerMs) +
                                  " ms: see its log, and whether this user may read server.http_token_file");
  }
  OutputLine().add_quoted("address", address).add("alive", "yes").print(options);
  return kExitOk;
}

}  // namespace gradstream

#include "server/watch/attention.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "server/coordinator/run_progress.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger.h"
#include "server/watch/sentence_words.h"

namespace gradstream {
namespace {

constexpr const char* kIds[] = {
    "database_moved",  "storage_failed",   "nobody_capable",  "stalled_by_cause", "stalled",      "waits_for_fleet",
    "diverged",        "waits_for_device", "not_capable",     "never_connected",  "silent",       "not_improving",
    "updates_refused", "disk_low",         "clock_behind",    "certificate_ends", "places_short", "connections_refused",
    "units_outlier",   "update_outlier",   "cannot_evaluate", "no_loss",          "old_firmware", "still_falling",
    "settled",         "paused",           "journal_forked",  "device_ahead",
};

bool is_over(gs_RunState state) {
  return state == gs_RunState_RUN_STATE_FINISHED || state == gs_RunState_RUN_STATE_STOPPED;
}

// Devices of one kind of board that run an older release than another one of that kind.
struct OldFirmware {
  SentenceNames names;
  std::string release;  // of the first of them
  std::string newest;
};

// What the devices of a snapshot are, in one pass over them. Those that are not active are left out.
struct FleetView {
  size_t count = 0;
  size_t capable_count = 0;
  size_t reachable_count = 0;              // asked, neither silent nor unable
  size_t away_count = 0;                   // silent, heard of before or not
  SentenceNames missing;                   // asked, without an answer to the open version
  SentenceNames awaited;                   // the open version waits for their answers
  size_t missing_heard_count = 0;          // of these, heard of since the run is served
  size_t missing_silent_count = 0;         // of these, and silent by now
  uint64_t missing_since_ms = UINT64_MAX;  // when the first of them was heard of last
  SentenceNames left_out;
  SentenceNames long_updates;
  SentenceNames forked;  // they know another journal
  SentenceNames ahead;   // they hold a later version, and are not among these
  SentenceNames without_evaluation;
  std::map<std::string, OldFirmware> old_firmware;  // by board
  std::map<std::string, SentenceNames> lacking;     // by what they lack
  std::map<std::string, SentenceNames> refused;     // by the reason of their last refusal
  std::string firmware_of_lacking;
};

bool asks_for_evaluations(const WatchSnapshot& s) {
  return s.parameters != nullptr && s.parameters->quality->evaluation_period > 0;
}

// Each kind of board has an image of its own, and the numbers of two images are not one sequence.
void add_firmware(const std::vector<DeviceStatus>& devices, FleetView* out) {
  std::map<std::string, std::pair<std::vector<uint32_t>, std::string>> newest;  // by board, with its text
  for (const DeviceStatus& device : devices) {
    const auto release = release_of(device.firmware_version);
    if (!device.is_revoked && release) {
      newest[device.board] = std::max(newest[device.board], {*release, device.firmware_version});
    }
  }
  for (const DeviceStatus& device : devices) {
    const auto release = release_of(device.firmware_version);
    if (!device.is_revoked && release && *release < newest[device.board].first) {
      OldFirmware& old = out->old_firmware[device.board];
      old.release = old.names.count() == 0 ? device.firmware_version : old.release;
      old.newest = newest[device.board].second;
      old.names.add(device.name);
    }
  }
}

// Not heard of for so long that somebody is to know.
bool is_missed(const DeviceStatus& device, const WatchSnapshot& s) {
  const uint64_t patience_ms = device.last_seen_ms != 0 ? s.silent_after_ms : std::max(s.silent_after_ms, kBackToldMs);
  const bool had_time = s.devices_taken_ms > s.place.served_since_ms + patience_ms;
  return standing_of(device, s) == DeviceStanding::kSilent && had_time;
}

void add_device(const DeviceStatus& device, const WatchSnapshot& s, FleetView* out) {
  ++out->count;
  out->capable_count += device.is_capable ? 1 : 0;
  const bool is_heard = device.last_seen_ms != 0;
  const bool is_silent = is_missed(device, s);
  out->reachable_count += device.is_asked && device.is_capable && !is_silent ? 1 : 0;
  if (device.is_asked && !device.has_answered) {
    out->missing.add(device.name);
    out->missing_heard_count += is_heard ? 1 : 0;
    out->missing_silent_count += is_silent && is_heard ? 1 : 0;
    out->missing_since_ms = is_heard ? std::min(out->missing_since_ms, device.last_seen_ms) : out->missing_since_ms;
  }
  if (device.waits.is_awaited) {
    out->awaited.add(device.name);
  }
  out->away_count += is_silent ? 1 : 0;
  if (device.oddity.is_left_out) {
    out->left_out.add(device.name);
  }
  if (device.oddity.has_long_updates) {
    out->long_updates.add(device.name);
  }
  if (device.oddity.knows_other_journal) {
    out->forked.add(device.name);
  } else if (device.oddity.holds_later_version) {
    out->ahead.add(device.name);
  }
  const bool can_evaluate = (device.image.features >> static_cast<uint32_t>(gs_Feature_FEATURE_EVALUATION) & 1U) != 0;
  if (is_heard && !can_evaluate && asks_for_evaluations(s)) {
    out->without_evaluation.add(device.name);
  }
  if (!device.is_capable && !device.image.lacks.empty()) {
    out->lacking[device.image.lacks].add(device.name);
    out->firmware_of_lacking = device.firmware_version;
  } else if (!device.is_capable || device.last_verdict == gs_Verdict_VERDICT_REFUSED) {
    out->refused[refusal_text(device.last_reason)].add(device.name);
  }
}

FleetView view_of(const WatchSnapshot& s) {
  FleetView out;
  if (s.devices == nullptr) {
    return out;
  }
  for (const DeviceStatus& device : *s.devices) {
    if (!device.is_revoked) {
      add_device(device, s, &out);
    }
  }
  add_firmware(*s.devices, &out);
  return out;
}

// What is said so far.
class Sentences {
 public:
  explicit Sentences(const WatchSnapshot& snapshot) : s(snapshot), fleet(view_of(snapshot)) {}
  void add(const char* id, AttentionLevel level, std::string text, std::string remedy, std::string command = "") {
    said_.push_back({id, level, std::move(text), std::move(remedy), std::move(command)});
  }
  bool has(const char* id) const {
    return std::any_of(said_.begin(), said_.end(),
                       [id](const Attention& said) { return std::string_view(said.id) == id; });
  }
  std::vector<Attention> take() {
    std::stable_sort(said_.begin(), said_.end(),
                     [](const Attention& a, const Attention& b) { return a.level < b.level; });
    return std::move(said_);
  }
  // How long ago, for people.
  std::string ago(uint64_t time_ms) const { return duration_text(s.taken_ms - std::min(time_ms, s.taken_ms)) + " ago"; }

  const WatchSnapshot& s;
  const FleetView fleet;
  // Devices that a sentence has told as absent: of one device one sentence says so.
  std::set<std::string> told_absent;
  bool has_told_missing = false;  // all that are asked and have not answered

 private:
  std::vector<Attention> said_;
};

void add_storage(Sentences* out) {
  const WatchedPlace& place = out->s.place;
  const std::string room = size_text(place.disk_free_bytes) + " free of " + size_text(place.disk_size_bytes);
  if (!place.database_fault.empty()) {
    const std::string& fault = place.database_fault;
    const size_t at = fault.find("; ");
    out->add("database_moved", AttentionLevel::kStops, sentence_of(fault.substr(0, at)),
             sentence_of(at == std::string::npos ? "see database_moved in the server's log" : fault.substr(at + 2)));
  } else if (place.is_storage_failed) {
    out->add("storage_failed", AttentionLevel::kStops,
             "The server cannot write its database, so it makes no version." +
                 (place.disk_size_bytes == 0 ? "" : " Its file system has " + room + "."),
             "Free space or repair the disk. The server goes on by itself, and store_failed in its log has the cause.",
             "df -h");
  }
  const uint64_t little = std::min(kDiskLowBytes, place.disk_size_bytes / 20);
  if (place.disk_size_bytes > 0 && place.disk_free_bytes < little && !out->has("storage_failed")) {
    out->add("disk_low", place.disk_free_bytes < kDiskVeryLowBytes ? AttentionLevel::kSlows : AttentionLevel::kAdvice,
             "The file system of the database has " + room + ", and less than " + size_text(little) + " is little.",
             "Free space there. Once it is full, the server makes no version.", "df -h");
  }
}

// Devices say what the database does not have. Several that lie are rarer than a copy that was restored. One that does
// is not.
void add_history(const char* id, const SentenceNames& names, const std::string& what, const std::string& cause,
                 const std::string& remedy, Sentences* out) {
  if (names.count() == 0) {
    return;
  }
  const bool is_alone = names.count() == 1 && out->fleet.count > 1;
  out->add(id, is_alone ? AttentionLevel::kAdvice : AttentionLevel::kSlows,
           names.of(out->fleet.count) + what + " of this run that the database does not have" +
               (is_alone ? ", or says so: one device alone may lie." : cause),
           "After a restore on purpose nothing is to be done. Else " + remedy,
           "gradstream run verify --head heads.log --public head.key.pub");
}

void add_fork(Sentences* out) {
  const SentenceNames& forked = out->fleet.forked;
  const SentenceNames& ahead = out->fleet.ahead;
  add_history("journal_forked", forked, std::string(forked.which(" knows", " know")) + " records",
              ": it is an older copy, or was changed.", "prove the journal by heads that were kept elsewhere.", out);
  add_history("device_ahead", ahead, ahead.which(" held a later version", " held later versions"),
              ": it is an older copy.",
              "put the newest copy back, or prove the journal by heads that were kept elsewhere.", out);
}

// ---- The run ----

void add_capabilities(Sentences* out) {
  const FleetView& fleet = out->fleet;
  if (fleet.lacking.empty() || is_over(out->s.run_state)) {
    return;
  }
  const auto most = std::max_element(fleet.lacking.begin(), fleet.lacking.end(),
                                     [](const auto& a, const auto& b) { return a.second.count() < b.second.count(); });
  const auto& [lacks, names] = *most;
  const std::string remedy = lacks_remedy(lacks, fleet.firmware_of_lacking);
  size_t lacking_count = 0;
  for (const auto& [what, group] : fleet.lacking) {
    lacking_count += group.count();
  }
  if (lacking_count == fleet.count) {
    const std::string who = fleet.count == 1               ? "it lacks "
                            : names.count() == fleet.count ? "they lack "
                                                           : std::to_string(names.count()) + " of them lack ";
    out->add("nobody_capable", AttentionLevel::kStops,
             (fleet.count == 1 ? "The only device, " + names.text() + ", cannot do this run: "
                               : "None of " + std::to_string(fleet.count) + " devices can do this run: ") +
                 who + lacks_text(lacks) + ".",
             remedy);
  } else {
    const bool is_short = fleet.reachable_count < out->s.round.wanted;
    out->add("not_capable", is_short ? AttentionLevel::kStops : AttentionLevel::kSlows,
             names.of(fleet.count) + " cannot do this run: " + names.which("it lacks ", "they lack ") +
                 lacks_text(lacks) + ".",
             remedy, device_command("disable", names.first()));
  }
}

void add_stall(Sentences* out) {
  const WatchSnapshot& s = out->s;
  if (s.run_state != gs_RunState_RUN_STATE_STALLED || out->has("nobody_capable")) {
    return;
  }
  if (!s.stall.empty()) {
    out->add("stalled_by_cause", AttentionLevel::kStops, "The run stands still: " + sentence_of(s.stall.text),
             sentence_of(s.stall.remedy));
    return;
  }
  const SentenceNames& missing = out->fleet.missing;
  if (out->fleet.missing_heard_count == 0 && missing.count() > 0 &&
      s.taken_ms < s.place.served_since_ms + kBackToldMs) {
    out->has_told_missing = true;
    out->add("stalled", AttentionLevel::kAdvice,
             missing.of(out->fleet.count) + missing.which(" has", " have") +
                 " not been heard of since the server began to serve the run " + out->ago(s.place.served_since_ms) +
                 ".",
             "Wait: devices that waited for a new run come back within " + duration_text(kBackToldMs) + ".");
    return;
  }
  std::string text = "The run stands still: " + std::to_string(s.round.answers) + " of " +
                     std::to_string(s.round.asked) + " devices have answered, and a version needs " +
                     std::to_string(s.round.wanted) + ".";
  if (missing.count() > 0) {
    out->has_told_missing = true;
    text += " " + missing.text() + missing.which(" is missing", " are missing");
    const bool is_one = missing.count() == 1;
    text += out->fleet.missing_silent_count < missing.count()
                ? "."
                : std::string(is_one ? ", last seen " : ", the first last seen ") +
                      out->ago(out->fleet.missing_since_ms) + ".";
  }
  const size_t away_count = out->fleet.away_count;
  if (away_count > 0 && away_count == out->fleet.count) {
    out->add("stalled", AttentionLevel::kStops, text,
             "All devices are away: look at the network and the firewall of this machine first, then at their power.");
    return;
  }
  out->add("stalled", AttentionLevel::kStops, text,
           "Switch the missing devices on and look at their logs, or disable those that are gone for good. A run with "
           "a smaller update_min needs fewer answers.",
           missing.count() == 0 ? "" : device_command("disable", missing.first()));
}

void add_beginning(Sentences* out) {
  const WatchSnapshot& s = out->s;
  if (s.run_state == gs_RunState_RUN_STATE_PAUSED) {
    out->add("paused", AttentionLevel::kAdvice, "The run is paused at version " + std::to_string(s.version) + ".",
             "Resume it when it is to go on.", "gradstream run resume");
    return;
  }
  const uint32_t wanted = s.parameters == nullptr ? 0 : s.parameters->trigger->device_count;
  if (s.has_version || is_over(s.run_state) || s.enrolled.active >= wanted) {
    return;
  }
  const std::string pending =
      s.enrolled.pending == 0 ? "" : " " + std::to_string(s.enrolled.pending) + " more are pending.";
  out->add("waits_for_fleet", AttentionLevel::kStops,
           "The run begins with " + std::to_string(wanted) + " active devices (device_count), and there are " +
               std::to_string(s.enrolled.active) + "." + pending,
           s.enrolled.pending == 0 ? "Enrol more devices, or begin a run with a smaller device_count."
                                   : "Enable the pending devices, or enrol more.",
           s.enrolled.pending == 0 ? "gradstream device add NAME --out NAME.identity" : "gradstream device list");
}

// ---- What versions wait for ----

struct WaitView {
  SentenceNames names;
  std::vector<std::string> all;
  uint64_t wait_ms = 0;
  bool is_in_vain = false;  // most of these rounds ended without an answer of one of them
};

uint64_t median_of(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

const DeviceStatus* find_device(const WatchSnapshot& s, const std::string& name) {
  if (s.devices == nullptr) {
    return nullptr;
  }
  const auto found = std::find_if(s.devices->begin(), s.devices->end(),
                                  [&](const DeviceStatus& device) { return device.name == name; });
  return found == s.devices->end() ? nullptr : &*found;
}

// Of the last versions that this server has made. Devices that have been disabled since are left out.
std::optional<WaitView> find_wait(const WatchSnapshot& s) {
  struct Count {
    size_t waits = 0;
    size_t in_vain = 0;
  };
  std::map<std::string, Count> counts;
  std::vector<uint64_t> waits;
  std::vector<uint64_t> times;
  for (auto round = s.rounds.rbegin(); round != s.rounds.rend() && times.size() < kWaitRounds; ++round) {
    const RoundSummary& summary = round->summary;
    if (summary.asked == 0 || summary.opened_ms == 0) {
      break;  // of before this server's start
    }
    times.push_back(summary.time_ms - std::min(summary.opened_ms, summary.time_ms));
    waits.push_back(summary.waited_ms);
    const bool is_in_vain = std::string_view(summary.trigger) == trigger_name(Trigger::kDeadline);
    for (const std::string& name : summary.waited_for) {
      ++counts[name].waits;
      counts[name].in_vain += is_in_vain ? 1 : 0;
    }
  }
  WaitView view;
  view.wait_ms = median_of(waits);
  const size_t least = std::max(kWaitRoundsMin, (2 * times.size() + 2) / 3);
  for (const auto& [name, count] : counts) {
    const DeviceStatus* const device = find_device(s, name);
    if (count.waits >= least && (device == nullptr || !device->is_revoked)) {
      view.names.add(name);
      view.all.push_back(name);
      view.is_in_vain = view.is_in_vain || 2 * count.in_vain > count.waits;
    }
  }
  const bool is_told = view.names.count() > 0 && view.wait_ms >= kWaitToldMs &&
                       static_cast<double>(view.wait_ms) >= kWaitToldShare * static_cast<double>(median_of(times));
  return is_told ? std::optional(view) : std::nullopt;
}

// When the first of some devices was heard of last, where all of them are missed.
std::string first_seen_text(const Sentences& out, const std::vector<std::string>& names) {
  uint64_t first_ms = UINT64_MAX;
  for (const std::string& name : names) {
    const DeviceStatus* const device = find_device(out.s, name);
    if (device == nullptr || device->last_seen_ms == 0 || !is_missed(*device, out.s)) {
      return "";
    }
    first_ms = std::min(first_ms, device->last_seen_ms);
  }
  return ", the first last seen " + out.ago(first_ms);
}

// Of the open version alone, once its first deadline has passed.
void add_open_wait(Sentences* out) {
  const WatchSnapshot& s = out->s;
  const SentenceNames& names = out->fleet.awaited;
  if (s.run_state != gs_RunState_RUN_STATE_ACTIVE || s.round.extensions == 0 || names.count() == 0) {
    return;
  }
  const std::string them = names.which("it", "them");
  const bool goes_on = s.parameters != nullptr && awaits_seen(*s.parameters);
  const std::string otherwise = goes_on ? "After the last extension the version closes without " + them + "."
                                        : "The run stalls if too few devices answer.";
  out->add("waits_for_device", AttentionLevel::kSlows,
           "The open version has waited " + duration_text(s.taken_ms - std::min(s.round.opened_ms, s.taken_ms)) +
               " for " + names.text() + ".",
           "Switch " + them + " on, or disable " + them + ". " + otherwise, device_command("disable", names.first()));
}

void add_wait(Sentences* out) {
  const WatchSnapshot& s = out->s;
  const bool is_going = s.run_state == gs_RunState_RUN_STATE_ACTIVE;
  const std::optional<WaitView> wait = is_going ? find_wait(s) : std::nullopt;
  if (!wait) {
    return add_open_wait(out);
  }
  std::string text = "Each version waits " + duration_text(wait->wait_ms) + " for " + wait->names.text();
  const DeviceStatus* const device = wait->names.count() == 1 ? find_device(s, wait->names.first()) : nullptr;
  if (!wait->is_in_vain) {
    text += wait->names.which(", which answers last", ", which answer last");
  } else if (device != nullptr && device->connected) {
    text += ", which is connected and does not answer in time";
  } else if (device != nullptr && device->last_seen_ms == 0) {
    text += ", not heard of since the server began to serve the run " + out->ago(s.place.served_since_ms);
  } else if (device != nullptr) {
    text += ", last seen " + out->ago(device->last_seen_ms);
  } else {
    text += first_seen_text(*out, wait->all);
  }
  if (wait->names.count() == 1 || wait->is_in_vain) {
    out->told_absent.insert(wait->all.begin(), wait->all.end());
  }
  const std::string goal = std::to_string(s.round.wanted);
  const std::string them = wait->names.which("it", "them");
  if (wait->is_in_vain) {
    out->add("waits_for_device", AttentionLevel::kSlows, text + ".",
             "Switch " + them + " on, or disable " + them + ", or begin a run with update_goal below " + goal + ".",
             device_command("disable", wait->names.first()));
  } else {
    out->add("waits_for_device", AttentionLevel::kSlows, text + ".",
             "Look why " + std::string(wait->names.which("it is", "they are")) +
                 " slow. A run with work = \"timed\" gives slow devices fewer steps, and one with update_goal below " +
                 goal + " does not wait.");
  }
}

// Devices that are missed, and that no sentence has told so far.
std::vector<const DeviceStatus*> absent_devices(const Sentences& out) {
  std::vector<const DeviceStatus*> absent;
  const std::vector<DeviceStatus> none;
  for (const DeviceStatus& device : out.s.devices == nullptr ? none : *out.s.devices) {
    const bool is_told = out.told_absent.contains(device.name) ||
                         (out.has_told_missing && device.is_asked && !device.has_answered) ||
                         (out.has("waits_for_device") && device.waits.is_awaited);
    if (!device.is_revoked && !is_told && is_missed(device, out.s)) {
      absent.push_back(&device);
    }
  }
  return absent;
}

void add_silent(Sentences* out) {
  const WatchSnapshot& s = out->s;
  const FleetView& fleet = out->fleet;
  if (is_over(s.run_state) || s.run_state == gs_RunState_RUN_STATE_PAUSED || s.place.served_since_ms == 0) {
    return;
  }
  const bool is_short = fleet.reachable_count < s.round.wanted;
  const bool is_told = out->has("stalled") || out->has("waits_for_device");
  const AttentionLevel level = is_short && !is_told ? AttentionLevel::kSlows : AttentionLevel::kAdvice;
  const std::string goal = !is_short ? ""
                                     : ", and a version wants " + std::to_string(s.round.wanted) + " of " +
                                           std::to_string(s.round.asked) + " answers";
  SentenceNames never;
  SentenceNames silent;
  uint64_t silent_since_ms = UINT64_MAX;
  for (const DeviceStatus* const device : absent_devices(*out)) {
    (device->last_seen_ms == 0 ? never : silent).add(device->name);
    silent_since_ms = device->last_seen_ms == 0 ? silent_since_ms : std::min(silent_since_ms, device->last_seen_ms);
  }
  if (never.count() > 0) {
    out->add("never_connected", level,
             never.of(fleet.count) + never.which(" has", " have") +
                 " not been heard of since the server began to serve the run " + out->ago(s.place.served_since_ms) +
                 goal + ".",
             std::string("Switch ") + never.which("it on and look at its log", "them on and look at their logs") +
                 ", or disable " + never.which("it", "them") + ".",
             device_command("disable", never.first()));
  }
  if (silent.count() > 0) {
    out->add("silent", level,
             silent.of(fleet.count) + silent.which(" was", " were") + " last seen " +
                 (silent.count() == 1 ? "" : "up to ") + out->ago(silent_since_ms) + goal + ".",
             std::string("Look at ") + silent.which("its power and link", "their power and links") + ", or disable " +
                 silent.which("it", "them") + " if gone for good.",
             device_command("disable", silent.first()));
  }
}

// ---- How the run goes ----

void add_progress(Sentences* out) {
  const WatchSnapshot& s = out->s;
  if (s.parameters == nullptr) {
    return;
  }
  const ProgressWords words = progress_words(s.progress, *s.parameters);
  const bool is_near_end =
      is_over(s.run_state) || static_cast<double>(s.rounds_done) >= kStillFallingShare * s.round_count;
  switch (s.progress.state) {
    case ProgressState::kDiverged:
      out->add("diverged", AttentionLevel::kStops, "The run has diverged: " + sentence_of(words.text),
               sentence_of(words.remedy));
      return;
    case ProgressState::kNotImproving:
      out->add("not_improving", AttentionLevel::kSlows, "The run does not improve: " + sentence_of(words.text),
               sentence_of(words.remedy));
      return;
    case ProgressState::kSettled:
      if (!is_over(s.run_state)) {
        out->add("settled", AttentionLevel::kAdvice, "The loss has settled: " + sentence_of(words.text),
                 std::string("Where it is good enough, stop the run or let it end.") +
                     (chooses_step(*s.parameters) ? "" : " Else begin one with a shorter step, or with step_decay."));
      }
      return;
    case ProgressState::kStillFalling:
      if (is_near_end) {
        out->add("still_falling", AttentionLevel::kAdvice, "The loss still falls: " + sentence_of(words.text),
                 sentence_of(words.remedy));
      }
      return;
    case ProgressState::kStarting:
    case ProgressState::kWatching:
      return;
  }
}

void add_refused(Sentences* out) {
  const FleetView& fleet = out->fleet;
  if (fleet.refused.empty() || is_over(out->s.run_state) || out->has("stalled_by_cause")) {
    return;
  }
  const auto most = std::max_element(fleet.refused.begin(), fleet.refused.end(),
                                     [](const auto& a, const auto& b) { return a.second.count() < b.second.count(); });
  const auto& [reason, names] = *most;
  out->add("updates_refused", AttentionLevel::kSlows,
           "The last work of " + names.of(fleet.count) + " was refused: " + reason + ".",
           "Look at update_refused and task_refused in the server's log: they have the value and the limit.",
           "journalctl -u gradstream -g '(update|task)_refused'");
}

void add_units(Sentences* out) {
  const WatchSnapshot& s = out->s;
  SentenceNames names;
  for (const OutlierView& outlier : s.outliers) {
    names.add(outlier.device);
  }
  const bool has_value = names.count() > 0;
  const SentenceNames& told = has_value ? names : out->fleet.left_out;
  if (told.count() == 0 || is_over(s.run_state)) {
    return;
  }
  std::string text = "The sums of " + told.text() + " do not count for the units of the fleet's columns.";
  if (has_value) {
    const OutlierView& first = s.outliers.front();
    text += " " + first.device +
            (first.column == 0 ? " has another number of columns: "
                               : " has in column " + std::to_string(first.column) + " ") +
            number_of(first.value) + ", and the others allow " + number_of(first.limit) + ".";
  }
  out->add("units_outlier", AttentionLevel::kAdvice, text,
           "Look at the data and their units on " + std::string(told.which("that device", "those devices")) +
               ". Training goes on there, with the units of the others.");
}

void add_long_updates(Sentences* out) {
  const SentenceNames& names = out->fleet.long_updates;
  if (names.count() > 0 && !is_over(out->s.run_state)) {
    out->add("update_outlier", AttentionLevel::kAdvice,
             "Half of the last updates of " + names.of(out->fleet.count) + " were longer than twice the median.",
             "Look at the scale of the samples there. Where they are right, raise clip_factor in the next run.");
  }
}

void add_evaluation(Sentences* out) {
  const SentenceNames& names = out->fleet.without_evaluation;
  if (names.count() == 0 || is_over(out->s.run_state)) {
    return;
  }
  out->add("cannot_evaluate", AttentionLevel::kAdvice,
           names.of(out->fleet.count) + " cannot evaluate, so the quality is that of the others.",
           "Flash an image that can, and leave samples to hold out on " +
               std::string(names.which("that device", "those devices")) + ".");
}

// Devices keep their losses by default, and a run that evaluates nothing is then judged by nobody.
void add_no_loss(Sentences* out) {
  const auto& rounds = out->s.rounds;
  const auto has_loss = [](const WatchedRound& round) { return round.summary.has_losses; };
  if (rounds.size() >= kProgressFirst && std::none_of(rounds.end() - kProgressFirst, rounds.end(), has_loss) &&
      !is_over(out->s.run_state) && !asks_for_evaluations(out->s)) {
    out->add("no_loss", AttentionLevel::kAdvice, "No device tells its losses, so nobody sees whether the run improves.",
             "Begin a run with holdout_share = 0.1 and evaluation_period = 1, or start clients with --send-losses.");
  }
}

// ---- What is around the run ----

void add_firmware(Sentences* out) {
  const FleetView& fleet = out->fleet;
  if (fleet.old_firmware.empty()) {
    return;
  }
  const auto& [board, old] =
      *std::max_element(fleet.old_firmware.begin(), fleet.old_firmware.end(),
                        [](const auto& a, const auto& b) { return a.second.names.count() < b.second.names.count(); });
  out->add("old_firmware", AttentionLevel::kAdvice,
           old.names.of(fleet.count) + old.names.which(" runs", " run") + " old firmware, such as " + old.release +
               "; the newest " + (board.empty() ? "in the fleet" : "on " + board) + " is " + old.newest + ".",
           "Flash " + old.newest + " when you can: an old image may lack what the next run asks for.");
}

void add_connections(Sentences* out) {
  const WatchedRefusals& refusals = out->s.place.refusals;
  const uint64_t places = out->s.place.places;
  // A disabled device goes on dialling, and somebody wants it so; a pending one may have been forgotten.
  const bool is_wanted = refusals.most == "inactive_identities" && out->s.enrolled.pending == 0;
  if (refusals.count >= kRefusalsTold && !is_wanted) {
    out->add("connections_refused", AttentionLevel::kAdvice,
             std::to_string(refusals.count) + " connections were refused within " + duration_text(kRefusalWindowMs) +
                 ", most of them as " + refusals.most + ".",
             refusals_remedy(refusals.most),
             refusals.most == "inactive_identities" ? "gradstream device list" : "journalctl -u gradstream -n 50");
  }
  if (places > 0 && out->s.enrolled.active > places) {
    const std::string count = std::to_string(out->s.enrolled.active);
    out->add("places_short", AttentionLevel::kSlows,
             count + " devices are active, and the server has places for " + std::to_string(places) +
                 " connections at a time, so they take turns.",
             "Raise server.limits.connection_count_max and the limit of open files (LimitNOFILE) above " + count + ".");
  }
}

void add_clock(Sentences* out) {
  const WatchedPlace& place = out->s.place;
  if (place.clock_behind_ms >= kClockBehindToldMs) {
    out->add("clock_behind", AttentionLevel::kSlows,
             "The clock of this machine is " + duration_text(place.clock_behind_ms) +
                 " behind the latest time that the database has seen.",
             "Set the clock. Until then claims and rotated keys go on from the latest time.",
             "timedatectl set-ntp true");
  }
  if (place.certificate_ends_ms == 0) {
    return;
  }
  const uint64_t now_ms = out->s.taken_ms;
  const uint64_t left_ms = place.certificate_ends_ms - std::min(now_ms, place.certificate_ends_ms);
  if (left_ms < kCertificateToldMs) {
    out->add("certificate_ends",
             left_ms == 0                     ? AttentionLevel::kStops
             : left_ms < kCertificateUrgentMs ? AttentionLevel::kSlows
                                              : AttentionLevel::kAdvice,
             "The certificate " + place.certificate +
                 (left_ms == 0 ? " ended " + out->ago(place.certificate_ends_ms) + ": no device gets in by it."
                               : " ends in " + duration_text(left_ms) + "."),
             "Put a renewed one in its place, and reload the server.", "systemctl reload gradstream");
  }
}

}  // namespace

std::span<const char* const> attention_ids() { return kIds; }

std::vector<Attention> attention_of(const WatchSnapshot& snapshot) {
  Sentences out(snapshot);
  add_storage(&out);
  add_fork(&out);
  add_capabilities(&out);
  add_stall(&out);
  add_beginning(&out);
  add_wait(&out);
  add_silent(&out);
  add_progress(&out);
  add_refused(&out);
  add_clock(&out);
  add_connections(&out);
  add_units(&out);
  add_long_updates(&out);
  add_evaluation(&out);
  add_no_loss(&out);
  add_firmware(&out);
  return out.take();
}

}  // namespace gradstream

// The coordinator of one run: rounds, model versions, who gets which task, what each update is worth.
//
// Pure: messages and now_ms go in, actions come out. No socket, thread, clock, randomness or disk. The Asio server and
// the simulator are two shells around it.
//
//   round: OPEN --trigger--> CLOSING -> STEP -> kVersion record durable -> OPEN (next version)
//
// Output commit rule: a message that depends on a record is held back until on_persisted(sequence of that record);
// records are persisted in order of sequence, so one number suffices. A Pull that arrives while a version is on its way
// to the disk waits for it.
//
// now_ms: milliseconds since the epoch, never going back.
//
// A Pull that has nothing to get is held for as long as its device lets it, and answered with the next version: see
// server/coordinator/held_pulls.h and docs/wire.md.
//
// Recovery: a new Coordinator, replay() of every record in order, then start(). It has then the state of one that had
// just persisted the last record: open version, who answered, last verdict and task of each device, model, digest.
//
// Exactly once: update_id = (run, device, task_sequence). Two verdicts are kept per device: those of
// its last judged and of its last accepted task.
#ifndef GRADSTREAM_SERVER_COORDINATOR_COORDINATOR_H_
#define GRADSTREAM_SERVER_COORDINATOR_COORDINATOR_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/training/stream.h"
#include "runtime/wire/codec.h"
#include "server/base/event_catalogue.h"
#include "server/base/rate_limit.h"
#include "server/base/session_id.h"
#include "server/coordinator/held_pulls.h"
#include "server/coordinator/quality.h"
#include "server/coordinator/run_progress.h"
#include "server/coordinator/stall.h"
#include "server/journal/journal_head.h"
#include "server/journal/store.h"
#include "server/rules/model_average.h"
#include "server/run/run_parameters.h"

namespace gradstream {

class Fleet;
class UpdateKeeper;
struct DeviceRow;
struct PartialSum;

enum class ActionKind : uint8_t {
  kSend,     // message to session
  kClose,    // end the session after what was sent to it
  kPersist,  // record; the shell calls on_persisted(record.sequence) once it is durable, in order
  kPublish,  // version (with model and digest) is durable: export it, tell watchers; also once at a recovering start()
  kLog,      // one structured line: level, event, text
  kCheckpoint,   // checkpoint, to be stored behind the records that came before it
  kCompareMark,  // find_mark() of mark in the journal, of device; the shell calls on_mark_compared() with what it finds
};

// Actions whose memory is kept for the next ones. Reason: 64 actions are those of some updates, and take 100 KB; a
// record that becomes durable may release thousands.
inline constexpr size_t kUsedActionCountMax = 64;

struct Action {
  ActionKind kind = ActionKind::kLog;
  SessionId session = 0;
  ServerMessage message = {};
  // kSend: the answer's next message comes, perhaps only when its record is durable; a shell may keep this one for it.
  bool has_more = false;
  gs_Reason reason = gs_Reason_REASON_NONE;  // kClose
  JournalRecord record;
  std::shared_ptr<const Checkpoint> checkpoint = {};
  uint32_t version = 0;             // kPublish
  uint32_t device = 0;              // kCompareMark
  JournalMark mark = {};            // kCompareMark
  const EventRow* event = nullptr;  // kLog
  std::string text;                 // kLog: key=value pairs
};

// What was left out of accepted updates, of their values or of what they said beside them; the updates count.
struct NoteCounters {
  uint64_t updates_clipped = 0;         // longer than their radius (docs/algorithms.md, "The clip")
  uint64_t lines_not_finite = 0;        // slope or curvature is no number
  uint64_t evaluations_not_finite = 0;  // loss or metric is no number, a share beyond 1, or of no sample
};

// What devices know that the journal does not: it is that of an older copy, of a clone, or it was changed.
struct HistoryCounters {
  uint64_t devices_ahead = 0;   // Pulls from versions that are not there
  uint64_t journal_forked = 0;  // Hellos that were told of a record which is not there, or is another one
};

// Counters, each of something an operator can act on. Names are stable.
struct CoordinatorCounters {
  uint64_t updates_folded = 0;
  uint64_t updates_late = 0;
  uint64_t updates_partial = 0;  // among the folded and late ones
  uint64_t updates_refused = 0;
  uint64_t updates_without_time = 0;     // among the refused ones: more steps than their device had time for
  uint64_t updates_loss_not_finite = 0;  // among the refused ones: their loss is no number
  NoteCounters notes;                    // of the accepted ones
  uint64_t updates_still = 0;            // among the accepted ones of delay rules: a displacement of 0
  uint64_t steps_clamped = 0;            // of delay rules: shortened to where the retraction is one-to-one
  uint64_t curves_antiparallel = 0;      // of solver curve: their two displacements point against each other
  uint64_t updates_duplicate = 0;
  uint64_t updates_changed = 0;  // sent again under the same task with other content: a device that breaks its word
  uint64_t updates_superseded = 0;
  uint64_t tasks_issued = 0;
  uint64_t tasks_abandoned = 0;
  uint64_t tasks_refused = 0;
  uint64_t rounds_closed = 0;
  uint64_t rounds_extended = 0;
  uint64_t snapshots_sent = 0;
  uint64_t copies_refused = 0;
  uint64_t records_sent = 0;
  uint64_t digest_mismatches = 0;
  HistoryCounters history;
  uint64_t sessions_replaced = 0;
  uint64_t messages_unexpected = 0;
  uint64_t messages_over_rate = 0;                           // of devices beyond CoordinatorLimits::device_messages
  uint64_t steps_failed = 0;                                 // versions closed without a step
  uint64_t lines_dropped = 0;                                // of updates, along no record of the last two
  uint64_t drifts = 0;                                       // times that the losses moved away after they had settled
  std::array<uint64_t, _gs_Reason_ARRAYSIZE> refusals = {};  // of updates and of tasks, by gs_Reason
};

// What one device may cost its server, whatever the run.
struct CoordinatorLimits {
  // Of one device, over all its sessions: Hellos, Pulls, uploads (by their first piece), refused tasks, reports. An
  // upload beyond it is answered TRY_LATER with REASON_RATE_LIMIT; anything else, and whatever comes before the window
  // of that answer begins, ends the session with the same reason. Nothing of it reaches the journal.
  RateLimit device_messages;
  // A Pull is held so long at most, ms, at most kServerHoldMaxMs; 0: never.
  uint32_t pull_hold_ms = kServerHoldMs;
};

// A checkpoint is due when the records since the last one are so many times as long as it was, whatever their number
// is. Reason: of all that is written for history, checkpoints are then an eighth.
inline constexpr uint32_t kCheckpointShare = 8;
// Beyond so many bytes of records it is due all the same. Reason: a restart replays them, in about a second.
inline constexpr uint64_t kCheckpointTailMax = 256ULL << 20;

// Rounds that a coordinator remembers of its journal. Reason: as many as the status page draws (kRoundHistoryMax).
inline constexpr size_t kReplayedRoundMax = 512;

// A round that closed, for those who watch.
struct RoundSummary {
  uint32_t version = 0;  // that it made
  uint64_t time_ms = 0;
  const char* trigger = "";
  uint32_t folded = 0;
  uint32_t late = 0;
  uint32_t partial = 0;
  std::string missing;     // NameList of server/coordinator/fleet.h
  bool has_losses = true;  // false: answers of a stage before training have none
  double loss_before = 0;  // mean of its updates
  double loss_after = 0;
  uint64_t upload_bytes = 0;
  uint64_t record_bytes = 0;
  uint64_t opened_ms = 0;          // when the version before became durable, or the run was resumed
  uint32_t asked = 0;              // devices; 0: replayed, and the journal knows neither these nor wanted and missing
  uint32_t wanted = 0;             // as in RoundProgressView, when it closed
  uint32_t extensions = 0;         // by report_deadline_ms
  std::optional<Quality> quality;  // of the version before, as far as it was known when the round closed
  // Of a run that chooses its step by itself: eta of the version that it made, and what decided it. 0, "": of another
  // run, or of one whose trials are not over.
  double step = 0;
  std::string bound;
  // For how long its end waited for single devices, and for whom: from the last answer to the deadline for those that
  // gave none, else from the answer before the last one to the last one. 0, none: it was not measured, as in a buffer.
  uint64_t waited_ms = 0;
  std::vector<std::string> waited_for;  // the first kWaitedNamesMax
  friend bool operator==(const RoundSummary&, const RoundSummary&) = default;
};
// Reason: as many as a NameList has. Sentences name fewer, and count what comes again and again.
inline constexpr size_t kWaitedNamesMax = 8;

// Devices of these that are kept. Reason: with more of them the units themselves are in doubt.
inline constexpr size_t kOutliersMax = 16;
// A device whose sums over its columns do not count, as the event units_outlier tells.
struct OutlierView {
  std::string device;
  uint32_t column = 0;  // from 1; 0: its number of columns is another one
  double value = 0;
  double limit = 0;
};

// The open round.
struct RoundProgressView {
  uint32_t asked = 0;    // devices
  uint32_t answers = 0;  // in time
  // Answers that close it: the goal before the deadline, the least number after it. In a buffer late answers count too.
  uint32_t wanted = 0;
  uint32_t late = 0;     // accepted answers to older versions
  uint32_t partial = 0;  // of all these, with fewer steps than asked
  uint32_t extensions = 0;
  uint64_t opened_ms = 0;    // 0: it is not durable yet
  uint64_t deadline_ms = 0;  // report_deadline_ms of it, extensions counted; 0: none runs
  uint32_t held = 0;         // devices whose Pull is held until there is something for them
  uint32_t awaited = 0;      // devices whose answer it waits for; 0 without rounds
  // By which updates of the version that closed last were clipped, in the units of their values; 0: by none.
  double clip_radius = 0;
  double least_cosine = 0;  // of its updates to its step; 0: none is known
};

// What a device's image is, by its last Hello.
struct ImageView {
  uint32_t arena_size = 0;  // bytes; 0: it has not said
  uint32_t features = 0;    // bit n: gs_Feature n
  std::string problems;     // joined by commas; "": it has not said
  std::string lacks;        // for the run, as lacking() of server/coordinator/fleet.h has it
  gs_ResetCause reset_cause = gs_ResetCause_RESET_CAUSE_NONE;
};

// Of the last verdict. With REASON_PRIVACY: the floor of the device's owner; FLOOR_NONE: a server before this one was
// told, and the next task tells anew.
struct LastReason {
  gs_Reason reason = gs_Reason_REASON_NONE;
  gs_Floor floor = gs_Floor_FLOOR_NONE;
};
// "out_of_range"; "privacy, floor batch_size".
std::string refusal_text(const LastReason& last);

// How long a device that knows another journal, or held a later version, is told of at least. Reason: what it says next
// fits again, since this server has told it a record and a model of its own, and an operator looks once a day.
inline constexpr uint64_t kForkToldMs = 86'400'000;

// What a device's numbers are beside the others'.
struct OddityView {
  bool is_left_out = false;  // of the fleet's units: its sums do not count
  // Of its updates, in a run that clips (server/coordinator/norm_book.h); 0: none was measured.
  double norm_ratio = 0;     // of the last one: norm by median
  double clipped_share = 0;  // of the last 64
  bool has_long_updates = false;
  double cosine = 0;                 // of the last one to its version's step, where updates are kept until then
  bool knows_other_journal = false;  // on_mark_compared()
  bool holds_later_version = false;  // than the journal has, or did when it came (device_ahead)
};

// Who waits for whom.
struct WaitsView {
  bool holds = false;       // the device's Pull is held until there is something for it
  bool is_awaited = false;  // the open version waits for the device's answer
};

// One line of `status`: what a device does in this run.
struct DeviceStatus {
  std::string name;
  uint32_t index = 0;
  bool is_revoked = false;  // or disabled, or pending
  bool connected = false;
  bool is_asked = false;      // in the open version
  bool is_capable = true;     // its image links what the run's tasks need
  bool has_answered = false;  // the open version, in time
  bool has_task = false;
  WaitsView waits;
  uint32_t task_version = 0;
  uint64_t task_issued_ms = 0;
  uint32_t version_held = 0;
  uint64_t last_seen_ms = 0;
  uint64_t updates_folded = 0;
  uint64_t updates_late = 0;
  uint64_t updates_partial = 0;
  uint64_t snapshots_sent = 0;
  uint32_t step_time_us = 0;
  gs_Verdict last_verdict = gs_Verdict_VERDICT_NONE;
  LastReason last_reason;
  // Of its last accepted update: versions that it was behind, what that weighed (1: all), steps done and asked.
  uint32_t last_staleness = 0;
  float last_staleness_weight = 0;
  uint32_t last_steps = 0;
  uint32_t last_steps_asked = 0;
  uint32_t sample_count = 0;
  OddityView oddity;
  ImageView image;
  std::string firmware_version;
  std::string board;  // "": not reported
  gs_StatusReport report = {};
};

class Coordinator {
 public:
  // devices: names in order of enrolment index. Parameters must have passed check_parameters() (GS_ASSERT).
  // aggregator_count: sums that the updates of a version go to, merged at its close; it must have passed
  // check_aggregator_count() (server/rules/aggregator.h). What the run makes is the same with any number of sums.
  // run_nonce: what tells the run from another one of these parameters (parameters_digest()); devices are told both.
  Coordinator(uint32_t run, const RunParameters& parameters, const std::vector<std::string>& devices,
              uint32_t aggregator_count = 1, uint64_t run_nonce = 0);
  ~Coordinator();

  // kDataCorrupt: the record does not follow from those before it, or the digest it names is not reached.
  Status replay(const JournalRecord& record);
  // In place of replaying the records up to a checkpoint's: bytes that the action kCheckpoint gave. Nothing was
  // replayed before. kDataCorrupt: damaged, of another run or precision, or of a release whose form is another; the
  // coordinator is then of no more use.
  Status restore(std::span<const uint8_t> bytes);
  // Whether the version last decided is that of the last record; checkpoint() may be called then alone.
  bool is_at_version() const;
  Checkpoint checkpoint();
  // ---- Between a journal and an engine, before start() ----
  // What was replayed into the open version, which forgets it. The run's rule merges (Aggregator::is_mergeable()).
  PartialSum take_partial();
  // Of a run whose rule has a memory; else null.
  UpdateKeeper* keeper();
  // The device's row as an engine has kept it, after replay() of versions alone. No record of this journal made it, so
  // that no answer waits for one.
  void adopt_row(uint32_t device, DeviceRow row);
  // Drops what is shown of the device's updates, and decides nothing: for the checkpoint of `run forget`.
  void forget_figures(uint32_t device);
  // At any time: a checkpoint when a version begins and at least so many updates have come in since the last one. 0:
  // none, as without this call. A fleet whose state is large has fewer: the records since are `share` times as long.
  void set_checkpoints(uint32_t update_count, uint32_t share = kCheckpointShare);
  void start(uint64_t now_ms);
  // Before start(): a run without a version begins at this point of its manifold instead of one drawn from its seed.
  // kInvalidArgument: not of the run's shape; kNotFinite.
  Status set_first_model(std::span<const Real> model);
  // At any time; without it there are none.
  void set_limits(const CoordinatorLimits& limits);

  // device: enrolment index proven by TLS. Closes an older session of the same device (REASON_NEWER_SESSION).
  void on_message(SessionId session, uint32_t device, const DeviceMessage& message, uint64_t now_ms);
  void on_session_closed(SessionId session, uint64_t now_ms);
  void on_tick(uint64_t now_ms);
  // The process stood still for so long, and judged nothing: the open version has that much more time. Not in the
  // journal, as after a restart.
  void postpone(uint64_t by_ms);
  // When on_tick has something to do at the latest; UINT64_MAX: never.
  uint64_t next_tick_ms() const;
  // All records up to and including sequence are durable.
  void on_persisted(uint64_t sequence, uint64_t now_ms);
  // The chain with a durable record, the newest one; a shell calls it before start() too. From then on Welcomes and
  // Tasks name that record to devices that keep it, and what devices say of one is compared. Without it neither
  // happens.
  void note_chain(const ChainHead& head);
  // What the journal has where the device said `said`. A difference is told and changes nothing else: who restores a
  // copy on purpose wants the fleet to go on, and no device can know which history is right. The device counts as one
  // that knows another journal until it is excluded, or says a mark that fits kForkToldMs after the last one that did
  // not.
  void on_mark_compared(uint32_t device, const JournalMark& said, MarkFinding finding, uint64_t now_ms);
  // Nothing can be made durable now: updates are answered TRY_LATER, pulls refused (REASON_STORAGE), and nothing is
  // decided until on_storage_recovered(). The shell keeps the records that it could not store, and stores them first.
  void on_storage_failed(uint64_t now_ms);
  void on_storage_recovered(uint64_t now_ms);
  // A device enrolled while running: it gets the next enrolment index.
  void on_device_added(const std::string& name, uint64_t now_ms);
  // A device revoked, or disabled or not enabled yet, while running, or, between replay() and start(), at some earlier
  // time. It takes no part; a live session is told REASON_REVOKED, or REASON_INACTIVE.
  void on_device_revoked(uint32_t device, uint64_t now_ms);
  void on_device_disabled(uint32_t device, uint64_t now_ms);
  // A device that was taken out and may come in again.
  void on_device_restored(uint32_t device, uint64_t now_ms);
  // By the operator. A paused run issues no task and opens no version, but takes the answers to tasks that are out.
  // When it is resumed its version goes on with these answers, and with all its time. Each call has no effect if the
  // run is in that state already, or over.
  void stop(uint64_t now_ms);
  void pause(uint64_t now_ms);
  void resume(uint64_t now_ms);
  // The server goes away: what is held is answered, and nobody is held from now on.
  void drain(uint64_t now_ms);
  // Somebody else wants a place: the session that has been held the longest is answered. 0: nobody is held.
  SessionId end_longest_hold(uint64_t now_ms);
  // Whether a Pull of the session is held.
  bool is_held(SessionId session) const;

  // Everything decided since the last call, in order. used: its memory takes what comes next.
  std::vector<Action> take_actions(std::vector<Action> used = {});

  // The model of the version last decided; at a kPublish, that version's. average: of the versions up to it.
  const Replica& model() const;
  const ModelAverage& average() const;
  // Of that version: model, mean and units, as devices compute it.
  uint64_t digest() const;
  // Its table of units (server/rules/stage_record.h); empty: it has none.
  std::span<const uint8_t> units() const;
  // What the version last decided asks its devices for.
  TaskStage stage() const;
  // Of the versions that devices have evaluated.
  const QualityBook& quality() const;
  gs_RunState run_state() const;
  // Highest durable version.
  uint32_t durable_version() const;
  const CoordinatorCounters& counters() const;
  // When devices are to come back, as the run paces them.
  gs_RetryWindow retry_window() const;
  std::vector<DeviceStatus> device_statuses() const;
  // Rounds that are done; it is finished at round_count of them. A round may take several versions.
  uint32_t rounds_done() const;
  // Devices that the stages before training left out since this coordinator was made, the first kOutliersMax.
  const std::vector<OutlierView>& outliers() const;
  // Answers in for the open version.
  uint32_t answers_in() const;
  RoundProgressView round_progress() const;
  // Why the run is stalled where no waiting helps; empty: it is not, or too few devices have answered in time.
  const StallCause& stall_cause() const;
  // Why the run is finished before its rounds were done; empty: it is not.
  const StallCause& end_cause() const;
  // The last round that this coordinator closed; version 0: none since it was made.
  const RoundSummary& last_round() const;
  // The last kReplayedRoundMax rounds, oldest first: as far as the journal knows them.
  const std::deque<RoundSummary>& replayed_rounds() const;
  bool is_storage_failed() const;
  // Whether the run improves, by its journal.
  const ProgressView& progress() const;
  const RunProgress& run_progress() const;
  // What the journal says of each device.
  const Fleet& fleet() const;
  // Of the last record; 0: there is none.
  uint64_t last_sequence() const;

  // All that the journal decides, one line for each part, for tests that compare two coordinators.
  std::string state_text() const;
  // From now on a duplicate of an update of the open version is folded again, past the journal: a fault that the
  // simulator must find.
  void plant_double_fold_for_test();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_COORDINATOR_H_

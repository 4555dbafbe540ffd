// The coordinator's inside, for the files that it is cut into:
//
//   coordinator.cc           its interface: what comes in, recovery, what others may read
//   coordinator_sessions.cc  Hello, what answers a Pull, tasks and their refusals, reports
//   coordinator_pulls.cc     Pulls that wait or are held, and what ends that
//   coordinator_uploads.cc   what an upload is worth, and its Ack
//   coordinator_rounds.cc    when a version opens, closes, is extended or stalls
//   coordinator_stages.cc    the stages before training: their answers, and who is out of them
//   coordinator_stall.cc     which devices can give nothing as they are, and what that means for the open version
//   coordinator_checkpoint.cc  the state of a version as bytes, and back
//   coordinator_output.cc    actions, and what is held back until its record is durable
#ifndef GRADSTREAM_SERVER_COORDINATOR_COORDINATOR_STATE_H_
#define GRADSTREAM_SERVER_COORDINATOR_COORDINATOR_STATE_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/base/event_catalogue.h"
#include "server/base/fields.h"
#include "server/base/recycled_queue.h"
#include "server/coordinator/complaint.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/device_rules.h"
#include "server/coordinator/held_pulls.h"
#include "server/coordinator/intake.h"
#include "server/coordinator/ledger.h"
#include "server/coordinator/upload_rules.h"
#include "server/journal/journal_chain.h"
#include "server/run/canonical_text.h"
#include "server/run/trigger.h"

namespace gradstream {

struct Coordinator::State {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  struct Session {
    uint32_t device = 0;
    bool has_hello = false;
    bool is_upload_limited = false;  // the one that is coming in is answered TRY_LATER
    Intake intake;
    uint32_t held_count = 0;
    uint32_t held_sync_count = 0;  // of these, messages of snapshots and logs
    bool has_report = false;
    bool has_pulled = false;   // so that hold_max_ms is known
    uint32_t hold_max_ms = 0;  // of its last Pull
    uint32_t acked_task = 0;   // whose Ack stood for a Pull last, and that Pull was not given up; 0: of none
    uint64_t mark_due_ms = 0;  // from then on the device is told of a newer record of the journal
  };
  struct WaitingPull {
    gs_Pull pull = {};
    uint64_t required = 0;  // record of the version that was open when the Pull came
    uint64_t came_ms = 0;
  };
  // What the Ack of a task stands for.
  struct AckedPull {
    uint32_t task_sequence = 0;
    gs_Pull pull = {};
  };
  // Apart from `sessions`, so that a commit visits only those that wait for one.
  struct Pulls {
    std::map<SessionId, WaitingPull> waiting;
    uint64_t waited_for = UINT64_MAX;  // none of them can be answered before this record is durable
    HeldPulls held;
    uint64_t news_sequence = 0;   // record of a version that the held ones do not know yet; 0: they know all
    uint64_t wakes_begun_ms = 0;  // with an arrival_rate: when the first of wake_count devices was due
    uint64_t wake_count = 0;
    bool is_draining = false;  // the server goes away: nobody is held any more
    uint64_t next_wake_ms(uint32_t rate, uint64_t now_ms);
  };
  // An action that waits until the journal up to `required` is durable.
  struct Held {
    Action action;
    uint64_t required = 0;
    bool is_sync = false;
  };

  // The last two answers in time to the open version.
  struct LastAnswers {
    uint64_t before_ms = 0;  // 0: there is none
    uint64_t last_ms = 0;
    uint32_t last_device = 0;
  };
  // When the next checkpoint is due. What is counted is since the last one.
  struct CheckpointPace {
    uint32_t update_count = 0;  // that it waits for; 0: there are none
    uint32_t share = kCheckpointShare;
    uint64_t updates = 0;
    uint64_t records = 0;
    uint64_t bytes = 0;
    uint64_t size = 0;  // of the last one
  };
  // What decides nothing, and is there for those who watch, for what is stored, or to be used again.
  struct Noted {
    std::vector<Real> upload_values;  // memory for those of one upload, while it is judged
    uint64_t upload_bytes = 0;        // of the open version, as encoded
    LastAnswers answers;
    std::vector<OutlierView> outliers;  // the first kOutliersMax
    RateMeter rate_lines;               // of the log, about devices beyond their rate
    uint64_t version_ms = 0;            // by the journal: when the open version was decided, or the run was resumed
    CheckpointPace checkpoints;
    std::optional<JournalMark> mark;  // of the newest record that is known to be durable; sequence 0: of none
    uint32_t forked_count = 0;        // devices whose forked_ms is not 0
  };

  State(uint32_t run_id, const RunParameters& run_parameters, const std::vector<std::string>& names,
        uint32_t aggregator_count, uint64_t nonce)
      : identity{run_id, nonce, parameters_digest(run_parameters, nonce)},
        parameters(run_parameters),
        ledger(run_parameters, names, aggregator_count) {}

  RunIdentity identity;  // said in every Welcome
  RunParameters parameters;
  Ledger ledger;
  CoordinatorCounters counters;
  RoundSummary last_round;
  std::deque<RoundSummary> replayed_rounds;
  std::vector<Action> actions;
  RecycledQueue<Held> held{kUsedActionCountMax};
  std::map<SessionId, Session> sessions;
  Pulls pulls;
  std::vector<Real> first_model;  // empty: drawn from the seed
  uint64_t durable_sequence = 0;
  uint32_t durable_version = 0;
  uint64_t version_sequence = 0;    // of the journal record of the version last decided
  uint64_t run_state_sequence = 0;  // of the last kRunState record
  uint64_t opened_ms = 0;           // of the open version: when its time began; 0: not yet
  uint64_t deadline_ms = kNever;    // of the open version
  uint64_t heard_by_ms = kNever;    // a stall's cause of another process: until when silent devices may speak of it
  Noted noted;
  bool is_started = false;
  bool is_storage_failed = false;
  bool folds_duplicates = false;
  bool has_blocked = false;       // some device may be blocked: review_blocked() has to look
  uint32_t stalled_by = 0;        // devices that the recorded cause counts first; 0: another process recorded it
  uint64_t stalled_hash = 0;      // of the reasons and lacks of all groups that were blocked then
  uint32_t blocked_at_look = 0;   // devices that were blocked when review_blocked() last looked
  uint32_t noted_since_look = 0;  // calls of note_blocked() since
  CoordinatorLimits limits;
  uint64_t idle_since_ms = 0;  // when the run was paused or ended; 0: neither is known

  // ---- What the rules look at ----
  RunView view() const;
  FleetStanding standing(uint32_t device) const;

  // ---- Out ----
  void log(const EventRow& event, const Fields& fields);
  void respond(SessionId id, const ServerMessage& message, uint64_t required);
  void close(SessionId id, gs_Reason reason);
  void respond_sync(SessionId id, const std::vector<ServerMessage>& pieces, bool is_end);
  void hold_or_act(Action action, uint64_t required, bool is_sync = false);
  void release_held();
  void refuse_held();
  void persist(JournalRecord record, uint64_t now_ms);
  uint64_t decide(JournalRecord record, uint64_t now_ms, FoldSource source = FoldSource::kJournal);
  gs_RetryWindow window(uint32_t factor) const;
  gs_RetryWindow window(WindowKind kind, uint64_t now_ms) const;
  gs_RetryWindow refused_window() const;
  gs_RetryWindow idle_window(uint64_t now_ms) const;
  void refuse(SessionId id, gs_Reason reason);
  void exclude(uint32_t device, gs_Reason reason, uint64_t now_ms);
  void publish();
  void count_for_checkpoint(const JournalRecord& record);
  bool is_checkpoint_due() const;
  Checkpoint make_checkpoint();
  void exchange(StateArchive& io);
  void wait(SessionId id, gs_WaitCause cause, gs_RetryWindow retry, uint64_t required);

  // ---- Rounds ----
  void open_run(uint64_t now_ms);
  void begin_time(uint64_t now_ms);
  void judge_open_round(uint64_t now_ms);
  void close_round(Trigger trigger, uint64_t now_ms);
  void note_wait(Trigger trigger, uint64_t now_ms);
  void recall(const JournalRecord& record, const RoundTally& tally, uint32_t extension_count);
  void remember_round(RoundSummary summary);
  std::optional<Quality> quality_before(uint32_t version) const;
  void note_evaluations(const std::optional<Quality>& quality, bool was_wanted);
  void count_notes(uint32_t version, const DelayNotes& notes);
  void log_progress(const ProgressSaid& before);
  void log_round(uint64_t digest);
  void log_gone();
  void run_event(RunEvent event, uint64_t now_ms, const StallCause& cause = {});
  uint32_t wanted_answers();
  void note_clip(const ClipTally& tally, uint64_t now_ms);
  void log_trials(uint32_t version);
  void log_stage(uint32_t version, TaskStage stage, const StageDecision& decision);

  // ---- Who is out of the open stage ----
  void note_barred(uint32_t device, uint64_t now_ms);
  void review_barred(uint64_t now_ms);
  uint32_t asked_count() const { return ledger.fleet().asked_count() - ledger.fleet().barred_count(); }
  // Answers that the open version may not close without, however long it was open.
  uint32_t least_answers() const;
  // Whether the open version waits for single devices: it is a round, or a stage, and the run goes on.
  bool awaits_answers() const;

  // ---- What can never work ----
  void note_blocked(uint64_t now_ms);
  void forgive(uint32_t device, uint64_t now_ms);
  void review_blocked(uint64_t now_ms);
  void review_silent(uint64_t now_ms);
  std::vector<BlockedGroup> blocked_groups();
  bool is_decidable() const;
  Complaint find_complaint(uint32_t device, const Upload& upload, const FoldInput& input);
  bool is_version_durable() const { return durable_sequence >= version_sequence; }

  // ---- In ----
  void on_hello(SessionId id, uint32_t device, const gs_Hello& hello, uint64_t now_ms);
  void log_lacks(const FleetDevice& device, const gs_Hello& hello);
  void compare_mark(uint32_t device, const gs_Hello& hello, uint64_t now_ms);
  void forgive_fork(FleetDevice* row, uint64_t now_ms);
  JournalMark next_mark(SessionId id, uint64_t now_ms);
  void abandon(uint32_t device, uint64_t now_ms);
  void send_welcome(SessionId id, uint32_t device, bool is_abandoned, uint64_t now_ms);
  void on_pull(SessionId id, const gs_Pull& pull, uint64_t now_ms);
  void take_pull(SessionId id, const gs_Pull& pull, uint64_t now_ms);
  void answer_pull(SessionId id, const gs_Pull& pull, uint64_t came_ms, uint64_t now_ms);
  void answer_waiting_pulls(uint64_t now_ms);
  bool may_hold(uint32_t device) const;
  bool hold(SessionId id, const gs_Pull& pull, uint64_t came_ms, uint64_t now_ms);
  bool give_up_hold(SessionId id);
  void end_hold(const EndedHold& ended, uint64_t now_ms);
  void end_due_holds(uint64_t now_ms);
  void end_all_holds(uint64_t now_ms);
  void wake_held(uint64_t now_ms);
  void note_version(uint64_t sequence);
  void wake_by_news(uint64_t now_ms);
  bool may_hold_after(SessionId id, const Upload& upload) const;
  bool stands_for_pull(uint32_t device, const Upload& upload) const;
  void take_ack_as_pull(SessionId id, const AckedPull& acked, uint64_t now_ms);
  bool send_sync(SessionId id, uint32_t device, const gs_Pull& pull, uint64_t now_ms);
  std::vector<SnapshotPart> snapshot_parts(Shape shape, const SyncPlan& plan) const;
  void send_task_or_wait(SessionId id, uint32_t device, const gs_Pull& pull, uint64_t now_ms);
  void log_share(FleetDevice& device, uint32_t index);
  void issue_task(uint32_t device, uint64_t now_ms);
  void send_task(SessionId id, uint32_t device, uint64_t now_ms);
  void compare_content(uint32_t index, const Upload& upload, uint64_t now_ms);
  void on_upload(SessionId id, const Upload& upload, uint64_t now_ms);
  AckedPull pull_after(const Upload& upload) const;
  void judge_again(SessionId id, uint32_t device, const Upload& upload, uint64_t now_ms);
  void judge_upload(SessionId id, uint32_t device, const Upload& upload, uint64_t now_ms);
  gs_Reason find_fault(uint32_t index, const Upload& upload, uint64_t now_ms, std::vector<Real>* values,
                       FoldInput* input);
  gs_Reason judge_update(uint32_t index, const Upload& upload, uint64_t now_ms);
  gs_Reason judge_answer(uint32_t index, const Upload& upload, uint64_t now_ms);
  void accept_upload(uint32_t device, const Upload& upload, const FoldInput& input, uint64_t now_ms);
  void refuse_upload(uint32_t device, const Upload& upload, gs_Reason reason, uint64_t now_ms);
  void count_refusal(gs_Reason reason);
  void end_task_refused(uint32_t device, uint32_t task_sequence, gs_Reason reason, uint32_t step_time_us,
                        uint64_t now_ms);
  uint32_t said_clip(uint32_t index, const Upload& upload) const;
  void send_ack(SessionId id, uint32_t task_sequence, const UploadStart& start, uint32_t clip_scale);
  bool send_judged_ack(SessionId id, uint32_t device, const Upload& upload, bool is_duplicate);
  void fold_duplicate(uint32_t device, const Upload& upload, uint64_t now_ms);
  void on_task_refused(SessionId id, const gs_TaskRefused& refused, uint64_t now_ms);
  void on_report(SessionId id, const gs_StatusReport& report, uint64_t now_ms);
  void drop_session(SessionId id);
  bool admit(SessionId id, const DeviceMessage& message, uint64_t now_ms);
  void log_of(FleetDevice& device, const EventRow& event, Fields fields, uint64_t now_ms);
  bool may_copy(uint32_t device, const SyncPlan& plan, uint64_t now_ms);
  void log_refusal(const EventRow& event, uint32_t device, uint32_t task_sequence, gs_Reason reason, uint64_t now_ms);
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_COORDINATOR_STATE_H_

// The client state machine: frames and now_ms in, actions out. No socket, clock, randomness or disk inside; a board, a
// Linux process and the simulator are thin shells around it.
//
//   BOOT -> IDLE -> CONNECT -> HELLO -> (UPLOAD pending) -> SYNC -> TRAIN -> SAVE -> CONNECT? -> UPLOAD -> IDLE ...
//
// The shell's loop: `action = client.poll(now)`; do it; report back with on_*; poll again. One poll does at most one
// local step of training, or a slice of it where the shell has set one (set_slice). Every state with a peer has a
// deadline: CONNECT kHandshakeDeadlineMs; HELLO, SYNC, UPLOAD and SAVE kAnswerDeadlineMs since the last progress; TRAIN
// the task's own. SYNC has kHeldAnswerDeadlineMs for a Pull that the server may keep. A deadline that fires is counted
// and ends in a closed session and IDLE with a retry window.
//
// Exactly once: the upload of a task is encoded once and kept (in the arena, and in the saved state) until an Ack; a
// resend is byte for byte the same.
//
// Its parts, each with its own header, invariants and tests:
//   client_clock.h     deadlines, retry windows, when an idle client wakes
//   client_hold.h      Pulls that the server keeps until there is a task
//   client_run.h       what the Welcome says of the run, and the replica of its model
//   client_record.h    the record that comes in
//   client_snapshot.h  the snapshot that comes in
//   client_line.h      the loss along the last record
//   client_slots.h     the uploads that are kept, and their memory
//   client_feedback.h  what an encoding leaves out, for the next upload
//   client_fields.h    the fields that are saved and compared
//
// Memory, all in the arena, from its persistent end:
// - the replica: two tensors, three with a mean, and one for each extra part of the run's versions;
// - in a run that may have the `local` correction, the correction: one tensor;
// - with error feedback three tensors more (client_feedback.h);
// - in a run with units 12 bytes for each column of the data;
// - one upload, two where there may be a correction, three with a memory;
// - until the next task, in a run with lines, two tensors where they fit;
// - during a task, with a memory the correction, and the solver's state.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/own_frame.h"
#include "runtime/link/client_clock.h"
#include "runtime/link/client_feedback.h"
#include "runtime/link/client_hold.h"
#include "runtime/link/client_line.h"
#include "runtime/link/client_record.h"
#include "runtime/link/client_run.h"
#include "runtime/link/client_slots.h"
#include "runtime/link/client_snapshot.h"
#include "runtime/link/port.h"
#include "runtime/link/privacy.h"
#include "runtime/training/evaluation.h"
#include "runtime/training/smoothing.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"
#include "runtime/training/task_stages.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"

namespace gradstream {

struct SavedHeader;
struct SavedStep;

enum class ClientState : uint8_t { kIdle, kConnect, kHello, kSync, kTrain, kSave, kUpload, kFinished };

// Where the local steps of the task in progress were kept (port_step_read); read null: nowhere.
struct StepSource {
  Result<size_t> (*read)(void* context, uint32_t index, uint8_t* out, size_t capacity) = nullptr;
  void* context = nullptr;
};

#if !defined(GS_BARE_METAL)
// Who is told of each update that is judged, before the client lets it go. bytes: as they were sent.
struct JudgedUpdates {
  void (*tell)(void* context, uint32_t device, const StoredUpload& update, std::span<const uint8_t> bytes,
               const gs_Ack& ack) = nullptr;  // null: nobody
  void* context = nullptr;
};
#endif

struct ClientConfig {
  Registry registry;
  const char* firmware_version = "";  // at most 23 characters are sent
  const char* board = "";             // as many
  uint32_t run = 0;                   // 0: whichever
  uint32_t owner = 0;                 // identity_digest(): what was saved under another one is not continued
  uint32_t jitter_seed = 0;           // of the draw inside retry windows; another one in every life of every device
  uint64_t network_digest = 0;        // of the network that the problem is made of (Hello); 0: of none
  bool can_dial = true;               // as the transport
  bool has_storage = false;           // kSave actions are wanted
  PrivacyFloors floors;               // what a run may learn at most; no message of a server changes them
  bool holds_pulls = false;           // its Pulls may stay with the server; means nothing without kHoldsPulls
  bool changes_keys = false;          // the shell answers KeyChange; on hosts alone
  StepSource steps;                   // with it kSaveStep actions are wanted, and read at the begin of a task
  gs_ResetCause reset_cause = gs_ResetCause_RESET_CAUSE_POWER_ON;
#if !defined(GS_BARE_METAL)
  JudgedUpdates judged;
#endif
  // After n failed sessions in a row: [min, min 2^n], at most 8 min, and no longer than they have lasted where that is
  // above 2 min; of a server that cannot be reached at least to the end of its last window.
  uint32_t min_retry_ms = 1000;
};

enum class ClientActionKind : uint8_t {
  kWait,        // nothing to do before wake_ms (0: poll again at once), unless the link has news
  kConnect,     // open transport and TLS; then on_connected() or on_connection_lost()
  kSend,        // bytes: one frame, valid until reported; then on_sent(), or on_connection_lost()
  kDisconnect,  // close the session; no report needed
  kSave,        // pieces: make the state durable; then on_saved()
  kSaveStep,    // pieces: make the local step step_index durable (port_step_write); no report needed
};

struct ClientAction {
  ClientActionKind kind = ClientActionKind::kWait;
  uint64_t wake_ms = 0;
  std::span<const uint8_t> bytes;
  std::span<const StoragePiece> pieces;
  uint32_t step_index = 0;
};

struct ClientCounters {
  uint32_t sessions = 0;
  uint32_t connection_failures = 0;  // sessions that did not come about or ended amid an exchange
  uint32_t deadlines_missed = 0;
  uint32_t malformed_frames = 0;  // frames that do not decode, contradict themselves or do not belong here
  uint32_t tasks_done = 0;
  uint32_t tasks_refused = 0;
  uint32_t local_steps = 0;
  uint32_t steps_replayed = 0;  // taken over from before a reset
  uint32_t updates_folded = 0;  // Ack folded
  uint32_t updates_late = 0;
  uint32_t updates_refused = 0;  // any other final verdict
  uint32_t updates_resent = 0;
  uint32_t records_applied = 0;
  uint32_t snapshots = 0;
  uint32_t digest_mismatches = 0;
  uint32_t corrections = 0;     // computed from a record or, with a memory, for a task
  uint32_t residuals = 0;       // uploads that carried what an earlier one's encoding had left out
  uint32_t residuals_lost = 0;  // that could not be transported to the new base
  uint32_t runs_dropped = 0;    // all state of a run given up because the server named another one
  uint32_t save_failures = 0;
  uint32_t measurements_lost = 0;  // questions of a measured loss that had no answer in time
  uint32_t reasons = 0;            // how often last_reason() was given, the same one again included
  uint32_t frame_bytes_sent = 0;
  uint32_t frame_bytes_received = 0;
};

// What the server said of an update that it refused for its range (Ack); limit 0: nothing.
struct RangeRefusal {
  float value = 0;
  float limit = 0;
  uint32_t fold_scale_log2 = 0;  // 1 + the run's key that would do; 0: none
  float step_size = 0;           // as well
};

class Client {
 public:
  // The arena is the client's alone and holds all its memory beyond sizeof(Client). Both must outlive it.
  Client(const ClientConfig& config, Arena& arena);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Continues from what an earlier kSave made durable (the pieces one after the other; bytes behind them are ignored);
  // before the first poll. kOk also when only a part of it holds: a model that fails its checksum is not held any more,
  // an upload that does is reported lost. kDataCorrupt: no state of this format; kUnauthenticated: saved under another
  // identity; kUnimplemented, kInvalidArgument, kOutOfMemory: not a run of this image. The client then starts as a
  // fresh one (it says in Hello that it holds no model).
  Status restore(std::span<const uint8_t> saved);

  // Never returns kWait with a wake_ms in the past other than 0.
  ClientAction poll(uint64_t now_ms);

  // Reports that no action asked for, or that a deadline has overtaken, are ignored.
  void on_connected(uint64_t now_ms);
  void on_connection_lost(Status reason, uint64_t now_ms);
  void on_sent(uint64_t now_ms);
  void on_saved(Status status, uint64_t now_ms);
  // What kSave would make durable now, for a shell that saves at a time of its own: the pieces are valid until the next
  // poll. None: there is no run, or a frame stands where they would.
  std::span<const StoragePiece> state_pieces() {
    const bool is_free = progress_.is_open && !session_.is_sending && await_ != Await::kSaved;
    return is_free ? fill_pieces() : std::span<const StoragePiece>();
  }
  // payload of one frame from the server.
  GS_OWN_FRAME void on_frame(std::span<const uint8_t> payload, uint64_t now_ms);
  // The framing of the session is broken (bytes that are no frame).
  void on_malformed(uint64_t now_ms);

  // Units of work (EvaluationProgress) that a poll does at most; 0, at first: whole steps. A shell that watches the
  // clock may set another before each poll.
  void set_slice(uint16_t units) { run_.slice_size = units; }
  // A local step is begun and not done: the next poll goes on with it. The samples must not change until then.
  bool is_step_open() const {
    const bool is_line_open = kTakesUnits && progress_.line != nullptr && progress_.line->is_step_open();
    const bool is_check_open = kTakesUnits && task_.smoothing != nullptr && task_.smoothing->is_step_open();
    const bool is_evaluation_open = kEvaluates && progress_.evaluation != nullptr && progress_.evaluation->is_open();
    return run_.is_step_open || is_line_open || is_check_open || is_evaluation_open;
  }

  // Gives that step up: a question that waits for its measurement is cancelled (Measurement::drop). For a device that
  // ends; the client is not polled again.
  void drop_open_step();

  ClientState state() const { return state_; }
  // The client is in SYNC, and the server may keep its Pull: nothing is due before the link has news or the deadline
  // has passed.
  bool is_held() const { return kHoldsPulls && await_ == Await::kAnswer && session_.hold == PullHold::kOpen; }
  // Its shape, version and model are meaningful once the device has met a run.
  const Replica& replica() const { return model_.replica(); }
  // Of the version held, as the server says it of the version.
  uint64_t digest() const { return model_.digest(); }
  // The run's table of units; no columns where it has none.
  Units units() const { return model_.units().units(); }
  Replica& replica_for_test() { return model_.replica(); }
  const ClientCounters& counters() const { return counters_; }
  // Why a session ended or a task was refused last, by the server or by the device, for the console.
  gs_Reason last_reason() const { return news_.last_reason; }
  Status last_status() const { return news_.last_status; }
  // Of the last task that was refused for a sample that its problem never takes; what == nullptr: of none.
  const SampleFault& sample_fault() const { return progress_.sample_fault; }
  // Of the last task that was refused for a floor of the device's owner; kNone: of another one, or none.
  const FloorFault& floor_fault() const { return progress_.floor_fault; }
  // The problem that the last task named.
  const char* problem_name() const { return run_.task.problem; }
  const RangeRefusal& range_refusal() const { return progress_.range_refusal; }
  // The digest of the run's network, where this device holds another one or none; else 0.
  uint64_t missing_network() const {
    const uint64_t wanted = model_.welcome().network_digest;
    return wanted != config_.network_digest ? wanted : 0;
  }
  bool run_finished() const { return news_.run_finished; }
  // Why the server had no task at the last Pull; WAIT_CAUSE_NONE: it had one, or was not asked yet.
  gs_WaitCause last_wait() const { return news_.last_wait; }
  // What the encoding of this device's last upload left out, per step, or null for none; once the upload is judged, of
  // its last accepted one.
  const Real* residual() const { return progress_.feedback.residual(); }
  // The correction that the next task starts with, or null for none.
  const Real* correction() const { return progress_.has_correction ? progress_.correction : nullptr; }
  // Figures of the device for StatusReport. The shell fills stack_high_water, tls_high_water and, where it knows the
  // bytes on the wire, bytes_sent and bytes_received (else those of the frames are sent); the client fills the rest.
  gs_StatusReport& report() { return report_; }

 private:
  // What poll() waits for before the state may go on.
  enum class Await : uint8_t { kNothing, kConnection, kSent, kAnswer, kSaved };
  enum class Sent : uint8_t { kHello, kStatus, kRefusal, kPiece, kPull };

  // For the console, until there is something newer.
  struct News {
    Status last_status = Status::kOk;
    bool run_finished = false;
    gs_Reason last_reason = gs_Reason_REASON_NONE;
    gs_WaitCause last_wait = gs_WaitCause_WAIT_CAUSE_NONE;
  };
  // What ends with a session.
  struct Session {
    bool is_connected = false;
    bool is_closing = false;   // the next action is kDisconnect
    bool is_sending = false;   // frame_ is on its way
    bool is_draining = false;  // the server goes away after this exchange
    bool is_status_due = false;
    bool is_skipping = false;  // the rest of an answer whose model proved wrong
    uint8_t mismatches = 0;    // of the digest, in a row
    PullHold hold = PullHold::kUnknown;
  };
  // What the device has come to in the run of model_. Another run begins with all of it as here.
  struct RunProgress {
    bool is_open = false;  // the device takes part; else the next Welcome begins the run anew
    bool has_correction = false;
    bool is_pending_sent = false;  // a piece of the pending upload may have reached the server
    bool is_refusal_due = false;   // the server is to get a TaskRefused, in this session or a later one
    uint32_t next_value = 0;       // of the pending upload: the first one that is not sent yet
    Real* correction = nullptr;    // with a memory: of the task
    size_t mark = 0;               // arena: end of replica, correction and residual
    ErrorFeedback feedback;
    HeldOutEvaluation* evaluation = nullptr;  // of the task; null: the run holds no samples out
    LineTracker* line = nullptr;              // in the arena; null: the run wants none, or the image knows none
    UploadSlots slots;
    uint32_t lost_task_sequence = 0;  // of an upload that a reset has cost, for Hello
    uint32_t samples_checked = 0;     // that the run's problem takes; 0: none was looked at
    uint64_t task_duration_ms = 0;    // of the last task done, scaled to all its steps; 0: unknown
    uint32_t refused_sequence = 0;    // for TaskRefused; 0: the run itself
    gs_Reason refusal_reason = gs_Reason_REASON_NONE;
    FloorFault floor_fault;  // with it: of the device's owner
    SampleFault sample_fault;
    RangeRefusal range_refusal;
  };
  struct TaskProgress {
    bool is_begun = false;
    uint32_t steps_replayed = 0;
    size_t mark = 0;  // arena: end of the slots
    uint64_t received_ms = 0;
    uint64_t begun_ms = 0;
    uint64_t stepped_ms = 0;  // when the step that is open began, or the last one ended
    bool has_line = false;    // of the record that led to the task's version
    LossLine line;
    SmoothingCheck* smoothing = nullptr;  // that comes before the first step, in the arena; null: none
    bool is_evaluated = false;            // there is nothing to evaluate before the first step, or it is done
    HeldOutQuality quality;
  };

  // Saved state: client_save.cc.
  StoragePiece* save_pieces();
  GS_OWN_FRAME std::span<const StoragePiece> fill_pieces();
  void restore_parts(const SavedHeader& header, std::span<const uint8_t> bytes);
  bool keeps_steps() const;
  SavedStep step_header(uint32_t index) const;
  ClientAction save_step();
  void replay_steps();
  bool replay_step(uint8_t* record, size_t size);

  // Polling.
  ClientAction poll_idle(uint64_t now_ms);
  ClientAction poll_exchange(uint64_t now_ms);
  ClientAction poll_train(uint64_t now_ms);
  bool has_enough_steps() const;
  bool is_task_late(uint64_t now_ms) const;
  Status end_without_answer(uint64_t now_ms);
  ClientAction poll_deadline(uint64_t now_ms);
  ClientAction save(uint64_t now_ms);
  ClientAction disconnect();

  // Sending.
  ClientAction send(const DeviceMessage& message, Sent sent, uint64_t now_ms);
  GS_OWN_FRAME ClientAction send_hello(uint64_t now_ms);
  GS_OWN_FRAME ClientAction send_status(uint64_t now_ms);
  GS_OWN_FRAME ClientAction send_refusal(uint64_t now_ms);
  GS_OWN_FRAME ClientAction send_piece(uint64_t now_ms);
  GS_OWN_FRAME ClientAction send_pull(uint64_t now_ms);
  bool tells_base() const;

  // Receiving; anything but kOk ends the session as malformed.
  Status handle(const ServerMessage& message, uint64_t now_ms);
  Status handle_welcome(const gs_Welcome& welcome, uint64_t now_ms);
  Status handle_log(const gs_LogChunk& chunk);
  Status skip_answer();
  Status handle_snapshot(const gs_SnapshotChunk& chunk);
  Status handle_task(const gs_Task& task, uint64_t now_ms);
  Status handle_ack(const gs_Ack& ack, uint64_t now_ms);
  Status handle_wait(const gs_Wait& wait, uint64_t now_ms);
  void handle_refuse(const gs_Refuse& refuse, uint64_t now_ms);
  void handle_drain(const gs_Drain& drain, uint64_t now_ms);
  void leave_server(const gs_RetryWindow& window, uint64_t now_ms);
  bool awaits_answer_to(Sent sent) const {
    return state_ == ClientState::kSync && await_ != Await::kNothing && sent_ == sent;
  }

  // Runs, models, tasks.
  Status begin_run(const gs_Welcome& welcome);
  bool prove_model(uint64_t digest);
  bool end_skipping();
  void drop_correction();
  void accept_pending(const gs_Ack& ack);
  void settle_correction();
  void release_correction();
  Status take_correction();
  Status prepare_slots(size_t size, uint32_t count);
  uint32_t slot_count_wanted() const;
  void accept_into_memory(uint32_t record_version, uint32_t clip_scale);
  Status fill_memory_correction();
  void settle_with_mean();
  Status begin_task(uint64_t now_ms);
  bool is_task_over(uint64_t now_ms) const;
  bool step_evaluation(uint64_t now_ms, uint64_t* wake_ms);
  Status finish_task(uint64_t now_ms);
  Status encode_upload(const GradientStream& stream);
  void note_begun(uint64_t now_ms);

  // Stages before training, units and lines: client_stage.cc.
  StageInput stage_input() const;
  Status begin_stage(uint64_t now_ms);
  Status prepare_units(uint32_t size);
  bool step_line(uint64_t now_ms, uint64_t* wake_ms);
  void begin_smoothing();
  bool step_smoothing(uint64_t now_ms, uint64_t* wake_ms);
  bool is_waiting(Measurement* measurement, uint64_t now_ms, uint64_t* wake_ms);
  void open_line_of_record(LineTracker& line);
  void open_line_of_snapshot(LineTracker& line, const gs_SnapshotChunk& chunk);
  uint32_t trained_count() const;
  bool tells_lines() const;
  bool tells_evaluation(const Problem& problem) const;
  void refuse_task(uint32_t task_sequence, Status status, uint64_t now_ms);
  bool do_data_fit() const;
  Status check_sample_count();
  Status check_labels();
  Status check_samples();

  // Sessions and time.
  void resume(uint64_t now_ms);
  void end_exchange(const gs_RetryWindow& window, uint64_t now_ms);
  void pull_again(const gs_Ack& ack, bool is_pulled, uint64_t now_ms);
  void forget_session();
  void close_session();
  void lose_session(uint64_t now_ms);
  void end_malformed(Status status, uint64_t now_ms);
  void give_reason(gs_Reason reason);

  ClientConfig config_;
  Arena& arena_;
  ClientState state_ = ClientState::kIdle;
  Await await_ = Await::kNothing;
  Sent sent_ = Sent::kHello;
  Session session_;
  News news_;
  SessionClock clock_;
  RunModel model_;
  RunProgress progress_;
  RecordReader record_;
  SnapshotReader snapshot_;
  SolverRun run_;  // of the task
  TaskProgress task_;
  ClientCounters counters_;
  gs_StatusReport report_ = {};
  alignas(8) uint8_t frame_[kFrameSizeMax];  // the frame being sent; during SAVE the saved state's header and pieces
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_H_

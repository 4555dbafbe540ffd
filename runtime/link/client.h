// The client state machine: frames and now_ms in, actions out. No socket, clock, randomness or disk inside; a board, a
// Linux process and the simulator are thin shells around it.
//
//   BOOT -> IDLE -> CONNECT -> HELLO -> (UPLOAD pending) -> SYNC -> TRAIN -> SAVE -> CONNECT? -> UPLOAD -> IDLE ...
//
// The shell's loop: `action = client.poll(now)`; do it; report back with on_*; poll again. One poll does at most one
// local step of training, or a slice of it where the shell has set one (set_slice). Every state with a peer has a
// deadline from config.h (CONNECT kHandshakeDeadlineMs; HELLO, SYNC, UPLOAD and SAVE kAnswerDeadlineMs since the last
// progress; TRAIN the task's own); one that fires is counted and ends in a closed session and IDLE with a retry window.
//
// Exactly once: the upload of a task is encoded once and kept (in the arena, and in the saved state) until an Ack; a
// resend is byte for byte the same.
//
// Memory, all in the arena, from its persistent end: the replica (two tensors, three with a mean, and one
// for each extra part of the run's versions); where the run has
// the `local` correction, the correction (one tensor) and two uploads (the pending one, and the last accepted one until
// the record that it went into is applied); with a memory three uploads (also the one that the mean counts); above
// them, during a task, with a memory the correction, and the solver's state. With error feedback the run has three
// tensors more: the residual of the pending upload, the one that stands again if that is not accepted, and their base.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/link/port.h"
#include "runtime/training/lean.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"
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

struct ClientConfig {
  Registry registry;
  const char* firmware_version = "";  // at most 23 characters are sent
  const char* board = "";             // as many
  uint32_t run = 0;                   // 0: whichever
  uint32_t owner = 0;                 // identity_digest(): what was saved under another one is not continued
  uint32_t jitter_seed = 0;           // of the draw inside retry windows; different on every device
  uint64_t network_digest = 0;        // of the network that the problem is made of (Hello); 0: of none
  bool can_dial = true;               // as the transport
  bool has_storage = false;           // kSave actions are wanted
  StepSource steps;                   // with it kSaveStep actions are wanted, and read at the begin of a task
  gs_ResetCause reset_cause = gs_ResetCause_RESET_CAUSE_POWER_ON;
  // After n failed sessions in a row: [min, min 2^n], at most 8 min; of a server that cannot be reached at least to the
  // end of its last window.
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
  uint32_t reasons = 0;  // how often last_reason() was given, the same one again included
  uint32_t frame_bytes_sent = 0;
  uint32_t frame_bytes_received = 0;
};

// One update as it is kept: the encoded bytes and everything that a resend or a correction needs besides.
struct StoredUpload {
  uint32_t task_sequence = 0;  // 0: there is none
  uint32_t base_version = 0;
  uint32_t steps_done = 0;
  uint32_t direction_count = 0;
  uint32_t value_count = 0;
  uint32_t size = 0;  // bytes
  uint32_t crc = 0;   // CRC-32C of the bytes
  uint32_t step_time_us = 0;
  float loss_before = 0;
  float loss_after = 0;
  Encoding encoding = Encoding::kNone;
  StreamKind kind = StreamKind::kNone;
  bool use_correction = false;  // of its task
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
  // payload of one frame from the server.
  void on_frame(std::span<const uint8_t> payload, uint64_t now_ms);
  // The framing of the session is broken (bytes that are no frame).
  void on_malformed(uint64_t now_ms);

  // Units of work (EvaluationProgress) that a poll does at most; 0, at first: whole steps. A shell that watches the
  // clock may set another before each poll.
  void set_slice(uint16_t units) { run_.slice_size = units; }
  // A local step is begun and not done: the next poll goes on with it. The samples must not change until then.
  bool is_step_open() const { return run_.is_step_open; }

  ClientState state() const { return state_; }
  // Its shape, version and model are meaningful once the device has met a run.
  const Replica& replica() const { return replica_; }
  Replica& replica_for_test() { return replica_; }
  const ClientCounters& counters() const { return counters_; }
  // Why a session ended or a task was refused last, by the server or by the device, for the console.
  gs_Reason last_reason() const { return last_reason_; }
  Status last_status() const { return last_status_; }
  // Of the last task that was refused for a sample that its problem never takes; what == nullptr: of none.
  const SampleFault& sample_fault() const { return sample_fault_; }
  // The problem that the last task named.
  const char* problem_name() const { return run_.task.problem; }
  // False: the arena has no room for what the problem keeps of a batch in the last task (SolverRun::keeps_batch).
  bool keeps_batch() const { return run_.keeps_batch; }
  const RangeRefusal& range_refusal() const { return range_refusal_; }
  // The digest of the run's network, where this device holds another one or none; else 0.
  uint64_t missing_network() const {
    return welcome_.network_digest != config_.network_digest ? welcome_.network_digest : 0;
  }
  bool run_finished() const { return run_finished_; }
  // Why the server had no task at the last Pull; WAIT_CAUSE_NONE: it had one, or was not asked yet.
  gs_WaitCause last_wait() const { return last_wait_; }
  // What the encoding of this device's last upload left out, per step, or null for none; once the upload is judged, of
  // its last accepted one.
  const Real* residual() const { return has_residual_ ? residual_ : nullptr; }
  // The correction that the next task starts with, or null for none.
  const Real* correction() const { return has_correction_ ? correction_ : nullptr; }
  // Figures of the device for StatusReport. The shell fills stack_high_water, tls_high_water and, where it knows the
  // bytes on the wire, bytes_sent and bytes_received (else those of the frames are sent); the client fills the rest.
  gs_StatusReport& report() { return report_; }

 private:
  // What poll() waits for before the state may go on.
  enum class Await : uint8_t { kNothing, kConnection, kSent, kAnswer, kSaved };
  enum class Sent : uint8_t { kHello, kStatus, kRefusal, kPiece, kPull };
  enum SlotRole : uint8_t { kPending, kAccepted, kHeld };
  struct RecordProgress {
    bool is_open = false;
    uint32_t block_index = 0;
    uint32_t block_count = 0;
    uint32_t first_value = 0;  // next expected
    uint32_t value_count = 0;
    uint32_t base_version = 0;
    uint32_t owner = 0;
    Real step_scale = 0;
    bool from_zero = false;
    bool after_step = false;
    KeptRecord* kept = nullptr;  // where keeps_record(); null: no memory for it
  };
  struct SnapshotProgress {
    bool is_open = false;
    uint32_t version = 0;
    uint32_t parts = 0;   // bits of ModelPart, all of the snapshot
    uint32_t part = 0;    // that comes now
    uint32_t offset = 0;  // next expected
    uint64_t digest = 0;
  };

  // Saved state: client_save.cc.
  StoragePiece* save_pieces();
  std::span<const StoragePiece> fill_pieces();
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
  ClientAction poll_deadline(uint64_t now_ms);
  ClientAction save(uint64_t now_ms);
  ClientAction disconnect();

  // Sending.
  ClientAction send(const DeviceMessage& message, Sent sent, uint64_t now_ms);
  ClientAction send_hello(uint64_t now_ms);
  ClientAction send_status(uint64_t now_ms);
  ClientAction send_refusal(uint64_t now_ms);
  ClientAction send_piece(uint64_t now_ms);
  ClientAction send_pull(uint64_t now_ms);

  // Receiving; anything but kOk ends the session as malformed.
  Status handle(const ServerMessage& message, uint64_t now_ms);
  Status handle_welcome(const gs_Welcome& welcome, uint64_t now_ms);
  Status handle_log(const gs_LogChunk& chunk);
  Status check_block(const gs_LogChunk& chunk);
  Status begin_record(const gs_LogChunk& chunk);
  void close_record();
  // A replica without a sum: a record is applied when all of it is here (LeanForm).
  bool keeps_record() const { return links_lean() && !replica_.has_mean() && !replica_.has_sum(); }
  bool links_lean() const { return kLinksLeanForm && config_.registry.lean != nullptr; }
  Status keep_values(const DirectionSpec& directions, uint32_t count, const Real* values);
  Status add_values(const gs_LogChunk& chunk);
  Status add_words(const gs_LogChunk& chunk);
  Status take_exact_step();
  Status end_block(uint64_t digest);
  Status finish_record(uint64_t digest);
  Status handle_snapshot(const gs_SnapshotChunk& chunk);
  Status read_snapshot(const gs_SnapshotChunk& chunk);
  uint32_t snapshot_parts(const gs_SnapshotChunk& chunk) const;
  Status open_snapshot(const gs_SnapshotChunk& chunk);
  Status finish_snapshot();
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
  bool is_same_run(const gs_Welcome& welcome) const;
  Status fill_parts(Shape* shape);
  Status begin_run(const gs_Welcome& welcome);
  bool has_scalar_stream() const;
  bool prove_model(uint64_t digest);
  bool end_skipping();
  void drop_correction();
  void accept_pending(uint32_t record_version);
  void settle_correction();
  void release_correction();
  Status take_correction();
  Status prepare_slots(size_t size, uint32_t count);
  bool has_memory() const { return welcome_.correction == gs_Correction_CORRECTION_MEMORY; }
  uint32_t slot_count_wanted() const;
  void accept_into_memory(uint32_t record_version);
  void hold_accepted();
  Status fill_memory_correction();
  void settle_with_mean();
  uint8_t* pending_bytes() const { return slots_[slot_of_[kPending]]; }
  uint8_t* accepted_bytes() const { return slots_[slot_of_[kAccepted]]; }
  uint8_t* held_bytes() const { return slots_[slot_of_[kHeld]]; }
  Status begin_task(uint64_t now_ms);
  bool is_task_over(uint64_t now_ms) const;
  Status finish_task(uint64_t now_ms);
  Status encode_upload(const GradientStream& stream);
  Status encode_with_residual(const GradientStream& stream);
  void move_residual();
  void take_residual_back();
  void refuse_task(uint32_t task_sequence, Status status, uint64_t now_ms);
  bool do_data_fit() const;
  Status check_labels();
  Status check_samples();

  // Sessions and time.
  void resume(uint64_t now_ms);
  void end_exchange(const gs_RetryWindow& window, uint64_t now_ms);
  void forget_session();
  void close_session();
  void lose_session(uint64_t now_ms);
  void end_malformed(Status status, uint64_t now_ms);
  void back_off(bool was_reached, uint64_t now_ms);
  void give_reason(gs_Reason reason);
  uint32_t draw(uint32_t min_ms, uint32_t max_ms);

  ClientConfig config_;
  Arena& arena_;
  ClientState state_ = ClientState::kIdle;
  Await await_ = Await::kNothing;
  Sent sent_ = Sent::kHello;
  Status last_status_ = Status::kOk;
  bool run_finished_ = false;
  gs_Reason last_reason_ = gs_Reason_REASON_NONE;
  gs_WaitCause last_wait_ = gs_WaitCause_WAIT_CAUSE_NONE;

  // Session.
  bool is_connected_ = false;
  bool is_closing_ = false;   // the next action is kDisconnect
  bool is_sending_ = false;   // frame_ is on its way
  bool is_draining_ = false;  // the server goes away after this exchange
  bool is_status_due_ = false;
  bool is_refusal_due_ = false;
  bool is_skipping_ = false;  // the rest of an answer whose model proved wrong
  uint8_t failures_ = 0;
  uint8_t mismatches_ = 0;  // in a row
  uint32_t jitter_count_ = 0;
  uint32_t retry_max_ms_ = 0;  // of the last window that an Ack or a Wait gave
  uint64_t wake_ms_ = 0;
  uint64_t deadline_ms_ = 0;
  uint64_t not_before_ms_ = 0;  // no connection before

  // Run and model.
  gs_Welcome welcome_ = {};
  Replica replica_;
  Real* correction_ = nullptr;       // with a memory: of the task
  Real* residual_ = nullptr;         // with error feedback: per step, of the pending upload or the last accepted one
  Real* residual_before_ = nullptr;  // while an upload is pending: the one before it
  Real* residual_base_ = nullptr;    // the model that both are tangents at
  bool has_run_ = false;
  bool has_correction_ = false;
  bool has_residual_ = false;
  RecordProgress record_;
  SnapshotProgress snapshot_;

  // Uploads.
  StoredUpload pending_;
  StoredUpload accepted_;         // folded, its record not applied yet
  uint32_t accepted_record_ = 0;  // version that the record leads to
  StoredUpload held_;             // with a memory: the one that the mean counts for this device
  uint8_t* slots_[3] = {};
  uint8_t slot_of_[3] = {0, 1, 2};  // by SlotRole
  uint32_t slot_size_ = 0;
  uint8_t slot_count_ = 0;
  bool is_pending_sent_ = false;
  uint32_t piece_next_ = 0;
  uint32_t lost_task_sequence_ = 0;

  // Task.
  SolverRun run_;
  size_t run_mark_ = 0;   // arena: end of replica and correction
  size_t task_mark_ = 0;  // arena: end of the slots
  uint64_t task_received_ms_ = 0;
  uint64_t task_begun_ms_ = 0;
  uint64_t task_duration_ms_ = 0;  // of the last task done, scaled to all its steps; 0: unknown
  uint32_t refused_sequence_ = 0;
  gs_Reason last_refusal_ = gs_Reason_REASON_NONE;  // of the device, for TaskRefused
  SampleFault sample_fault_;
  RangeRefusal range_refusal_;
  uint32_t samples_checked_ = 0;  // that the run's problem takes; 0: none was looked at
  uint32_t steps_replayed_ = 0;   // of the task
  bool is_task_begun_ = false;

  ClientCounters counters_;
  gs_StatusReport report_ = {};
  alignas(8) uint8_t frame_[kFrameSizeMax];  // the frame being sent; during SAVE the saved state's header and pieces
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_H_

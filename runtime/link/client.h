// The client state machine: frames and now_ms in, actions out. No socket, clock, randomness or disk inside; a board, a
// Linux process and the simulator are thin shells around it.
//
//   BOOT -> IDLE -> CONNECT -> HELLO -> (UPLOAD pending) -> SYNC -> TRAIN -> SAVE -> CONNECT? -> UPLOAD -> IDLE ...
//
// The shell's loop: `action = client.poll(now)`; do it; report back with on_*; poll again. One poll does at most one
// local step of training. Every state with a peer has a deadline from config.h; one that fires is counted and ends in a
// closed session and IDLE with a retry window.
//
// Exactly once: the upload of a task is encoded once and kept (in the arena, and in the saved state) until an Ack; a
// resend is byte for byte the same.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/link/codec.h"
#include "runtime/link/frame.h"
#include "runtime/link/port.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {

enum class ClientState : uint8_t { kIdle, kConnect, kHello, kSync, kTrain, kSave, kUpload, kFinished };

struct ClientConfig {
  Registry registry;
  const char* firmware_version = "";
  uint32_t run = 0;               // 0: whichever
  uint32_t jitter_seed = 0;       // of the draw inside retry windows; different on every device
  bool can_dial = true;           // as the transport
  bool has_storage = false;       // kSave actions are wanted
  gs_ResetCause reset_cause = gs_ResetCause_RESET_CAUSE_POWER_ON;
  uint32_t min_retry_ms = 1000;   // window after a failed connection: [min, 8 x min], doubling up to that
};

enum class ClientActionKind : uint8_t {
  kWait,        // nothing to do before wake_ms (0: poll again at once), unless the link has news
  kConnect,     // open transport and TLS; then on_connected() or on_connection_lost()
  kSend,        // bytes: one frame; then on_sent(), or on_connection_lost()
  kDisconnect,  // close the session; no report needed
  kSave,        // pieces: make the state durable; then on_saved()
};

struct ClientAction {
  ClientActionKind kind = ClientActionKind::kWait;
  uint64_t wake_ms = 0;
  std::span<const uint8_t> bytes;
  std::span<const StoragePiece> pieces;
};

struct ClientCounters {
  uint32_t sessions = 0;
  uint32_t connection_failures = 0;
  uint32_t deadlines_missed = 0;
  uint32_t malformed_frames = 0;
  uint32_t tasks_done = 0;
  uint32_t tasks_refused = 0;
  uint32_t local_steps = 0;
  uint32_t updates_folded = 0;   // Ack folded
  uint32_t updates_late = 0;
  uint32_t updates_refused = 0;
  uint32_t updates_resent = 0;
  uint32_t records_applied = 0;
  uint32_t snapshots = 0;
  uint32_t digest_mismatches = 0;
  uint32_t frame_bytes_sent = 0;
  uint32_t frame_bytes_received = 0;
};

class Client {
 public:
  // The arena is the client's alone and holds all its memory beyond sizeof(Client). Both must outlive it.
  Client(const ClientConfig& config, Arena& arena);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Continues from what an earlier kSave made durable; before the first poll. kDataCorrupt: format, checksum or
  // version of the state; the client then starts as a fresh one (and says so in Hello by holding no model).
  Status restore(std::span<const uint8_t> saved);

  ClientAction poll(uint64_t now_ms);

  void on_connected(uint64_t now_ms);
  void on_connection_lost(Status reason, uint64_t now_ms);
  void on_sent(uint64_t now_ms);
  void on_saved(Status status, uint64_t now_ms);
  // payload of one frame from the server.
  void on_frame(std::span<const uint8_t> payload, uint64_t now_ms);
  // The framing of the session is broken (bytes that are no frame).
  void on_malformed(uint64_t now_ms);

  ClientState state() const { return state_; }
  const Replica& replica() const { return replica_; }
  Replica& replica_for_test() { return replica_; }
  const ClientCounters& counters() const { return counters_; }
  // Last refusal of the server or status of the device that ended a session or task, for the console.
  gs_Reason last_reason() const { return last_reason_; }
  bool run_finished() const { return run_finished_; }
  // Figures of the device for StatusReport; the shell fills what it knows.
  gs_StatusReport& report() { return report_; }

  // The engineer of client.cc completes the private part.
 private:
  ClientState state_ = ClientState::kIdle;
  Replica replica_;
  ClientCounters counters_;
  gs_Reason last_reason_ = gs_Reason_REASON_NONE;
  bool run_finished_ = false;
  gs_StatusReport report_ = {};
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_H_

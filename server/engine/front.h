// A node's front: it judges what devices say, by the same rules as the coordinator, and commits batches of verdicts
// with the exact sum of their updates to an engine.
//
//   message --> waits for its device's row --> judged --> gathered --> batch --committed--> the answers leave
//                        ^                        ^                      |-- cut: judged anew in the open version
//                        |                        +--- row is new <------|-- conflict: its rows are loaded again
//                     Hello loads it                                     '-- unknown: asked, before anything else
//
// Pure: messages, replies of the engine and now_ms go in; actions and calls of the engine come out. No socket, thread
// or clock. now_ms is of the node's own clock, which never goes back. What
// is judged is judged by the engine's clock (engine_clock.h), since rows have times that other nodes compare. Each call
// has a reply within the engine's deadline. A call whose answer was lost is made again after a CallPause, for as long
// as the engine is away. After kEngineAwayMs devices are answered at once all the same: an update by TRY_LATER, a Hello
// by a refusal, a Pull by what is known or by a refusal. Only what is in a batch of unknown outcome waits on.
//
// Output commit rule: what depends on a change of a row leaves when the batch with that change is committed. A version
// that a device hears of was read from the engine, where it is durable.
//
// At most one decision about a device is under way, and one batch. What is judged meanwhile gathers for the next one.
// A device is known as long as it has a session here. Another node may serve it at the same time: the engine's
// comparison of its row decides, and the later node hears of a conflict.
#ifndef GRADSTREAM_SERVER_ENGINE_FRONT_H_
#define GRADSTREAM_SERVER_ENGINE_FRONT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/wire/codec.h"
#include "server/base/session_id.h"
#include "server/coordinator/device_rules.h"
#include "server/coordinator/device_session.h"
#include "server/coordinator/intake.h"
#include "server/coordinator/upload_rules.h"
#include "server/engine/call_pause.h"
#include "server/engine/engine.h"
#include "server/engine/engine_clock.h"
#include "server/engine/followed_run.h"
#include "server/engine/node_trouble.h"

namespace gradstream {

// Changes of one batch, at most. Reason: as large a transaction holds a thousand rows for some milliseconds.
inline constexpr size_t kBatchChangesMax = 512;
// Bytes of the updates in one batch, at most, where a rule has a memory; one update is in it, however large it is.
// Reason: as replies have. An update of the largest model has 128 KiB, and a statement of some megabytes keeps its
// connection busy for a moment alone.
inline constexpr uint64_t kBatchUpdateBytesMax = uint64_t{8} << 20;
// Whole messages of one session that wait to be judged, at most. Reason: a client has one under way and its report;
// who sends more floods, and its session ends.
inline constexpr size_t kWaitingMessagesMax = 8;
// Rows of one load, at most. Reason: a batch of ready devices is not kept waiting by a thousand that have just dialled.
inline constexpr size_t kLoadDevicesMax = 64;
// A front asks for new versions so often, ms. Reason: a tenth of a second is short beside a round, and ten small reads
// a second are nothing to an engine.
inline constexpr uint64_t kVersionPollMs = 100;

// The same while the open version is sealed, ms. Reason: all devices wait for its publication. That takes some ten ms
// where the leader reads its sums by one call, and a few ms more by each further one.
inline constexpr uint64_t kSealedPollMs = 20;

// An engine that has answered nothing for so long is away, ms: devices are then told to come later, and wait no more.
// So is one that has not answered a batch for so long, whatever it reads meanwhile. Reason: a fail-over that a manager
// of PostgreSQL does at once is over by then, and a device waits longer for an Ack.
inline constexpr uint64_t kEngineAwayMs = 2000;

// Calls of its own that a front has to expect after a later one was answered, each of which begins an epoch. Reason: a
// call that is lost takes the engine's deadline, and the engine ends it before that.
inline constexpr uint64_t kLateJoinsMax = 2;

struct FrontAction {
  SessionId session = 0;
  bool is_close = false;  // the session ends with `reason` after what was sent to it; else `message` is sent
  gs_Reason reason = gs_Reason_REASON_NONE;
  ServerMessage message = {};
};

struct FrontCounters {
  uint64_t batches = 0;  // committed
  uint64_t cuts = 0;
  uint64_t conflicts = 0;
  uint64_t unknowns = 0;     // batches whose outcome nobody knew at first
  uint64_t judged_anew = 0;  // decisions, after a cut, a conflict or a new version
  uint64_t fences = 0;       // answers by which another node has joined by this one's name
  uint64_t tasks_issued = 0;
  uint64_t updates_accepted = 0;
  uint64_t updates_refused = 0;
  uint64_t updates_duplicate = 0;
};

// Faults of a front's own, to see that a simulator finds them.
enum class FrontPlant : uint8_t {
  kNone,
  kAckBeforeCommit,  // answers leave when they are judged
  kNoCutCheck,       // a batch that was cut goes into the next version as it is
  kNoResolve,        // a batch of unknown outcome is sent again, made to fit the rows as they are by then
  kOtherSum,         // some updates are added to their sum twice
  kOwnClock,         // times in rows are of the node's own clock
};

class Front {
 public:
  // Both outlive the front. Asserts as FollowedRun.
  // device_count: the run's devices, whose enrolment indices count from 0.
  Front(const RunIdentity& identity, const RunParameters& parameters, uint32_t device_count, EngineNode& engine);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  // The node joins; messages may come at once, and wait.
  void start(uint64_t now_ms);
  // device: enrolment index, as the session's handshake has found it.
  void on_message(SessionId session, uint32_t device, const DeviceMessage& message, uint64_t now_ms);
  void on_session_closed(SessionId session);
  // False: the reply is to no call of this front.
  bool on_reply(const EngineReply& reply, uint64_t now_ms);
  void on_tick(uint64_t now_ms);
  // The node ends: a Hello is answered by Drain from now on, so that its device dials another node. Sessions go on, and
  // what they say is judged. Whoever owns them tells them to leave.
  void drain() { is_draining_ = true; }
  // Whether nothing of any session waits to be judged, committed or told; or the front is in trouble. While the engine
  // is away that does not come: whoever asks has a deadline. A device without an Ack sends its update again.
  bool is_drained() const;
  // In which a device that is told to leave is back.
  gs_RetryWindow drain_window() const { return window(WindowKind::kPaced); }
  // UINT64_MAX: the front is in trouble.
  uint64_t next_tick_ms() const {
    return trouble_ == NodeTrouble::kNone ? std::min({poll_ms_, pause_.due_ms(), loads_.pause.due_ms()}) : UINT64_MAX;
  }
  // Whether it judges what comes: it has joined, and has read every version up to the one that it joined.
  bool is_serving() const { return is_current() && clock_.is_known() && trouble_ == NodeTrouble::kNone; }
  // The fleet has changed: of each device by its enrolment index why it is refused, REASON_NONE where it takes part.
  // Its sessions end then, and what it has said is not judged any more; a batch that has left stands. Until the first
  // call all devices of the constructor take part.
  void on_fleet(std::vector<gs_Reason> standings, uint64_t now_ms);
  // In order.
  std::vector<FrontAction> take_actions() { return std::exchange(actions_, {}); }

  const FollowedRun& run() const { return run_; }
  // What an operator has made of it; a run whose rounds are done may have any.
  EngineRunState run_state() const { return told_.state; }
  // As devices hear it.
  gs_RunState heard_state() const;
  const FrontCounters& counters() const { return counters_; }
  // Whether the engine has answered nothing for longer than kEngineAwayMs, or not the batch's call that is under way.
  bool is_engine_away() const { return silence_.is_away; }
  // Sessions that may go on when the front can.
  size_t ready_count() const { return ready_.size(); }
  // With any trouble the front judges nothing and calls nobody any more. Its sessions end, also those that come, so
  // that their devices dial another node.
  NodeTrouble trouble() const { return trouble_; }
  void plant_for_test(FrontPlant plant) { plant_ = plant; }

 private:
  // A message that is whole, or an upload that its pieces have made.
  struct Item {
    SessionId session = 0;
    DeviceMessage message = {};
    std::optional<Upload> upload;
  };
  struct Session {
    uint32_t device = 0;
    bool has_hello = false;
    bool is_ready = false;  // its id is in ready_
    Intake intake;
    std::deque<Item> items;  // that wait
  };
  struct Device {
    DeviceRow row;
    DeviceSession session;
    std::vector<SessionId> sessions;  // on this node
    bool is_busy = false;             // a decision about it is under way, or its row is loaded
  };
  // A decision: what it rests on, what becomes of the row, and what is told when that is committed.
  struct Decision {
    Item item;
    RowChange change;
    std::vector<FrontAction> answers;
    bool is_on_time = false;
    bool is_late = false;
    uint64_t update_bytes = 0;  // that its update takes in a batch, where the rule has a memory
  };
  // Once the rows of flight_ are there.
  struct AfterReload {
    bool must_join = false;
    bool is_blind = false;  // FrontPlant::kNoResolve: flight_ is to be sent again
  };
  // Rows of devices whose Hello waits.
  struct Loads {
    std::map<uint32_t, Item> wanted;     // Hellos whose device's row is to be loaded ...
    std::map<uint32_t, Item> under_way;  // ... or is being loaded
    EngineTicket ticket = 0;             // 0: none is
    CallPause pause;
  };
  struct Fleet {
    std::vector<gs_Reason> standings;  // why a device is refused, by its enrolment index
    uint32_t active_count = 0;         // that take part
  };
  struct Told {
    FrontRow row;             // as the engine said it last: what it has from then on, or has lost
    uint64_t lost_joins = 0;  // calls that may have begun an epoch beyond that
    EngineRunState state = EngineRunState::kActive;
    uint64_t state_since_ms = 0;  // when this front heard of the state, by the engine's clock
    uint32_t asked_version = 0;   // the newest that was asked for at once, when the front's row told of it
  };
  // Of the engine.
  struct Silence {
    uint64_t since_ms = 0;  // when it answered last what devices wait for, or the front began
    bool is_away = false;   // it has lasted for longer than kEngineAwayMs
  };
  using Decisions = std::map<uint32_t, Decision>;  // by device
  // Of the one batch, or of what stands before it.
  enum class Phase : uint8_t {
    kJoining,
    kReady,       // none is under way
    kCommitting,  // flight_ is
    kResolving,   // whether flight_ happened is asked
    kReloading,   // the rows of flight_ are, after a conflict
  };

  // ---- Calls: server/engine/front.cc ----
  uint64_t engine_time(uint64_t now_ms) const { return plant_ == FrontPlant::kOwnClock ? now_ms : clock_.at(now_ms); }
  bool is_current() const { return phase_ != Phase::kJoining && front_.open_version == run_.version(); }
  bool may_judge() const { return silence_.is_away || (is_current() && clock_.is_known()); }
  void look_for_engine(uint64_t now_ms);
  gs_Reason standing_of(uint32_t device) const {
    return device < fleet_.standings.size() ? fleet_.standings[device] : gs_Reason_REASON_UNKNOWN_RUN;
  }
  void break_off(NodeTrouble trouble);
  void join();
  void ask_versions(uint64_t now_ms);
  void take_versions(const EngineReply& reply, uint64_t now_ms);
  void take_state(EngineRunState state, uint64_t now_ms);
  bool is_answered(const EngineReply& reply) const;
  bool is_behind(const EngineReply& reply) const;
  void note_epoch(const EngineReply& reply);
  void call_again();
  void send_loads();
  void take_loads(const EngineReply& reply, uint64_t now_ms);
  bool is_batch_full() const;
  void send_batch();
  void commit_flight();
  void reload_flight();
  void on_commit(const EngineReply& reply);
  void on_cut(const EngineReply& reply);
  void on_resolved(const EngineReply& reply);
  void on_reloaded(const EngineReply& reply);
  void on_batch_reply(const EngineReply& reply, uint64_t now_ms);
  void finish_flight();
  void judge_again(Decisions* decisions);
  void release(uint32_t device);
  void forget_if_gone(uint32_t device);
  void go_on(uint64_t now_ms);
  void wake(uint32_t device);
  void make_ready(SessionId session);
  void advance(SessionId session, uint64_t now_ms);

  // ---- Decisions: server/engine/front_decisions.cc ----
  RunView view() const;
  void judge(const Item& item, uint64_t now_ms);
  void judge_hello_of(const Item& item, uint64_t now_ms);
  void judge_pull(const Item& item, uint64_t now_ms);
  void judge_upload(const Item& item, uint64_t now_ms);
  void judge_open_upload(const Item& item, uint64_t now_ms);
  gs_Reason accept(const Upload& upload, uint64_t now_ms, Decision* decision);
  void judge_task_refusal(const Item& item, uint64_t now_ms);
  void decide(Decision decision);
  Decision begin_decision(const Item& item) const;
  FrontAction answer(SessionId session, const ServerMessage& message) const;
  FrontAction wait_answer(SessionId session, gs_WaitCause cause, gs_RetryWindow window) const;
  FrontAction task_answer(SessionId session, const Device& device) const;
  FrontAction ack_answer(const Item& item, const DeviceRow& row, bool is_duplicate) const;
  std::vector<FrontAction> sync_answers(SessionId session, const gs_Pull& pull) const;
  gs_RetryWindow window(WindowKind kind) const { return window(kind, UINT64_MAX); }
  gs_RetryWindow window(WindowKind kind, uint64_t idle_ms) const;
  uint64_t idle_ms(uint64_t now_ms) const;
  FrontAction drain_answer(SessionId session) const;
  void act(const FrontAction& action) { actions_.push_back(action); }
  void refuse(SessionId session, gs_Reason reason);

  RunIdentity identity_;
  FollowedRun run_;
  EngineNode& engine_;
  std::map<SessionId, Session> sessions_;
  std::map<uint32_t, Device> devices_;
  std::deque<SessionId> ready_;  // sessions whose items may be judged
  std::vector<FrontAction> actions_;
  FrontCounters counters_;

  Phase phase_ = Phase::kJoining;
  EngineTicket ticket_ = 0;  // of the phase's call
  CallPause pause_;          // before that is made again
  FrontRow front_;           // as the engine said it last, and the versions that were read since
  Told told_;
  EngineBatch batch_;  // the one under way ...
  Decisions flight_;   // ... and what it is made of
  Decisions gathered_;
  uint64_t gathered_bytes_ = 0;  // Decision::update_bytes of all of them
  Loads loads_;
  CallPause version_pause_;
  EngineTicket versions_ticket_ = 0;  // 0: nothing is asked
  EngineClock clock_;                 // by the answers to that
  uint64_t poll_ms_ = 0;
  std::vector<Real> values_;  // memory for those of one upload
  FrontPlant plant_ = FrontPlant::kNone;
  AfterReload after_reload_;
  NodeTrouble trouble_ = NodeTrouble::kNone;
  bool is_draining_ = false;
  Fleet fleet_;
  Silence silence_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_FRONT_H_

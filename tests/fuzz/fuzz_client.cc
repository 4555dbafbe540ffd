// The client against a server that says anything at any time. The server here keeps a real replica, so that a friendly
// input trains for many rounds; every message may be spoilt in one field, and any message may come at any time.
//
// Checked: the client never asserts; what it sends decodes, and comes in the order of a session; an upload is resent
// byte for byte; it waits for no time in the past; after a record or snapshot the model is the server's.
#include "tests/fuzz/fuzz_client.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/link/client.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/training_support.h"

namespace gradstream::testing {
namespace {

constexpr Shape kShape = {6, 2};
constexpr uint32_t kDirections = 4;
constexpr uint32_t kSteps = 3;
constexpr uint32_t kMovesMax = 400;
constexpr uint32_t kPollsMax = 3000;
constexpr size_t kArenaSize = 8192;

struct Config {
  bool is_scalar = true;
  bool can_dial = true;
  bool has_storage = false;
  Encoding encoding = Encoding::kF32;
};

// The server: a run, its current model, the records that lead there.
class Server {
 public:
  explicit Server(const Config& config) : config_(config), memory_(1 << 14) {
    FUZZ_CHECK(replica_.prepare(kStiefelOps, kShape, memory_.arena) == Status::kOk);
    Real* model = replica_.begin_snapshot();
    for (size_t i = 0; i < kShape.size(); ++i) {
      model[i] = i % kShape.cols == i / kShape.cols ? 1 : 0;
    }
    replica_.adopt_snapshot(0);
  }

  const Replica& replica() const { return replica_; }

  ServerMessage welcome() const {
    ServerMessage message = {};
    message.which_body = gs_ServerMessage_welcome_tag;
    gs_Welcome& welcome = message.body.welcome;
    welcome.run = 1;
    welcome.run_state = gs_RunState_RUN_STATE_ACTIVE;
    welcome.parameters_digest = 5;
    welcome.version = replica_.version();
    welcome.manifold = gs_Manifold_MANIFOLD_STIEFEL;
    welcome.rows = kShape.rows;
    welcome.cols = kShape.cols;
    welcome.stream = config_.is_scalar ? gs_StreamKind_STREAM_KIND_SCALAR : gs_StreamKind_STREAM_KIND_TANGENT;
    welcome.directions = gs_Directions_DIRECTIONS_SIGN;
    welcome.shared_directions = true;
    welcome.seed = 3;
    welcome.direction_count = config_.is_scalar ? kDirections : 0;
    return message;
  }

  ServerMessage task() {
    ServerMessage message = {};
    message.which_body = gs_ServerMessage_task_tag;
    gs_Task& task = message.body.task;
    task.task_sequence = ++task_sequence_;
    task.version = replica_.version();
    task.digest = replica_.digest();
    task.solver = config_.is_scalar ? gs_Solver_SOLVER_PROJECTION : gs_Solver_SOLVER_GRADIENT_STREAM;
    task.estimator =
        config_.is_scalar ? gs_Estimator_ESTIMATOR_PROJECTION_ONE_SIDED : gs_Estimator_ESTIMATOR_ANALYTIC_GRADIENT;
    task.encoding = static_cast<gs_Encoding>(config_.encoding);
    task.local_step_count = kSteps;
    task.steps_min = 1;
    task.step_size = 0.05F;
    task.smoothing = 0.01F;
    task.batch_mode = gs_BatchMode_BATCH_MODE_COMMON;
    task.batch_size = 5;
    task.use_correction = config_.is_scalar;
    std::strcpy(task.problem, "kpca");
    return message;
  }

  // The record of the next version, and the server's own step with it.
  ServerMessage next_record() {
    ServerMessage message = {};
    message.which_body = gs_ServerMessage_log_chunk_tag;
    gs_LogChunk& chunk = message.body.log_chunk;
    chunk.version = replica_.version() + 1;
    chunk.step_scale = 0.05F;
    chunk.block_count = 1;
    chunk.base_version = replica_.version();
    chunk.value_count = kDirections * kSteps;
    chunk.encoding = static_cast<gs_Encoding>(config_.encoding);
    Real values[kDirections * kSteps];
    for (uint32_t i = 0; i < chunk.value_count; ++i) {
      values[i] = static_cast<Real>(static_cast<int>((i * 7 + chunk.version * 3) % 11) - 5) / 5;
    }
    chunk.values.size = static_cast<pb_size_t>(encoded_size(config_.encoding, chunk.value_count));
    FUZZ_CHECK(encode_values(config_.encoding, chunk.value_count, values, chunk.values.bytes) == Status::kOk);
    FUZZ_CHECK(decode_values(config_.encoding, chunk.value_count, chunk.values.bytes, chunk.values.size, values) ==
               Status::kOk);
    const DirectionSpec directions = {.seed = 3, .base_version = chunk.base_version, .direction_count = kDirections};
    FUZZ_CHECK(replica_.begin_record() == Status::kOk);
    FUZZ_CHECK(replica_.add_to_record(directions, 0, chunk.value_count, values, memory_.arena) == Status::kOk);
    FUZZ_CHECK(replica_.finish_record(kDirections, chunk.step_scale, memory_.arena) == Status::kOk);
    chunk.digest = replica_.digest();
    last_record_ = message;
    return message;
  }
  const ServerMessage& last_record() const { return last_record_; }

  ServerMessage snapshot() const {
    ServerMessage message = {};
    message.which_body = gs_ServerMessage_snapshot_chunk_tag;
    gs_SnapshotChunk& chunk = message.body.snapshot_chunk;
    chunk.version = replica_.version();
    chunk.part = gs_ModelPart_MODEL_PART_MODEL;
    chunk.total = static_cast<uint32_t>(4 * kShape.size());
    chunk.values.size = static_cast<pb_size_t>(chunk.total);
    std::memcpy(chunk.values.bytes, replica_.model(), chunk.total);
    chunk.digest = replica_.digest();
    return message;
  }

  ServerMessage ack(uint32_t task_sequence) const {
    ServerMessage message = {};
    message.which_body = gs_ServerMessage_ack_tag;
    message.body.ack.task_sequence = task_sequence == 0 ? 1 : task_sequence;
    message.body.ack.verdict = gs_Verdict_VERDICT_FOLDED;
    message.body.ack.version = replica_.version() + 1;
    message.body.ack.has_retry = true;
    message.body.ack.retry = {10, 20};
    return message;
  }

 private:
  Config config_;
  TestArena memory_;
  Replica replica_;
  ServerMessage last_record_ = {};
  uint32_t task_sequence_ = 0;
};

// ---- One wrong field ----

void spoil(FuzzInput& in, uint32_t& field) { field = in.number_near(field); }
void spoil(FuzzInput& in, uint64_t& field) { field ^= uint64_t{1} << in.below(64); }
void spoil(FuzzInput&, bool& field) { field = !field; }
void spoil(FuzzInput& in, float& field) {
  const uint32_t bits = in.number_near(std::bit_cast<uint32_t>(field));
  field = std::bit_cast<float>(bits);
}
template <typename Enum>
void spoil_enum(FuzzInput& in, Enum& field) {
  const uint32_t raw = in.below(12);  // an enum that this end would load must stay one that it could name
  static_assert(sizeof(raw) == sizeof(field));
  std::memcpy(&field, &raw, sizeof(raw));
}

void spoil(FuzzInput& in, uint32_t which, gs_Welcome& m) {
  switch (which % 13) {
    case 0:
      return spoil(in, m.run);
    case 1:
      return spoil_enum(in, m.run_state);
    case 2:
      return spoil(in, m.parameters_digest);
    case 3:
      return spoil_enum(in, m.manifold);
    case 4:
      return spoil(in, m.rows);
    case 5:
      return spoil(in, m.cols);
    case 6:
      return spoil_enum(in, m.stream);
    case 7:
      return spoil_enum(in, m.directions);
    case 8:
      return spoil(in, m.shared_directions);
    case 9:
      return spoil(in, m.seed);
    case 10:
      return spoil(in, m.direction_count);
    case 11:
      return spoil(in, m.abandoned);
    default:
      return spoil(in, m.version);
  }
}

void spoil(FuzzInput& in, uint32_t which, gs_Task& m) {
  switch (which % 15) {
    case 0:
      return spoil(in, m.task_sequence);
    case 1:
      return spoil(in, m.version);
    case 2:
      return spoil(in, m.digest);
    case 3:
      return spoil_enum(in, m.solver);
    case 4:
      return spoil_enum(in, m.estimator);
    case 5:
      return spoil_enum(in, m.encoding);
    case 6:
      return spoil(in, m.local_step_count);
    case 7:
      return spoil(in, m.steps_min);
    case 8:
      return spoil(in, m.step_size);
    case 9:
      return spoil(in, m.smoothing);
    case 10:
      return spoil_enum(in, m.batch_mode);
    case 11:
      return spoil(in, m.batch_size);
    case 12:
      return spoil(in, m.use_correction);
    case 13:
      return spoil(in, m.deadline_ms);
    default:
      m.problem[in.below(sizeof(m.problem) - 1)] = static_cast<char>('a' + in.below(26));
      return;
  }
}

void spoil(FuzzInput& in, uint32_t which, gs_LogChunk& m) {
  switch (which % 12) {
    case 0:
      return spoil(in, m.version);
    case 1:
      return spoil(in, m.step_scale);
    case 2:
      return spoil(in, m.block_index);
    case 3:
      return spoil(in, m.block_count);
    case 4:
      return spoil(in, m.base_version);
    case 5:
      return spoil(in, m.owner);
    case 6:
      return spoil(in, m.first_value);
    case 7:
      return spoil(in, m.value_count);
    case 8:
      return spoil_enum(in, m.encoding);
    case 9:
      m.values.bytes[in.below(64)] = in.byte();
      return;
    case 10:
      m.values.size = static_cast<pb_size_t>(in.word() % (kPayloadSizeMax + 1));
      return;
    default:
      return spoil(in, m.digest);
  }
}

void spoil(FuzzInput& in, uint32_t which, gs_SnapshotChunk& m) {
  switch (which % 6) {
    case 0:
      return spoil(in, m.version);
    case 1:
      return spoil(in, m.offset);
    case 2:
      return spoil(in, m.total);
    case 3:
      m.values.bytes[in.below(64)] = in.byte();
      return;
    case 4:
      m.values.size = static_cast<pb_size_t>(4 * (in.word() % (kPayloadSizeMax / 4 + 1)));
      return;
    default:
      return spoil(in, m.digest);
  }
}

void spoil(FuzzInput& in, uint32_t which, gs_Ack& m) {
  switch (which % 7) {
    case 6:
      return spoil(in, m.hold);
    case 0:
      return spoil(in, m.task_sequence);
    case 1:
      return spoil_enum(in, m.verdict);
    case 2:
      return spoil_enum(in, m.reason);
    case 3:
      return spoil(in, m.version);
    case 4:
      return spoil(in, m.retry.min_ms);
    default:
      return spoil(in, m.retry.max_ms);
  }
}

// which = 0: nothing.
void spoil(FuzzInput& in, uint32_t which, ServerMessage& message) {
  if (which == 0) {
    return;
  }
  switch (message.which_body) {
    case gs_ServerMessage_welcome_tag:
      return spoil(in, which, message.body.welcome);
    case gs_ServerMessage_task_tag:
      return spoil(in, which, message.body.task);
    case gs_ServerMessage_log_chunk_tag:
      return spoil(in, which, message.body.log_chunk);
    case gs_ServerMessage_snapshot_chunk_tag:
      return spoil(in, which, message.body.snapshot_chunk);
    case gs_ServerMessage_ack_tag:
      return spoil(in, which, message.body.ack);
    case gs_ServerMessage_wait_tag:
      if (which % 2 == 0) {
        return spoil_enum(in, message.body.wait.cause);
      }
      return spoil(in, message.body.wait.retry.max_ms);
    case gs_ServerMessage_refuse_tag:
      return spoil_enum(in, message.body.refuse.reason);
    default:
      return spoil(in, message.body.drain.retry.max_ms);
  }
}

// ---- The device and its shell ----

class World {
 public:
  World(FuzzInput& in, const Config& config)
      : in_(in),
        config_(config),
        samples_(20, kShape.rows, random_values(20 * kShape.rows, 9)),
        problem_{&kKpcaOps, &samples_.source},
        server_(config) {
    restart(0);
  }

  void run() {
    for (uint32_t move = 0; move < kMovesMax && polls_ < kPollsMax && !in_.empty(); ++move) {
      step(static_cast<ClientMove>(in_.below(static_cast<uint32_t>(ClientMove::kCount))));
    }
  }

 private:
  void step(ClientMove move) {
    switch (move) {
      case ClientMove::kPoll:
        return poll_some(8);
      case ClientMove::kAnswer:
        return answer(in_.byte());
      case ClientMove::kWelcome:
        return deliver_spoilt(server_.welcome());
      case ClientMove::kTask:
        return deliver_spoilt(server_.task());
      case ClientMove::kLog:
        return deliver_spoilt(in_.below(2) == 0 ? server_.next_record() : server_.last_record());
      case ClientMove::kSnapshot:
        return deliver_spoilt(server_.snapshot());
      case ClientMove::kAck:
        return deliver_spoilt(server_.ack(last_sequence_));
      case ClientMove::kWait:
        return deliver_window(gs_ServerMessage_wait_tag);
      case ClientMove::kRefuse:
        return deliver_window(gs_ServerMessage_refuse_tag);
      case ClientMove::kDrain:
        return deliver_window(gs_ServerMessage_drain_tag);
      case ClientMove::kRawFrame:
        client_->on_frame(in_.bytes(in_.byte()), now_ms_);
        return;
      case ClientMove::kTime:
        now_ms_ += uint64_t{1} << in_.below(28);
        return;
      case ClientMove::kLoseLink:
        lose_link();
        return;
      case ClientMove::kMalformed:
        client_->on_malformed(now_ms_);
        return;
      case ClientMove::kRestart:
        return restart(in_.byte());
      case ClientMove::kFlipModel:
        return flip();
      default:
        return;
    }
  }

  void restart(uint8_t spoilt) {
    ClientConfig config;
    config.registry = registry_of({&problem_, 1});
    config.firmware_version = "fuzz";
    config.floors = no_floors();
    config.can_dial = config_.can_dial;
    config.has_storage = config_.has_storage;
    memory_ = std::make_unique<TestArena>(kArenaSize);
    client_ = std::make_unique<Client>(config, memory_->arena);
    is_connected_ = false;
    is_hello_sent_ = false;
    if (spoilt != 0 && !saved_.empty()) {
      saved_[in_.word() % saved_.size()] ^= spoilt;
    }
    is_saved_whole_ = is_saved_whole_ && spoilt == 0;
    if (is_saved_whole_) {
      FUZZ_CHECK(client_->restore(saved_) == Status::kOk);
    } else {
      uploads_.clear();
      static_cast<void>(client_->restore(saved_));
    }
    uploads_of_task_ = 0;
  }

  void flip() {
    if (client_->replica().has_model()) {
      client_->replica_for_test().flip_bit_for_test(in_.word() % (32 * client_->replica().shape().size()));
    }
  }

  void lose_link() {
    is_connected_ = false;
    client_->on_connection_lost(Status::kClosed, now_ms_);
  }

  void poll_some(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ++polls_;
      if (!act(client_->poll(now_ms_))) {
        return;
      }
    }
  }

  // False: the client waits.
  bool act(const ClientAction& action) {
    switch (action.kind) {
      case ClientActionKind::kWait:
        FUZZ_CHECK(action.wake_ms == 0 || action.wake_ms >= now_ms_);
        return action.wake_ms == 0;
      case ClientActionKind::kConnect:
        FUZZ_CHECK(!is_connected_);
        is_connected_ = true;
        is_hello_sent_ = false;
        client_->on_connected(now_ms_);
        return true;
      case ClientActionKind::kSend:
        FUZZ_CHECK(is_connected_);
        receive(action.bytes);
        client_->on_sent(now_ms_);
        return true;
      case ClientActionKind::kDisconnect:
        is_connected_ = false;
        return true;
      case ClientActionKind::kSave:
        save(action.pieces);
        client_->on_saved(Status::kOk, now_ms_);
        return true;
      case ClientActionKind::kSaveStep:
        FUZZ_CHECK(false);  // it has no place for steps
        return true;
    }
    return false;
  }

  void save(std::span<const StoragePiece> pieces) {
    FUZZ_CHECK(config_.has_storage);
    saved_.clear();
    is_saved_whole_ = true;
    uploads_.clear();  // another task is done
    uploads_of_task_ = client_->counters().tasks_done;
    for (const StoragePiece& piece : pieces) {
      saved_.insert(saved_.end(), piece.bytes, piece.bytes + piece.size);
    }
  }

  void receive(std::span<const uint8_t> frame) {
    FUZZ_CHECK(frame.size() <= kFrameSizeMax);
    FUZZ_CHECK(decode_message(frame.subspan(kFramePrefixSize), &last_) == Status::kOk);
    FUZZ_CHECK((last_.which_body == gs_DeviceMessage_hello_tag) != is_hello_sent_);
    is_hello_sent_ = true;
    if (last_.which_body == gs_DeviceMessage_update_scalars_tag) {
      check_resend(last_.body.update_scalars.task_sequence, last_.body.update_scalars.first_value, frame);
    } else if (last_.which_body == gs_DeviceMessage_update_tangent_tag) {
      check_resend(last_.body.update_tangent.task_sequence, last_.body.update_tangent.first_value, frame);
    }
  }

  // A task's upload is one string of bytes, for as long as the device holds it, also across a power cut: a device saves
  // its work before it sends it.
  void check_resend(uint32_t sequence, uint32_t first_value, std::span<const uint8_t> frame) {
    last_sequence_ = sequence;
    if (client_->counters().tasks_done != uploads_of_task_) {
      uploads_.clear();
      uploads_of_task_ = client_->counters().tasks_done;
    }
    const auto [entry, is_new] = uploads_.try_emplace(first_value, frame.begin(), frame.end());
    FUZZ_CHECK(is_new || std::equal(entry->second.begin(), entry->second.end(), frame.begin(), frame.end()));
  }

  void deliver(const ServerMessage& message) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_frame(message, frame);
    if (size.ok()) {
      client_->on_frame({frame + kFramePrefixSize, size.value() - kFramePrefixSize}, now_ms_);
    }
  }

  void deliver_spoilt(ServerMessage message) {
    spoil(in_, in_.byte(), message);
    deliver(message);
  }

  void deliver_window(pb_size_t tag) {
    ServerMessage message = {};
    message.which_body = tag;
    if (tag == gs_ServerMessage_wait_tag) {
      message.body.wait = {gs_WaitCause_WAIT_CAUSE_ANSWERED, true, {10, 20}};
    } else if (tag == gs_ServerMessage_refuse_tag) {
      message.body.refuse = {gs_Reason_REASON_DEADLINE, true, {10, 20}};
    } else {
      message.body.drain = {true, {10, 20}};
    }
    deliver_spoilt(message);
  }

  // What a good server answers to the last message, or with one field of the first answer spoilt.
  void answer(uint8_t which) {
    if (!is_connected_ || !is_hello_sent_) {
      return;
    }
    switch (last_.which_body) {
      case gs_DeviceMessage_hello_tag: {
        ServerMessage message = server_.welcome();
        message.body.welcome.abandoned = last_.body.hello.lost_task_sequence != 0;
        spoil(in_, which, message);
        deliver(message);
        break;
      }
      case gs_DeviceMessage_pull_tag:
        answer_pull(which);
        break;
      case gs_DeviceMessage_update_scalars_tag:
      case gs_DeviceMessage_update_tangent_tag: {
        ServerMessage message = server_.ack(last_sequence_);
        spoil(in_, which, message);
        deliver(message);
        now_ms_ += 30;
        break;
      }
      default:
        break;
    }
    poll_some(8);
  }

  void answer_pull(uint8_t which) {
    const gs_Pull& pull = last_.body.pull;
    const bool is_current =
        pull.has_model && pull.version == server_.replica().version() && pull.digest == server_.replica().digest();
    const bool by_record = config_.is_scalar && is_current && which % 2 == 0;
    ServerMessage first = by_record ? server_.next_record() : server_.snapshot();
    spoil(in_, which, first);
    const ClientCounters before = client_->counters();
    deliver(first);
    const ClientCounters& after = client_->counters();
    const bool has_moved = before.snapshots + before.records_applied < after.snapshots + after.records_applied;
    if (which == 0 && has_moved && before.digest_mismatches == after.digest_mismatches) {
      FUZZ_CHECK(client_->replica().version() == server_.replica().version());
      FUZZ_CHECK(client_->replica().digest() == server_.replica().digest());
    }
    deliver(server_.task());
  }

  FuzzInput& in_;
  Config config_;
  TestSamples samples_;
  Problem problem_;
  Server server_;
  std::unique_ptr<TestArena> memory_;
  std::unique_ptr<Client> client_;
  uint64_t now_ms_ = 1000;
  uint32_t polls_ = 0;
  bool is_connected_ = false;
  bool is_hello_sent_ = false;
  DeviceMessage last_ = {};
  uint32_t last_sequence_ = 0;
  std::vector<uint8_t> saved_;
  bool is_saved_whole_ = false;
  std::map<uint32_t, std::vector<uint8_t>> uploads_;  // by first value
  uint32_t uploads_of_task_ = 0;
};

}  // namespace
}  // namespace gradstream::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradstream::testing;  // NOLINT: the one function outside
  FuzzInput in(data, size);
  const uint8_t choice = in.byte();
  Config config;
  config.is_scalar = (choice & 1) == 0;
  config.can_dial = (choice & 2) == 0;
  config.has_storage = (choice & 4) != 0;
  constexpr gradstream::Encoding kEncodings[] = {gradstream::Encoding::kF32, gradstream::Encoding::kBf16,
                                                 gradstream::Encoding::kInt8, gradstream::Encoding::kF32};
  config.encoding = kEncodings[(choice >> 3) & 3];
  World(in, config).run();
  return 0;
}

// A scripted peer for client tests: one device, one run, the real codec and Replica, no policy. Every version folds the
// device's update with that of a ghost whose scalars depend on the version only, so that the device has something to
// correct. All verdicts and messages can be scripted.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_SERVER_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "runtime/link/task_terms.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "tests/support/training_support.h"

namespace gradstream {

using Bytes = std::vector<uint8_t>;

struct FakeRun {
  uint32_t run = 1;
  uint64_t parameters_digest = 77;
  const ManifoldOps* manifold = &kStiefelOps;
  Shape shape = {8, 2};
  StreamKind stream = StreamKind::kScalarStream;
  uint32_t seed = 5;
  uint32_t direction_count = 4;
  uint32_t local_step_count = 2;
  uint32_t steps_min = 1;
  Encoding encoding = Encoding::kF32;
  Encoding record_encoding = Encoding::kF32;
  bool error_feedback = false;
  float step_size = 0.05F;
  uint32_t deadline_ms = 0;
  bool use_correction = true;
  uint32_t round_count = 4;
  gs_RetryWindow retry = {10, 50};
  uint32_t log_length_max = 1000;  // versions behind beyond which a snapshot is sent
  std::vector<Real> start;         // empty: a random point
  Real ghost_scale = static_cast<Real>(0.05);
};

class FakeServer {
 public:
  explicit FakeServer(const FakeRun& parameters) : run(parameters) {
    static_cast<void>(replica_.prepare(*run.manifold, run.shape, memory_.arena));
    const std::vector<Real> start = run.start.empty() ? random_point(*run.manifold, run.shape, run.seed) : run.start;
    std::copy(start.begin(), start.end(), replica_.begin_snapshot());
    replica_.adopt_snapshot(0);
    digests_.push_back(replica_.digest());
    records_.emplace_back();
  }

  // ---- The link ----
  void on_connected() { on_lost(); }
  void on_lost() {
    reader_.reset();
    output_.clear();
    parts_.clear();
  }
  void on_bytes(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      bytes = bytes.subspan(reader_.feed(bytes));
      if (reader_.has_frame()) {
        DeviceMessage message;
        const Status status = decode_message(reader_.payload(), &message);
        reader_.pop();
        malformed_count += status == Status::kOk ? 0 : 1;
        if (status == Status::kOk) {
          received.push_back(message.which_body);
          on_message(message);
        }
      }
    }
  }
  Bytes& output() { return output_; }

  // ---- Scripts ----
  // Called before the server's own answer; true: nothing more is done.
  std::function<bool(const DeviceMessage&)> intercept;
  // The last word on every message that leaves.
  std::function<void(ServerMessage&)> edit;
  // Verdicts of the next complete updates instead of FOLDED.
  std::deque<gs_Verdict> verdicts;
  gs_Reason refusal = gs_REASON_TOO_FEW_STEPS;  // of verdicts that do not count
  // Answer Pull by Wait so often.
  uint32_t wait_count = 0;
  // An accepted update counts in the next version, which closes only with advance().
  bool holds_version_open = false;

  // n versions in which only the ghost took part, or the update that was held back.
  void advance(uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      fold(held_);
      held_ = Update{};
    }
  }

  void send(ServerMessage message) {
    if (edit) {
      edit(message);
    }
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_frame(message, frame);
    GS_ASSERT(size.ok());
    send_raw({frame, size.value()});
  }
  void send_raw(std::span<const uint8_t> bytes) { output_.insert(output_.end(), bytes.begin(), bytes.end()); }

  static ServerMessage make(pb_size_t which) {
    ServerMessage message = {};
    message.which_body = which;
    return message;
  }
  ServerMessage make_welcome() const {
    ServerMessage message = make(gs_ServerMessage_welcome_tag);
    gs_Welcome& welcome = message.body.welcome;
    welcome.server_time_ms = 1795000000000ULL;
    welcome.run = run.run;
    welcome.run_state = is_finished() ? gs_RUN_STATE_FINISHED : gs_RUN_STATE_ACTIVE;
    welcome.parameters_digest = run.parameters_digest;
    welcome.version = replica_.version();
    welcome.manifold = static_cast<gs_Manifold>(run.manifold->id);
    welcome.rows = run.shape.rows;
    welcome.cols = run.shape.cols;
    welcome.stream = static_cast<gs_StreamKind>(run.stream);
    welcome.directions = gs_DIRECTIONS_SIGN;
    welcome.shared_directions = true;
    welcome.seed = run.seed;
    welcome.direction_count = run.direction_count;
    welcome.client_index = 3;
    welcome.group = 1;
    welcome.error_feedback = run.error_feedback;
    for (uint32_t i = 0; run.shape.parts != nullptr && i < run.shape.parts->count; ++i) {
      const Part& part = run.shape.parts->part[i];
      const Parts* const factors = part.shape.parts;  // of a part of fixed rank
      welcome.manifold_parts[welcome.manifold_parts_count++] = {
          static_cast<gs_Manifold>(part.ops->id),
          static_cast<uint16_t>(factors != nullptr ? factors->part[0].shape.rows : part.shape.rows),
          static_cast<uint16_t>(factors != nullptr ? factors->part[1].shape.rows : part.shape.cols),
          static_cast<gs_Retraction>(part.ops->retraction_kind),
          static_cast<gs_Transport>(part.ops->transport_kind),
          static_cast<uint8_t>(factors != nullptr ? part.shape.cols : 0)};
    }
    return message;
  }
  ServerMessage make_task() const {
    ServerMessage message = make(gs_ServerMessage_task_tag);
    gs_Task& task = message.body.task;
    task.task_sequence = task_sequence_;
    task.version = replica_.version();
    task.digest = replica_.digest();
    const bool is_scalar = run.stream == StreamKind::kScalarStream;
    task.solver = is_scalar ? gs_SOLVER_PROJECTION : gs_SOLVER_GRADIENT_STREAM;
    task.estimator = is_scalar ? gs_ESTIMATOR_PROJECTION_ONE_SIDED : gs_ESTIMATOR_ANALYTIC_GRADIENT;
    task.encoding = static_cast<gs_Encoding>(run.encoding);
    task.local_step_count = run.local_step_count;
    task.steps_min = run.steps_min;
    task.step_size = run.step_size;
    task.smoothing = 0.01F;
    task.batch_mode = gs_BATCH_MODE_COMMON;
    task.batch_size = 6;
    task.use_correction = run.use_correction;
    task.deadline_ms = run.deadline_ms;
    std::strcpy(task.problem, "kpca");
    return message;
  }
  ServerMessage make_wait(gs_WaitCause cause) const {
    ServerMessage message = make(gs_ServerMessage_wait_tag);
    message.body.wait = {cause, true, run.retry};
    return message;
  }

  bool is_finished() const { return replica_.version() >= run.round_count; }
  const Replica& model() const { return replica_; }
  // How many sessions have begun, by their Hellos.
  size_t hello_count() const {
    return static_cast<size_t>(std::count(received.begin(), received.end(), gs_DeviceMessage_hello_tag));
  }

  FakeRun run;
  std::map<uint32_t, Bytes> uploads;    // task sequence -> encoded values, as first received whole
  std::vector<uint32_t> steps_done;     // of the updates folded
  std::vector<uint32_t> step_times_us;  // of all updates that came
  std::vector<pb_size_t> received;      // kinds of message, in order
  uint32_t malformed_count = 0;
  uint32_t snapshots_sent = 0;
  uint32_t duplicates = 0;
  uint32_t conflicting_uploads = 0;  // the same sequence with other bytes
  std::vector<gs_TaskRefused> refusals;
  gs_Hello last_hello = {};
  gs_StatusReport last_report = {};

 private:
  struct Update {
    uint32_t task_sequence = 0;
    uint32_t base_version = 0;
    uint32_t steps_done = 0;
    std::vector<Real> values;
  };

  void on_message(const DeviceMessage& message) {
    if (intercept && intercept(message)) {
      return;
    }
    switch (message.which_body) {
      case gs_DeviceMessage_hello_tag:
        return on_hello(message.body.hello);
      case gs_DeviceMessage_pull_tag:
        return on_pull(message.body.pull);
      case gs_DeviceMessage_update_scalars_tag:
        return on_update(message.body.update_scalars);
      case gs_DeviceMessage_update_tangent_tag:
        return on_update(message.body.update_tangent);
      case gs_DeviceMessage_task_refused_tag:
        refusals.push_back(message.body.task_refused);
        return send(make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
      default:
        last_report = message.body.status_report;
    }
  }

  void on_hello(const gs_Hello& hello) {
    last_hello = hello;
    ServerMessage welcome = make_welcome();
    if (hello.lost_task_sequence != 0) {
      welcome.body.welcome.abandoned = true;
      task_version_ = UINT32_MAX;  // the next task gets a new sequence
    }
    send(welcome);
  }

  void on_pull(const gs_Pull& pull) {
    const uint32_t current = replica_.version();
    const bool is_known = pull.has_model && pull.version <= current && pull.digest == digests_[pull.version];
    const bool is_scalar = run.stream == StreamKind::kScalarStream;
    if (is_known && is_scalar && current - pull.version <= run.log_length_max) {
      for (uint32_t version = pull.version + 1; version <= current; ++version) {
        send_record(version);
      }
    } else if (!is_known || pull.version != current) {
      send_snapshot();
    }
    if (is_finished()) {
      return send(make_wait(gs_WAIT_CAUSE_FINISHED));
    }
    if (wait_count > 0) {
      --wait_count;
      return send(make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
    }
    if (task_version_ != current) {
      ++task_sequence_;
      task_version_ = current;
    }
    send(make_task());
  }

  void send_record(uint32_t version) {
    const std::vector<ServerMessage>& record = records_[version];
    std::for_each(record.begin(), record.end(), [this](const ServerMessage& piece) { send(piece); });
  }

  void send_snapshot() {
    ++snapshots_sent;
    const uint32_t total = static_cast<uint32_t>(4 * run.shape.size());
    Bytes bytes(total);
    static_cast<void>(encode_values(Encoding::kF32, run.shape.size(), replica_.model(), bytes.data()));
    for (uint32_t offset = 0; offset < total; offset += kPayloadSizeMax) {
      ServerMessage message = make(gs_ServerMessage_snapshot_chunk_tag);
      gs_SnapshotChunk& chunk = message.body.snapshot_chunk;
      chunk.version = replica_.version();
      chunk.part = gs_MODEL_PART_MODEL;
      chunk.offset = offset;
      chunk.total = total;
      chunk.digest = replica_.digest();
      chunk.values.size = static_cast<pb_size_t>(std::min<size_t>(kPayloadSizeMax, total - offset));
      std::memcpy(chunk.values.bytes, bytes.data() + offset, chunk.values.size);
      send(message);
    }
  }

  template <typename Piece>
  void on_update(const Piece& piece) {
    if (piece.first_value == 0) {
      parts_.clear();
    }
    parts_.insert(parts_.end(), piece.values.bytes, piece.values.bytes + piece.values.size);
    const auto encoding = static_cast<Encoding>(piece.encoding);
    if (piece.first_value + piece_value_count(encoding, piece.values.size) < piece.value_count) {
      return;
    }
    step_times_us.push_back(piece.step_time_us);
    Update update{piece.task_sequence, piece.base_version, piece.steps_done, std::vector<Real>(piece.value_count)};
    const bool is_intact =
        crc32c(0, parts_.data(), parts_.size()) == piece.crc32c &&
        decode_values(encoding, piece.value_count, parts_.data(), parts_.size(), update.values.data()) == Status::kOk;
    judge(update, is_intact);
  }

  void judge(const Update& update, bool is_intact) {
    ServerMessage message = make(gs_ServerMessage_ack_tag);
    gs_Ack& ack = message.body.ack;
    ack.task_sequence = update.task_sequence;
    ack.has_retry = true;
    ack.retry = run.retry;
    const auto [known, is_new] = uploads.emplace(update.task_sequence, parts_);
    conflicting_uploads += is_new || known->second == parts_ ? 0 : 1;
    const gs_Verdict verdict = verdicts.empty() ? gs_VERDICT_FOLDED : verdicts.front();
    if (update.task_sequence == judged_.task_sequence) {
      ack = judged_;
      ack.duplicate = true;
      ++duplicates;
    } else if (verdict == gs_VERDICT_TRY_LATER) {
      verdicts.pop_front();
      ack.verdict = gs_VERDICT_TRY_LATER;
      ack.reason = gs_REASON_STORAGE;
    } else if (update.task_sequence != task_sequence_ || !is_intact) {
      ack.verdict = update.task_sequence < task_sequence_ ? gs_VERDICT_SUPERSEDED : gs_VERDICT_REFUSED;
      ack.reason = is_intact ? gs_REASON_UNKNOWN_TASK : gs_REASON_CORRUPT;
    } else {
      decide(update, verdict, ack);
      judged_ = ack;
    }
    send(message);
  }

  void decide(const Update& update, gs_Verdict verdict, gs_Ack& ack) {
    if (!verdicts.empty()) {
      verdicts.pop_front();
    }
    ack.verdict = verdict;
    task_version_ = UINT32_MAX;
    if (verdict != gs_VERDICT_FOLDED && verdict != gs_VERDICT_LATE) {
      ack.reason = refusal;
      return;
    }
    ack.version = replica_.version() + 1;
    steps_done.push_back(update.steps_done);
    if (holds_version_open) {
      held_ = update;
    } else {
      fold(update);
    }
  }

  // The version that follows, from the update (none: values empty) and the ghost's.
  void fold(const Update& update) {
    if (run.stream == StreamKind::kTangentBlock) {
      static_cast<void>(replica_.step_tangent(update.values.data(), 1, memory_.arena));
    } else {
      fold_scalars(update);
    }
    digests_.push_back(replica_.digest());
  }

  // The record as encoded defines the step: it is decoded again before the server's own replica takes it.
  void fold_scalars(const Update& update) {
    const uint32_t version = replica_.version();
    const uint32_t base = update.values.empty() ? version : update.base_version;
    const uint32_t count = run.local_step_count * run.direction_count;
    std::vector<Real> folded = random_values(count, 1000 + version);
    for (uint32_t q = 0; q < count; ++q) {
      folded[q] *= run.ghost_scale;
      if (q < update.values.size()) {
        folded[q] += static_cast<Real>(0.5) * update.values[q] / static_cast<Real>(update.steps_done);
      }
    }
    Bytes bytes(encoded_size(run.record_encoding, count));
    GS_ASSERT(encode_values(run.record_encoding, count, folded.data(), bytes.data()) == Status::kOk);
    GS_ASSERT(decode_values(run.record_encoding, count, bytes.data(), bytes.size(), folded.data()) == Status::kOk);
    const gs_Welcome welcome = make_welcome().body.welcome;
    const DirectionSpec directions = to_directions(welcome, base);
    const Real step_scale = run.step_size * static_cast<Real>(run.local_step_count);
    GS_ASSERT(replica_.begin_record() == Status::kOk);
    GS_ASSERT(replica_.add_to_record(directions, 0, count, folded.data(), memory_.arena) == Status::kOk);
    GS_ASSERT(replica_.finish_record(run.direction_count, step_scale, memory_.arena) == Status::kOk);
    records_.push_back(cut_record(bytes, base, count, static_cast<float>(step_scale)));
  }

  std::vector<ServerMessage> cut_record(const Bytes& bytes, uint32_t base, uint32_t count, float step_scale) const {
    std::vector<ServerMessage> pieces;
    const auto most = static_cast<uint32_t>(values_per_message(run.record_encoding));
    for (uint32_t first = 0; first < count; first += most) {
      ServerMessage message = make(gs_ServerMessage_log_chunk_tag);
      gs_LogChunk& chunk = message.body.log_chunk;
      const uint32_t piece = std::min(most, count - first);
      chunk.version = replica_.version();
      chunk.step_scale = step_scale;
      chunk.block_count = 1;
      chunk.base_version = base;
      chunk.owner = 1;
      chunk.first_value = first;
      chunk.value_count = count;
      chunk.encoding = static_cast<gs_Encoding>(run.record_encoding);
      chunk.values.size = static_cast<pb_size_t>(encoded_size(run.record_encoding, piece));
      std::memcpy(chunk.values.bytes, bytes.data() + encoded_size(run.record_encoding, first), chunk.values.size);
      chunk.digest = first + piece == count ? replica_.digest() : 0;
      pieces.push_back(message);
    }
    return pieces;
  }

  TestArena memory_;
  Replica replica_;
  FrameReader reader_;
  Bytes output_;
  Bytes parts_;
  std::vector<uint64_t> digests_;                    // of every version
  std::vector<std::vector<ServerMessage>> records_;  // [version]: the record that leads to it
  uint32_t task_sequence_ = 0;
  uint32_t task_version_ = UINT32_MAX;
  gs_Ack judged_ = {};
  Update held_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_SERVER_H_

// Frames of several devices -> decode -> coordinator -> fold, with one coordinator across all messages, a disk that is
// slow or fails, and crashes. The devices here hold real replicas, so that an honest input trains for many versions;
// every message may be spoilt, repeated, or come at any time.
//
// What is checked:
// Nothing asserts, and what is sent decodes.
// No message leaves before the records that it depends on are durable, and a verdict never changes.
// No update is counted twice, and each version's record is the mean of its updates, recomputed in double.
// Replicas that follow the log have the digest that the server names.
// A replay of the journal has the state of the coordinator that wrote it. Memory is bounded.
#include "tests/fuzz/fuzz_coordinator.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>

#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "server/coordinator/coordinator.h"
#include "server/journal/store.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "tests/fuzz/fuzz_device.h"
#include "tests/fuzz/fuzz_disk.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_spoil.h"

#if defined(GS_SANITIZED)
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // GCC ships the function without its header
#endif

namespace gradstream::testing {
namespace {

constexpr uint32_t kRun = 1;
constexpr uint32_t kMovesMax = 300;
constexpr uint32_t kMessagesMax = 1500;
constexpr uint32_t kFloodCount = 100;
constexpr uint32_t kDevicesMax = 8;
// Of the coordinator and its queues, beyond a few times the journal, which this target keeps in memory.
constexpr size_t kLiveSizeMax = size_t{4} << 20;

constexpr Encoding kEncodings[] = {Encoding::kF32, Encoding::kBf16, Encoding::kInt8, Encoding::kF32};

// Bytes of the heap in use.
size_t live_size() {
#if defined(GS_SANITIZED)
  return __sanitizer_get_current_allocated_bytes();
#else
  return mallinfo2().uordblks;
#endif
}

RunParameters make_parameters(uint8_t first, uint8_t second) {
  RunParameters p;
  p.name = "fuzz";
  p.seed = 7;
  p.model->shape = {6, 2};
  p.model->problem = "kpca";
  p.local->direction_count = 4;
  p.local->local_step_count = 3;
  p.steps->step_size = 0.05F;
  p.trigger->round_count = 40;
  p.trigger->device_count = kFuzzDeviceCount;
  p.wire->upload_encoding = kEncodings[first & 3];
  p.wire->record_encoding = kEncodings[(first >> 2) & 3];
  if ((first & 16) != 0) {
    p.local->solver = SolverId::kGradientStream;
    p.local->estimator = EstimatorId::kAnalyticGradient;
    p.local->correction_form = CorrectionForm::kNone;
  }
  p.local->group_count = (first >> 5) & 3;  // 0: own directions
  if ((first & 128) != 0) {                 // uploads of several frames, and snapshots too
    p.local->direction_count = 32;
    p.local->local_step_count = 8;
    p.model->shape = {300, 1};
    p.model->manifold = ManifoldId::kSphere;
  }
  if ((second & 1) != 0) {
    p.trigger->update_goal = 3;
    p.trigger->update_min = 2;
    p.trigger->report_deadline_ms = 5000;
  }
  if ((second & 3) == 3) {
    p.trigger->late = LatePolicy::kWeight;
    p.trigger->staleness_max = 3;
  }
  p.trigger->steps_min = (second & 4) != 0 ? 1 : 0;
  p.fold->fold_weight = (second & 8) != 0 ? FoldWeight::kUniform : FoldWeight::kSampleCount;
  p.wire->log_size_max = (second & 16) != 0 ? 4000 : 0;
  return p;
}

// ---- The shell around the coordinator ----------------------------------------------------------------------------

class World {
 public:
  World(FuzzInput& in, uint8_t first, uint8_t second)
      : in_(in), parameters_(make_parameters(first, second)), is_disk_fast_((second & 32) != 0), disk_(parameters_) {
    FUZZ_CHECK(!check_parameters(parameters_));
    while (names_.size() < kFuzzDeviceCount) {
      add_device();
    }
    open();
  }

  void run() {
    for (uint32_t move = 0; move < kMovesMax && message_count_ < kMessagesMax && !in_.empty(); ++move) {
      step(static_cast<CoordinatorMove>(in_.below(static_cast<uint32_t>(CoordinatorMove::kCount))));
      settle();
      FUZZ_CHECK(live_size() < start_size_ + kLiveSizeMax + 4 * (disk_.size() + waiting_size_));
    }
    finish();
  }

 private:
  void step(CoordinatorMove move) {
    switch (move) {
      case CoordinatorMove::kRound:
        return round();
      case CoordinatorMove::kHello: {
        const uint32_t index = device();
        return hello(index, in_.byte());
      }
      case CoordinatorMove::kPull: {
        const uint32_t index = device();
        return pull(index, in_.byte());
      }
      case CoordinatorMove::kUpload: {
        const uint32_t index = device();
        const uint8_t kind = in_.byte();
        return upload(index, kind, in_.byte());
      }
      case CoordinatorMove::kResend:
        return resend(device());
      case CoordinatorMove::kRefuse:
        return transmit_spoilt(device(), &FuzzDevice::refusal);
      case CoordinatorMove::kStatus:
        return transmit(device(), status_report());
      case CoordinatorMove::kRaw: {
        const uint32_t index = device();
        const std::span<const uint8_t> payload = in_.bytes(in_.byte());
        return arrive(index, payload);
      }
      case CoordinatorMove::kClose:
        return close_session(devices_[device()].session);
      case CoordinatorMove::kConnect:
        return connect(device());
      case CoordinatorMove::kTime:
        return pass_time(uint64_t{1} << in_.below(20));
      case CoordinatorMove::kPersist:
        return persist(in_.byte());
      case CoordinatorMove::kStorage:
        return toggle_storage();
      case CoordinatorMove::kCrash:
        return crash();
      case CoordinatorMove::kAdd:
        return enrol();
      case CoordinatorMove::kRevoke:
        return revoke(device());
      case CoordinatorMove::kStop:
        return coordinator_->stop(now_ms_);
      case CoordinatorMove::kFlood:
        return flood(device());
      default:
        return;
    }
  }

  uint32_t device() { return in_.below(static_cast<uint32_t>(devices_.size())); }

  // ---- The process ----

  std::unique_ptr<Coordinator> replayed() const {
    auto out = std::make_unique<Coordinator>(kRun, parameters_, names_);
    for (const JournalRecord& record : disk_.journal()) {
      FUZZ_CHECK(out->replay(record) == Status::kOk);
    }
    for (const uint32_t index : revoked_) {
      out->on_device_revoked(index, now_ms_);
    }
    return out;
  }

  void open() {
    coordinator_ = replayed();
    if (is_fault_planted()) {
      coordinator_->plant_double_fold_for_test();
    }
    coordinator_->start(now_ms_);
    settle();
  }

  void crash() {
    waiting_.clear();
    waiting_size_ = 0;
    sessions_.clear();
    for (FuzzDevice& each : devices_) {
      each.session = 0;
      each.has_hello = false;
    }
    is_storage_failed_ = false;
    coordinator_.reset();
    open();
  }

  // Everything reaches the disk; then the journal tells the whole state.
  void finish() {
    if (is_storage_failed_) {
      toggle_storage();
      settle();
    }
    for (int i = 0; i < 100 && !waiting_.empty(); ++i) {
      persist(255);
      settle();
    }
    const std::string replayed_state = replayed()->state_text();
    const std::string live_state = coordinator_->state_text();
    if (replayed_state != live_state) {
      std::fprintf(stderr, "replayed:\n%slive:\n%s", replayed_state.c_str(), live_state.c_str());
    }
    FUZZ_CHECK(replayed_state == live_state);
  }

  void add_device() {
    const uint32_t index = static_cast<uint32_t>(names_.size());
    names_.push_back("device" + std::to_string(index));
    devices_.emplace_back(parameters_, index);
  }

  void enrol() {
    if (devices_.size() < kDevicesMax) {
      add_device();
      coordinator_->on_device_added(names_.back(), now_ms_);
    }
  }

  void revoke(uint32_t index) {
    revoked_.insert(index);
    coordinator_->on_device_revoked(index, now_ms_);
  }

  void pass_time(uint64_t duration_ms) {
    now_ms_ += duration_ms;
    if (coordinator_->next_tick_ms() <= now_ms_) {
      coordinator_->on_tick(now_ms_);
    }
  }

  // ---- The disk ----

  void persist(uint32_t count) {
    if (waiting_.empty() || is_storage_failed_) {
      return;
    }
    for (uint32_t i = 0; i <= count && !waiting_.empty(); ++i) {
      waiting_size_ -= sizeof(JournalRecord) + waiting_.front().payload().size();
      disk_.append(waiting_.front());
      waiting_.pop_front();
    }
    coordinator_->on_persisted(disk_.last_sequence(), now_ms_);
  }

  void toggle_storage() {
    is_storage_failed_ = !is_storage_failed_;
    if (is_storage_failed_) {
      coordinator_->on_storage_failed(now_ms_);
      return;
    }
    while (!waiting_.empty()) {
      persist(255);
      absorb();
    }
    coordinator_->on_storage_recovered(now_ms_);
  }

  // ---- What the coordinator wants done ----

  void settle() {
    absorb();
    for (int i = 0; i < 1000 && is_disk_fast_ && !is_storage_failed_ && !waiting_.empty(); ++i) {
      persist(255);
      absorb();
    }
  }

  void absorb() {
    std::vector<SessionId> closed;
    for (Action& action : coordinator_->take_actions()) {
      switch (action.kind) {
        case ActionKind::kPersist:
          FUZZ_CHECK(action.record.sequence() == disk_.last_sequence() + waiting_.size() + 1);
          waiting_size_ += sizeof(JournalRecord) + action.record.payload().size();
          waiting_.push_back(std::move(action.record));
          break;
        case ActionKind::kSend:
          send(action);
          break;
        case ActionKind::kClose:
          closed.push_back(action.session);
          break;
        case ActionKind::kPublish:
          FUZZ_CHECK(disk_.has_version(action.version) && coordinator_->durable_version() >= action.version);
          break;
        case ActionKind::kCheckpoint:   // it asks for none
        case ActionKind::kCompareMark:  // nor tells devices of its journal
          break;
        case ActionKind::kLog:
          FUZZ_CHECK(action.event != nullptr);
          break;
      }
    }
    for (const SessionId session : closed) {
      close_session(session);
    }
  }

  void send(const Action& action) {
    uint8_t frame[kFrameSizeMax];
    ServerMessage decoded;
    const Result<size_t> size = encode_frame(action.message, frame);
    FUZZ_CHECK(size.ok());
    FUZZ_CHECK(decode_message({frame + kFramePrefixSize, size.value() - kFramePrefixSize}, &decoded) == Status::kOk);
    const auto session = sessions_.find(action.session);
    if (session == sessions_.end()) {
      return;
    }
    const uint32_t index = session->second;
    check_durable(index, decoded);
    if (devices_[index].session == action.session) {
      devices_[index].receive(decoded);
    }
  }

  // The output commit rule, and that a verdict stays what it was.
  void check_durable(uint32_t index, const ServerMessage& message) {
    switch (message.which_body) {
      case gs_ServerMessage_task_tag:
        FUZZ_CHECK(disk_.has_task(index, message.body.task.task_sequence, message.body.task.version));
        break;
      case gs_ServerMessage_log_chunk_tag:
        FUZZ_CHECK(disk_.has_version(message.body.log_chunk.version));
        break;
      case gs_ServerMessage_snapshot_chunk_tag:
        FUZZ_CHECK(disk_.has_version(message.body.snapshot_chunk.version));
        break;
      case gs_ServerMessage_ack_tag:
        check_ack(index, message.body.ack);
        break;
      default:
        break;
    }
  }

  void check_ack(uint32_t index, const gs_Ack& ack) {
    if (ack.verdict == gs_Verdict_VERDICT_SUPERSEDED || ack.verdict == gs_Verdict_VERDICT_TRY_LATER ||
        ack.reason == gs_Reason_REASON_UNKNOWN_TASK) {
      return;
    }
    const JournalRecord* judged = disk_.judged(index, ack.task_sequence);
    FUZZ_CHECK(judged != nullptr);
    FUZZ_CHECK(judged->verdict() == static_cast<uint32_t>(ack.verdict));
    FUZZ_CHECK(judged->reason() == static_cast<uint32_t>(ack.reason));
    FUZZ_CHECK(judged->kind() != RecordKind::kUpdate || judged->version() == ack.version);
  }

  // ---- What the devices do ----

  void connect(uint32_t index) {
    devices_[index].session = ++last_session_;
    devices_[index].has_hello = false;
    devices_[index].is_truthful = true;
    sessions_[last_session_] = index;
  }

  void close_session(SessionId session) {
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) {
      return;
    }
    FuzzDevice& owner = devices_[found->second];
    if (owner.session == session) {
      owner.session = 0;
      owner.has_hello = false;
    }
    sessions_.erase(found);
    coordinator_->on_session_closed(session, now_ms_);
  }

  // As a session does: bytes -> frames -> messages; a peer that sends anything else is cut off.
  void arrive(uint32_t index, std::span<const uint8_t> payload) {
    ++message_count_;
    ++now_ms_;
    if (devices_[index].session == 0) {
      connect(index);
    }
    DeviceMessage message;
    const SessionId session = devices_[index].session;
    if (decode_message(payload, &message) != Status::kOk) {
      close_session(session);
      return;
    }
    coordinator_->on_message(session, index, message, now_ms_);
    settle();
  }

  void transmit(uint32_t index, const DeviceMessage& message) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_frame(message, frame);
    if (size.ok()) {
      FrameReader reader;
      FUZZ_CHECK(reader.feed({frame, size.value()}) == size.value() && reader.has_frame());
      arrive(index, reader.payload());
    }
  }

  void transmit_spoilt(uint32_t index, DeviceMessage (FuzzDevice::*make)() const) {
    DeviceMessage message = (devices_[index].*make)();
    spoil(in_, in_.byte(), message);
    transmit(index, message);
  }

  static DeviceMessage status_report() {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_status_report_tag;
    message.body.status_report.uptime_s = 1;
    return message;
  }

  void hello(uint32_t index, uint32_t which) {
    DeviceMessage message = devices_[index].hello();
    spoil(in_, which, message);
    transmit(index, message);
    devices_[index].has_hello = devices_[index].session != 0;
  }

  void pull(uint32_t index, uint32_t which) {
    DeviceMessage message = devices_[index].pull();
    spoil(in_, which, message);
    transmit_pull(index, message, which == 0);
  }

  void transmit_pull(uint32_t index, const DeviceMessage& message, bool is_truthful) {
    if (devices_[index].session == 0) {
      connect(index);
    }
    devices_[index].is_truthful = devices_[index].is_truthful && is_truthful;
    transmit(index, message);
  }

  void upload(uint32_t index, uint32_t kind, uint32_t which) {
    devices_[index].make_upload(kind);
    if (which != 0) {
      std::vector<DeviceMessage>& pieces = devices_[index].upload;
      spoil(in_, which, pieces[which % pieces.size()]);
    }
    resend(index);
  }

  void resend(uint32_t index) {
    const std::vector<DeviceMessage> pieces = devices_[index].upload;
    for (const DeviceMessage& piece : pieces) {
      transmit(index, piece);
    }
  }

  void round() {
    for (uint32_t index = 0; index < devices_.size(); ++index) {
      if (!devices_[index].has_hello) {
        hello(index, 0);
      }
      pull(index, 0);
      persist(255);
      settle();
      if (devices_[index].task_sequence() != 0) {
        upload(index, 0, 0);
      }
      persist(255);
      settle();
    }
    now_ms_ += 100;
  }

  // The same message again and again: queues must have an end.
  void flood(uint32_t index) {
    DeviceMessage message = status_report();
    switch (in_.below(4)) {
      case 0:
        message = devices_[index].hello();
        break;
      case 1:
        message = devices_[index].pull();
        break;
      case 2:
        message = devices_[index].refusal();
        break;
      default:
        if (!devices_[index].upload.empty()) {
          message = devices_[index].upload.front();
        }
        break;
    }
    for (uint32_t i = 0; i < kFloodCount; ++i) {
      transmit_pull(index, message, false);
    }
  }

  const size_t start_size_ = live_size();
  FuzzInput& in_;
  const RunParameters parameters_;
  const bool is_disk_fast_;
  FuzzDisk disk_;
  std::deque<JournalRecord> waiting_;  // on their way to the disk
  size_t waiting_size_ = 0;
  bool is_storage_failed_ = false;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::string> names_;
  std::deque<FuzzDevice> devices_;
  std::set<uint32_t> revoked_;
  std::map<SessionId, uint32_t> sessions_;  // device
  SessionId last_session_ = 0;
  uint64_t now_ms_ = 1000;
  uint32_t message_count_ = 0;
};

}  // namespace
}  // namespace gradstream::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradstream::testing;  // NOLINT: the one function outside
  FuzzInput in(data, size);
  const uint8_t first = in.byte();
  const uint8_t second = in.byte();
  World(in, first, second).run();
  return 0;
}

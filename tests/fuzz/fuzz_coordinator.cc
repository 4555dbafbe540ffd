// Frames of several devices -> decode -> coordinator -> fold, with one coordinator across all messages, a disk that is
// slow or fails, and crashes. The devices here hold real replicas, so that an honest input trains for many versions;
// every message may be spoilt, repeated, or come at any time.
//
// Checked: nothing asserts; what is sent decodes; no message leaves before the records that it depends on are durable;
// a verdict never changes; no update is counted twice, and each version's record is the mean of its updates, recomputed
// in double; replicas that follow the log have the digest that the server names; a replay of the journal has the state
// of the coordinator that wrote it; memory is bounded.
#include "tests/fuzz/fuzz_coordinator.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
#include "server/rules/record.h"
#include "server/run/check_parameters.h"
#include "server/run/run_parameters.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/training_support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GS_HAS_SANITIZER_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GS_HAS_SANITIZER_ALLOCATOR 1
#endif
#endif
#if defined(GS_HAS_SANITIZER_ALLOCATOR)
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
#if defined(GS_HAS_SANITIZER_ALLOCATOR)
  return __sanitizer_get_current_allocated_bytes();
#else
  return mallinfo2().uordblks;
#endif
}

RunParameters make_parameters(uint8_t first, uint8_t second) {
  RunParameters p;
  p.name = "fuzz";
  p.seed = 7;
  p.shape = {6, 2};
  p.problem = "kpca";
  p.direction_count = 4;
  p.local_step_count = 3;
  p.step_size = 0.05F;
  p.round_count = 40;
  p.device_count = kFuzzDeviceCount;
  p.upload_encoding = kEncodings[first & 3];
  p.record_encoding = kEncodings[(first >> 2) & 3];
  if ((first & 16) != 0) {
    p.solver = SolverId::kGradientStream;
    p.estimator = EstimatorId::kAnalyticGradient;
    p.correction_form = CorrectionForm::kNone;
  }
  p.group_count = (first >> 5) & 3;  // 0: own directions
  if ((first & 128) != 0) {          // uploads of several frames, and snapshots too
    p.direction_count = 32;
    p.local_step_count = 8;
    p.shape = {300, 1};
    p.manifold = ManifoldId::kSphere;
  }
  if ((second & 1) != 0) {
    p.update_goal = 3;
    p.update_min = 2;
    p.report_deadline_ms = 5000;
  }
  if ((second & 3) == 3) {
    p.late = LatePolicy::kWeight;
    p.staleness_max = 3;
  }
  p.steps_min = (second & 4) != 0 ? 1 : 0;
  p.fold_weight = (second & 8) != 0 ? FoldWeight::kUniform : FoldWeight::kSampleCount;
  p.log_size_max = (second & 16) != 0 ? 4000 : 0;
  return p;
}

// ---- Spoiling ----

void spoil(FuzzInput& in, uint32_t& field) { field = in.number_near(field); }
void spoil(FuzzInput& in, uint64_t& field) { field ^= uint64_t{1} << in.below(64); }
template <typename Enum>
void spoil_enum(FuzzInput& in, Enum& field) {
  const uint32_t raw = in.below(8);
  static_assert(sizeof(raw) == sizeof(field));
  std::memcpy(&field, &raw, sizeof(raw));
}

void spoil_hello(FuzzInput& in, uint32_t which, gs_Hello& m) {
  switch (which % 9) {
    case 0:
      return spoil(in, m.protocol_version);
    case 1:
      return spoil(in, m.run);
    case 2:
      return spoil(in, m.version);
    case 3:
      return spoil(in, m.digest);
    case 4:
      return spoil(in, m.pending_task_sequence);
    case 5:
      m.lost_task_sequence = m.pending_task_sequence + in.below(3);
      return;
    case 6:
      return spoil(in, m.sample_count);
    case 7:
      return spoil(in, m.capabilities.solvers);
    default:
      m.has_model = !m.has_model;
      return;
  }
}

void spoil_pull(FuzzInput& in, uint32_t which, gs_Pull& m) {
  switch (which % 3) {
    case 0:
      return spoil(in, m.version);
    case 1:
      return spoil(in, m.digest);
    default:
      m.has_model = !m.has_model;
      return;
  }
}

template <typename Update>
void spoil_update(FuzzInput& in, uint32_t which, Update& m) {
  switch (which % 9) {
    case 0:
      return spoil(in, m.task_sequence);
    case 1:
      return spoil(in, m.base_version);
    case 2:
      return spoil(in, m.steps_done);
    case 3:
      return spoil_enum(in, m.encoding);
    case 4:
      return spoil(in, m.first_value);
    case 5:
      return spoil(in, m.value_count);
    case 6:
      return spoil(in, m.crc32c);
    case 7:
      m.values.bytes[in.below(64)] ^= in.byte();
      return;
    default:
      m.values.size = static_cast<pb_size_t>(in.word() % (kPayloadSizeMax + 1));
      return;
  }
}

// One field; which = 0: nothing.
void spoil(FuzzInput& in, uint32_t which, DeviceMessage& message) {
  if (which == 0) {
    return;
  }
  switch (message.which_body) {
    case gs_DeviceMessage_hello_tag:
      return spoil_hello(in, which, message.body.hello);
    case gs_DeviceMessage_pull_tag:
      return spoil_pull(in, which, message.body.pull);
    case gs_DeviceMessage_update_scalars_tag:
      if (which % 10 == 9) {
        return spoil(in, message.body.update_scalars.direction_count);
      }
      return spoil_update(in, which, message.body.update_scalars);
    case gs_DeviceMessage_update_tangent_tag:
      return spoil_update(in, which, message.body.update_tangent);
    case gs_DeviceMessage_task_refused_tag:
      if (which % 2 == 0) {
        return spoil(in, message.body.task_refused.task_sequence);
      }
      return spoil_enum(in, message.body.task_refused.reason);
    default:
      return;
  }
}

// ---- What the disk holds, and what follows from it ---------------------------------------------------------------

// The journal, and what may be said because of it.
class Disk {
 public:
  explicit Disk(const RunParameters& parameters) : parameters_(parameters) {}

  const std::vector<JournalRecord>& journal() const { return journal_; }
  uint64_t last_sequence() const { return journal_.size(); }
  size_t size() const { return size_; }

  void append(const JournalRecord& record) {
    FUZZ_CHECK(record.sequence == journal_.size() + 1);
    journal_.push_back(record);
    size_ += sizeof(JournalRecord) + record.payload.size();
    const std::pair<uint32_t, uint32_t> task = {record.device, record.task_sequence};
    switch (record.kind) {
      case RecordKind::kTaskIssued:
        FUZZ_CHECK(tasks_.try_emplace(task, record.version).second);
        break;
      case RecordKind::kUpdate:
        FUZZ_CHECK(tasks_.contains(task));
        FUZZ_CHECK(judged_.try_emplace(task, record).second);
        if (record.verdict == gs_Verdict_VERDICT_FOLDED) {
          FUZZ_CHECK(on_time_.insert({record.device, record.version}).second);
        }
        open_updates_.push_back(record);
        break;
      case RecordKind::kVerdict:
        FUZZ_CHECK(tasks_.contains(task));
        FUZZ_CHECK(judged_.try_emplace(task, record).second);
        break;
      case RecordKind::kVersion:
        check_version(record);
        version_ = record.version;
        has_version_ = true;
        open_updates_.clear();
        break;
      case RecordKind::kRunState:
        break;
    }
  }

  bool has_version(uint32_t version) const { return has_version_ && version <= version_; }
  bool has_task(uint32_t device, uint32_t sequence, uint32_t version) const {
    const auto found = tasks_.find({device, sequence});
    return found != tasks_.end() && found->second == version;
  }
  const JournalRecord* judged(uint32_t device, uint32_t sequence) const {
    const auto found = judged_.find({device, sequence});
    return found == judged_.end() ? nullptr : &found->second;
  }

 private:
  void check_version(const JournalRecord& record) {
    FUZZ_CHECK(record.version == (has_version_ ? version_ + 1 : 0));
    VersionRecord decoded;
    decoded.version = record.version;
    FUZZ_CHECK(decode_payload(parameters_, record.payload, &decoded) == Status::kOk);
    if (record.version == 0 || record.step_scale == 0 || parameters_.stream() != StreamKind::kScalarStream) {
      return;
    }
    double total = 0;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<double>> sums;
    for (const JournalRecord& update : open_updates_) {
      FUZZ_CHECK(update.version == record.version);
      total += update.weight;
      add_update(update, sums[{update.base_version, parameters_.owner_of(update.device)}]);
    }
    FUZZ_CHECK(total > 0 && sums.size() == decoded.blocks.size());
    for (const RecordBlock& block : decoded.blocks) {
      const auto found = sums.find({block.base_version, block.owner});
      FUZZ_CHECK(found != sums.end());
      check_block(block, found->second, total);
    }
  }

  static void add_update(const JournalRecord& update, std::vector<double>& sum) {
    std::vector<Real> values(update.payload.size() / 4);
    FUZZ_CHECK(decode_values(Encoding::kF32, values.size(), update.payload.data(), update.payload.size(),
                             values.data()) == Status::kOk);
    sum.resize(std::max(sum.size(), values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      sum[i] += static_cast<double>(values[i]) / update.steps_done * update.weight;
    }
  }

  // Each coefficient is the weighted mean within the rounding of its encoding.
  void check_block(const RecordBlock& block, const std::vector<double>& sum, double total) const {
    FUZZ_CHECK(block.value_count == sum.size());
    std::vector<Real> values(block.value_count);
    FUZZ_CHECK(decode_values(block.encoding, values.size(), block.bytes.data(), block.bytes.size(), values.data()) ==
               Status::kOk);
    const double rounding = block.encoding == Encoding::kF32 ? 1e-6 : block.encoding == Encoding::kBf16 ? 4e-3 : 5e-3;
    const double unit = std::ldexp(1.0, 1 - static_cast<int>(parameters_.fold_scale_log2));
    for (size_t first = 0; first < values.size(); first += kInt8BlockSize) {
      const size_t end = std::min(values.size(), first + kInt8BlockSize);
      double largest = 0;
      for (size_t i = first; i < end; ++i) {
        largest = std::max(largest, std::fabs(sum[i] / total));
      }
      for (size_t i = first; i < end; ++i) {
        FUZZ_CHECK(std::fabs(static_cast<double>(values[i]) - sum[i] / total) <= rounding * largest + unit);
      }
    }
  }

  RunParameters parameters_;
  std::vector<JournalRecord> journal_;
  size_t size_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> tasks_;  // version
  std::map<std::pair<uint32_t, uint32_t>, JournalRecord> judged_;
  std::set<std::pair<uint32_t, uint32_t>> on_time_;  // device, version
  std::vector<JournalRecord> open_updates_;
  uint32_t version_ = 0;
  bool has_version_ = false;
};

// ---- A device ----------------------------------------------------------------------------------------------------

class Device {
 public:
  Device(const RunParameters& parameters, uint32_t index) : parameters_(parameters), memory_(1 << 14) {
    FUZZ_CHECK(replica_.prepare(*server_manifold(parameters), parameters.shape, memory_.arena) == Status::kOk);
    index_ = index;
  }

  SessionId session = 0;
  bool has_hello = false;
  bool is_truthful = true;  // every Pull of this session said what it holds
  std::vector<DeviceMessage> upload;

  uint32_t task_sequence() const { return task_.task_sequence; }

  DeviceMessage hello() const {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_hello_tag;
    gs_Hello& hello = message.body.hello;
    hello.protocol_version = kProtocolVersion;
    hello.has_capabilities = true;
    hello.capabilities.manifolds = 0xff;
    hello.capabilities.solvers = 0xff;
    hello.capabilities.estimators = 0xff;
    hello.capabilities.encodings = 0xff;
    hello.capabilities.arena_size = 1 << 20;
    hello.capabilities.problems_count = 1;
    std::strcpy(hello.capabilities.problems[0], "kpca");
    hello.has_model = replica_.has_model();
    hello.version = replica_.version();
    hello.digest = replica_.has_model() ? replica_.digest() : 0;
    hello.pending_task_sequence = task_.task_sequence;
    hello.sample_count = 100 + 50 * index_;
    return message;
  }

  DeviceMessage pull() const {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_pull_tag;
    message.body.pull.has_model = replica_.has_model();
    message.body.pull.version = replica_.version();
    message.body.pull.digest = replica_.has_model() ? replica_.digest() : 0;
    return message;
  }

  DeviceMessage refusal() const {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_task_refused_tag;
    message.body.task_refused.task_sequence = task_.task_sequence;
    message.body.task_refused.reason = gs_Reason_REASON_NOT_FINITE;
    return message;
  }

  // The pieces of an upload for the task in hand. kind: 0 ordinary values, else stranger ones and fewer steps.
  void make_upload(uint32_t kind) {
    const bool is_scalar = parameters_.stream() == StreamKind::kScalarStream;
    const uint32_t steps = kind % 3 == 1 ? 1 + kind % parameters_.local_step_count : parameters_.local_step_count;
    const uint32_t count =
        is_scalar ? steps * parameters_.direction_count : static_cast<uint32_t>(parameters_.shape.size());
    std::vector<Real> values(count);
    RandomStream stream({.seed = index_, .version = task_.version, .step = kind});
    constexpr Real kSizes[] = {0x1p-31F, 0x1p-31F, 0x1p-33F, 0x1p-25F, 0x1p60F, 0};
    for (Real& value : values) {
      value = static_cast<Real>(static_cast<int32_t>(stream.next())) * kSizes[kind / 3 % 6];
    }
    std::vector<uint8_t> bytes(encoded_size(parameters_.upload_encoding, count));
    if (encode_values(parameters_.upload_encoding, count, values.data(), bytes.data()) != Status::kOk) {
      std::fill(bytes.begin(), bytes.end(), 0x7f);  // not finite in any encoding of floats
    }
    upload.clear();
    const size_t most = values_per_message(parameters_.upload_encoding);
    for (size_t first = 0; first < count; first += most) {
      upload.push_back(piece(steps, first, count, std::min(most, count - first), bytes));
    }
  }

  void receive(const ServerMessage& message) {
    switch (message.which_body) {
      case gs_ServerMessage_task_tag:
        FUZZ_CHECK(message.body.task.task_sequence >= task_.task_sequence);
        task_ = message.body.task;
        FUZZ_CHECK(!is_truthful || (replica_.version() == task_.version && replica_.digest() == task_.digest));
        break;
      case gs_ServerMessage_log_chunk_tag:
        receive_log(message.body.log_chunk);
        break;
      case gs_ServerMessage_snapshot_chunk_tag:
        receive_snapshot(message.body.snapshot_chunk);
        break;
      default:
        break;
    }
  }

 private:
  DeviceMessage piece(uint32_t steps, size_t first, uint32_t total, size_t count,
                      const std::vector<uint8_t>& bytes) const {
    DeviceMessage message = {};
    if (parameters_.stream() == StreamKind::kScalarStream) {
      message.which_body = gs_DeviceMessage_update_scalars_tag;
      message.body.update_scalars.direction_count = parameters_.direction_count;
      fill_piece(steps, first, total, count, bytes, message.body.update_scalars);
    } else {
      message.which_body = gs_DeviceMessage_update_tangent_tag;
      fill_piece(steps, first, total, count, bytes, message.body.update_tangent);
    }
    return message;
  }

  template <typename Update>
  void fill_piece(uint32_t steps, size_t first, uint32_t total, size_t count, const std::vector<uint8_t>& bytes,
                  Update& out) const {
    const Encoding encoding = parameters_.upload_encoding;
    out.task_sequence = task_.task_sequence;
    out.base_version = task_.version;
    out.steps_done = steps;
    out.encoding = static_cast<gs_Encoding>(encoding);
    out.first_value = static_cast<uint32_t>(first);
    out.value_count = total;
    out.crc32c = crc32c(0, bytes.data(), bytes.size());
    out.values.size = static_cast<pb_size_t>(encoded_size(encoding, count));
    std::memcpy(out.values.bytes, bytes.data() + encoded_size(encoding, first), out.values.size);
  }

  void receive_log(const gs_LogChunk& chunk) {
    if (!is_truthful) {
      return;
    }
    FUZZ_CHECK(replica_.has_model() && chunk.version == replica_.version() + 1);
    if (chunk.block_index == 0 && chunk.first_value == 0) {
      FUZZ_CHECK(replica_.begin_record() == Status::kOk);
    }
    const Encoding encoding = static_cast<Encoding>(chunk.encoding);
    std::vector<Real> values(piece_value_count(encoding, chunk.values.size));
    FUZZ_CHECK(decode_values(encoding, values.size(), chunk.values.bytes, chunk.values.size, values.data()) ==
               Status::kOk);
    FUZZ_CHECK(replica_.add_to_record(direction_spec(parameters_, chunk.base_version, chunk.owner), chunk.first_value,
                                      static_cast<uint32_t>(values.size()), values.data(),
                                      memory_.arena) == Status::kOk);
    if (chunk.block_index + 1 == chunk.block_count && chunk.first_value + values.size() == chunk.value_count) {
      FUZZ_CHECK(replica_.finish_record(parameters_.direction_count, chunk.step_scale, memory_.arena) == Status::kOk);
      FUZZ_CHECK(replica_.digest() == chunk.digest);
    }
  }

  void receive_snapshot(const gs_SnapshotChunk& chunk) {
    FUZZ_CHECK(chunk.total == 4 * parameters_.shape.size());
    std::memcpy(reinterpret_cast<uint8_t*>(replica_.begin_snapshot()) + chunk.offset, chunk.values.bytes,
                chunk.values.size);
    if (chunk.offset + chunk.values.size == chunk.total) {
      replica_.adopt_snapshot(chunk.version);
      FUZZ_CHECK(replica_.digest() == chunk.digest);
    }
  }

  const RunParameters& parameters_;
  TestArena memory_;
  Replica replica_;
  uint32_t index_ = 0;
  gs_Task task_ = {};
};

// ---- The shell around the coordinator ----------------------------------------------------------------------------

class World {
 public:
  World(FuzzInput& in, uint8_t first, uint8_t second)
      : in_(in), parameters_(make_parameters(first, second)), is_disk_fast_((second & 32) != 0), disk_(parameters_) {
    FUZZ_CHECK(check_parameters(parameters_).empty());
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
        return transmit_spoilt(device(), &Device::refusal);
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
    for (Device& each : devices_) {
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
      waiting_size_ -= sizeof(JournalRecord) + waiting_.front().payload.size();
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
          FUZZ_CHECK(action.record.sequence == disk_.last_sequence() + waiting_.size() + 1);
          waiting_size_ += sizeof(JournalRecord) + action.record.payload.size();
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
        case ActionKind::kLog:
          FUZZ_CHECK(!action.event.empty());
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
    FUZZ_CHECK(judged->verdict == static_cast<uint32_t>(ack.verdict));
    FUZZ_CHECK(judged->reason == static_cast<uint32_t>(ack.reason));
    FUZZ_CHECK(judged->kind != RecordKind::kUpdate || judged->version == ack.version);
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
    Device& owner = devices_[found->second];
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

  void transmit_spoilt(uint32_t index, DeviceMessage (Device::*make)() const) {
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
  Disk disk_;
  std::deque<JournalRecord> waiting_;  // on their way to the disk
  size_t waiting_size_ = 0;
  bool is_storage_failed_ = false;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::string> names_;
  std::deque<Device> devices_;
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

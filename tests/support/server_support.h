// What the tests of the server's pure core share: small runs, and a harness that plays shell, disk and devices.
#ifndef GRADSTREAM_TESTS_SUPPORT_SERVER_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_SERVER_SUPPORT_H_

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/journal/store_memory.h"
#include "server/rules/aggregator.h"
#include "server/rules/record.h"

namespace gradstream {

RunParameters scalar_parameters();

RunParameters tangent_parameters();

// Rounds that two of four devices may close at the deadline, and late or partial work that counts by its weight.
RunParameters deadline_parameters();
// A version for every update, by a rule for late ones.
RunParameters asynchronous_parameters();

std::vector<Real> draw_values(size_t count, uint32_t seed, Real scale);

// What a device would send; every field can be spoilt before upload_messages() cuts it into pieces.
struct TestUpload {
  uint32_t task_sequence = 0;
  uint32_t base_version = 0;
  uint32_t steps_done = 3;
  uint32_t direction_count = 4;
  Encoding encoding = Encoding::kF32;
  StreamKind kind = StreamKind::kScalarStream;
  std::vector<Real> values;
  uint32_t crc_error = 0;
  uint32_t value_count_error = 0;
  uint32_t step_time_us = 0;
  float loss_before = 2;
  float loss_after = 1;
  UpdateNotes notes = {};
  uint64_t base_digest = 0;
};

std::vector<DeviceMessage> upload_messages(const TestUpload& upload);

gs_Hello good_hello(uint32_t sample_count);

// A replica as a device keeps it, fed by what the server sends.
struct TestReplica {
  explicit TestReplica(const RunParameters& p);
  // false: the piece does not fit what came before, or the digest is not reached.
  bool take(const gs_SnapshotChunk& chunk);
  bool take(const gs_LogChunk& chunk);

  RunParameters parameters;
  std::vector<uint64_t> memory;
  Arena arena;
  Replica replica;
  std::vector<uint8_t> bytes;
  uint32_t snapshots = 0;
  uint32_t records = 0;
};

// The run's rule over a replica that stands at version 2, its model the first columns of the unit matrix.
struct TestRule {
  explicit TestRule(const RunParameters& p);
  VersionRecord record() const {
    VersionRecord out;
    const Status status = rule->finish(&out);
    GS_ASSERT(status == Status::kOk);
    return out;
  }
  TestReplica server;
  ModelRing models;
  std::unique_ptr<Aggregator> rule;
};

// Shell, disk and clock around one coordinator. Session of device i: 100 * (times it connected) + i + 1.
class TestServer {
 public:
  explicit TestServer(const RunParameters& p, uint32_t enrolled = 0);
  void start() {
    note_chain();
    coordinator->start(now_ms);
    collect();
  }
  // As after a crash: what is in the store, and nothing else.
  void restart() {
    coordinator = std::make_unique<Coordinator>(7, parameters, names);
    for (const JournalRecord& record : store.records()) {
      GS_ASSERT(coordinator->replay(record) == Status::kOk);
    }
    // The same from a checkpoint and the records behind it.
    for (const Checkpoint& checkpoint : checkpoints) {
      Coordinator other(7, parameters, names);
      GS_ASSERT(other.restore(checkpoint.bytes) == Status::kOk);
      for (size_t i = checkpoint.head.sequence; i < store.records().size(); ++i) {
        GS_ASSERT(other.replay(store.records()[i]) == Status::kOk);
      }
      GS_ASSERT(other.state_text() == coordinator->state_text());
    }
    pending.clear();
    start();
  }
  void collect() {
    for (Action& action : coordinator->take_actions()) {
      switch (action.kind) {
        case ActionKind::kSend:
          sent.push_back(action);
          break;
        case ActionKind::kClose:
          closed.push_back(action);
          break;
        case ActionKind::kPersist:
          pending.push_back(action.record);
          break;
        case ActionKind::kCheckpoint:
          checkpoints.push_back(*action.checkpoint);
          break;
        case ActionKind::kCompareMark:
          marks.push_back(action);
          break;
        case ActionKind::kPublish:
          published.push_back(action.version);
          rounds_.push_back(coordinator->last_round());
          break;
        case ActionKind::kLog:
          logs_.push_back({std::string(action.event->id) + " " + action.text, action.event->level});
          break;
      }
    }
    for (const Action& action : std::exchange(marks, {})) {
      coordinator->on_mark_compared(action.device, action.mark, find_mark(store, action.mark), now_ms);
      collect();
    }
    if (is_auto_persist) {
      persist();
      states[store.records().size()] = coordinator->state_text();
    }
  }
  void persist() {
    while (!pending.empty()) {
      GS_ASSERT(store.append(pending) == StoreStatus::kOk);
      const uint64_t sequence = pending.back().sequence();
      pending.clear();
      note_chain();
      coordinator->on_persisted(sequence, now_ms);
      const bool was_auto = std::exchange(is_auto_persist, false);
      collect();
      is_auto_persist = was_auto;
    }
  }
  void note_chain() {
    ChainHead end;
    GS_ASSERT(store.read_chain_end(&end) == StoreStatus::kOk);
    if (notes_chain) {
      coordinator->note_chain(end);
    }
  }
  SessionId session(uint32_t device) const { return 100 * connects[device] + device + 1; }
  void send(uint32_t device, const DeviceMessage& message) {
    coordinator->on_message(session(device), device, message, now_ms);
    collect();
  }
  void hello(uint32_t device) { hello(device, good_hello(10 * (device + 1))); }
  void hello(uint32_t device, const gs_Hello& hello) {
    ++connects[device];
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_hello_tag;
    message.body.hello = hello;
    send(device, message);
  }
  void pull(uint32_t device) { pull(device, true, coordinator->durable_version(), coordinator->digest()); }
  // hold_max_ms: for how long it may be held; 0: it is answered now.
  void pull(uint32_t device, bool has_model, uint32_t version, uint64_t digest, uint32_t hold_max_ms = 0) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_pull_tag;
    message.body.pull = {has_model, version, digest, hold_max_ms};
    send(device, message);
  }
  // The last task goes below a floor of the device's owner, by a number that is to be at least `least`.
  void refuse_floor(uint32_t device, gs_Floor floor, float value, float least) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_task_refused_tag;
    message.body.task_refused = {
        task(device)->task_sequence, gs_Reason_REASON_PRIVACY, 0, value, least, kSampleCountMax, floor};
    send(device, message);
  }
  void upload(uint32_t device, const TestUpload& upload) {
    for (const DeviceMessage& message : upload_messages(upload)) {
      send(device, message);
    }
  }
  void tick_at(uint64_t at_ms) {
    now_ms = at_ms;
    coordinator->on_tick(now_ms);
    collect();
  }
  // The last message to the device's session with this tag, or null.
  const ServerMessage* last(uint32_t device, pb_size_t tag) const {
    for (auto it = sent.rbegin(); it != sent.rend(); ++it) {
      if (it->session == session(device) && it->message.which_body == tag) {
        return &it->message;
      }
    }
    return nullptr;
  }
  const gs_Task* task(uint32_t device) const {
    const ServerMessage* message = last(device, gs_ServerMessage_task_tag);
    return message == nullptr ? nullptr : &message->body.task;
  }
  const gs_Ack* ack(uint32_t device) const {
    const ServerMessage* message = last(device, gs_ServerMessage_ack_tag);
    return message == nullptr ? nullptr : &message->body.ack;
  }
  const gs_Wait* wait(uint32_t device) const {
    const ServerMessage* message = last(device, gs_ServerMessage_wait_tag);
    return message == nullptr ? nullptr : &message->body.wait;
  }
  const gs_Refuse* refuse(uint32_t device) const {
    const ServerMessage* message = last(device, gs_ServerMessage_refuse_tag);
    return message == nullptr ? nullptr : &message->body.refuse;
  }
  bool has_log(const std::string& part) const {
    return std::any_of(logs_.begin(), logs_.end(),
                       [&](const LogLine& line) { return line.text.find(part) != std::string::npos; });
  }
  // How many lines begin with this.
  size_t log_count(const std::string& begin) const {
    return static_cast<size_t>(
        std::count_if(logs_.begin(), logs_.end(), [&](const LogLine& line) { return line.text.starts_with(begin); }));
  }
  // The level of the event's last line; none: the event was never logged.
  std::optional<LogLevel> log_level(const std::string& event) const {
    const auto line = std::find_if(logs_.rbegin(), logs_.rend(),
                                   [&](const LogLine& each) { return each.text.starts_with(event + " "); });
    return line == logs_.rend() ? std::nullopt : std::optional(line->level);
  }
  void clear_logs() { logs_.clear(); }
  // Of the versions published, one each.
  const std::vector<RoundSummary>& rounds() const { return rounds_; }
  // A good upload of the device's last task; values depend on device and version only.
  TestUpload good_upload(uint32_t device) const;
  // Hello and Pull of the devices, so that each has a task of the open version.
  void join(uint32_t count) {
    for (uint32_t device = 0; device < count; ++device) {
      hello(device);
      pull(device, false, 0, 0);
    }
  }
  // These devices join and answer; the version that follows is on its way to the disk.
  void close_version_on_its_way(uint32_t count) {
    join(count);
    is_auto_persist = false;
    for (uint32_t device = 0; device < count; ++device) {
      upload(device, good_upload(device));
    }
  }
  // All of a round: every device pulls, trains, uploads.
  void round(uint32_t count) {
    for (uint32_t device = 0; device < count; ++device) {
      pull(device);
    }
    for (uint32_t device = 0; device < count; ++device) {
      upload(device, good_upload(device));
    }
  }

  RunParameters parameters;
  std::vector<std::string> names;
  std::vector<uint32_t> connects;
  std::unique_ptr<Coordinator> coordinator;
  StoreMemory store;
  std::vector<JournalRecord> pending;
  std::vector<Checkpoint> checkpoints;
  std::vector<Action> sent;
  std::vector<Action> closed;
  std::vector<Action> marks;  // to be compared
  std::vector<uint32_t> published;
  std::map<size_t, std::string> states;  // of the coordinator, by how many records were durable when it stood still
  uint64_t now_ms = 1000;
  bool is_auto_persist = true;
  bool notes_chain = false;  // Welcomes and Tasks name the journal

 private:
  struct LogLine {
    std::string text;  // the event, and its fields
    LogLevel level;
  };

  std::vector<RoundSummary> rounds_;
  std::vector<LogLine> logs_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_SERVER_SUPPORT_H_

// A node of a cluster for unit tests: one front over the simulator's engine, and the devices that speak to it.
#ifndef GRADSTREAM_TESTS_SUPPORT_TEST_NODE_H_
#define GRADSTREAM_TESTS_SUPPORT_TEST_NODE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "server/engine/front.h"
#include "server/engine/leader.h"
#include "server/run/canonical_text.h"
#include "server/run/run_core.h"
#include "tests/support/fake_engine_harness.h"
#include "tests/support/server_support.h"

namespace gradstream {

// Devices of the tests' runs, and of each front.
inline constexpr uint32_t kTestDevices = 4;

class TestNode {
 public:
  TestNode(FakeHarness* harness, const std::string& name, const RunParameters& run,
           uint32_t device_count = kTestDevices)
      : parameters(run),
        engine(harness),
        node(harness->connect(name)),
        front({7, 0, parameters_digest(run, 0)}, parameters, device_count, *node) {
    front.start(now_ms);
    settle();
  }
  // What is under way is answered, and so is what follows from that.
  void settle() {
    take();
    for (bool is_at_rest = false; !is_at_rest; take()) {
      engine->settle();
      const std::vector<EngineReply> replies = node->take_replies();
      for (const EngineReply& reply : replies) {
        front.on_reply(reply, now_ms);
      }
      is_at_rest = replies.empty();
    }
  }
  // Time goes by; then the same.
  void pass(uint64_t time_ms) {
    now_ms += time_ms;
    front.on_tick(now_ms);
    settle();
  }
  // Without an answer of the engine.
  void say(uint32_t device, const DeviceMessage& message) {
    front.on_message(session(device), device, message, now_ms);
    take();
  }
  void hello(uint32_t device, uint32_t lost_task = 0) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_hello_tag;
    message.body.hello = good_hello(10 * (device + 1));
    message.body.hello.lost_task_sequence = lost_task;
    say(device, message);
  }
  void pull(uint32_t device, bool has_model = false) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_pull_tag;
    message.body.pull = {has_model, front.run().version(), front.run().ledger().digest(), 0};
    say(device, message);
  }
  // A good upload of that task: values depend on device and version only.
  void upload(uint32_t device, const gs_Task& task) {
    TestUpload upload;
    upload.task_sequence = task.task_sequence;
    upload.base_version = task.version;
    upload.steps_done = task.local_step_count;
    upload.kind = parameters.stream();
    const size_t scalar_count = static_cast<size_t>(upload.steps_done) * upload.direction_count;
    const size_t count = upload.kind == StreamKind::kScalarStream ? scalar_count : parameters.value_count();
    upload.values = draw_values(count, 1000 * task.version + device, 0.2F);
    for (const DeviceMessage& message : upload_messages(upload)) {
      say(device, message);
    }
  }
  // Hello, Pull and what the engine has to say: the task.
  gs_Task join(uint32_t device) {
    hello(device);
    settle();
    pull(device);
    settle();
    const ServerMessage* const task = last(device, gs_ServerMessage_task_tag);
    GS_ASSERT(task != nullptr);
    return task->body.task;
  }
  // The last message to the device with this tag, or null.
  const ServerMessage* last(uint32_t device, pb_size_t tag) const {
    for (auto action = sent.rbegin(); action != sent.rend(); ++action) {
      if (action->session == session(device) && !action->is_close && action->message.which_body == tag) {
        return &action->message;
      }
    }
    return nullptr;
  }
  const gs_Ack* ack(uint32_t device) const {
    const ServerMessage* const message = last(device, gs_ServerMessage_ack_tag);
    return message == nullptr ? nullptr : &message->body.ack;
  }
  static SessionId session(uint32_t device) { return device + 1; }

  RunParameters parameters;
  FakeHarness* engine;
  std::unique_ptr<EngineNode> node;
  Front front;
  std::vector<FrontAction> sent;
  uint64_t now_ms = 1000;

 private:
  void take() {
    for (FrontAction& action : front.take_actions()) {
      sent.push_back(std::move(action));
    }
  }
};

// A leader beside it, of a name of its own.
struct TestLeader {
  TestLeader(FakeHarness* harness, const std::string& name, const RunParameters& run)
      : parameters(run), engine(harness), node(harness->connect(name)), leader(parameters, kTestDevices, *node) {}
  // Ticks at that time, and what follows from it.
  void tick(uint64_t now_ms) {
    leader.on_tick(now_ms);
    do {
      answer(heard.size(), now_ms);
      engine->settle();
      hear();
    } while (!heard.empty());
  }
  // So many calls are answered; the next one is under way then.
  void answer(size_t count, uint64_t now_ms) {
    for (; count > 0; --count) {
      for (hear(); heard.empty(); hear()) {
        GS_ASSERT(engine->engine().next_ms() != UINT64_MAX);
        engine->engine().advance(engine->engine().next_ms());
      }
      const EngineReply reply = heard.front();
      heard.pop_front();
      leader.on_reply(reply, now_ms);
    }
  }
  void hear() {
    for (EngineReply& reply : node->take_replies()) {
      heard.push_back(std::move(reply));
    }
  }
  RunParameters parameters;
  FakeHarness* engine;
  std::unique_ptr<EngineNode> node;
  Leader leader;
  std::deque<EngineReply> heard;  // and not answered to the leader yet
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_TEST_NODE_H_

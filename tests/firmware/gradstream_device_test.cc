// The C interface, used as an application uses it. One device per process: each test starts a process of its own.
#include "firmware/gradstream_device.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/linked_problem.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_world.h"
#include "tests/support/float_mode.h"

extern "C" {
gs_sample_source gs_test_c_samples(const float* samples, uint32_t count);
uint64_t gs_test_c_turn(uint64_t now_ms, uint32_t* version);
}

namespace gradstream {
namespace {

const std::string kIdentityText = "identity = device-1\nkey = " + [] {
  std::string key;
  for (int i = 0; i < 32; ++i) key += "07";  // as test_identity()
  return key;
}() + "\n";

struct Memory {
  std::vector<uint8_t> arena = std::vector<uint8_t>(1 << 16);
  std::vector<float> ring = std::vector<float>(5 * 3);
};

gs_config base_config(Memory& memory) {
  gs_config config = {};
  config.firmware_version = "test";
  config.identity_text = kIdentityText.data();
  config.identity_size = kIdentityText.size();
  config.arena = memory.arena.data();
  config.arena_size = memory.arena.size();
  return config;
}

FakeRun run_of(Shape shape) {
  FakeRun run;
  run.shape = shape;
  return run;
}

bool run_to_end(FakeWorld& world) {
  gs_status_view status = {};
  for (int turn = 0; turn < 20000 && !status.run_finished; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status(&status);
  }
  return status.run_finished;
}

// Runs a body in a child process, since gs_init() may be called once only.
#define IN_A_PROCESS(body)                              \
  EXPECT_EXIT(                                          \
      {                                                 \
        body;                                           \
        std::exit(testing::Test::HasFailure() ? 1 : 0); \
      },                                                \
      testing::ExitedWithCode(0), "")

TEST(GradstreamDevice, RefusesWhatItCannotStartWith) {
  Memory memory;
  const gs_sample_source samples = gs_test_c_samples(memory.ring.data(), 5);
  gs_config config = base_config(memory);
  EXPECT_EQ(gs_init(nullptr), GS_BAD_ARGUMENT);
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "no samples";
  config.samples = &samples;
  config.push_buffer = memory.ring.data();
  config.push_capacity = 5;
  config.push_dimension = 3;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "two kinds of samples";
  config.push_buffer = nullptr;
  config.arena_size = 0;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT);
  config = base_config(memory);
  config.samples = &samples;
  config.identity_text = "identity = x\nkey = 1\n";
  config.identity_size = std::strlen(config.identity_text);
  EXPECT_EQ(gs_init(&config), GS_BAD_IDENTITY);
  {
    const FloatModeScope scope(kFlushingModes[0]);
    EXPECT_EQ(gs_init(&config), GS_FLUSHES_TO_ZERO);
  }
  EXPECT_EQ(gs_identity_line(), 2u);
  gs_model_view model;
  EXPECT_FALSE(gs_model(&model));
  EXPECT_EQ(gs_sample_push(memory.ring.data()), GS_BAD_ARGUMENT) << "no ring";
}

void train_from_c() {
  FakeWorld world(run_of({3, 1}));
  Memory memory;
  const std::vector<float> samples = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  const gs_sample_source source = gs_test_c_samples(samples.data(), 5);
  gs_config config = base_config(memory);
  config.samples = &source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "twice";
  uint32_t version = 0;
  for (int turn = 0; turn < 20000 && version < 4; ++turn) {
    world.pass(gs_test_c_turn(fake_port().now_ms, &version));
  }
  EXPECT_EQ(version, 4u);
  ASSERT_TRUE(run_to_end(world));
  gs_status_view status;
  gs_status(&status);
  EXPECT_EQ(status.updates_folded, 4u);
  EXPECT_EQ(status.version, 4u);
  EXPECT_NE(status.digest, 0u);
  EXPECT_GT(status.arena_high_water, 0u);
  EXPECT_GT(status.bytes_sent, 0u);
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  EXPECT_EQ(model.rows, 3u);
  EXPECT_EQ(model.cols, 1u);
  float norm = 0;
  for (int i = 0; i < 3; ++i) norm += model.values[i] * model.values[i];
  EXPECT_NEAR(norm, 1, 1e-5);
}

TEST(GradstreamDevice, TrainsAnApplicationInC) { IN_A_PROCESS(train_from_c()); }

void train_from_ring() {
  FakeWorld world(run_of({3, 1}));
  Memory memory;
  gs_config config = base_config(memory);
  config.push_buffer = memory.ring.data();
  config.push_capacity = 5;
  config.push_dimension = 3;
  ASSERT_EQ(gs_init(&config), GS_OK);
  const float bad[3] = {1, std::nanf(""), 0};
  EXPECT_EQ(gs_sample_push(bad), GS_BAD_SAMPLE);
  const float infinite[3] = {1, std::numeric_limits<float>::infinity(), 0};
  EXPECT_EQ(gs_sample_push(infinite), GS_BAD_SAMPLE);
  for (int i = 0; i < 12; ++i) {
    const float sample[3] = {static_cast<float>(i), 1, 2};
    EXPECT_EQ(gs_sample_push(sample), GS_OK);
  }
  EXPECT_EQ(memory.ring[0], 10);  // the oldest went first
  EXPECT_EQ(memory.ring[6], 7);
  EXPECT_TRUE(run_to_end(world));
}

TEST(GradstreamDevice, TrainsOnPushedSamples) { IN_A_PROCESS(train_from_ring()); }

int slow_loss(const void*, const float* x, const uint16_t*, uint32_t, float* out) {
  fake_port().now_ms += 30;
  *out = x[0] * x[1];
  return 0;
}

// Runs to the end, and pushes a sample after each poll; how often the answers were GS_PENDING and GS_BUSY.
struct PushCounts {
  uint32_t pending = 0;
  uint32_t busy = 0;
};

PushCounts push_until_finished(FakeWorld& world, Memory& memory) {
  PushCounts counts;
  gs_status_view status = {};
  for (int turn = 0; turn < 50000 && !status.run_finished; ++turn) {
    const uint64_t wake_ms = gs_poll(fake_port().now_ms);
    counts.pending += wake_ms == GS_PENDING ? 1 : 0;
    const std::vector<float> ring = memory.ring;
    const float sample[3] = {static_cast<float>(turn), 1, 2};
    const gs_result pushed = gs_sample_push(sample);
    EXPECT_EQ(pushed, wake_ms == GS_PENDING ? GS_BUSY : GS_OK);
    EXPECT_EQ(memory.ring == ring, pushed == GS_BUSY);
    counts.busy += pushed == GS_BUSY ? 1 : 0;
    world.pass(wake_ms);
    gs_status(&status);
  }
  EXPECT_TRUE(status.run_finished);
  return counts;
}

void push_during_a_step() {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "slow");
  };
  Memory memory;
  gs_config config = base_config(memory);
  config.push_buffer = memory.ring.data();
  config.push_capacity = 5;
  config.push_dimension = 3;
  const gs_problem problem = {"slow", nullptr, 3, 1, 5, slow_loss, nullptr};
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  const float sample[3] = {1, 2, 3};
  EXPECT_EQ(gs_sample_push(sample), GS_OK) << "no step yet";
  const PushCounts counts = push_until_finished(world, memory);
  EXPECT_GE(counts.pending, 4u * 2 * 4) << "each evaluation of 30 ms is a poll: rounds, steps, directions";
  EXPECT_EQ(counts.busy, counts.pending);
}

TEST(GradstreamDevice, TakesNoSampleWhileAStepReadsThem) { IN_A_PROCESS(push_during_a_step()); }

// An accelerator that has its answer at the third call with the same values.
struct Accelerator {
  std::vector<float> asked;
  uint32_t calls = 0;
  uint32_t answers = 0;
};

int accelerated_loss(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  Accelerator& self = *static_cast<Accelerator*>(const_cast<void*>(context));
  std::vector<float> values(x, x + 3);
  for (uint32_t i = 0; i < count; ++i) values.push_back(static_cast<float>(indices == nullptr ? i : indices[i]));
  self.calls = values == self.asked ? self.calls + 1 : 1;
  self.asked = values;
  if (self.calls < 3) {
    return GS_UNFINISHED;
  }
  self.asked.clear();
  ++self.answers;
  *out = x[0] * x[1];
  return 0;
}

void train_with_an_accelerator() {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "npu");
  };
  Memory memory;
  Accelerator accelerator;
  const gs_problem problem = {"npu", &accelerator, 3, 1, 5, accelerated_loss, nullptr};
  gs_config config = base_config(memory);
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_TRUE(run_to_end(world));
  EXPECT_GE(accelerator.answers, 4u * 2 * 5);  // rounds, steps, directions and the point itself
  gs_status_view status;
  gs_status(&status);
  EXPECT_EQ(status.tasks_refused, 0u);
  EXPECT_EQ(status.updates_folded, 4u);
}

TEST(GradstreamDevice, AsksALossThatIsNotReadyAgain) { IN_A_PROCESS(train_with_an_accelerator()); }

int own_loss(const void* context, const float* x, const uint16_t*, uint32_t count, float* out) {
  ++*static_cast<int*>(const_cast<void*>(context));
  *out = x[0] * static_cast<float>(count > 0);
  return 0;
}

void train_own_problem() {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "mine");
  };
  Memory memory;
  int calls = 0;
  const gs_problem problem = {"mine", &calls, 3, 1, 10, own_loss, nullptr};
  gs_config config = base_config(memory);
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_TRUE(run_to_end(world));
  EXPECT_GT(calls, 4 * 2 * 4);  // rounds, steps, directions
  gs_status_view status;
  gs_status(&status);
  EXPECT_EQ(status.tasks_refused, 0u);
}

TEST(GradstreamDevice, TrainsTheApplicationsOwnLoss) { IN_A_PROCESS(train_own_problem()); }

void continue_from_storage() {
  FakeWorld world(run_of({3, 1}));
  fake_port().has_storage = true;
  fake_port().storage = {1, 2, 3};
  Memory memory;
  std::vector<uint8_t> restore_buffer(1 << 16);
  const gs_sample_source source = gs_test_c_samples(memory.ring.data(), 5);
  memory.ring = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  gs_config config = base_config(memory);
  config.samples = &source;
  config.has_storage = true;
  config.restore_buffer = restore_buffer.data();
  config.restore_size = restore_buffer.size();
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_TRUE(world.has_line("state_dropped"));
  EXPECT_TRUE(run_to_end(world));
  EXPECT_GT(fake_port().storage.size(), 3u);
}

void start_with_another_devices_storage() {
  FakeDevice other(3);
  other.config.owner = 17;  // no digest of device-1's
  {
    FakeServer server(run_of({3, 1}));
    FakeLink link(other, server);
    ASSERT_TRUE(link.run_to(ClientState::kUpload));
  }
  FakeWorld world(run_of({3, 1}));
  fake_port().has_storage = true;
  fake_port().storage = other.storage;
  Memory memory;
  memory.ring = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  std::vector<uint8_t> restore_buffer(1 << 16);
  const gs_sample_source source = gs_test_c_samples(memory.ring.data(), 5);
  gs_config config = base_config(memory);
  config.samples = &source;
  config.has_storage = true;
  config.restore_buffer = restore_buffer.data();
  config.restore_size = restore_buffer.size();
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_TRUE(world.has_line("event=state_dropped reason=\"the saved state is of another identity"));
  EXPECT_TRUE(run_to_end(world));
  EXPECT_EQ(world.server.duplicates, 0U);
  gs_status_view status;
  gs_status(&status);
  EXPECT_EQ(status.updates_folded, 4u);
  EXPECT_EQ(status.updates_resent, 0u);
}

TEST(GradstreamDevice, LeavesTheStateOfAnotherIdentity) { IN_A_PROCESS(start_with_another_devices_storage()); }

TEST(GradstreamDevice, StartsAfreshFromBrokenStorage) { IN_A_PROCESS(continue_from_storage()); }

TEST(GradstreamDevice, LinkedProblemsHaveTheNamesOfRuns) {
  const struct {
    const gs_linked_problem& linked;
    const char* name;
  } problems[] = {{gs_kpca, "kpca"},
                  {gs_brockett, "brockett"},
                  {gs_spd_mean, "spd_mean"},
                  {gs_hyperbolic, "hyperbolic"},
                  {gs_least_squares, "least_squares"},
                  {gs_completion, "completion"},
                  {gs_logistic, "logistic"}};
  for (const auto& [linked, name] : problems) {
    EXPECT_STREQ(linked.problem.ops->name, name);
    EXPECT_EQ(linked.problem.context, nullptr) << name;  // the samples of gs_config
  }
}

}  // namespace
}  // namespace gradstream

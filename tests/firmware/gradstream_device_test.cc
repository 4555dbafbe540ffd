// The C interface, used as an application uses it. One device per process: each test starts a process of its own.
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "firmware/floors.h"
#include "include/gradstream/device.h"
#include "include/gradstream/problem.h"
#include "runtime/link/port.h"
#include "tests/support/fake_application.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_world.h"
#include "tests/support/float_mode.h"

extern "C" {
gs_sample_source gs_test_c_samples(const float* samples, uint32_t count);
uint64_t gs_test_c_turn(uint64_t now_ms, uint32_t* version);
}

namespace gradstream {
namespace {

using Memory = ApplicationMemory;

void start_as_an_older_caller() {
  FakeWorld world(run_of({3, 2}));
  Memory memory;
  const gs_sample_source samples = gs_test_c_samples(memory.ring.data(), 5);
  gs_config config = base_config(memory);
  config.samples = &samples;
  for (const size_t size : {size_t{0}, sizeof config + 1}) {
    config.size = size;
    EXPECT_EQ(gs_init(&config), GS_BAD_SIZE) << size;
  }
  // Its header ends before the power, and what stands behind is not read: it would be refused.
  config.power = static_cast<gs_power>(GS_POWER_BATTERY + 1);
  config.size = sizeof config;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT);
  config.size = offsetof(gs_config, power);
  ASSERT_EQ(gs_init(&config), GS_OK);

  gs_status_view status = {};
  status.samples_lost = 77;
  for (const size_t size : {size_t{0}, sizeof status + 1}) {
    status.size = size;
    EXPECT_EQ(gs_status(&status), GS_BAD_SIZE) << size;
    EXPECT_EQ(status.device, nullptr);
  }
  status.size = offsetof(gs_status_view, samples_lost);
  EXPECT_EQ(gs_status(&status), GS_OK);
  EXPECT_STREQ(status.device, "device-1");
  EXPECT_EQ(status.size, offsetof(gs_status_view, samples_lost));
  EXPECT_EQ(status.samples_lost, 77u);
}

TEST(GradstreamDevice, TakesStructuresOfOlderCallersAndRefusesThoseOfNewerOnes) {
  IN_A_PROCESS(start_as_an_older_caller());
}

TEST(GradstreamDevice, SaysItsRelease) {
  const std::string release = std::to_string(GRADSTREAM_VERSION_MAJOR) + "." +
                              std::to_string(GRADSTREAM_VERSION_MINOR) + "." + std::to_string(GRADSTREAM_VERSION_PATCH);
  EXPECT_EQ(gs_version(), release);
}

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
  config.power = static_cast<gs_power>(GS_POWER_BATTERY + 1);
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "no such power";
  config.power = GS_POWER_BATTERY;
  const gs_sample_bytes no_bytes = {nullptr, nullptr, 1};
  gs_sample_source source_of_none = samples;
  source_of_none.bytes = &no_bytes;
  config.samples = &source_of_none;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "bytes without values";
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
  gs_status_view status = {};
  status.size = sizeof status;
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

// All zero are the defaults: five samples are too few for an estimate, and the server hears why.
void refuse_by_default() {
  FakeWorld world(run_of({3, 1}));
  Memory memory;
  const std::vector<float> samples = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  const gs_sample_source source = gs_test_c_samples(samples.data(), 5);
  gs_config config = base_config(memory);
  config.privacy = {};
  config.samples = &source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 20000 && status.tasks_refused == 0; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status(&status);
  }
  EXPECT_EQ(status.last_reason, static_cast<uint32_t>(gs_Reason_REASON_PRIVACY));
  EXPECT_EQ(status.updates_folded, 0u);
  const gs_Hello& hello = world.server.last_hello;
  EXPECT_EQ(hello.sample_count, 4u);
  EXPECT_EQ(hello.capabilities.features >> gs_Feature_FEATURE_NO_LOSSES & 1U, 1u);
}

TEST(GradstreamDevice, WithoutAWordItsFloorsAreSafe) { IN_A_PROCESS(refuse_by_default()); }

// Each member of gs_privacy reaches the client, and none in the place of another: one at a time says it, all others are
// zero.
TEST(GradstreamDevice, EachFloorOfTheApplicationIsThatFloorOfTheClient) {
  struct Case {
    gs_privacy said;
    bool refuses_sums = false;
    PrivacyFloors heard;
  };
  const Case cases[] = {
      {{}, false, {}},
      {{.batch_size_min = 11}, false, {.batch_size_min = 11}},
      {{.local_step_count_min = 12}, false, {.local_step_count_min = 12}},
      {{.scalars_per_sample_max = 13}, false, {.scalars_per_sample_max = 13}},
      {{.sums_samples_min = 14}, false, {.sums_samples_min = 14}},
      {{.trials_samples_min = 15}, false, {.trials_samples_min = 15}},
      {{.refuses_tangents = true}, false, {.refuses_tangents = true}},
      {{.sends_losses = true}, false, {.sends_losses = true}},
      {{.skips_evaluation = true}, false, {.skips_evaluation = true}},
      {{.sample_count = GS_COUNT_NONE}, false, {.sample_count = SampleCountForm::kNone}},
      {{.sample_count = GS_COUNT_EXACT}, false, {.sample_count = SampleCountForm::kExact}},
      {{}, true, {.refuses_sums = true}},
  };
  const auto members = [](const PrivacyFloors& f) {
    return std::vector<uint32_t>{f.batch_size_min,   f.local_step_count_min, f.scalars_per_sample_max,
                                 f.sums_samples_min, f.trials_samples_min,   f.refuses_tangents,
                                 f.sends_losses,     f.skips_evaluation,     static_cast<uint32_t>(f.sample_count),
                                 f.refuses_sums};
  };
  for (const Case& one : cases) {
    EXPECT_EQ(members(floors_of(one.said, one.refuses_sums)), members(one.heard)) << &one - cases;
  }
}

void train_above_own_floors() {
  FakeWorld world(run_of({3, 1}));
  Memory memory;
  const std::vector<float> samples = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  const gs_sample_source source = gs_test_c_samples(samples.data(), 5);
  gs_config config = base_config(memory);
  config.privacy = {.batch_size_min = 5,
                    .local_step_count_min = 2,
                    .scalars_per_sample_max = 2,
                    .sends_losses = true,
                    .skips_evaluation = true,
                    .sample_count = GS_COUNT_NONE};
  config.samples = &source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  EXPECT_EQ(status.updates_folded, 4u);
  const gs_Hello& hello = world.server.last_hello;
  EXPECT_EQ(hello.sample_count, 1u);
  EXPECT_EQ(hello.capabilities.features >> gs_Feature_FEATURE_NO_LOSSES & 1U, 0u);
  EXPECT_EQ(hello.capabilities.features >> gs_Feature_FEATURE_EVALUATION & 1U, 0u);
}

TEST(GradstreamDevice, TakesTheFloorsOfItsApplication) { IN_A_PROCESS(train_above_own_floors()); }

// Samples as bytes beside the callback: kpca asks for none of their values.
void train_from_bytes() {
  FakeWorld world(run_of({3, 1}));
  Memory memory;
  static uint32_t read_count = 0;
  static constexpr uint8_t kValues[] = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  const gs_sample_bytes bytes = {kValues, nullptr, 0.5F};
  const gs_sample_source source = {nullptr, 5, 3,
                                   [](const void*, uint32_t index, float* out) {
                                     ++read_count;
                                     for (uint32_t i = 0; i < 3; ++i) out[i] = 0.5F * kValues[3 * index + i];
                                     return 0;
                                   },
                                   &bytes};
  gs_config config = base_config(memory);
  config.samples = &source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  EXPECT_EQ(status.updates_folded, 4u);
  EXPECT_EQ(read_count, 0u);
}

TEST(GradstreamDevice, TrainsOnBytes) { IN_A_PROCESS(train_from_bytes()); }

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

// A server that keeps the Pull behind each update. Until its answer there is one time to sleep to, and samples go in.
void train_while_held(gs_power power) {
  FakeWorld world(run_of({3, 1}));
  world.server.holds_version_open = true;
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_ack_tag) {
      message.body.ack.hold = true;
    }
  };
  Memory memory;
  gs_config config = base_config(memory);
  config.push_buffer = memory.ring.data();
  config.push_capacity = 5;
  config.push_dimension = 3;
  config.power = power;
  ASSERT_EQ(gs_init(&config), GS_OK);
  const float sample[3] = {1, 2, 3};
  ASSERT_EQ(gs_sample_push(sample), GS_OK);
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 2000 && status.updates_folded == 0; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status(&status);
  }
  ASSERT_EQ(status.updates_folded, 1u);
  ASSERT_EQ(status.held, power != GS_POWER_BATTERY);
  if (power == GS_POWER_BATTERY) {
    EXPECT_EQ(status.state, GS_IDLE);
    return;
  }
  EXPECT_EQ(status.state, GS_SYNC);
  EXPECT_TRUE(status.connected);
  const uint64_t due_ms = gs_poll(fake_port().now_ms);
  EXPECT_GT(due_ms, fake_port().now_ms + kDeviceHoldMs);
  EXPECT_EQ(gs_sample_push(sample), GS_OK);
  fake_port().now_ms += kDeviceHoldMs - 1000;
  EXPECT_EQ(gs_poll(fake_port().now_ms), due_ms) << "the same time";
  world.server.send(world.server.make_wait(gs_WAIT_CAUSE_FINISHED));
  EXPECT_TRUE(run_to_end(world));
  gs_status(&status);
  EXPECT_FALSE(status.held);
  EXPECT_EQ(status.deadlines_missed, 0u);
}

TEST(GradstreamDevice, SleepsWhileItsPullIsKept) {
  IN_A_PROCESS(train_while_held(GS_POWER_BOARD));  // Linux says mains
  IN_A_PROCESS(train_while_held(GS_POWER_MAINS));
}

TEST(GradstreamDevice, ABatteryIsNotHeld) { IN_A_PROCESS(train_while_held(GS_POWER_BATTERY)); }

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
  status.size = sizeof status;
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
  const gs_problem problem = {"slow", nullptr, 3, 1, 5, slow_loss, nullptr, 0, nullptr};
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
  const gs_problem problem = {"npu", &accelerator, 3, 1, 5, accelerated_loss, nullptr, 0, nullptr};
  gs_config config = base_config(memory);
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_TRUE(run_to_end(world));
  EXPECT_GE(accelerator.answers, 4u * 2 * 5);  // rounds, steps, directions and the point itself
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  EXPECT_EQ(status.tasks_refused, 0u);
  EXPECT_EQ(status.updates_folded, 4u);
}

TEST(GradstreamDevice, AsksALossThatIsNotReadyAgain) { IN_A_PROCESS(train_with_an_accelerator()); }

// A plant that answers 12 ms after it was asked, or never.
struct Plant {
  uint32_t question = 0;
  uint64_t ready_ms = 0;
  uint32_t asks = 0;
  uint32_t answers = 0;
  bool is_silent = false;
  std::vector<uint32_t> cancelled;
};

int plant_loss(const void* context, const float* x, const uint16_t*, uint32_t, float* out) {
  Plant& self = *static_cast<Plant*>(const_cast<void*>(context));
  ++self.asks;
  if (gs_question() != self.question) {
    EXPECT_EQ(gs_question(), self.question + 1);
    self.question = gs_question();
    self.ready_ms = fake_port().now_ms + 12;
  }
  if (self.is_silent || fake_port().now_ms < self.ready_ms) {
    return GS_MEASURING;
  }
  ++self.answers;
  *out = x[0] * x[1];
  return 0;
}

void cancel_plant(const void* context, uint32_t question) {
  static_cast<Plant*>(const_cast<void*>(context))->cancelled.push_back(question);
}

struct PlantWorld : FakeWorld {
  explicit PlantWorld(uint32_t timeout_ms) : FakeWorld(run_of({3, 1})) {
    server.edit = [](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "plant");
    };
    const gs_problem problem = {"plant", &plant, 3, 1, 5, plant_loss, nullptr, timeout_ms, cancel_plant};
    gs_config config = base_config(memory);
    config.problem = gs_own_problem(&problem);
    config.push_buffer = memory.ring.data();
    config.push_capacity = 5;
    config.push_dimension = 3;
    EXPECT_EQ(gs_init(&config), GS_OK);
  }
  // Turns in which a step waited, each with a bounded time; until is_done().
  uint32_t waits_until(const std::function<bool(const gs_status_view&)>& is_done) {
    uint32_t waits = 0;
    gs_status_view status = {};
    status.size = sizeof status;
    for (int turn = 0; turn < 50000 && !is_done(status); ++turn) {
      const uint64_t now_ms = fake_port().now_ms;
      const uint64_t wake_ms = gs_poll(now_ms);
      gs_status(&status);
      const float sample[3] = {1, 2, 3};
      EXPECT_EQ(gs_sample_push(sample), status.step_open ? GS_BUSY : GS_OK);
      if (status.step_open) {
        EXPECT_GT(wake_ms, now_ms) << "no haste while it waits";
        EXPECT_LE(wake_ms, now_ms + GS_MEASURE_POLL_MS);
        ++waits;
      }
      pass(wake_ms);
    }
    EXPECT_TRUE(is_done(status));
    return waits;
  }
  Memory memory;
  Plant plant;
};

void train_with_a_plant() {
  PlantWorld world(0);
  const uint32_t waits = world.waits_until([](const gs_status_view& status) { return status.run_finished; });
  EXPECT_GE(world.plant.answers, 4u * 2 * 5);  // rounds, steps, directions and the point itself
  EXPECT_GE(waits, 3 * world.plant.answers) << "12 ms of 5";
  EXPECT_EQ(world.plant.asks, waits + world.plant.answers) << "a poll, an ask; an answer is followed by a question";
  EXPECT_TRUE(world.plant.cancelled.empty());
}

TEST(GradstreamDevice, WaitsForALossThatIsMeasured) { IN_A_PROCESS(train_with_a_plant()); }

void lose_a_measurement() {
  PlantWorld world(700);
  world.plant.is_silent = true;
  const uint64_t begun_ms = fake_port().now_ms;
  world.waits_until([](const gs_status_view& status) { return status.measurements_lost == 1; });
  EXPECT_GE(fake_port().now_ms, begun_ms + 700);
  EXPECT_EQ(world.plant.cancelled, (std::vector<uint32_t>{1}));
  EXPECT_TRUE(
      world.has_line("event=measurement_lost problem=plant question=1 waited_ms=700 limit_ms=700 remedy=\"look"));
  world.plant.is_silent = false;
  world.waits_until([](const gs_status_view& status) { return status.run_finished; });
  EXPECT_TRUE(world.has_line("event=refused reason=deadline"));
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  EXPECT_EQ(status.tasks_refused, 1u);
  EXPECT_EQ(status.updates_folded, 4u) << "the device has asked again";
}

TEST(GradstreamDevice, GivesUpAMeasurementThatNeverComes) { IN_A_PROCESS(lose_a_measurement()); }

// The same in C++, as docs/own_loss.md has it.
struct CxxPlant {
  static constexpr const char* kName = "plant";
  mutable Measurement measurement{{.name = "plant", .timeout_ms = 700, .report = log_lost_measurement}};
  mutable uint64_t ready_ms = 0;
  bool is_silent = false;
  uint32_t sample_count() const { return 1; }
  Status check_shape(Shape shape) const { return shape == Shape{3, 1} ? Status::kOk : Status::kInvalidArgument; }
  Result<Real> loss(Shape, const Real* x, Batch batch) const {
    if (measurement.ask(batch)) ready_ms = fake_port().now_ms + 12;
    if (is_silent || fake_port().now_ms < ready_ms) return measurement.wait(batch);
    return x[0] * x[1];
  }
};
constexpr ProblemOps kCxxPlantOps = make_problem_ops<CxxPlant>();

void train_with_a_cxx_plant() {
  CxxPlant plant;
  const gs_linked_problem linked = {{&kCxxPlantOps, &plant}};
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "plant");
  };
  Memory memory;
  gs_config config = base_config(memory);
  config.problem = &linked;
  ASSERT_EQ(gs_init(&config), GS_OK);
  plant.is_silent = true;
  for (int turn = 0; turn < 5000 && world.server.refusals.empty(); ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
  }
  EXPECT_TRUE(world.has_line("event=measurement_lost problem=plant question=1 waited_ms=700 limit_ms=700 remedy="));
  plant.is_silent = false;
  EXPECT_TRUE(run_to_end(world));
  EXPECT_GE(plant.measurement.question(), 4u * 2 * 5);
}

TEST(GradstreamDevice, WaitsForALossThatIsMeasuredInCxx) { IN_A_PROCESS(train_with_a_cxx_plant()); }

// GS_PENDING is 0, which is the answer of a callback that has a result.
int mistaken_loss(const void* context, const float* x, const uint16_t*, uint32_t, float* out) {
  const bool is_mended = *static_cast<const bool*>(context);
  *out = is_mended ? x[0] : *out;
  return static_cast<int>(GS_PENDING);
}

void answer_nothing() {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "mistaken");
  };
  Memory memory;
  bool is_mended = false;
  const gs_problem problem = {"mistaken", &is_mended, 3, 1, 5, mistaken_loss, nullptr, 0, nullptr};
  gs_config config = base_config(memory);
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  for (int turn = 0; turn < 5000 && world.server.refusals.empty(); ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
  }
  ASSERT_FALSE(world.server.refusals.empty());
  EXPECT_EQ(world.server.refusals[0].reason, gs_REASON_NOT_FINITE);
  is_mended = true;
  EXPECT_TRUE(run_to_end(world)) << "the device has asked again";
}

TEST(GradstreamDevice, TakesNoResultThatWasNotWritten) { IN_A_PROCESS(answer_nothing()); }

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
  const gs_problem problem = {"mine", &calls, 3, 1, 10, own_loss, nullptr, 0, nullptr};
  gs_config config = base_config(memory);
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_TRUE(run_to_end(world));
  EXPECT_GT(calls, 4 * 2 * 4);  // rounds, steps, directions
  gs_status_view status = {};
  status.size = sizeof status;
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
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  EXPECT_EQ(status.updates_folded, 4u);
  EXPECT_EQ(status.updates_resent, 0u);
}

TEST(GradstreamDevice, LeavesTheStateOfAnotherIdentity) { IN_A_PROCESS(start_with_another_devices_storage()); }

TEST(GradstreamDevice, StartsAfreshFromBrokenStorage) { IN_A_PROCESS(continue_from_storage()); }

// What a device waits after its first failure, in a life whose random numbers come after so many others; 0: it has
// none.
uint64_t back_off_of_life(size_t used_count) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    FakeWorld world(run_of({3, 1}));
    world.silent = true;
    fake_port().has_random = used_count > 0;
    std::vector<uint8_t> used(used_count);
    static_cast<void>(port_random_bytes(used.data(), used.size()));
    Memory memory;
    const std::vector<float> samples = {1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
    const gs_sample_source source = gs_test_c_samples(samples.data(), 5);
    gs_config config = base_config(memory);
    config.samples = &source;
    gs_status_view status = {};
    status.size = sizeof status;
    uint64_t wait_ms = gs_init(&config) == GS_OK ? 0 : UINT64_MAX;
    for (int turn = 0; turn < 20000 && status.connection_failures == 0 && wait_ms == 0; ++turn) {
      const uint64_t now_ms = fake_port().now_ms;
      const uint64_t wake_ms = gs_poll(now_ms);
      world.pass(wake_ms);
      gs_status(&status);
      wait_ms = status.connection_failures > 0 ? gs_poll(now_ms) - now_ms : 0;
    }
    std::_Exit(write(ends[1], &wait_ms, sizeof wait_ms) == sizeof wait_ms ? 0 : 1);
  }
  uint64_t wait_ms = 0;
  EXPECT_EQ(read(ends[0], &wait_ms, sizeof wait_ms), static_cast<ssize_t>(sizeof wait_ms));
  int ending = 0;
  EXPECT_EQ(waitpid(child, &ending, 0), child);
  EXPECT_EQ(ending, 0);
  close(ends[0]);
  close(ends[1]);
  return wait_ms;
}

TEST(GradstreamDevice, EachLifeDrawsItsOwnWaits) {
  const std::set<uint64_t> waits = {back_off_of_life(0), back_off_of_life(8), back_off_of_life(12),
                                    back_off_of_life(16)};
  EXPECT_EQ(waits.size(), 4u);
  EXPECT_GE(*waits.begin(), 1000u);
  EXPECT_LE(*waits.rbegin(), 2000u);
  EXPECT_EQ(back_off_of_life(8), back_off_of_life(8)) << "by its random numbers alone";
}

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

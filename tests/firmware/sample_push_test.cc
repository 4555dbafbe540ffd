// gs_sample_push() with a queue: from an interrupt or a task beside gs_poll(). A thread stands for it here.
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "include/gradstream/device.h"
#include "tests/support/fake_application.h"

namespace gradstream {
namespace {

constexpr uint32_t kRingCount = 5;
constexpr uint32_t kQueueCount = 8;
constexpr uint32_t kValueCount = 3;

struct Buffers {
  std::vector<float> ring = std::vector<float>(size_t{kRingCount} * kValueCount);
  std::vector<float> queue = std::vector<float>(size_t{kQueueCount} * kValueCount);
};

gs_config queue_config(ApplicationMemory& memory, Buffers& buffers) {
  gs_config config = base_config(memory);
  config.push_buffer = buffers.ring.data();
  config.push_capacity = kRingCount;
  config.push_dimension = kValueCount;
  config.queue_buffer = buffers.queue.data();
  config.queue_capacity = kQueueCount;
  return config;
}

gs_result push(float value) {
  const float sample[kValueCount] = {value, 2 * value, -value};
  return gs_sample_push(sample);
}

uint32_t lost_count() {
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  return status.samples_lost;
}

void refuse_bad_queues() {
  const FakeWorld world(run_of({3, 1}));
  ApplicationMemory memory;
  Buffers buffers;
  EXPECT_EQ(push(1), GS_BAD_ARGUMENT) << "gs_init() is not done";
  gs_config config = queue_config(memory, buffers);
  config.queue_capacity = 0;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT);
  config = queue_config(memory, buffers);
  config.queue_buffer = nullptr;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "a capacity of no queue";
  config = queue_config(memory, buffers);
  const gs_sample_source source = {nullptr, 1, 3, [](const void*, uint32_t, float*) { return 0; }};
  config.push_buffer = nullptr;
  config.samples = &source;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << "a queue before no ring";
}

TEST(SamplePush, RefusesWhatIsNoQueue) { IN_A_PROCESS(refuse_bad_queues()); }

void overflow() {
  const FakeWorld world(run_of({3, 1}));
  ApplicationMemory memory;
  Buffers buffers;
  gs_config config = queue_config(memory, buffers);
  ASSERT_EQ(gs_init(&config), GS_OK);
  float next = 1;
  // Twice around, so that the counters of the queue wrap; each time with another number in it.
  for (uint32_t round = 0; round < 4 * kQueueCount; ++round) {
    const uint32_t count = 1 + round % kQueueCount;
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(push(next++), GS_OK);
    gs_poll(fake_port().now_ms);
  }
  EXPECT_EQ(lost_count(), 0U);
  const std::vector<float> before = buffers.ring;
  const float first = next;
  for (uint32_t i = 0; i < kQueueCount; ++i) ASSERT_EQ(push(next++), GS_OK);
  EXPECT_EQ(push(next), GS_BUSY) << "the queue is full";
  EXPECT_EQ(push(std::nanf("")), GS_BAD_SAMPLE) << "that is no loss";
  EXPECT_EQ(push(next), GS_BUSY);
  EXPECT_EQ(lost_count(), 2U);
  EXPECT_EQ(buffers.ring, before) << "nothing is moved but by gs_poll()";
  gs_poll(fake_port().now_ms);
  EXPECT_EQ(push(next), GS_OK) << "there is room again";
  std::vector<bool> is_there(kQueueCount);
  for (uint32_t i = 0; i < kRingCount; ++i) {
    is_there.at(static_cast<size_t>(buffers.ring[size_t{i} * kValueCount] - first)) = true;
  }
  EXPECT_EQ(is_there, (std::vector<bool>{false, false, false, true, true, true, true, true})) << "the newest five";
}

TEST(SamplePush, CountsWhatFindsNoPlace) { IN_A_PROCESS(overflow()); }

int slow_loss(const void*, const float* x, const uint16_t*, uint32_t, float* out) {
  fake_port().now_ms += 30;
  *out = x[0] * x[1];
  return 0;
}

void push_during_steps(bool keeps_steps) {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "slow");
  };
  ApplicationMemory memory;
  Buffers buffers;
  const gs_problem problem = {"slow", nullptr, 3, 1, 5, slow_loss, nullptr, 0, nullptr};
  gs_config config = queue_config(memory, buffers);
  config.problem = gs_own_problem(&problem);
  std::vector<uint8_t> restore_buffer(1 << 16);
  config.has_storage = fake_port().has_storage = keeps_steps;
  config.restore_buffer = restore_buffer.data();
  config.restore_size = restore_buffer.size();
  ASSERT_EQ(gs_init(&config), GS_OK);
  float next = 1;
  uint32_t open_count = 0;
  uint32_t step_count = 0;
  bool was_open = false;
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 50000 && !status.run_finished; ++turn) {
    const std::vector<float> before = buffers.ring;
    const uint64_t wake_ms = gs_poll(fake_port().now_ms);
    gs_status(&status);
    EXPECT_TRUE(!(was_open && status.step_open) || buffers.ring == before) << "a step reads the ring";
    EXPECT_FALSE(status.local_steps != step_count && status.step_open) << "between two steps the queue is moved";
    step_count = status.local_steps;
    was_open = status.step_open;
    open_count += was_open ? 1 : 0;
    if (turn % 16 == 0) next += push(next) == GS_OK ? 1 : 0;
    world.pass(wake_ms);
  }
  EXPECT_TRUE(status.run_finished);
  EXPECT_GE(open_count, 4U * 2 * 4);
  gs_poll(fake_port().now_ms);
  float newest = 0;
  for (uint32_t i = 0; i < kRingCount; ++i) newest = std::max(newest, buffers.ring[size_t{i} * kValueCount]);
  EXPECT_EQ(newest, next - 1) << "what was taken is in the ring at last";
}

TEST(SamplePush, WaitsForALocalStep) { IN_A_PROCESS(push_during_steps(false)); }

TEST(SamplePush, WaitsForALocalStepThatIsKept) { IN_A_PROCESS(push_during_steps(true)); }

// One thread pushes, the other polls. Each sample is whole, and in the order in which it was pushed.
void push_from_a_thread() {
  constexpr uint32_t kPushCount = 20000;
  const FakeWorld world(run_of({3, 1}));
  ApplicationMemory memory;
  Buffers buffers;
  gs_config config = queue_config(memory, buffers);
  ASSERT_EQ(gs_init(&config), GS_OK);
  std::atomic<bool> is_done = false;
  uint32_t taken = 0;
  float last = 0;  // that was taken
  std::thread producer([&] {
    for (uint32_t i = 1; i <= kPushCount; ++i) {
      const gs_result result = push(static_cast<float>(i));
      last = result == GS_OK ? static_cast<float>(i) : last;
      taken += result == GS_OK ? 1 : 0;
      if (i % 64 == 0) std::this_thread::yield();
    }
    is_done = true;
  });
  float newest = 0;
  uint32_t polls = 0;
  for (bool is_last = false; !is_last; ++polls) {
    is_last = is_done;
    gs_poll(fake_port().now_ms);
    for (uint32_t i = 0; i < kRingCount; ++i) {
      const float* const row = &buffers.ring[size_t{i} * kValueCount];
      ASSERT_EQ(row[1], 2 * row[0]);
      ASSERT_EQ(row[2], -row[0]);
    }
    const float before = newest;
    for (uint32_t i = 0; i < kRingCount; ++i) newest = std::max(newest, buffers.ring[size_t{i} * kValueCount]);
    ASSERT_GE(newest, before);
    ASSERT_LT(polls, 100000000U);
  }
  producer.join();
  EXPECT_EQ(newest, last);
  EXPECT_EQ(taken + lost_count(), kPushCount);
}

TEST(SamplePush, TakesSamplesOfAThreadBesideGsPoll) { IN_A_PROCESS(push_from_a_thread()); }

}  // namespace
}  // namespace gradstream

// gs_threshold(): what it is, when it is there, and that it is there again after a reset.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "include/gradstream/device.h"
#include "include/gradstream/problem.h"
#include "tests/support/fake_application.h"

extern "C" int gs_test_c_alarm(const float* sample, float* score, float* prediction);

namespace gradstream {
namespace {

constexpr uint32_t kCount = 40;
constexpr Shape kShape = {6, 2};

// Samples that take a while to read, of which one is none.
struct SlowRows {
  std::vector<float> values = random_values(size_t{kCount} * kShape.rows, 11);
  uint32_t read_ms = 0;
  uint32_t bad_row = UINT32_MAX;
  gs_sample_source source = {this, kCount, kShape.rows, read};
  const float* row(uint32_t i) const { return &values[size_t{i} * kShape.rows]; }
  static int read(const void* context, uint32_t index, float* out) {
    const SlowRows& rows = *static_cast<const SlowRows*>(context);
    fake_port().now_ms += rows.read_ms;
    std::copy_n(rows.row(index), kShape.rows, out);
    out[1] = index == rows.bad_row ? std::nanf("") : out[1];
    return 0;
  }
};

// A device that has the model and no task: the server says that others were chosen.
struct IdleWorld : FakeWorld {
  IdleWorld() : FakeWorld(run_of(kShape)) { server.wait_count = UINT32_MAX; }
  // Turns with a model until gs_threshold() answers something else than GS_BUSY; each answer of gs_poll() is kept.
  gs_result run_to_threshold(float* out) {
    gs_model_view model;
    gs_result result = GS_BUSY;
    for (int turn = 0; turn < 20000 && result == GS_BUSY; ++turn) {
      const uint64_t wake_ms = gs_poll(fake_port().now_ms);
      pass(wake_ms);
      if (gs_model(&model)) {
        result = gs_threshold(out);
        EXPECT_EQ(result == GS_BUSY, wake_ms == GS_PENDING) << "it wants to be called again";
        busy_count += result == GS_BUSY ? 1 : 0;
      }
    }
    return result;
  }
  uint32_t busy_count = 0;
};

float quantile_of(const float* rows, uint32_t count, float q) {
  std::vector<float> scores;
  for (uint32_t i = 0; i < count; ++i) {
    float score = 0;
    if (gs_score(rows + size_t{i} * kShape.rows, &score) == GS_OK) scores.push_back(score);
  }
  std::sort(scores.begin(), scores.end());
  return scores.at(static_cast<size_t>(std::ceil(q * static_cast<float>(scores.size() - 1))));
}

void find_quantile(uint32_t read_ms) {
  IdleWorld world;
  ApplicationMemory memory;
  SlowRows rows;
  rows.read_ms = read_ms;
  rows.bad_row = 7;
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.threshold_quantile = 0.9F;
  float threshold = -1;
  EXPECT_EQ(gs_threshold(&threshold), GS_NO_MODEL) << "gs_init() is not done";
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_EQ(gs_threshold(&threshold), GS_NO_MODEL);
  EXPECT_EQ(gs_threshold(nullptr), GS_BAD_ARGUMENT);
  EXPECT_EQ(threshold, -1);
  ASSERT_EQ(world.run_to_threshold(&threshold), GS_OK);
  rows.values[7 * kShape.rows + 1] = std::nanf("");  // as it was read
  EXPECT_EQ(threshold, quantile_of(rows.values.data(), kCount, 0.9F));
  EXPECT_EQ(world.busy_count, read_ms == 0 ? 0U : kCount / 2 - 1) << "10 ms a poll are two samples of 6 ms";
  uint32_t alarms = 0;
  float score = 0;
  for (uint32_t i = 0; i < kCount; ++i) alarms += gs_test_c_alarm(rows.row(i), &score, nullptr) == 1 ? 1 : 0;
  EXPECT_EQ(alarms, 3U) << "a tenth of 39 at most";
}

TEST(Threshold, IsAQuantileOfTheOwnScores) { IN_A_PROCESS(find_quantile(0)); }

TEST(Threshold, TakesAShortPollEach) { IN_A_PROCESS(find_quantile(6)); }

// A reader of one sample at a time, such as a slow memory: a question for another one begins anew.
struct OneReader {
  static constexpr uint64_t kReadMs = 25;
  SlowRows rows;
  uint32_t asked = UINT32_MAX;
  uint64_t ready_ms = 0;
  uint32_t given_up = 0;
  gs_sample_source source = {this, kCount, kShape.rows, read};
  static int read(const void* context, uint32_t index, float* out) {
    OneReader& self = *static_cast<OneReader*>(const_cast<void*>(context));
    const uint64_t now_ms = ++fake_port().now_ms;
    if (self.asked != index) {
      self.given_up += self.asked != UINT32_MAX ? 1 : 0;
      self.asked = index;
      self.ready_ms = now_ms + kReadMs;
    }
    if (now_ms < self.ready_ms) return GS_UNFINISHED;
    self.asked = UINT32_MAX;
    std::copy_n(self.rows.row(index), kShape.rows, out);
    return 0;
  }
};

void read_one_at_a_time() {
  FakeWorld world(run_of(kShape));
  ApplicationMemory memory;
  OneReader reader;
  gs_config config = base_config(memory);
  config.samples = &reader.source;
  config.threshold_quantile = 0.9F;
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  float threshold = -1;
  for (int turn = 0; turn < 20000 && gs_threshold(&threshold) == GS_BUSY; ++turn) gs_poll(fake_port().now_ms);
  EXPECT_EQ(threshold, quantile_of(reader.rows.row(0), kCount, 0.9F));
  EXPECT_EQ(reader.given_up, 0U);
}

TEST(Threshold, LeavesAReaderToTheLocalStep) { IN_A_PROCESS(read_one_at_a_time()); }

void ask_for_none() {
  IdleWorld world;
  ApplicationMemory memory;
  SlowRows rows;
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  for (const float bad : {-0.1F, 1.1F, std::nanf("")}) {
    config.threshold_quantile = bad;
    EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT) << bad;
  }
  config.threshold_quantile = 0;
  ASSERT_EQ(gs_init(&config), GS_OK);
  float threshold = -1;
  EXPECT_EQ(world.run_to_threshold(&threshold), GS_NO_SAMPLES);
  float score = 0;
  EXPECT_EQ(gs_test_c_alarm(rows.row(0), &score, nullptr), -GS_NO_SAMPLES);
}

TEST(Threshold, IsNotThereWhereNoneIsWanted) { IN_A_PROCESS(ask_for_none()); }

void fill_a_ring() {
  IdleWorld world;
  ApplicationMemory memory;
  const SlowRows rows;
  std::vector<float> ring(size_t{kCount} * kShape.rows);
  gs_config config = base_config(memory);
  config.push_buffer = ring.data();
  config.push_capacity = kCount;
  config.push_dimension = kShape.rows;
  config.threshold_quantile = 0.5F;
  ASSERT_EQ(gs_init(&config), GS_OK);
  float threshold = -1;
  EXPECT_EQ(world.run_to_threshold(&threshold), GS_NO_SAMPLES);
  EXPECT_EQ(threshold, -1);
  uint32_t pushed = 0;
  for (const uint32_t count : {1U, 2U, 4U, 7U, 8U, kCount}) {
    for (; pushed < count; ++pushed) ASSERT_EQ(gs_sample_push(rows.row(pushed)), GS_OK);
    gs_poll(fake_port().now_ms);
    ASSERT_EQ(gs_threshold(&threshold), GS_OK);
    const uint32_t seen = count == 7 ? 4 : count;
    EXPECT_EQ(threshold, quantile_of(rows.values.data(), seen, 0.5F)) << count << ": again when they have doubled";
  }
}

TEST(Threshold, FollowsAGrowingRing) { IN_A_PROCESS(fill_a_ring()); }

// Also of a start that is refused when the queue is known already.
void push_after_a_refusal() {
  IdleWorld world;
  ApplicationMemory memory;
  const SlowRows rows;
  std::vector<float> ring(size_t{kCount} * kShape.rows);
  std::vector<float> queue(8 * kShape.rows);
  gs_config config = base_config(memory);
  config.push_buffer = ring.data();
  config.push_capacity = kCount;
  config.push_dimension = kShape.rows;
  config.queue_buffer = queue.data();
  config.queue_capacity = 8;
  config.threshold_quantile = 2;
  EXPECT_EQ(gs_init(&config), GS_BAD_ARGUMENT);
  EXPECT_EQ(gs_sample_push(rows.row(0)), GS_BAD_ARGUMENT) << "gs_init() is not done";
  config.threshold_quantile = 0.5F;
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_EQ(gs_sample_push(rows.row(0)), GS_OK);
  float threshold = -1;
  EXPECT_EQ(world.run_to_threshold(&threshold), GS_OK);
}

TEST(Threshold, TakesNoSampleBeforeTheStart) { IN_A_PROCESS(push_after_a_refusal()); }

// ---- After a reset ----

std::string state_path() { return testing::TempDir() + "threshold_test.state"; }

// What a process leaves to the next one: what is stored, then the score and the threshold of its last save.
struct Left {
  float score = 0;
  float threshold = 0;
};

void write_left(const Left& left) {
  std::ofstream file(state_path(), std::ios::binary);
  file.write(reinterpret_cast<const char*>(&left), sizeof(left));
  file.write(reinterpret_cast<const char*>(fake_port().storage.data()),
             static_cast<std::streamsize>(fake_port().storage.size()));
}

Left read_left() {
  std::ifstream file(state_path(), std::ios::binary);
  Left left;
  file.read(reinterpret_cast<char*>(&left), sizeof(left));
  fake_port().storage.assign(std::istreambuf_iterator<char>(file), {});
  return left;
}

gs_config stored_config(ApplicationMemory& memory, std::vector<uint8_t>& restore_buffer) {
  gs_config config = base_config(memory);
  config.has_storage = true;
  config.restore_buffer = restore_buffer.data();
  config.restore_size = restore_buffer.size();
  config.threshold_quantile = 0.75F;
  fake_port().has_storage = true;
  return config;
}

void train_to_a_save() {
  FakeWorld world(run_of(kShape));
  world.server.run.local_step_count = 20;
  ApplicationMemory memory;
  std::vector<uint8_t> restore_buffer(1 << 16);
  SlowRows rows;
  gs_config config = stored_config(memory, restore_buffer);
  config.samples = &rows.source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  Left left;
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 20000 && fake_port().storage.empty(); ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
  }
  gs_status(&status);
  ASSERT_FALSE(fake_port().storage.empty());
  ASSERT_EQ(gs_score(rows.row(0), &left.score), GS_OK);
  ASSERT_EQ(gs_threshold(&left.threshold), GS_OK);
  write_left(left);
}

void restart(bool has_padding) {
  IdleWorld world;
  ApplicationMemory memory;
  std::vector<uint8_t> restore_buffer(1 << 16);
  std::vector<float> ring(size_t{kCount} * kShape.rows);
  gs_config config = stored_config(memory, restore_buffer);
  const Left left = read_left();
  if (has_padding) fake_port().storage.resize(fake_port().storage.size() + 200, 0xff);
  config.push_buffer = ring.data();  // empty: the samples went with the power
  config.push_capacity = kCount;
  config.push_dimension = kShape.rows;
  ASSERT_EQ(gs_init(&config), GS_OK);
  float score = 0;
  float threshold = 0;
  const SlowRows rows;
  EXPECT_EQ(gs_score(rows.row(0), &score), GS_OK) << "at once, before the first gs_poll()";
  EXPECT_EQ(gs_threshold(&threshold), GS_OK);
  EXPECT_EQ(score, left.score);
  EXPECT_EQ(threshold, left.threshold);
  gs_poll(fake_port().now_ms);
  EXPECT_EQ(gs_threshold(&threshold), GS_OK) << "no sample is there to compute another one";
  EXPECT_EQ(threshold, left.threshold);
}

// The run is over: its last version has no task, and is saved all the same, once.
void train_to_the_end() {
  FakeWorld world(run_of(kShape));
  ApplicationMemory memory;
  std::vector<uint8_t> restore_buffer(1 << 16);
  SlowRows rows;
  gs_config config = stored_config(memory, restore_buffer);
  config.samples = &rows.source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  EXPECT_EQ(model.version, 4U);
  Left left;
  ASSERT_EQ(gs_score(rows.row(0), &left.score), GS_OK);
  ASSERT_EQ(gs_threshold(&left.threshold), GS_OK);
  write_left(left);
  fake_port().storage.clear();
  for (int turn = 0; turn < 10; ++turn) gs_poll(fake_port().now_ms);
  EXPECT_TRUE(fake_port().storage.empty()) << "no second time";
}

// The quantile was another one, or the record is damaged: it is computed anew.
void restart_without_the_record(bool is_damaged) {
  IdleWorld world;
  ApplicationMemory memory;
  std::vector<uint8_t> restore_buffer(1 << 16);
  SlowRows rows;
  gs_config config = stored_config(memory, restore_buffer);
  static_cast<void>(read_left());
  config.threshold_quantile = is_damaged ? 0.75F : 0.5F;
  if (is_damaged) fake_port().storage.back() ^= 1;
  config.samples = &rows.source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  float threshold = -1;
  EXPECT_NE(gs_threshold(&threshold), GS_OK);
  gs_poll(fake_port().now_ms);
  ASSERT_EQ(gs_threshold(&threshold), GS_OK);
  EXPECT_EQ(threshold, quantile_of(rows.values.data(), kCount, config.threshold_quantile));
}

// An image for another problem, whose samples happen to have a fitting length: 6 features and 2 targets.
void restart_with_another_problem() {
  IdleWorld world;
  ApplicationMemory memory;
  std::vector<uint8_t> restore_buffer(1 << 16);
  std::vector<float> ring(size_t{kCount} * 8);
  gs_config config = stored_config(memory, restore_buffer);
  static_cast<void>(read_left());
  config.push_buffer = ring.data();
  config.push_capacity = kCount;
  config.push_dimension = 8;
  config.problem = &gs_least_squares;
  ASSERT_EQ(gs_init(&config), GS_OK);
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  const float sample[8] = {};
  float score = -1;
  float threshold = -1;
  EXPECT_EQ(gs_score(sample, &score), GS_OTHER_MODEL);
  EXPECT_EQ(gs_threshold(&threshold), GS_OTHER_MODEL);
}

TEST(Threshold, IsThereAgainAfterAReset) {
  IN_A_PROCESS(train_to_a_save());
  IN_A_PROCESS(restart(false));
  IN_A_PROCESS(restart(true));
  IN_A_PROCESS(restart_without_the_record(false));
  IN_A_PROCESS(restart_without_the_record(true));
  IN_A_PROCESS(restart_with_another_problem());
  IN_A_PROCESS(train_to_the_end());
  IN_A_PROCESS(restart(false));
  std::filesystem::remove(state_path());
}

}  // namespace
}  // namespace gradstream

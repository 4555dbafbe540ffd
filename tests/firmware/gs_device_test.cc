// Several devices in one process, each behind an object, over the port of applications in C. The clock is one for all,
// and each device has a pipe, a TLS server and a server of its own.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/floors.h"
#include "include/gradstream/device.h"
#include "include/gradstream/port.h"
#include "runtime/link/port.h"
#include "tests/support/fake_application.h"
#include "tests/support/fake_world.h"

namespace gradstream {

FakePort& fake_port() {
  static FakePort port;
  return port;
}

// Of client_main(), which is linked for its floors alone.
void port_sleep_until_ms(uint64_t) { std::abort(); }

namespace {

constexpr int kTurnsMax = 20000;

// A device with all that it meets.
struct Bench {
  explicit Bench(uint32_t number) : world(run_of({3, 1})) {
    for (uint32_t i = 0; i < 5 * 3; ++i) {
      values.push_back(static_cast<float>((7 * i + 5 * number) % 11) / 4 - 1);
    }
    source = {this, 5, 3, [](const void* context, uint32_t index, float* out) {
                std::memcpy(out, static_cast<const Bench*>(context)->values.data() + 3 * index, 3 * sizeof(float));
                return 0;
              }};
    port = {sizeof port,
            this,
            "server.test:7433",
            true,
            open_link,
            read_link,
            write_link,
            close_link,
            write_state,
            read_state,
            nullptr,
            nullptr,
            [](void* context, const char* line) { of(context).lines.emplace_back(line); }};
    config = base_config(memory);
    config.samples = &source;
    config.restore_buffer = restore.data();
    config.restore_size = restore.size();
  }
  Bench(const Bench&) = delete;  // its port points to it
  Bench& operator=(const Bench&) = delete;
  ~Bench() { gs_device_close(device); }

  gs_result start() { return gs_device_init(&room, sizeof room, &config, &port, &device); }
  void turn() { world.pass(gs_device_poll(device, fake_port().now_ms)); }
  gs_status_view status() const {
    gs_status_view out = {};
    out.size = sizeof out;
    EXPECT_EQ(gs_device_status(device, &out), GS_OK);
    return out;
  }
  bool has_line(const char* text) const {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }

  FakeWorld world;
  ApplicationMemory memory;
  std::vector<float> values;
  gs_sample_source source = {};
  gs_port port = {};
  gs_config config = {};
  gs_device_memory room = {};
  gs_device* device = nullptr;
  std::vector<uint8_t> restore = std::vector<uint8_t>(1 << 16);
  std::vector<uint8_t> state;
  std::vector<std::string> lines;
  bool is_open = false;       // the link
  uint32_t stray_writes = 0;  // to a link that is closed

 private:
  static Bench& of(void* context) { return *static_cast<Bench*>(context); }
  static int32_t answer(const Result<size_t>& size) {
    return size.ok()                              ? static_cast<int32_t>(size.value())
           : size.status() == Status::kWouldBlock ? GS_PORT_WOULD_BLOCK
                                                  : GS_PORT_CLOSED;
  }
  static int32_t open_link(void* context) {
    of(context).is_open = true;
    const Transport link = of(context).world.pipe.transport();
    return link.ops->open(link.context) == Status::kOk ? 1 : GS_PORT_NO_ADDRESS;
  }
  static int32_t read_link(void* context, uint8_t* out, size_t size) {
    const Transport link = of(context).world.pipe.transport();
    return answer(link.ops->read(link.context, out, size));
  }
  static int32_t write_link(void* context, const uint8_t* bytes, size_t size) {
    of(context).stray_writes += of(context).is_open ? 0 : 1;
    const Transport link = of(context).world.pipe.transport();
    return answer(link.ops->write(link.context, bytes, size));
  }
  static void close_link(void* context) {
    of(context).is_open = false;
    const Transport link = of(context).world.pipe.transport();
    link.ops->close(link.context);
  }
  static int32_t write_state(void* context, const gs_port_piece* pieces, size_t count) {
    std::vector<uint8_t>& state = of(context).state;
    state.clear();
    std::for_each(pieces, pieces + count, [&](const gs_port_piece& piece) {
      state.insert(state.end(), piece.bytes, piece.bytes + piece.size);
    });
    return 1;
  }
  static int32_t read_state(void* context, uint8_t* out, size_t capacity) {
    const std::vector<uint8_t>& state = of(context).state;
    std::copy_n(state.begin(), std::min(capacity, state.size()), out);
    return static_cast<int32_t>(state.size());
  }
};

using Benches = std::vector<std::unique_ptr<Bench>>;

// All of them exist before one starts: each sets the clock.
Benches make_benches(uint32_t count) {
  Benches benches;
  for (uint32_t i = 0; i < count; ++i) {
    benches.push_back(std::make_unique<Bench>(i));
  }
  return benches;
}

bool run_all(Benches& benches) {
  for (int turn = 0; turn < kTurnsMax; ++turn) {
    bool is_over = true;
    for (const std::unique_ptr<Bench>& bench : benches) {
      if (bench->device != nullptr && !bench->status().run_finished) {
        bench->turn();
        is_over = false;
      }
    }
    if (is_over) {
      return true;
    }
  }
  return false;
}

// The digests of `count` devices that trained in one process.
std::vector<uint64_t> digests_of(uint32_t count) {
  Benches benches = make_benches(count);
  for (const std::unique_ptr<Bench>& bench : benches) {
    EXPECT_EQ(bench->start(), GS_OK);
  }
  EXPECT_TRUE(run_all(benches));
  std::vector<uint64_t> digests;
  for (const std::unique_ptr<Bench>& bench : benches) {
    EXPECT_EQ(bench->status().updates_folded, 4u);
    digests.push_back(bench->status().digest);
  }
  return digests;
}

// The device that needs no object: the functions of the port that have no context are about it.
Bench* image = nullptr;

void train_image(uint32_t number, uint64_t digest) {
  Bench bench(number);
  image = &bench;
  fake_port().transport = bench.world.pipe.transport();
  ASSERT_EQ(gs_init(&bench.config), GS_OK);
  ASSERT_TRUE(run_to_end(bench.world));
  gs_status_view status = {};
  status.size = sizeof status;
  gs_status(&status);
  EXPECT_EQ(status.digest, digest);
}

TEST(GsDevice, TwoAndEightInOneProcessEachTrainAsTheOnlyOneOfAProcess) {
  const std::vector<uint64_t> two = digests_of(2);
  const std::vector<uint64_t> eight = digests_of(8);
  EXPECT_TRUE(std::equal(two.begin(), two.end(), eight.begin()));
  EXPECT_NE(two[0], two[1]) << "the samples differ";
  for (uint32_t i = 0; i < eight.size(); ++i) {
    IN_A_PROCESS(train_image(i, eight[i])) << i;
  }
}

TEST(GsDevice, WhatHappensToOneDoesNotTouchAnother) {
  const std::vector<uint64_t> alone = digests_of(4);
  Benches benches = make_benches(4);
  Bench& refused = *benches[0];
  Bench& unreachable = *benches[1];
  Bench& cut = *benches[2];
  std::string other_key = kIdentityText;
  other_key.replace(other_key.rfind("07"), 2, "08");
  refused.config.identity_text = other_key.data();
  unreachable.world.pipe.refuses = true;
  for (const std::unique_ptr<Bench>& bench : benches) {
    ASSERT_EQ(bench->start(), GS_OK);
  }
  cut.world.pipe.drop_after = 2000;
  for (int turn = 0; turn < kTurnsMax && !(cut.status().run_finished && benches[3]->status().run_finished); ++turn) {
    for (const std::unique_ptr<Bench>& bench : benches) bench->turn();
  }
  EXPECT_EQ(cut.status().digest, alone[2]);
  EXPECT_GT(cut.status().connection_failures, 0u);
  EXPECT_EQ(benches[3]->status().digest, alone[3]);
  EXPECT_EQ(benches[3]->status().connection_failures, 0u);
  EXPECT_EQ(refused.status().sessions, 0u);
  EXPECT_NE(std::string(refused.status().last_fault).find("identity"), std::string::npos);
  EXPECT_EQ(unreachable.status().bytes_sent, 0u);
  EXPECT_NE(std::string(unreachable.status().last_fault).find("no address"), std::string::npos);
  EXPECT_TRUE(cut.has_line("event=link_lost")) << "each has a log of its own";
  EXPECT_FALSE(benches[3]->has_line("event=link_lost"));
  EXPECT_TRUE(fake_port().lines.empty());
}

TEST(GsDevice, RefusesWhatItCannotMakeADeviceOf) {
  Bench bench(0);
  const auto make = [&](void* memory, size_t size) {
    return gs_device_init(memory, size, &bench.config, &bench.port, &bench.device);
  };
  EXPECT_LE(gs_device_size(), sizeof bench.room);
  EXPECT_EQ(make(&bench.room, gs_device_size() - 1), GS_SMALL_MEMORY);
  EXPECT_EQ(make(&bench.room, 0), GS_SMALL_MEMORY);
  EXPECT_EQ(make(reinterpret_cast<uint8_t*>(&bench.room) + 4, gs_device_size()), GS_BAD_ARGUMENT) << "not aligned";
  EXPECT_EQ(make(nullptr, sizeof bench.room), GS_BAD_ARGUMENT);
  EXPECT_EQ(gs_device_init(&bench.room, sizeof bench.room, nullptr, &bench.port, &bench.device), GS_BAD_ARGUMENT);
  EXPECT_EQ(gs_device_init(&bench.room, sizeof bench.room, &bench.config, nullptr, &bench.device), GS_BAD_ARGUMENT);
  EXPECT_EQ(gs_device_init(&bench.room, sizeof bench.room, &bench.config, &bench.port, nullptr), GS_BAD_ARGUMENT);
  const auto refuses = [&](const std::function<void(gs_config&, gs_port&)>& change) {
    gs_config config = bench.config;
    gs_port port = bench.port;
    change(config, port);
    const gs_result result = gs_device_init(&bench.room, sizeof bench.room, &config, &port, &bench.device);
    EXPECT_EQ(bench.device, nullptr);
    return result;
  };
  EXPECT_EQ(refuses([](gs_config& config, gs_port&) { config.size = 0; }), GS_BAD_SIZE);
  EXPECT_EQ(refuses([](gs_config& config, gs_port&) { ++config.size; }), GS_BAD_SIZE);
  EXPECT_EQ(refuses([](gs_config&, gs_port& port) { port.size = 0; }), GS_BAD_SIZE);
  EXPECT_EQ(refuses([](gs_config&, gs_port& port) { ++port.size; }), GS_BAD_SIZE);
  EXPECT_EQ(refuses([](gs_config&, gs_port& port) { port.link_read = nullptr; }), GS_BAD_ARGUMENT);
  EXPECT_EQ(refuses([](gs_config&, gs_port& port) { port.link_write = nullptr; }), GS_BAD_ARGUMENT);
  EXPECT_EQ(refuses([](gs_config& config, gs_port&) {
              config.has_storage = true;
              config.restore_buffer = nullptr;
            }),
            GS_BAD_ARGUMENT)
      << "the pool of TLS is no buffer here";
  EXPECT_EQ(refuses([](gs_config& config, gs_port&) {
              config.identity_text = "identity = x\nkey = 1\n";
              config.identity_size = std::strlen(config.identity_text);
            }),
            GS_BAD_IDENTITY);
  EXPECT_EQ(gs_identity_line(), 2u);
  EXPECT_EQ(bench.start(), GS_OK) << "the memory is free again";
}

// Each keeps its state by its own port, and goes on from there.
TEST(GsDevice, EachHasAStateOfItsOwn) {
  Benches benches = make_benches(2);
  for (const std::unique_ptr<Bench>& bench : benches) {
    bench->config.has_storage = true;
    ASSERT_EQ(bench->start(), GS_OK);
  }
  ASSERT_TRUE(run_all(benches));
  EXPECT_NE(benches[0]->state, benches[1]->state);
  for (const std::unique_ptr<Bench>& bench : benches) {
    const uint64_t digest = bench->status().digest;
    ASSERT_FALSE(bench->state.empty());
    gs_device_close(bench->device);
    ASSERT_EQ(bench->start(), GS_OK);
    EXPECT_EQ(bench->status().digest, digest);
    EXPECT_EQ(bench->status().version, 4u);
    EXPECT_EQ(bench->status().sessions, 0u);
  }
}

TEST(GsDevice, ADeviceThatIsClosedSaysSoToItsServerAndOthersGoOn) {
  const std::vector<uint64_t> alone = digests_of(2);
  Benches benches = make_benches(2);
  for (const std::unique_ptr<Bench>& bench : benches) ASSERT_EQ(bench->start(), GS_OK);
  Bench& closed = *benches[0];
  for (int turn = 0; turn < kTurnsMax && closed.status().version < 2; ++turn) {
    for (const std::unique_ptr<Bench>& bench : benches) bench->turn();
  }
  ASSERT_TRUE(closed.status().connected);
  const uint32_t writes = closed.world.pipe.writes;
  gs_device_close(closed.device);
  closed.device = nullptr;
  EXPECT_EQ(closed.world.pipe.writes, writes + 1) << "the end of its session";
  EXPECT_EQ(closed.stray_writes, 0u);
  EXPECT_FALSE(closed.is_open);
  ASSERT_TRUE(run_all(benches));
  EXPECT_EQ(benches[1]->status().digest, alone[1]);
  ASSERT_EQ(closed.start(), GS_OK) << "its memory is free";
  ASSERT_TRUE(run_all(benches));
  EXPECT_EQ(closed.status().version, 4u);
}

// An own loss, (x - target)^2 summed, and what its callbacks see meanwhile.
struct Target {
  float value = 0;
  gs_device* const* device = nullptr;
  gs_device* const* pushed = nullptr;
  mutable uint32_t calls = 0;
  mutable uint32_t question = 0;
  mutable uint32_t strangers = 0;  // calls in which a function without a device was about another one
};

int target_loss(const void* context, const float* x, const uint16_t*, uint32_t, float* out) {
  const auto& target = *static_cast<const Target*>(context);
  gs_model_view here = {};
  gs_model_view mine = {};
  const bool has_model = gs_model(&here) && gs_device_model(*target.device, &mine);
  target.strangers += has_model && here.values != mine.values ? 1 : 0;
  target.strangers += gs_question() < target.question ? 1 : 0;
  target.question = gs_question();
  ++target.calls;
  if (target.pushed != nullptr) {
    const float sample[3] = {1, 2, 3};
    (void)gs_device_sample_push(*target.pushed, sample);
  }
  *out = 0;
  for (int i = 0; i < 3; ++i) *out += (x[i] - target.value) * (x[i] - target.value);
  return 0;
}

TEST(GsDevice, EachMayHaveAnOwnLossAndItsCallbacksAreAboutIt) {
  Benches benches = make_benches(2);
  Target targets[2];
  for (size_t i = 0; i < 2; ++i) {
    targets[i].value = i == 0 ? 1.0F : -1.0F;
    targets[i].device = &benches[i]->device;
    gs_problem problem = {};
    problem.name = "kpca";  // of the fake run
    problem.context = &targets[i];
    problem.rows = 3;
    problem.cols = 1;
    problem.sample_count = 5;
    problem.loss = target_loss;
    benches[i]->config.problem = gs_own_problem(&problem);
    ASSERT_EQ(benches[i]->start(), GS_OK);
  }
  ASSERT_TRUE(run_all(benches));
  EXPECT_NE(benches[0]->status().digest, benches[1]->status().digest);
  for (const Target& target : targets) {
    EXPECT_GT(target.calls, 0u);
    EXPECT_EQ(target.strangers, 0u);
  }
  EXPECT_EQ(targets[0].question, targets[1].question) << "each counts its own";
}

// An apparatus that never answers, or a loss that computes without end.
struct Plant {
  int answer = GS_MEASURING;
  gs_device* const* device = nullptr;
  mutable std::vector<uint32_t> asked = {};
  mutable std::vector<uint32_t> cancelled = {};
  mutable uint64_t digest = 0;  // that cancel saw
};

int plant_loss(const void* context, const float*, const uint16_t*, uint32_t, float*) {
  static_cast<const Plant*>(context)->asked.push_back(gs_question());
  fake_port().now_ms += 50;  // longer than a poll goes on with a step
  return static_cast<const Plant*>(context)->answer;
}

void plant_cancel(const void* context, uint32_t question) {
  const auto& plant = *static_cast<const Plant*>(context);
  gs_status_view status = {};
  status.size = sizeof status;
  EXPECT_EQ(gs_device_status(*plant.device, &status), GS_OK) << "callbacks may call it";
  plant.digest = status.digest;
  plant.cancelled.push_back(question);
  EXPECT_EQ(gs_question(), question);
}

void ask_plant(Bench& bench, const Plant& plant) {
  gs_problem problem = {};
  problem.name = "kpca";  // of the fake run
  problem.context = &plant;
  problem.rows = 3;
  problem.cols = 1;
  problem.sample_count = 5;
  problem.loss = plant_loss;
  problem.cancel = plant_cancel;
  bench.config.problem = gs_own_problem(&problem);
  ASSERT_EQ(bench.start(), GS_OK);
  for (int turn = 0; turn < kTurnsMax && plant.asked.size() < 2; ++turn) bench.turn();
  ASSERT_EQ(plant.asked, (std::vector<uint32_t>{1, 1})) << "one question, asked again";
}

TEST(GsDevice, ADeviceThatIsClosedStopsItsMeasurement) {
  Plant plants[2];  // before the devices, whose end stops what is measured
  Benches benches = make_benches(2);
  for (size_t i = 0; i < 2; ++i) {
    plants[i].device = &benches[i]->device;
    ask_plant(*benches[i], plants[i]);
  }
  gs_device_close(benches[0]->device);
  EXPECT_EQ(plants[0].cancelled, (std::vector<uint32_t>{1})) << "once, with the question's number";
  EXPECT_NE(plants[0].digest, 0u) << "the device is whole until then";
  EXPECT_EQ(benches[0]->world.server.uploads.size(), 0u);
  EXPECT_TRUE(plants[1].cancelled.empty()) << "the other device's goes on";
  ASSERT_EQ(benches[0]->start(), GS_OK) << "its memory is free";
  gs_device_close(benches[0]->device);
  benches[0]->device = nullptr;
  EXPECT_EQ(plants[0].cancelled.size(), 1u) << "nothing waited";
}

TEST(GsDevice, ADeviceThatIsClosedCancelsNoLossThatComputes) {
  Benches benches = make_benches(1);
  Plant plant;
  plant.answer = GS_UNFINISHED;
  plant.device = &benches[0]->device;
  ask_plant(*benches[0], plant);
  gs_device_close(benches[0]->device);
  benches[0]->device = nullptr;
  EXPECT_TRUE(plant.cancelled.empty());
}

// As an interrupt does it: the sample goes to its device, whichever is at work.
TEST(GsDevice, ASampleGoesToItsDeviceWhileAnotherOneIsAtWork) {
  Benches benches = make_benches(2);
  Bench& trains = *benches[0];
  Bench& listens = *benches[1];
  float queue[2 * 3] = {};
  listens.config.samples = nullptr;
  listens.config.push_buffer = listens.memory.ring.data();
  listens.config.push_capacity = 5;
  listens.config.push_dimension = 3;
  listens.config.queue_buffer = queue;
  listens.config.queue_capacity = 2;
  ASSERT_EQ(listens.start(), GS_OK);
  Target target;
  target.device = &trains.device;
  target.pushed = &listens.device;
  gs_problem problem = {};
  problem.name = "kpca";
  problem.context = &target;
  problem.rows = 3;
  problem.cols = 1;
  problem.sample_count = 5;
  problem.loss = target_loss;
  trains.config.problem = gs_own_problem(&problem);
  ASSERT_EQ(trains.start(), GS_OK);
  for (int turn = 0; turn < kTurnsMax && !trains.status().run_finished; ++turn) trains.turn();
  ASSERT_GT(target.calls, 2u);
  EXPECT_EQ(listens.status().samples_lost, target.calls - 2) << "the queue holds two";
  EXPECT_EQ(trains.status().samples_lost, 0u);
  EXPECT_EQ(listens.memory.ring[0], 0.0F);
  listens.turn();
  EXPECT_EQ(listens.memory.ring[5], 3.0F) << "gs_device_poll() moves them to the ring";
}

TEST(GsDevice, EachTellsItsModelsAndScoresByThem) {
  Benches benches = make_benches(2);
  uint32_t versions[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    benches[i]->config.threshold_quantile = 0.5F;
    ASSERT_EQ(benches[i]->start(), GS_OK);
    gs_device_on_model(
        benches[i]->device,
        [](void* context, const gs_model_view* model) { *static_cast<uint32_t*>(context) = model->version; },
        &versions[i]);
  }
  for (int turn = 0; turn < kTurnsMax && !benches[0]->status().run_finished; ++turn) benches[0]->turn();
  EXPECT_EQ(versions[0], 4u);
  EXPECT_EQ(versions[1], 0u);
  float scores[2] = {-1, -1};
  float threshold = -1;
  const float* const sample = benches[0]->values.data();
  EXPECT_EQ(gs_device_score(benches[0]->device, sample, &scores[0]), GS_OK);
  EXPECT_EQ(gs_device_score(benches[1]->device, sample, &scores[1]), GS_NO_MODEL);
  EXPECT_EQ(gs_device_predict(benches[0]->device, sample, &scores[1]), GS_NO_SCORE) << "kpca predicts nothing";
  for (int turn = 0; turn < kTurnsMax && gs_device_threshold(benches[0]->device, &threshold) == GS_BUSY; ++turn) {
    benches[0]->turn();
  }
  EXPECT_EQ(gs_device_threshold(benches[1]->device, &threshold), GS_NO_MODEL);
  EXPECT_GE(threshold, 0);
  EXPECT_GE(scores[0], 0);
  ASSERT_TRUE(run_all(benches));
  EXPECT_EQ(versions[1], 4u);
  float other = -1;
  EXPECT_EQ(gs_device_score(benches[1]->device, sample, &other), GS_OK);
  EXPECT_NE(other, scores[0]) << "by its own model";
}

void train_image_beside_objects() {
  Benches benches = make_benches(2);
  Bench bench(2);
  image = &bench;
  fake_port().transport = bench.world.pipe.transport();
  ASSERT_EQ(benches[0]->start(), GS_OK);
  bench.config.has_storage = true;
  bench.config.restore_buffer = nullptr;
  EXPECT_EQ(gs_init(&bench.config), GS_BAD_ARGUMENT) << "the pool of TLS may be in use";
  bench.config.has_storage = false;
  ASSERT_EQ(gs_init(&bench.config), GS_OK);
  ASSERT_EQ(benches[1]->start(), GS_OK);
  bench.world.pipe.drop_after = 2000;
  ASSERT_TRUE(run_to_end(bench.world));
  ASSERT_TRUE(run_all(benches));
  gs_model_view model = {};
  gs_model_view other = {};
  ASSERT_TRUE(gs_model(&model));
  ASSERT_TRUE(gs_device_model(benches[0]->device, &other));
  EXPECT_NE(model.values, other.values);
  EXPECT_TRUE(bench.world.has_line("event=link_lost")) << "in the process's log";
  EXPECT_FALSE(benches[0]->has_line("event=link_lost"));
}

TEST(GsDevice, StandsBesideTheDeviceThatNeedsNoObject) { IN_A_PROCESS(train_image_beside_objects()); }

}  // namespace
}  // namespace gradstream

// ---- The port of the process ----

using gradstream::fake_port;

extern "C" {
uint64_t gs_port_now_ms(void) { return fake_port().now_ms; }
bool gs_port_random(uint8_t*, size_t) { return false; }
bool gs_port_link_can_dial(void) { return true; }
int32_t gs_port_link_read(uint8_t* out, size_t size) {
  return gradstream::image->port.link_read(gradstream::image, out, size);
}
int32_t gs_port_link_write(const uint8_t* bytes, size_t size) {
  return gradstream::image->port.link_write(gradstream::image, bytes, size);
}
void gs_port_log(const char* line) { fake_port().lines.emplace_back(line); }
}

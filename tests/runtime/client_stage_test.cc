// A device passes through the stages before training: what it answers, what it takes over, and what a power cut costs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "runtime/problem/holdout.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {8, 2};
constexpr TaskStage kPlan[] = {TaskStage::kExponents, TaskStage::kSums,   TaskStage::kSquares,
                               TaskStage::kStart,     TaskStage::kTrials, TaskStage::kTrain};

// A run whose versions before training are made by stages: each of them has the same model. A stage's answer makes the
// next version. The table is that of one device.
struct StageServer {
  StageServer() : server(FakeRun{}) {
    GS_ASSERT(replica.prepare(kStiefelOps, kShape, memory.arena, false, part_bit(ModelPart::kDirection)) ==
              Status::kOk);
    std::copy_n(server.model().model(), kShape.size(), replica.begin_snapshot());
    replica.adopt_snapshot(0);
    digests.push_back(replica.digest());
    server.edit = [](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_welcome_tag) {
        message.body.welcome.units = 7;
        message.body.welcome.lines = true;
        message.body.welcome.holdout = kHoldout;
        message.body.welcome.correction = gs_Correction_CORRECTION_LOCAL;
        message.body.welcome.model_parts = part_bit(ModelPart::kUnits) | part_bit(ModelPart::kDirection);
      }
    };
    server.intercept = [this](const DeviceMessage& message) {
      switch (message.which_body) {
        case gs_DeviceMessage_pull_tag:
          on_pull(message.body.pull);
          return true;
        case gs_DeviceMessage_update_tangent_tag:
          on_answer(message.body.update_tangent);
          return true;
        case gs_DeviceMessage_update_scalars_tag:
          on_answer(message.body.update_scalars);
          return true;
        case gs_DeviceMessage_task_refused_tag:
          refusals.push_back(message.body.task_refused);
          advance();
          server.send(server.make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
          return true;
        default:
          return false;
      }
    };
  }

  bool is_done() const { return version == std::size(kPlan); }
  static TaskStage stage_of(uint32_t at) { return kPlan[std::min<size_t>(at, std::size(kPlan) - 1)]; }
  TaskStage stage() const { return stage_of(version); }
  uint64_t digest() const {
    return digest_units(replica.digest(), {table.data(), static_cast<uint32_t>(table.size())});
  }

  void send_part(ModelPart part, std::span<const uint8_t> bytes, uint32_t parts) {
    for (size_t offset = 0; offset < bytes.size(); offset += 64) {
      ServerMessage message = FakeServer::make(gs_ServerMessage_snapshot_chunk_tag);
      gs_SnapshotChunk& chunk = message.body.snapshot_chunk;
      chunk.version = version;
      chunk.part = static_cast<gs_ModelPart>(part);
      chunk.offset = static_cast<uint32_t>(offset);
      chunk.total = static_cast<uint32_t>(bytes.size());
      chunk.parts = parts;
      chunk.digest = digest();
      chunk.values.size = static_cast<pb_size_t>(std::min<size_t>(64, bytes.size() - offset));
      std::memcpy(chunk.values.bytes, bytes.data() + offset, chunk.values.size);
      server.send(message);
    }
  }
  static std::span<const uint8_t> bytes_of(const void* values, size_t size) {
    return {static_cast<const uint8_t*>(values), size};
  }
  void send_version(bool has_model) {
    const Real* const direction = replica.part(ModelPart::kDirection);
    const uint32_t parts = (has_model ? part_bit(ModelPart::kModel) : 0) |
                           (table.empty() ? 0 : part_bit(ModelPart::kUnits)) |
                           (direction == nullptr ? 0 : part_bit(ModelPart::kDirection));
    ++(has_model ? snapshots : part_snapshots);
    if (has_model) {
      send_part(ModelPart::kModel, bytes_of(replica.model(), kShape.size() * sizeof(Real)), parts);
    }
    if (!table.empty()) {
      send_part(ModelPart::kUnits, bytes_of(table.data(), table.size() * kUnitsColumnSize), parts);
    }
    if (direction != nullptr) {
      send_part(ModelPart::kDirection, bytes_of(direction, kShape.size() * sizeof(Real)), parts);
    }
  }

  void on_pull(const gs_Pull& pull) {
    const bool is_known = pull.has_model && pull.version <= version && pull.digest == digests[pull.version];
    if (!is_known || pull.version != version) {
      send_version(!is_known || pull.version + 1 != version || table.empty());
    }
    if (is_done()) {
      return server.send(server.make_wait(gs_WAIT_CAUSE_FINISHED));
    }
    ServerMessage message = server.make_task();
    gs_Task& task = message.body.task;
    task.task_sequence = version + 1;
    task.version = version;
    task.digest = digest();
    task.stage = static_cast<gs_Stage>(stage());
    task.use_correction = stage() == TaskStage::kTrain;
    task.step_size = stage() == TaskStage::kStart ? 0 : stage() == TaskStage::kTrials ? 2.5F : 0.05F;
    server.send(message);
  }

  template <typename Update>
  void on_answer(const Update& update) {
    if (update.first_value == 0) {
      upload.clear();
    }
    upload.insert(upload.end(), update.values.bytes, update.values.bytes + update.values.size);
    const auto encoding = static_cast<Encoding>(update.encoding);
    if (upload.size() < encoded_size(encoding, update.value_count)) {
      return;
    }
    EXPECT_EQ(crc32c(0, upload.data(), upload.size()), update.crc32c);
    const uint32_t answered = update.task_sequence - 1;
    const auto [known, is_new] = answers.emplace(answered, upload);
    EXPECT_EQ(known->second, upload) << "sent again, byte for byte";
    EXPECT_EQ(update.has_line, stage_of(answered) == TaskStage::kStart) << "no version was made by a step";
    if (update.has_line) {
      smoothing = {update.line.slope, update.line.curvature};
    }
    EXPECT_EQ(update.base_version, answered);
    ServerMessage message = FakeServer::make(gs_ServerMessage_ack_tag);
    message.body.ack.task_sequence = update.task_sequence;
    message.body.ack.verdict = gs_VERDICT_FOLDED;
    message.body.ack.version = update.base_version + 1;
    message.body.ack.has_retry = true;
    message.body.ack.retry = {10, 50};
    server.send(message);
    if (answered == version) {
      encodings.push_back(encoding);
      learn(known->second);
      advance();
    }
  }

  // The table of this one answer.
  void learn(const Bytes& answer) {
    if (!is_units_stage(stage())) {
      return;
    }
    std::vector<int64_t> words(answer.size() / 8);
    load_long_words(words.size(), answer.data(), words.data());
    table.resize(kShape.rows);
    for (uint32_t i = 0; i < kShape.rows; ++i) {
      UnitsColumn& column = table[i];
      if (stage() == TaskStage::kExponents) {
        column = {static_cast<int32_t>(words[1 + i]), 0, 0};
      } else if (stage() == TaskStage::kSums) {
        column.mean = static_cast<float>(static_cast<double>(words[1 + i]) / static_cast<double>(words[0]) *
                                         std::ldexp(1.0, column.exponent - 30));
      } else {
        column.factor = 1.0F / static_cast<float>(1 + i);
      }
    }
  }
  void advance() {
    const bool makes_direction = stage() == TaskStage::kStart;
    ++version;
    const std::vector<Real> direction = random_values(kShape.size(), 17);
    if (makes_direction) {
      std::copy(direction.begin(), direction.end(), replica.part_buffer(ModelPart::kDirection));
    }
    replica.adopt_parts(version, makes_direction ? part_bit(ModelPart::kDirection) : 0);
    digests.push_back(digest());
  }

  static constexpr uint32_t kHoldout = 16384;
  FakeServer server;
  TestArena memory;
  Replica replica;
  std::vector<UnitsColumn> table;
  std::vector<uint64_t> digests;
  uint32_t version = 0;
  uint32_t snapshots = 0;
  uint32_t part_snapshots = 0;
  Bytes upload;
  std::map<uint32_t, Bytes> answers;  // by version
  std::vector<Encoding> encodings;
  std::vector<gs_TaskRefused> refusals;
  LossLine smoothing;  // of START
};

struct StagedDevice {
  StagedDevice() : link(device, peer.server) {
    device.config.registry.stages = &kStageForm;
    link.restart();
  }
  bool run() {
    return link.run_until([&] { return link.client().run_finished(); });
  }
  StageServer peer;
  FakeDevice device;
  FakeLink link;
};

uint32_t trained_count(const TestSamples& samples) {
  uint16_t indices[kEvaluationSampleMax];
  return fill_evaluation_samples(samples.source.count, StageServer::kHoldout, indices);
}

TEST(ClientStage, EveryStageIsAnsweredAndTheTableTakenOver) {
  StagedDevice staged;
  ASSERT_TRUE(staged.run());
  const StageServer& peer = staged.peer;
  ASSERT_EQ(peer.answers.size(), std::size(kPlan));
  const std::vector<Encoding> encodings = {Encoding::kWords, Encoding::kWords, Encoding::kWords,
                                           Encoding::kF32,   Encoding::kF32,   Encoding::kF32};
  EXPECT_EQ(peer.encodings, encodings);
  EXPECT_EQ(peer.answers.at(0).size(), 8U * (1 + 8));
  EXPECT_EQ(peer.answers.at(1).size(), 8U * (1 + 3 * 8)) << "with ranges";
  EXPECT_EQ(peer.answers.at(2).size(), 8U * (1 + 8));
  EXPECT_EQ(peer.answers.at(4).size(), 4U * kRungCount);
  int64_t count = 0;
  load_long_words(1, peer.answers.at(1).data(), &count);
  EXPECT_EQ(count, trained_count(staged.device.samples));
  EXPECT_LT(count, 10) << "some are held out";
  EXPECT_EQ(staged.link.client().digest(), peer.digests.at(6));
  EXPECT_NE(staged.link.client().digest(), staged.link.client().replica().digest());
  ASSERT_EQ(staged.link.client().units().count, 8U);
  EXPECT_EQ(std::memcmp(staged.link.client().units().columns, peer.table.data(), 8 * kUnitsColumnSize), 0);
  EXPECT_EQ(peer.part_snapshots, 6U) << "a version that a stage made comes as its parts alone";
  EXPECT_EQ(peer.snapshots, 1U);
  EXPECT_GT(peer.smoothing.slope, 0);
  EXPECT_LT(peer.smoothing.slope, 0.25F);
  EXPECT_GT(peer.smoothing.curvature, 0);
  EXPECT_LT(peer.smoothing.curvature, 0.25F);
  EXPECT_EQ(peer.server.last_hello.capabilities.features >> gs_Feature_FEATURE_UNITS & 1U, 1U);
  EXPECT_EQ(peer.server.last_hello.capabilities.features >> gs_Feature_FEATURE_LINES & 1U, 1U);
}

// Training goes on in units: as a task over samples that are in them already.
TEST(ClientStage, TrainsInUnits) {
  StagedDevice staged;
  ASSERT_TRUE(staged.run());
  std::vector<Real> rows = staged.device.samples.values;
  for (size_t i = 0; i < rows.size(); ++i) {
    const UnitsColumn& column = staged.peer.table[i % 8];
    rows[i] = (rows[i] - column.mean) * column.factor;
  }
  const TestSamples samples(10, 8, rows);
  const Problem problems[] = {{&kKpcaOps, &samples.source}};
  gs_Welcome welcome = staged.peer.server.make_welcome().body.welcome;
  welcome.holdout = StageServer::kHoldout;
  gs_Task wire = staged.peer.server.make_task().body.task;
  wire.task_sequence = 6;
  wire.version = 5;
  wire.step_size = 0.05F;
  Task task = to_task(wire, welcome);
  TestArena memory;
  SolverRun run;
  ASSERT_EQ(begin_solver(registry_of(problems), task, staged.peer.replica.model(), nullptr, &run, memory.arena),
            Status::kOk);
  ASSERT_EQ(run_step(run, memory.arena), Status::kOk);
  ASSERT_EQ(run_step(run, memory.arena), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  Bytes expected(encoded_size(Encoding::kF32, stream.value_count));
  ASSERT_EQ(encode_values(Encoding::kF32, stream.value_count, stream.values, expected.data()), Status::kOk);
  EXPECT_EQ(staged.peer.answers.at(5), expected);
}

// Whatever the device does when its power fails: it comes back, and the same answers come to the server.
TEST(ClientStage, APowerCutAtAnyActionChangesNothing) {
  StagedDevice expected;
  ASSERT_TRUE(expected.run());
  uint32_t action_count = 0;
  {
    StagedDevice counted;
    while (!counted.link.client().run_finished()) {
      counted.link.step();
      ++action_count;
    }
  }
  for (uint32_t cut = 1; cut < action_count; ++cut) {
    SCOPED_TRACE(cut);
    StagedDevice staged;
    for (uint32_t i = 0; i < cut; ++i) {
      staged.link.step();
    }
    staged.link.restart();
    ASSERT_TRUE(staged.run());
    EXPECT_EQ(staged.peer.answers, expected.peer.answers);
    EXPECT_EQ(staged.link.client().digest(), expected.link.client().digest());
    EXPECT_EQ(staged.peer.smoothing.slope, expected.peer.smoothing.slope);
    EXPECT_EQ(staged.link.client().counters().digest_mismatches, 0U);
  }
}

// A slice is a poll of few samples, and a session may end between two of them.
TEST(ClientStage, SlicesAndLostSessionsChangeNothing) {
  StagedDevice expected;
  ASSERT_TRUE(expected.run());
  for (const uint64_t drop : {500U, 900U, 1500U, 2200U, 3000U}) {
    SCOPED_TRACE(drop);
    StagedDevice staged;
    staged.link.drop_after_down = drop;
    ASSERT_TRUE(staged.link.run_until(
        [&] {
          staged.link.client().set_slice(1);
          return staged.link.client().run_finished();
        },
        100000));
    EXPECT_EQ(staged.peer.answers, expected.peer.answers);
    EXPECT_EQ(staged.link.client().digest(), expected.link.client().digest());
  }
}

TEST(ClientStage, TheOwnerMayKeepTheSums) {
  StagedDevice staged;
  staged.device.config.floors.refuses_sums = true;
  staged.link.restart();
  // Another device answers the stages in its place.
  StagedDevice other;
  ASSERT_TRUE(other.run());
  ASSERT_TRUE(staged.link.run_until([&] { return staged.peer.refusals.size() == 1; }));
  EXPECT_EQ(staged.peer.refusals[0].reason, gs_REASON_UNITS_REFUSED);
  EXPECT_EQ(staged.peer.refusals[0].task_sequence, 1U);
  staged.peer.table = other.peer.table;
  staged.peer.digests.back() = staged.peer.digest();
  ASSERT_TRUE(staged.run());
  EXPECT_EQ(staged.peer.refusals.size(), 3U);
  EXPECT_EQ(staged.peer.answers.count(0) + staged.peer.answers.count(1) + staged.peer.answers.count(2), 0U);
  EXPECT_EQ(staged.peer.answers.at(4), other.peer.answers.at(4)) << "trials in units";
  EXPECT_EQ(staged.peer.answers.at(5), other.peer.answers.at(5)) << "training in units";
}

TEST(ClientStage, AnImageWithoutStagesSaysSo) {
  StagedDevice staged;
  staged.device.config.registry.stages = nullptr;
  staged.link.restart();
  ASSERT_TRUE(staged.link.run_until([&] { return staged.peer.refusals.size() == 1; }));
  EXPECT_EQ(staged.peer.refusals[0].reason, gs_REASON_TASK_UNIMPLEMENTED);
  EXPECT_EQ(staged.peer.server.last_hello.capabilities.features >> gs_Feature_FEATURE_UNITS & 1U, 0U);
  EXPECT_EQ(staged.peer.server.last_hello.capabilities.features >> gs_Feature_FEATURE_LINES & 1U, 0U);
}

TEST(ClientStage, ASampleThatCannotBeAnsweredIsNamed) {
  StagedDevice staged;
  ASSERT_TRUE(staged.link.run_until([&] { return staged.peer.version == 1; }));
  staged.device.samples.values[3 * 8 + 2] = -1000;  // sample 3 is not held out
  ASSERT_FALSE(is_held_out(3, StageServer::kHoldout));
  ASSERT_TRUE(staged.link.run_until([&] { return !staged.peer.refusals.empty(); }));
  const gs_TaskRefused& refusal = staged.peer.refusals[0];
  EXPECT_EQ(refusal.reason, gs_REASON_OUT_OF_RANGE);
  EXPECT_EQ(refusal.sample, 4U);
  EXPECT_EQ(refusal.value, -1000);
  EXPECT_EQ(refusal.most, power_of_two(staged.peer.table[2].exponent));
  EXPECT_EQ(refusal.least, -refusal.most);
}

TEST(ClientStage, ADeviceWithoutSamplesIsNamed) {
  StagedDevice staged;
  staged.device.samples.source.count = 0;
  ASSERT_TRUE(staged.link.run_until([&] { return !staged.peer.refusals.empty(); }));
  EXPECT_EQ(staged.peer.refusals[0].reason, gs_REASON_OUT_OF_RANGE);
  EXPECT_EQ(staged.peer.refusals[0].sample, 0U) << "no sample is at fault";
  EXPECT_EQ(staged.peer.refusals[0].value, 0);
  EXPECT_EQ(staged.peer.refusals[0].least, 2) << "number 0 is held out";
  EXPECT_STREQ(staged.link.client().sample_fault().what, "samples");
}

// The model and its table are one version: without the one the other is fetched again.
TEST(ClientStage, ADamagedTableIsFetchedAgain) {
  StagedDevice staged;
  ASSERT_TRUE(staged.link.run_until([&] { return staged.link.saves.size() == 3; }));
  ASSERT_GT(staged.device.storage.size(), 96U);
  staged.device.storage.back() ^= 1;  // the table is last
  staged.link.restart();
  EXPECT_EQ(staged.device.restore_status, Status::kOk);
  EXPECT_EQ(staged.link.client().units().count, 0U);
  EXPECT_FALSE(staged.link.client().replica().has_model());
  ASSERT_TRUE(staged.run());
  EXPECT_EQ(staged.peer.snapshots, 2U);
  EXPECT_EQ(staged.link.client().digest(), staged.peer.digests.at(6));
}

// A table of other columns than the data's: the task is refused, and the session goes on.
TEST(ClientStage, ATableOfOtherDataIsRefused) {
  StagedDevice staged;
  staged.peer.table.assign(5, UnitsColumn{3, 0, 1});
  staged.peer.digests[0] = staged.peer.digest();
  ASSERT_TRUE(staged.link.run_until([&] { return staged.peer.version >= 3; }));
  EXPECT_GE(staged.peer.refusals.size(), 2U);
  EXPECT_EQ(staged.link.client().counters().malformed_frames, 0U);
}

}  // namespace
}  // namespace gradstream

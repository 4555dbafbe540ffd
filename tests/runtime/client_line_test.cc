// The line of a record, as an update says it, against direct evaluation.
#include "runtime/link/client_line.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/task_stages.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// A device in a run with lines, and what its updates said: by base version.
struct LinedRun {
  explicit LinedRun(const FakeRun& run) : server(run), link(device, server) {
    device.config.registry.stages = &kStageForm;
    link.restart();
    server.edit = [this](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_welcome_tag) {
        message.body.welcome.lines = has_lines;
      } else if (message.which_body == gs_ServerMessage_log_chunk_tag) {
        records[message.body.log_chunk.version] = message.body.log_chunk;
      }
    };
    server.intercept = [this](const DeviceMessage& message) {
      models[server.model().version()].assign(server.model().model(),
                                              server.model().model() + server.model().shape().size());
      if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
        note(message.body.update_scalars);
      } else if (message.which_body == gs_DeviceMessage_update_tangent_tag) {
        note(message.body.update_tangent);
      }
      return false;
    };
  }
  template <typename Update>
  void note(const Update& update) {
    has_line[update.base_version] = update.has_line;
    if (update.has_line) {
      lines[update.base_version] = {update.line.slope, update.line.curvature};
    }
  }

  Real loss_at(const std::vector<Real>& x) {
    TestArena memory;
    const Batch batch{nullptr, device.samples.source.count};
    return kKpcaOps.loss(&device.samples.source, server.run.shape, x.data(), batch, memory.arena).value();
  }
  LossLine line_of(const std::vector<Real>& before, const std::vector<Real>& half, const std::vector<Real>& after) {
    const Real curvature = 2 * (loss_at(after) - 2 * loss_at(half) + loss_at(before));
    const Real slope = loss_at(after) - loss_at(before) - curvature;
    return {static_cast<float>(slope), static_cast<float>(curvature)};
  }
  // P_M(X - a/2 d) of the record that leads to the version.
  std::vector<Real> half_of_record(uint32_t version) {
    const gs_LogChunk& chunk = records.at(version);
    const Shape shape = server.run.shape;
    std::vector<Real> coefficients(chunk.value_count);
    GS_ASSERT(decode_values(Encoding::kF32, chunk.value_count, chunk.values.bytes, chunk.values.size,
                            coefficients.data()) == Status::kOk);
    DirectionSpec directions = to_directions(server.make_welcome().body.welcome, chunk.base_version);
    directions.owner = chunk.owner;
    TestArena memory;
    std::vector<Real> sum(shape.size());
    GS_ASSERT(accumulate_directions(directions, shape, 0, chunk.value_count, coefficients.data(), sum.data(),
                                    memory.arena) == Status::kOk);
    const double step =
        0.5 * static_cast<double>(chunk.step_scale) * static_cast<double>(shape.size()) / directions.direction_count;
    std::vector<Real> half = models.at(version - 1);
    for (size_t e = 0; e < half.size(); ++e) {
      half[e] -= static_cast<Real>(step) * sum[e];
    }
    GS_ASSERT(server.run.manifold->project_point(shape, half.data(), half.data(), memory.arena) == Status::kOk);
    return half;
  }

  FakeDevice device;
  FakeServer server;
  FakeLink link;
  bool has_lines = true;
  std::map<uint32_t, gs_LogChunk> records;
  std::map<uint32_t, std::vector<Real>> models;
  std::map<uint32_t, bool> has_line;
  std::map<uint32_t, LossLine> lines;
};

void expect_near(const LossLine& line, const LossLine& expected) {
  EXPECT_NEAR(line.slope, expected.slope, 3e-6);
  EXPECT_NEAR(line.curvature, expected.curvature, 3e-6);
}

TEST(ClientLine, IsThatOfTheRecordIntoTheBaseVersion) {
  LinedRun run{FakeRun{}};
  ASSERT_TRUE(run.link.run_to_end());
  EXPECT_FALSE(run.has_line.at(0)) << "nothing led to version 0";
  ASSERT_EQ(run.lines.size(), 3U);
  for (const uint32_t version : {1U, 2U, 3U}) {
    SCOPED_TRACE(version);
    expect_near(run.lines.at(version),
                run.line_of(run.models.at(version - 1), run.half_of_record(version), run.models.at(version)));
    EXPECT_NE(run.lines.at(version).slope, 0);
  }
  EXPECT_EQ(run.link.client().replica().digest(), run.server.model().digest());
}

TEST(ClientLine, SlicesChangeNothing) {
  LinedRun whole{FakeRun{}};
  ASSERT_TRUE(whole.link.run_to_end());
  LinedRun cut{FakeRun{}};
  bool was_open = false;
  ASSERT_TRUE(cut.link.run_until(
      [&] {
        cut.link.client().set_slice(1);
        was_open = was_open || (cut.link.client().is_step_open() && cut.link.client().counters().local_steps == 2 &&
                                cut.link.client().replica().version() == 1);
        return cut.link.client().run_finished();
      },
      100000));
  EXPECT_TRUE(was_open);
  EXPECT_EQ(cut.server.uploads, whole.server.uploads);
  for (const auto& [version, line] : whole.lines) {
    EXPECT_EQ(cut.lines.at(version).slope, line.slope);
    EXPECT_EQ(cut.lines.at(version).curvature, line.curvature);
  }
}

// Versions that travel as they stand: half way is between the two models.
TEST(ClientLine, OfADenseVersionIsBetweenTheModels) {
  LinedRun run(tangent_run());
  ASSERT_TRUE(run.link.run_to_end());
  ASSERT_EQ(run.lines.size(), 3U);
  for (const uint32_t version : {1U, 2U, 3U}) {
    SCOPED_TRACE(version);
    std::vector<Real> half = run.models.at(version);
    for (size_t e = 0; e < half.size(); ++e) {
      half[e] = static_cast<Real>(0.5) * (half[e] + run.models.at(version - 1)[e]);
    }
    TestArena memory;
    ASSERT_EQ(kStiefelOps.project_point(run.server.run.shape, half.data(), half.data(), memory.arena), Status::kOk);
    expect_near(run.lines.at(version), run.line_of(run.models.at(version - 1), half, run.models.at(version)));
  }
}

TEST(ClientLine, OnlyTheLastOfSeveralRecordsCounts) {
  FakeRun fake;
  fake.round_count = 20;
  LinedRun run(fake);
  ASSERT_TRUE(run.link.run_past_upload(2));
  run.link.break_connection();
  for (int i = 0; i < 7; ++i) {
    run.server.advance(1);
    run.models[run.server.model().version()].assign(run.server.model().model(), run.server.model().model() + 16);
  }
  ASSERT_TRUE(run.link.run_past_upload(3));
  ASSERT_EQ(run.lines.size(), 2U);
  expect_near(run.lines.at(9), run.line_of(run.models.at(8), run.half_of_record(9), run.models.at(9)));
}

TEST(ClientLine, ASnapshotOfARunOfRecordsHasNone) {
  FakeRun fake;
  fake.round_count = 20;
  fake.log_length_max = 0;
  LinedRun run(fake);
  ASSERT_TRUE(run.link.run_past_upload(3));
  EXPECT_TRUE(run.lines.empty());
}

// A snapshot replaces a model with a wrong bit, and no message says that it was wrong.
TEST(ClientLine, OfAModelWithAFlippedBitThereIsNone) {
  LinedRun run(tangent_run());
  ASSERT_TRUE(run.link.run_past_upload(2));
  ASSERT_EQ(run.link.client().replica().version(), 1U);
  run.link.client().replica_for_test().flip_bit_for_test(22);  // a change that losses stay finite with
  ASSERT_TRUE(run.link.run_to_end());
  EXPECT_TRUE(run.has_line.at(1));
  EXPECT_FALSE(run.has_line.at(2));
  EXPECT_TRUE(run.has_line.at(3)) << "the snapshot is right again";
  EXPECT_EQ(run.link.client().replica().digest(), run.server.model().digest());
}

TEST(ClientLine, AResetLosesTheLineAndNothingElse) {
  LinedRun expected{FakeRun{}};
  ASSERT_TRUE(expected.link.run_to_end());
  LinedRun run{FakeRun{}};
  ASSERT_TRUE(run.link.run_past_upload(2));
  ASSERT_TRUE(run.link.run_to(ClientState::kTrain));
  run.link.restart();
  ASSERT_TRUE(run.link.run_to_end());
  EXPECT_EQ(run.server.uploads, expected.server.uploads);
  EXPECT_EQ(run.server.conflicting_uploads, 0U);
}

// The line is of the update: it is saved with it, and sent again with the same bytes.
TEST(ClientLine, IsKeptWithTheUpload) {
  LinedRun run{FakeRun{}};
  ASSERT_TRUE(run.link.run_past_upload(1));
  ASSERT_TRUE(run.link.run_to(ClientState::kUpload));
  run.link.restart();
  ASSERT_TRUE(run.link.run_past_upload(2));
  ASSERT_TRUE(run.has_line.at(1));
  LinedRun expected{FakeRun{}};
  ASSERT_TRUE(expected.link.run_past_upload(2));
  EXPECT_EQ(run.lines.at(1).slope, expected.lines.at(1).slope);
  EXPECT_EQ(run.lines.at(1).curvature, expected.lines.at(1).curvature);
}

TEST(ClientLine, ARunWithoutLinesAsksForNone) {
  LinedRun run{FakeRun{}};
  run.has_lines = false;
  ASSERT_TRUE(run.link.run_to_end());
  EXPECT_TRUE(run.lines.empty());
  LinedRun with{FakeRun{}};
  ASSERT_TRUE(with.link.run_to_end());
  EXPECT_EQ(with.server.uploads, run.server.uploads) << "the line changes no estimate";
  EXPECT_EQ(with.device.memory.arena.high_water_size(),
            run.device.memory.arena.high_water_size() + Arena::taken_size<LineTracker>(1))
      << "the line takes no tensor that the training does not take";
}

// A device with room for the training alone.
TEST(ClientLine, WithoutMemoryThereIsNone) {
  const std::vector<Real> point = random_point(kStiefelOps, {8, 2}, 1);
  TestArena memory(512);
  Replica replica;
  ASSERT_EQ(replica.prepare(kStiefelOps, {8, 2}, memory.arena), Status::kOk);
  std::copy(point.begin(), point.end(), replica.begin_snapshot());
  replica.adopt_snapshot(4);
  const size_t mark = memory.arena.mark();
  LineTracker line;
  line.open(replica, 400, memory.arena);
  EXPECT_EQ(line.half(), nullptr);
  line.close(replica, memory.arena);
  EXPECT_FALSE(line.is_due(4));
  EXPECT_EQ(memory.arena.mark(), mark);
}

TEST(ClientLine, TakesAnArenaToItsLastByte) {
  const Shape shape = {8, 2};
  const std::vector<Real> point = random_point(kStiefelOps, shape, 1);
  for (const size_t extra : {0U, 1U}) {
    TestArena memory(4096);
    Replica replica;
    ASSERT_EQ(replica.prepare(kStiefelOps, shape, memory.arena), Status::kOk);
    std::copy(point.begin(), point.end(), replica.begin_snapshot());
    replica.adopt_snapshot(4);
    const size_t needed = 2 * Arena::taken_size<Real>(shape.size()) + Replica::scratch_size(kStiefelOps, shape);
    LineTracker line;
    line.open(replica, memory.arena.free_size() - needed + extra, memory.arena);
    EXPECT_EQ(line.half() == nullptr, extra == 1);
  }
}

TEST(ClientLine, AModelThatStaysHasNone) {
  const std::vector<Real> point = random_point(kStiefelOps, {8, 2}, 1);
  TestArena memory;
  Replica replica;
  ASSERT_EQ(replica.prepare(kStiefelOps, {8, 2}, memory.arena), Status::kOk);
  std::copy(point.begin(), point.end(), replica.begin_snapshot());
  replica.adopt_snapshot(4);
  const size_t mark = memory.arena.mark();
  LineTracker line;
  line.open(replica, 0, memory.arena);
  replica.adopt_snapshot(5);
  line.close(replica, memory.arena);
  EXPECT_FALSE(line.is_due(5)) << "a version that a stage made";
  line.drop(memory.arena);
  EXPECT_EQ(memory.arena.mark(), mark);
}

}  // namespace
}  // namespace gradstream

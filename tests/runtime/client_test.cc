// The client against a scripted server: whole conversations, faults at every byte and every action, any message at any
// time.
#include "runtime/link/client.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "runtime/manifold/fixed_rank.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// ---- Conversations ----

void expect_undisturbed(const FakeRun& run) {
  FakeDevice device;
  if (run.shape.parts != nullptr) {
    device.config.registry.manifolds = all_manifolds();
  }
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  const ClientCounters& counters = link.client().counters();
  EXPECT_EQ(link.client().replica().version(), run.round_count);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(counters.tasks_done, run.round_count);
  EXPECT_EQ(counters.updates_folded, run.round_count);
  EXPECT_EQ(counters.local_steps, run.round_count * run.local_step_count);
  EXPECT_EQ(counters.sessions, 1U);
  EXPECT_EQ(counters.connection_failures + counters.deadlines_missed + counters.malformed_frames, 0U);
  EXPECT_EQ(counters.digest_mismatches + counters.tasks_refused + counters.updates_resent, 0U);
  const bool is_scalar = run.stream == StreamKind::kScalarStream;
  EXPECT_EQ(counters.snapshots, is_scalar ? 1U : run.round_count + 1);
  EXPECT_EQ(counters.records_applied, is_scalar ? run.round_count : 0);
  EXPECT_EQ(counters.corrections, is_scalar && run.use_correction ? run.round_count : 0);
  EXPECT_EQ(counters.frame_bytes_sent, link.bytes_up);
  EXPECT_EQ(counters.frame_bytes_received, link.bytes_down);
}

TEST(Client, TrainsOnStiefel) { expect_undisturbed(FakeRun{}); }
TEST(Client, TrainsOnTheSphere) { expect_undisturbed(sphere_run()); }
TEST(Client, TrainsWithTangents) { expect_undisturbed(tangent_run()); }
TEST(Client, TrainsWithoutCorrection) {
  FakeRun run;
  run.use_correction = false;
  expect_undisturbed(run);
}
TEST(Client, TrainsInEveryEncoding) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    FakeRun run;
    run.encoding = encoding;
    run.record_encoding = encoding;
    expect_undisturbed(run);
    run = tangent_run();
    run.encoding = encoding;
    expect_undisturbed(run);
  }
}

TEST(Client, TrainsOnAProduct) {
  const Parts parts = {3, {{&kStiefelSmoothOps, {2, 2}}, {&kSphereOps, {3, 1}}, {&kEuclideanOps, {1, 1}}}};
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    expect_undisturbed(product_run(parts, stream));
  }
}

TEST(Client, TrainsOnAProductWithAPartOfFixedRank) {
  const Parts factors = fixed_rank_parts(2, 2, 1);
  const Parts parts = {2, {{&kFixedRankOps, fixed_rank_shape(factors)}, {&kEuclideanOps, {3, 1}}}};
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    expect_undisturbed(product_run(parts, stream));
  }
}

TEST(Client, TrainsWithErrorFeedback) {
  expect_undisturbed(feedback_run());
  FakeRun run = feedback_run();
  run.encoding = Encoding::kBf16;
  expect_undisturbed(run);
}

// ---- Faults ----

void expect_recovery_from_drops(const FakeRun& run, uint64_t FakeLink::*drop_after, uint64_t FakeLink::*bytes) {
  FakeDevice device;
  device.config.has_storage = false;
  FakeServer undisturbed(run);
  uint64_t total = 0;
  {
    FakeLink link(device, undisturbed);
    ASSERT_TRUE(link.run_to_end());
    total = link.*bytes;
  }
  ASSERT_GT(total, 400U);
  for (uint64_t at = 1; at <= total; ++at) {
    SCOPED_TRACE(at);
    FakeServer server(run);
    FakeLink link(device, server);
    link.*drop_after = at;
    ASSERT_TRUE(link.run_to_end());
    ASSERT_EQ(link.drops, 1U);
    expect_same_end(server, link.client(), undisturbed);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Client, RecoversFromADropAtEveryByteUp) {
  expect_recovery_from_drops(FakeRun{}, &FakeLink::drop_after_up, &FakeLink::bytes_up);
  expect_recovery_from_drops(sphere_run(), &FakeLink::drop_after_up, &FakeLink::bytes_up);
  expect_recovery_from_drops(tangent_run(), &FakeLink::drop_after_up, &FakeLink::bytes_up);
}

TEST(Client, RecoversFromADropAtEveryByteDown) {
  expect_recovery_from_drops(FakeRun{}, &FakeLink::drop_after_down, &FakeLink::bytes_down);
  expect_recovery_from_drops(sphere_run(), &FakeLink::drop_after_down, &FakeLink::bytes_down);
  expect_recovery_from_drops(tangent_run(), &FakeLink::drop_after_down, &FakeLink::bytes_down);
}

// The connection drops before every single action of the client, of one that can dial and of one that cannot.
TEST(Client, RecoversFromADropAtEveryAction) {
  for (const bool can_dial : {true, false}) {
    FakeDevice device;
    device.config.can_dial = can_dial;
    FakeServer undisturbed{FakeRun{}};
    size_t total = 0;
    {
      FakeLink link(device, undisturbed);
      while (!link.client().run_finished()) {
        link.step();
        ++total;
      }
    }
    for (size_t at = 0; at < total; ++at) {
      SCOPED_TRACE(at);
      device.storage.clear();
      FakeServer server{FakeRun{}};
      FakeLink link(device, server);
      for (size_t i = 0; i < at; ++i) {
        link.step();
      }
      link.break_connection();
      ASSERT_TRUE(link.run_to_end());
      expect_same_end(server, link.client(), undisturbed);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// Any message at any time, well-formed or nearly so.
ServerMessage random_message(const FakeServer& server, std::mt19937& engine) {
  const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
  const pb_size_t which = static_cast<pb_size_t>(1 + random() % 8);
  ServerMessage message = FakeServer::make(which);
  if (which == gs_ServerMessage_welcome_tag) {
    message = server.make_welcome();
    message.body.welcome.rows += random() % 4 == 0 ? 1 : 0;
    message.body.welcome.run += random() % 4 == 0 ? 1 : 0;
  } else if (which == gs_ServerMessage_task_tag) {
    message = server.make_task();
    message.body.task.task_sequence += random() % 3;
    message.body.task.local_step_count = random() % 5;
    message.body.task.batch_size = random() % 40;
  } else if (which == gs_ServerMessage_log_chunk_tag) {
    gs_LogChunk& chunk = message.body.log_chunk;
    chunk = {server.model().version() + random() % 2,
             0.1F,
             0,
             1 + random() % 2,
             0,
             1,
             0,
             8,
             gs_ENCODING_F32,
             {},
             0,
             false,
             false};
    chunk.values.size = 32;
  } else if (which == gs_ServerMessage_snapshot_chunk_tag) {
    message.body.snapshot_chunk = {random() % 9, gs_MODEL_PART_MODEL, 0, 64, {}, 0, 0};
    message.body.snapshot_chunk.values.size = 64;
  } else if (which == gs_ServerMessage_ack_tag) {
    message.body.ack.task_sequence = 1 + random() % 5;
    message.body.ack.verdict = static_cast<gs_Verdict>(1 + random() % 6);
    message.body.ack.version = random() % 9;
  } else if (which == gs_ServerMessage_wait_tag) {
    message.body.wait = {static_cast<gs_WaitCause>(random() % 7), true, {5, 20}};  // no window would mean: stay away
  }
  return message;
}

TEST(Client, AnyMessageAtAnyTimeIsSurvived) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    FakeDevice device;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    for (int i = 0; i < 400; ++i) {
      link.step();
      if (link.is_connected() && random() % 8 == 0) {
        uint8_t frame[kFrameSizeMax];
        const Result<size_t> size = encode_frame(random_message(server, random), frame);
        ASSERT_TRUE(size.ok());
        link.client().on_frame({frame + kFramePrefixSize, size.value() - kFramePrefixSize}, link.now_ms);
      }
      if (random() % 100 == 0) {
        link.restart();
      }
    }
    ASSERT_TRUE(link.run_until([&] {
      return server.is_finished() && link.client().run_finished() &&
             link.client().replica().version() == server.model().version();
    }));
    ASSERT_EQ(link.client().replica().digest(), server.model().digest());
  }
}

// ---- The document ----

// The conversation printed in docs/wire.md is the one that takes place. Samples and start need no libm, so that it is
// the same on every machine.
TEST(Client, TheExampleOfTheDocument) {
  FakeRun run;
  run.manifold = &kSphereOps;
  run.shape = {3, 1};
  run.start = {1, 0, 0};
  run.seed = 7;
  run.direction_count = 2;
  run.local_step_count = 1;
  run.round_count = 1;
  run.ghost_scale = 0;
  run.step_size = 0.25F;
  FakeDevice device(3, 12288);
  device.samples.values = {1, 2, 0, 0, 1, 2};
  device.samples.source.count = 2;
  device.config.firmware_version = "0.1.0";
  device.config.board = "";
  device.config.has_storage = false;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  std::vector<std::string> printed;
  std::ifstream file(GS_SOURCE_DIR "/docs/wire.md");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("device 4753") || line.starts_with("server 4753")) {
      printed.push_back(line);
    } else if (line.starts_with("       ") && !printed.empty()) {  // a long frame goes on
      printed.back() += line.substr(line.find_first_not_of(' '));
    }
  }
  EXPECT_EQ(printed, link.transcript);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(server.model().digest(), 0xa53aeaf89611a1bdULL);  // as printed there
}

// ---- Memory ----

// A board's demo: St(64, 4), K = 5, m = 16. What a board must set aside.
TEST(Client, MemoryOfABoardIsPinned) {
  FakeRun run;
  run.shape = {64, 4};
  run.local_step_count = 5;
  run.direction_count = 16;
  FakeDevice device(64, 12 * 1024);
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().tasks_done, run.round_count);
  const size_t high_water = device.memory.arena.high_water_size();
  RecordProperty("client_size", static_cast<int>(sizeof(Client)));
  RecordProperty("frame_reader_size", static_cast<int>(sizeof(FrameReader)));
  RecordProperty("arena_high_water", static_cast<int>(high_water));
  // 4 bytes of it a part are its rank, with padding; 24 a measured loss takes, 136 stages, units and lines,
  // 64 evaluations, 56 floors of its owner and what it keeps of the journal, 16 what clips left of its uploads.
  constexpr size_t kOfHosts = sizeof(JudgedUpdates) + 8;  // with padding; no board has it
  EXPECT_LE(sizeof(Client) - kOfHosts, 2728U);
  EXPECT_LE(sizeof(Client) + sizeof(FrameReader), 5U * 1024);
  EXPECT_LE(high_water, 12U * 1024);
  EXPECT_GE(high_water, 8U * 1024) << "the figure in docs/wire.md is too high by now";
  std::printf("Client %zu, FrameReader %zu, arena %zu bytes\n", sizeof(Client), sizeof(FrameReader), high_water);
}

}  // namespace
}  // namespace gradstream

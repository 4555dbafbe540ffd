// The client against a scripted server: whole conversations, faults at every byte, deadlines, bad input.
#include "runtime/link/client.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

FakeRun sphere_run() {
  FakeRun run;
  run.manifold = &kSphereOps;
  run.shape = {8, 1};
  return run;
}

FakeRun tangent_run() {
  FakeRun run;
  run.stream = StreamKind::kTangentBlock;
  run.use_correction = false;
  return run;
}

void expect_same_end(FakeServer& server, Client& client, const FakeServer& expected) {
  EXPECT_EQ(server.model().version(), expected.model().version());
  EXPECT_EQ(server.model().digest(), expected.model().digest());
  EXPECT_EQ(client.replica().version(), server.model().version());
  EXPECT_EQ(client.replica().digest(), server.model().digest());
  EXPECT_EQ(server.uploads, expected.uploads);
  EXPECT_EQ(server.conflicting_uploads, 0U);
  EXPECT_EQ(server.malformed_count, 0U);
}

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

// Updates, records and snapshots of several pieces.
TEST(Client, SeveralPiecesEachWay) {
  FakeRun run;
  run.shape = {150, 3};  // 1,800 bytes
  run.local_step_count = 10;
  run.direction_count = 70;  // 2,800 bytes
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    run.stream = stream;
    run.use_correction = stream == StreamKind::kScalarStream;
    FakeDevice device(150);
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().replica().digest(), server.model().digest());
    EXPECT_EQ(server.steps_done.size(), run.round_count);
  }
}

TEST(Client, SaysWhatItIs) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.client().report().stack_high_water = 1234;
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  const gs_Hello& hello = server.last_hello;
  EXPECT_EQ(hello.protocol_version, 1U);
  EXPECT_STREQ(hello.firmware_version, "0.1.0-test");
  EXPECT_STREQ(hello.board, "a board of the workbenc");
  EXPECT_EQ(hello.capabilities.manifolds, 0b1110U);
  EXPECT_EQ(hello.capabilities.solvers, 0b11110U);
  EXPECT_EQ(hello.capabilities.estimators, 0b111110U);
  EXPECT_EQ(hello.capabilities.encodings, 0b1110U);
  EXPECT_EQ(hello.capabilities.features, 0b111110U);
  EXPECT_EQ(hello.capabilities.arena_size, device.memory.arena.size());
  ASSERT_EQ(hello.capabilities.problems_count, 1);
  EXPECT_STREQ(hello.capabilities.problems[0], "kpca");
  EXPECT_FALSE(hello.has_model);
  EXPECT_EQ(hello.sample_count, 10U);
  EXPECT_EQ(server.last_report.stack_high_water, 1234U);
  EXPECT_EQ(server.last_report.sessions, 1U);
  EXPECT_GT(server.last_report.arena_high_water, 0U);
  const std::vector<pb_size_t> order = {gs_DeviceMessage_hello_tag, gs_DeviceMessage_status_report_tag,
                                        gs_DeviceMessage_pull_tag};
  EXPECT_EQ(server.received, order);
}

// The correction is d - Gbar_i, both from what was folded; here written out in the simplest way.
TEST(Client, CorrectionIsTheFoldMinusItsOwnMean) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().corrections == 1; }));
  const FakeRun& run = server.run;
  const uint32_t count = run.local_step_count * run.direction_count;
  std::vector<Real> own(count);
  const Bytes& upload = server.uploads.begin()->second;
  ASSERT_EQ(decode_values(Encoding::kF32, count, upload.data(), upload.size(), own.data()), Status::kOk);
  const std::vector<Real> ghost = random_values(count, 1000);
  const DirectionSpec directions = to_directions(server.make_welcome().body.welcome, 0);
  std::vector<double> expected(run.shape.size());
  std::vector<Real> u(run.shape.size());
  for (uint32_t q = 0; q < count; ++q) {
    fill_direction(directions, run.shape, q / run.direction_count, q % run.direction_count, u.data());
    const double mine = static_cast<double>(own[q]) / run.local_step_count;
    const double folded = 0.05 * static_cast<double>(ghost[q]) + 0.5 * mine;
    for (size_t e = 0; e < u.size(); ++e) {
      expected[e] += 16.0 / run.direction_count * (folded - mine) * static_cast<double>(u[e]);
    }
  }
  ASSERT_NE(link.client().correction(), nullptr);
  for (size_t e = 0; e < expected.size(); ++e) {
    EXPECT_NEAR(link.client().correction()[e], expected[e], 1e-5);
  }
}

TEST(Client, CatchesUpWithAHundredVersionsByTheLog) {
  FakeRun run;
  run.round_count = 110;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 2; }));
  link.break_connection();
  server.advance(100);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().replica().version(), 102U);
  EXPECT_EQ(link.client().counters().snapshots, 1U);
  EXPECT_EQ(link.client().counters().records_applied, 102U);
  EXPECT_EQ(link.client().counters().corrections, 2U);
  EXPECT_NE(link.client().correction(), nullptr);
}

TEST(Client, ASnapshotInsteadOfTheRecordMeansNoCorrection) {
  FakeRun run;
  run.log_length_max = 3;
  run.round_count = 20;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 2; }));
  EXPECT_NE(link.client().correction(), nullptr);
  server.advance(4);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(link.client().counters().snapshots, 2U);
  EXPECT_EQ(link.client().correction(), nullptr);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(Client, VerdictsSteerTheCorrection) {
  for (const gs_Verdict verdict : {gs_VERDICT_LATE, gs_VERDICT_REFUSED, gs_VERDICT_SUPERSEDED, gs_VERDICT_ABANDONED}) {
    FakeDevice device;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return link.client().counters().corrections == 1; }));
    server.verdicts = {verdict};
    const uint32_t tasks = link.client().counters().tasks_done;
    ASSERT_TRUE(link.run_until([&] {
      return link.client().counters().tasks_done == tasks + 1 && link.client().state() == ClientState::kTrain;
    }));
    const ClientCounters& counters = link.client().counters();
    EXPECT_EQ(counters.updates_late, verdict == gs_VERDICT_LATE ? 1U : 0U);
    EXPECT_EQ(counters.updates_refused, verdict == gs_VERDICT_LATE ? 0U : 1U);
    EXPECT_EQ(link.client().correction() != nullptr, verdict == gs_VERDICT_LATE);
    EXPECT_EQ(counters.updates_resent, 0U);
  }
}

// What a server without the device's trust in its own loss says: the update is gone, and a new task comes.
TEST(Client, ARefusedLossEndsItsUpdateAlone) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.verdicts = {gs_VERDICT_REFUSED};
  server.refusal = gs_REASON_NOT_FINITE;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_refused == 1; }));
  EXPECT_EQ(link.client().last_reason(), gs_REASON_NOT_FINITE);
  const uint32_t sessions = link.client().counters().sessions;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 1; }));
  EXPECT_EQ(link.client().counters().updates_resent, 0U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  EXPECT_EQ(link.client().counters().sessions, sessions);
  EXPECT_EQ(server.uploads.size(), 2U);
}

// ---- Products ----

FakeRun product_run(const Parts& parts, StreamKind stream) {
  FakeRun run = stream == StreamKind::kScalarStream ? FakeRun{} : tangent_run();
  run.manifold = &kProductOps;
  run.shape = {8, 1, &parts};
  return run;
}

TEST(Client, TrainsOnAProduct) {
  const Parts parts = {3, {{&kStiefelSmoothOps, {2, 2}}, {&kSphereOps, {3, 1}}, {&kEuclideanOps, {1, 1}}}};
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    expect_undisturbed(product_run(parts, stream));
  }
}

TEST(Client, AProductThatItCannotHoldIsRefused) {
  const Parts parts = {2, {{&kStiefelOps, {2, 2}}, {&kSphereOps, {4, 1}}}};
  struct Case {
    void (*spoil)(gs_Welcome&);
    gs_Reason reason;
  };
  const Case cases[] = {
      {[](gs_Welcome& m) { m.manifold_parts_count = 0; }, gs_REASON_MALFORMED},
      {[](gs_Welcome& m) { m.manifold_parts[1].rows = 5; }, gs_REASON_MALFORMED},
      {[](gs_Welcome& m) { m.manifold_parts[0].rows = 1; }, gs_REASON_MALFORMED},
      {[](gs_Welcome& m) {
         m.manifold_parts[0] = {gs_MANIFOLD_PRODUCT, 4, 1, {}, {}};
       },
       gs_REASON_MALFORMED},
      {[](gs_Welcome& m) { m.manifold_parts[0].retraction = gs_RETRACTION_SECOND_ORDER; },
       gs_REASON_TASK_UNIMPLEMENTED},
      {[](gs_Welcome& m) {
         m.manifold = gs_MANIFOLD_EUCLIDEAN;
         m.retraction = gs_RETRACTION_DEFAULT;
       },
       gs_REASON_MALFORMED},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(&one - cases);
    FakeDevice device;
    device.config.registry.manifolds = all_manifolds();
    FakeServer server(product_run(parts, StreamKind::kScalarStream));
    server.edit = [&](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_welcome_tag) {
        one.spoil(message.body.welcome);
      }
    };
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
    EXPECT_EQ(server.refusals[0].reason, one.reason);
    EXPECT_EQ(link.client().counters().tasks_done, 0U);
  }
}

// ---- Error feedback ----

FakeRun feedback_run() {
  FakeRun run = tangent_run();
  run.encoding = Encoding::kInt8;
  run.error_feedback = true;
  return run;
}

TEST(Client, TrainsWithErrorFeedback) {
  expect_undisturbed(feedback_run());
  FakeRun run = feedback_run();
  run.encoding = Encoding::kBf16;
  expect_undisturbed(run);
}

// The second upload is that of a run without feedback and with one more share of what the first left out.
TEST(Client, WhatAnEncodingLeftOutGoesWithTheNextUpload) {
  FakeRun run = feedback_run();
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().residuals, run.round_count - 1);
  EXPECT_EQ(link.client().counters().residuals_lost, 0U);
  run.error_feedback = false;
  FakeServer plain(run);
  FakeDevice other;
  FakeLink plain_link(other, plain);
  ASSERT_TRUE(plain_link.run_to_end());
  EXPECT_EQ(plain_link.client().counters().residuals, 0U);
  EXPECT_EQ(server.uploads.at(1), plain.uploads.at(1));
  EXPECT_NE(server.uploads.at(2), plain.uploads.at(2));
}

// Left out and sent are together what there was to send, as far as it is tangent.
TEST(Client, TheResidualIsWhatIsMissing) {
  FakeRun exact = feedback_run();
  exact.encoding = Encoding::kF32;
  exact.error_feedback = false;
  FakeDevice exact_device;
  FakeServer exact_server(exact);
  FakeLink exact_link(exact_device, exact_server);
  ASSERT_TRUE(exact_link.run_until([&] { return exact_server.uploads.size() == 1; }));
  FakeDevice device;
  FakeServer server(feedback_run());
  server.holds_version_open = true;
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return server.uploads.size() == 1; }));
  const Shape shape = server.run.shape;
  std::vector<Real> whole(shape.size()), sent(shape.size());
  const Bytes& whole_bytes = exact_server.uploads.at(1);
  const Bytes& bytes = server.uploads.at(1);
  ASSERT_EQ(decode_values(Encoding::kF32, shape.size(), whole_bytes.data(), whole_bytes.size(), whole.data()),
            Status::kOk);
  ASSERT_EQ(decode_values(Encoding::kInt8, shape.size(), bytes.data(), bytes.size(), sent.data()), Status::kOk);
  TestArena memory;
  for (size_t e = 0; e < shape.size(); ++e) {
    whole[e] -= sent[e];
  }
  ASSERT_EQ(kStiefelOps.project_tangent(shape, server.model().model(), whole.data(), whole.data(), memory.arena),
            Status::kOk);
  ASSERT_NE(link.client().residual(), nullptr);
  Real norm = 0;
  for (size_t e = 0; e < shape.size(); ++e) {
    EXPECT_NEAR(link.client().residual()[e] * static_cast<Real>(server.run.local_step_count), whole[e], 1e-7);
    norm += whole[e] * whole[e];
  }
  EXPECT_GT(norm, 0);
}

// An upload that counts nowhere is made good by the next one whole: the same task again is the same upload.
TEST(Client, VerdictsSteerTheResidual) {
  for (const gs_Verdict verdict : {gs_VERDICT_REFUSED, gs_VERDICT_SUPERSEDED, gs_VERDICT_ABANDONED}) {
    FakeDevice device;
    FakeServer server(feedback_run());
    server.verdicts = {gs_VERDICT_FOLDED, verdict};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return server.uploads.size() == 3; }));
    EXPECT_NE(server.uploads.at(1), server.uploads.at(2));
    EXPECT_EQ(server.uploads.at(2), server.uploads.at(3)) << verdict;
  }
  FakeDevice device;
  FakeServer server(feedback_run());
  server.verdicts = {gs_VERDICT_REFUSED, gs_VERDICT_TRY_LATER, gs_VERDICT_LATE};
  server.holds_version_open = true;  // every task is of version 0
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return server.uploads.size() == 3; }));
  EXPECT_EQ(server.uploads.at(1), server.uploads.at(2));  // nothing had been accepted
  EXPECT_NE(server.uploads.at(2), server.uploads.at(3));
  EXPECT_EQ(server.conflicting_uploads, 0U);
}

// The next task may come before the version that an accepted update counts in has closed.
TEST(Client, TrainsWhileItsLastUpdateWaitsForItsRecord) {
  FakeRun run;
  run.round_count = 8;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().corrections == 1; }));
  server.holds_version_open = true;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 2; }));
  ASSERT_TRUE(link.run_to(ClientState::kTrain));  // a second task for the same version
  EXPECT_EQ(link.client().counters().corrections, 1U);
  const uint32_t tasks = link.client().counters().tasks_done;
  server.verdicts = {gs_VERDICT_TRY_LATER};
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().tasks_done == tasks + 1; }));
  server.advance(1);
  server.holds_version_open = false;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(Client, TryLaterIsResentByteForByte) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.verdicts = {gs_VERDICT_TRY_LATER, gs_VERDICT_TRY_LATER};
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().updates_resent, 2U);
  EXPECT_EQ(server.conflicting_uploads, 0U);
  EXPECT_EQ(link.client().counters().updates_folded, 4U);
}

TEST(Client, AFlippedBitIsNoticedAndRepaired) {
  for (const bool during_idle : {false, true}) {
    FakeDevice device;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return link.client().counters().corrections == 2; }));
    if (during_idle) {
      ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 3; }));
      link.client().replica_for_test().flip_bit_for_test(77);  // the digest in Pull tells the server
    } else {
      server.edit = [&](ServerMessage& message) {
        if (message.which_body == gs_ServerMessage_log_chunk_tag) {  // after Pull: only the device can notice
          link.client().replica_for_test().flip_bit_for_test(77);
          server.edit = nullptr;
        }
      };
    }
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().digest_mismatches, during_idle ? 0U : 1U);
    EXPECT_EQ(link.client().counters().snapshots, 2U);
    EXPECT_EQ(server.snapshots_sent, 2U);
    EXPECT_EQ(link.client().replica().digest(), server.model().digest());
    EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  }
}

TEST(Client, AServerThatNeverAgreesIsLeftAlone) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) {
      ++message.body.task.digest;
    }
  };
  FakeLink link(device, server);
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().malformed_frames == 10; }));
  EXPECT_EQ(link.client().counters().digest_mismatches, 20U);  // a snapshot is tried each time
  EXPECT_GE(link.now_ms - begin_ms, 9000U);                    // one second apart at least
  EXPECT_EQ(link.client().counters().local_steps, 0U);
}

// ---- Faults at every byte ----

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

// ---- Time ----

TEST(Client, EveryStateHasADeadline) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.server_is_silent = true;
  ASSERT_TRUE(link.run_to(ClientState::kHello));
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.now_ms - begin_ms, kAnswerDeadlineMs);
  EXPECT_EQ(link.client().counters().deadlines_missed, 1U);
  EXPECT_EQ(link.client().last_reason(), gs_REASON_DEADLINE);
  link.server_is_silent = false;
  ASSERT_TRUE(link.run_to(ClientState::kSync));
  link.server_is_silent = true;  // Pull is not answered
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.client().counters().deadlines_missed, 2U);
  link.server_is_silent = false;
  ASSERT_TRUE(link.run_to(ClientState::kUpload));
  link.server_is_silent = true;  // nor is the update
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.client().counters().deadlines_missed, 3U);
  link.server_is_silent = false;
  link.never_reports_sent = true;  // the peer takes no bytes
  ASSERT_TRUE(link.run_to(ClientState::kHello));
  ASSERT_TRUE(link.run_until([&] { return !link.is_connected(); }));
  EXPECT_GE(link.client().counters().deadlines_missed, 4U);
  link.never_reports_sent = false;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.conflicting_uploads, 0U);
}

TEST(Client, AConnectionThatNeverComesHasADeadline) {
  FakeDevice device;
  device.boot();
  Client& client = *device.client;
  EXPECT_EQ(client.poll(5).kind, ClientActionKind::kConnect);
  ClientAction action = client.poll(6);
  EXPECT_EQ(action.kind, ClientActionKind::kWait);
  EXPECT_EQ(action.wake_ms, 5 + uint64_t{kHandshakeDeadlineMs});
  EXPECT_EQ(client.poll(action.wake_ms).kind, ClientActionKind::kDisconnect);
  client.on_connected(action.wake_ms);  // too late: ignored
  EXPECT_EQ(client.state(), ClientState::kIdle);
  action = client.poll(action.wake_ms);
  EXPECT_EQ(action.kind, ClientActionKind::kWait);
  EXPECT_GE(action.wake_ms, 5 + uint64_t{kHandshakeDeadlineMs} + 1000);
}

TEST(Client, BacksOffWithJitterUpToEightTimes) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.refused_connections = 50;
  ASSERT_TRUE(link.run_to_end());
  ASSERT_EQ(link.connect_times.size(), 51U);
  uint64_t longest = 0;
  for (size_t i = 1; i < link.connect_times.size(); ++i) {
    const uint64_t wait = link.connect_times[i] - link.connect_times[i - 1];
    EXPECT_GE(wait, 1000U);
    EXPECT_LE(wait, i == 1 ? 2000U : i == 2 ? 4000U : 8000U);
    longest = std::max(longest, wait);
  }
  EXPECT_GT(longest, 6000U);
}

// Three days without a server, with an upload that waits, while the clock passes 2^32 ms. `restarts`: the power fails
// on the way.
void expect_to_outlast_the_server(gs_RetryWindow window, bool restarts) {
  constexpr uint64_t kDayMs = 24 * 3600 * 1000;
  constexpr uint32_t kStepsMax = 200000;  // two for each dial, and one in 3 days of 1 to 8 s is 57,600
  FakeRun run;
  run.retry = window;
  FakeDevice reference;
  FakeServer undisturbed(run);
  FakeLink without_fault(reference, undisturbed);
  ASSERT_TRUE(without_fault.run_to_end());

  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  link.now_ms = (uint64_t{1} << 32) - kDayMs;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 1; }));
  ASSERT_TRUE(link.run_to(ClientState::kUpload));
  link.break_connection();
  const uint64_t away_since_ms = link.now_ms;
  const size_t dials = link.connect_times.size(), saves = link.saves.size();
  const Bytes storage = device.storage;
  link.refused_connections = UINT32_MAX;
  for (int day = 1; day <= 3; ++day) {
    ASSERT_TRUE(link.run_until([&] { return link.now_ms >= away_since_ms + day * kDayMs; }, kStepsMax));
    if (restarts && day == 2) {
      link.restart();
      EXPECT_EQ(device.restore_status, Status::kOk);
    }
  }
  EXPECT_GT(link.now_ms, uint64_t{1} << 32);
  const uint64_t longest_ms = std::max<uint64_t>(8000, window.max_ms);
  for (size_t i = dials + 1; i < link.connect_times.size(); ++i) {
    const uint64_t gap_ms = link.connect_times[i] - link.connect_times[i - 1];
    ASSERT_LE(gap_ms, longest_ms);
    ASSERT_TRUE(gap_ms >= 1000 || restarts);  // a device that starts dials at once
  }
  EXPECT_GT(link.connect_times.size() - dials, 3 * kDayMs / longest_ms);
  EXPECT_EQ(link.saves.size(), saves);  // waiting wears no flash
  EXPECT_EQ(device.storage, storage);

  link.refused_connections = 0;
  ASSERT_TRUE(link.run_to_end());
  expect_same_end(server, link.client(), undisturbed);
}

TEST(Client, OutlastsAServerThatIsAwayForDays) {
  for (const gs_RetryWindow window : {gs_RetryWindow{10, 50}, gs_RetryWindow{60000, 3600000}}) {
    for (const bool restarts : {false, true}) {
      SCOPED_TRACE(testing::Message() << window.max_ms << " ms, restarts " << restarts);
      expect_to_outlast_the_server(window, restarts);
    }
  }
}

TEST(Client, DevicesDrawDifferentWaits) {
  std::vector<uint64_t> times;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    FakeDevice device;
    device.config.jitter_seed = seed;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    link.refused_connections = 1;
    ASSERT_TRUE(link.run_to(ClientState::kTrain));
    times.push_back(link.connect_times[1]);
  }
  std::sort(times.begin(), times.end());
  EXPECT_GE(std::unique(times.begin(), times.end()) - times.begin(), 18);
}

TEST(Client, LongWaitsAndLongTasksCloseTheSessionOfADeviceThatCanDial) {
  for (const bool can_dial : {true, false}) {
    FakeRun run;
    run.retry = {kSessionKeepMs + 1, kSessionKeepMs + 500};
    FakeDevice device;
    device.config.can_dial = can_dial;
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().sessions, can_dial ? run.round_count + 1 : 1);
    FakeServer quick{FakeRun{}};
    device.storage.clear();
    FakeLink slow_link(device, quick);
    slow_link.step_ms = kSessionKeepMs + 1;
    ASSERT_TRUE(slow_link.run_to_end());
    EXPECT_EQ(slow_link.client().counters().sessions, can_dial ? run.round_count + 1 : 1);
    EXPECT_EQ(slow_link.client().counters().connection_failures, 0U);
  }
}

TEST(Client, PartialWorkWhenTheDeadlineComes) {
  FakeRun run;
  run.local_step_count = 10;
  run.steps_min = 2;
  run.deadline_ms = 1000;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  link.step_ms = 190;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.steps_done, (std::vector<uint32_t>{5, 5, 5, 5}));  // a sixth would end at 1,140 ms
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().counters().corrections, 4U);
}

TEST(Client, BelowTheLeastStepsTheWorkGoesOn) {
  FakeRun run;
  run.local_step_count = 10;
  run.steps_min = 4;
  run.deadline_ms = 1000;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  link.step_ms = 600;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.steps_done, (std::vector<uint32_t>{4, 4, 4, 4}));
}

TEST(Client, AFinishedRunIsAskedForAgainAfterItsWindowOnly) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().state(), ClientState::kFinished);
  link.step();
  EXPECT_FALSE(link.is_connected());
  server.run.retry = {0, 0};
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().sessions == 2; }));
  ASSERT_TRUE(link.run_to(ClientState::kFinished));
  EXPECT_EQ(link.client().poll(link.now_ms).kind, ClientActionKind::kDisconnect);
  EXPECT_EQ(link.client().poll(link.now_ms).wake_ms, UINT64_MAX);  // no window: it stays
}

TEST(Client, AWelcomeBeforeItsHelloEndsTheSession) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  Client& client = link.client();
  ASSERT_EQ(client.poll(link.now_ms).kind, ClientActionKind::kConnect);
  client.on_connected(link.now_ms);
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(server.make_welcome(), frame);
  ASSERT_TRUE(size.ok());
  client.on_frame({frame + kFramePrefixSize, size.value() - kFramePrefixSize}, link.now_ms);
  EXPECT_EQ(client.counters().malformed_frames, 1U);
  EXPECT_EQ(client.last_reason(), gs_REASON_UNEXPECTED_MESSAGE);
  EXPECT_EQ(client.poll(link.now_ms).kind, ClientActionKind::kDisconnect);
}

// ---- Refuse, Drain, refused tasks ----

ServerMessage make_refuse(gs_Reason reason, gs_RetryWindow window) {
  ServerMessage message = FakeServer::make(gs_ServerMessage_refuse_tag);
  message.body.refuse = {reason, true, window};
  return message;
}

TEST(Client, RefuseClosesAndWaitsItsWindow) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.intercept = [&](const DeviceMessage&) {
    server.send(make_refuse(gs_REASON_OVERLOADED, {5000, 6000}));
    return true;
  };
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().sessions == 1; }));
  ASSERT_TRUE(link.run_to(ClientState::kIdle));
  EXPECT_EQ(link.client().last_reason(), gs_REASON_OVERLOADED);
  server.intercept = nullptr;
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  const uint64_t wait = link.connect_times[1] - link.connect_times[0];
  EXPECT_GE(wait, 5000U);
  EXPECT_LE(wait, 6000U);
  EXPECT_EQ(link.client().counters().connection_failures, 0U);
}

TEST(Client, RefuseAndDrainDuringTrainingLetTheWorkGoOn) {
  for (const bool drains : {false, true}) {
    FakeRun run;
    run.local_step_count = 5;
    FakeDevice device;
    FakeServer server(run);
    FakeLink link(device, server);
    link.step_ms = 10;
    ASSERT_TRUE(link.run_until([&] { return link.client().counters().local_steps == 2; }));
    ServerMessage drain = FakeServer::make(gs_ServerMessage_drain_tag);
    drain.body.drain = {true, {3000, 3500}};
    server.send(drains ? drain : make_refuse(gs_REASON_NEWER_SESSION, {3000, 3500}));
    const uint64_t begin_ms = link.now_ms;
    ASSERT_TRUE(link.run_until([&] { return link.client().counters().sessions == 2; }));
    EXPECT_EQ(link.client().counters().tasks_done, 1U);
    EXPECT_GE(link.now_ms - begin_ms, 3000U);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().updates_folded, run.round_count);
  }
}

TEST(Client, DrainFinishesTheExchangeFirst) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.intercept = [&](const DeviceMessage& message) {
    if (message.which_body == gs_DeviceMessage_update_scalars_tag && server.uploads.empty()) {
      ServerMessage drain = FakeServer::make(gs_ServerMessage_drain_tag);
      drain.body.drain = {true, {4000, 4000}};
      server.send(drain);
    }
    return false;
  };
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == 1; }));
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().sessions == 2; }));
  EXPECT_EQ(link.now_ms - begin_ms, 4000U);
  EXPECT_EQ(link.client().counters().connection_failures, 0U);
  EXPECT_EQ(link.client().counters().updates_resent, 0U);
}

gs_Reason reason_after(const std::function<void(gs_Task&)>& change, FakeDevice& device) {
  FakeServer server{FakeRun{}};
  uint32_t changes = 0;
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag && changes++ == 0) {
      change(message.body.task);
    }
  };
  FakeLink link(device, server);
  EXPECT_TRUE(link.run_to_end());  // the second task is a good one, and nothing is broken
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().counters().tasks_refused, 1U);
  EXPECT_EQ(link.client().counters().sessions, 1U);
  EXPECT_EQ(server.refusals.size(), 1U);
  return server.refusals.empty() ? gs_REASON_NONE : server.refusals[0].reason;
}

TEST(Client, RefusesTasksByName) {
  FakeDevice device;
  device.config.has_storage = false;
  const auto reason = [&](const std::function<void(gs_Task&)>& change) { return reason_after(change, device); };
  EXPECT_EQ(reason([](gs_Task& t) { t.problem[0] = 'x'; }), gs_REASON_TASK_UNIMPLEMENTED);
  EXPECT_EQ(reason([](gs_Task& t) { t.solver = gs_SOLVER_NONE; }), gs_REASON_TASK_UNIMPLEMENTED);
  EXPECT_EQ(reason([](gs_Task& t) { t.local_step_count = 0; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.local_step_count = 0xffffffff; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.steps_min = 3; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.step_size = 0; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.smoothing = 0; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.encoding = gs_ENCODING_NONE; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.encoding = gs_ENCODING_F64; }), gs_REASON_MALFORMED);
  EXPECT_EQ(reason([](gs_Task& t) { t.batch_mode = gs_BATCH_MODE_NONE; }), gs_REASON_MALFORMED);
  const auto uploads_a_tangent = [](gs_Task& t) {
    t.estimator = gs_ESTIMATOR_ANALYTIC_GRADIENT;
    t.use_correction = false;
  };
  EXPECT_EQ(reason(uploads_a_tangent), gs_REASON_MALFORMED);  // the run is of scalars
}

TEST(Client, DataThatDoNotHaveTheRunsRowsAreNamed) {
  FakeDevice device(7);  // the run has 8
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_WRONG_SHAPE);
}

TEST(Client, ATaskBeyondItsMemoryIsRefused) {
  FakeDevice device(8, 2000);
  device.config.has_storage = false;
  EXPECT_EQ(reason_after([](gs_Task& t) { t.local_step_count = 256; }, device), gs_REASON_OUT_OF_MEMORY);
}

TEST(Client, ARunBeyondItsMemoryOrItsImageIsRefused) {
  FakeDevice device(8, 100);
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 2; }));
  EXPECT_EQ(server.refusals[0].task_sequence, 0U);
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_OUT_OF_MEMORY);
  EXPECT_EQ(link.client().counters().sessions, 2U);
  server.intercept = [&](const DeviceMessage& message) {  // a server that answers with its own window
    if (message.which_body == gs_DeviceMessage_task_refused_tag) {
      server.run.retry = {30000, 30000};
      server.send(server.make_wait(gs_WAIT_CAUSE_NOT_CAPABLE));
      return true;
    }
    return false;
  };
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().sessions == 4; }));
  EXPECT_GE(link.connect_times[3] - link.connect_times[2], 30000U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  FakeDevice other;
  other.config.registry.manifolds = other.config.registry.manifolds.first(1);
  FakeServer second{FakeRun{}};
  FakeLink other_link(other, second);
  ASSERT_TRUE(other_link.run_until([&] { return second.refusals.size() == 1; }));
  EXPECT_EQ(second.refusals[0].reason, gs_REASON_TASK_UNIMPLEMENTED);
}

TEST(Client, AStepThatFailsOnItsDataIsReported) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().local_steps == 1; }));
  device.samples.read_status = Status::kNotFinite;
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 1; }));
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_NOT_FINITE);
  EXPECT_EQ(server.refusals[0].task_sequence, 1U);
  device.samples.read_status = Status::kOk;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(Client, AnswersToARefusedTaskAreTaken) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag && server.refusals.empty()) {
      message.body.task.problem[0] = 'x';
    }
  };
  server.intercept = [&](const DeviceMessage& message) {
    if (message.which_body == gs_DeviceMessage_task_refused_tag) {
      server.refusals.push_back(message.body.task_refused);
      server.send(server.make_task());
      return true;
    }
    return false;
  };
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().tasks_refused, 1U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
}

// The first task is refused, and the server says nothing to it.
void meet_silence(FakeLink& link, FakeServer& server) {
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag && server.refusals.empty()) {
      message.body.task.problem[0] = 'x';
    }
  };
  server.intercept = [&](const DeviceMessage& message) {
    const bool is_refusal = message.which_body == gs_DeviceMessage_task_refused_tag;
    if (is_refusal) {
      server.refusals.push_back(message.body.task_refused);
    }
    return is_refusal;
  };
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 1; }));
}

TEST(Client, ALateAnswerToARefusedTaskIsTaken) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  meet_silence(link, server);
  link.now_ms += kAnswerDeadlineMs - 1000;
  link.step();  // nothing may be asked before the answer
  server.send(server.make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  EXPECT_EQ(link.client().counters().deadlines_missed, 0U);
  EXPECT_EQ(link.client().counters().sessions, 1U);
}

TEST(Client, ARefusalThatNobodyAnswersEndsItsSession) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  meet_silence(link, server);
  const uint64_t begin_ms = link.now_ms;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().deadlines_missed == 1; }));
  EXPECT_EQ(link.now_ms - begin_ms, uint64_t{kAnswerDeadlineMs});
  server.intercept = nullptr;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.refusals.size(), 1U);  // that one was said
  EXPECT_EQ(link.client().counters().connection_failures, 1U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  EXPECT_EQ(link.client().counters().sessions, 2U);
}

TEST(Client, ARefusalOfAnotherRunIsForgotten) {
  FakeDevice device;
  device.config.has_storage = false;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().local_steps == 1; }));
  link.break_connection();
  device.samples.read_status = Status::kNotFinite;
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().tasks_refused == 1; }));
  ASSERT_FALSE(link.is_connected());
  device.samples.read_status = Status::kOk;
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.run = 2;
    }
  };
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().runs_dropped, 1U);
  EXPECT_TRUE(server.refusals.empty());
}

// The same client, never reset, meets another server after so many of its updates were folded; to the end of that run.
void meet_another(FakeLink& link, uint32_t folded_count, FakeServer& second) {
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_folded == folded_count; }));
  link.break_connection();
  Client& client = link.client();
  ASSERT_EQ(client.poll(link.now_ms += 10000).kind, ClientActionKind::kConnect);
  client.on_connected(link.now_ms);
  FrameReader reader;
  while (!client.run_finished()) {
    const ClientAction action = client.poll(link.now_ms);
    if (action.kind == ClientActionKind::kSend) {
      second.on_bytes(Bytes(action.bytes.begin(), action.bytes.end()));
      client.on_sent(link.now_ms);
    } else if (action.kind == ClientActionKind::kSave) {
      ASSERT_EQ(client.replica().digest(), second.model().digest());  // the work has not touched the model
      client.on_saved(Status::kOk, link.now_ms);
    } else if (action.kind != ClientActionKind::kSaveStep) {
      ASSERT_EQ(action.kind, ClientActionKind::kWait);
      link.now_ms = std::max(link.now_ms, action.wake_ms);
    }
    Bytes bytes;
    bytes.swap(second.output());
    std::span<const uint8_t> rest = bytes;
    while (!rest.empty()) {
      rest = rest.subspan(reader.feed(rest));
      if (reader.has_frame()) {
        client.on_frame(reader.payload(), link.now_ms);
        reader.pop();
      }
    }
  }
  EXPECT_EQ(client.counters().runs_dropped, 1U);
}

TEST(Client, AnotherRunBeginsAnew) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  FakeRun other = sphere_run();
  other.run = 2;
  FakeServer second(other);
  ASSERT_NO_FATAL_FAILURE(meet_another(link, 2, second));
  EXPECT_EQ(link.client().replica().digest(), second.model().digest());
  EXPECT_EQ(link.client().replica().shape(), (Shape{8, 1}));
}

// A run with corrections exchanges its two uploads' places; a run that keeps one upload must not write to the other's.
TEST(Client, ARunThatKeepsFewerUploadsBeginsAnew) {
  FakeRun other = tangent_run();
  other.run = 2;
  other.shape = {8, 8};
  FakeDevice fresh;
  FakeServer undisturbed(other);
  FakeLink direct(fresh, undisturbed);
  ASSERT_TRUE(direct.run_to_end());
  FakeDevice device;
  FakeServer server{sphere_run()};  // a smaller model: its second upload lies in the middle of the next model
  FakeServer second(other);
  FakeLink link(device, server);
  ASSERT_NO_FATAL_FAILURE(meet_another(link, 1, second));
  expect_same_end(second, link.client(), undisturbed);
}

// ---- Bad input ----

// One wrong message of the kind; the session ends, is counted, and the pair recovers to the undisturbed end.
void expect_malformed(pb_size_t which, const std::function<void(ServerMessage&)>& change, uint32_t nth = 1) {
  FakeDevice device;
  device.config.has_storage = false;
  FakeServer undisturbed{FakeRun{}};
  {
    FakeLink link(device, undisturbed);
    ASSERT_TRUE(link.run_to_end());
  }
  FakeServer server{FakeRun{}};
  uint32_t seen = 0;
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == which && seen++ == nth) {
      change(message);
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().malformed_frames, 1U);
  EXPECT_EQ(link.client().counters().sessions, 2U);
  EXPECT_EQ(link.client().counters().snapshots, 1U);
  expect_same_end(server, link.client(), undisturbed);
}

#define EXPECT_MALFORMED(which, change)                        \
  {                                                            \
    SCOPED_TRACE(#change);                                     \
    expect_malformed(which, [](ServerMessage& m) { change; }); \
  }

TEST(Client, WrongRecordsLeaveTheModelAlone) {
  const pb_size_t log = gs_ServerMessage_log_chunk_tag;
  EXPECT_MALFORMED(log, m.body.log_chunk.version += 1);
  EXPECT_MALFORMED(log, m.body.log_chunk.version -= 1);
  EXPECT_MALFORMED(log, m.body.log_chunk.block_index = 1; m.body.log_chunk.block_count = 2);
  EXPECT_MALFORMED(log, m.body.log_chunk.block_count = 2);  // the Task comes before the record is whole
  EXPECT_MALFORMED(log, m.body.log_chunk.first_value = 32; m.body.log_chunk.value_count = 40);
  EXPECT_MALFORMED(log, m.body.log_chunk.value_count = 40);
  EXPECT_MALFORMED(log, m.body.log_chunk.value_count = 7; m.body.log_chunk.values.size = 28);  // not whole steps
  EXPECT_MALFORMED(log, m.body.log_chunk.encoding = gs_ENCODING_BF16);
  EXPECT_MALFORMED(log, m.body.log_chunk.base_version = m.body.log_chunk.version);
  EXPECT_MALFORMED(log, m.body.log_chunk.step_scale = NAN);
  EXPECT_MALFORMED(log, m.body.log_chunk.step_scale = 3e38F);                  // the step is not finite
  EXPECT_MALFORMED(log, std::memset(m.body.log_chunk.values.bytes, 0xff, 4));  // NaN
  EXPECT_MALFORMED(log, m = FakeServer::make(gs_ServerMessage_ack_tag); m.body.ack.task_sequence = 1;
                   m.body.ack.verdict = gs_VERDICT_FOLDED);
  EXPECT_MALFORMED(log, m = FakeServer::make(gs_ServerMessage_welcome_tag); m.body.welcome.rows = 8;
                   m.body.welcome.cols = 2);
}

TEST(Client, WrongSnapshotsAreRepaired) {
  const auto wrong = [](const std::function<void(gs_SnapshotChunk&)>& change) {
    expect_malformed(
        gs_ServerMessage_snapshot_chunk_tag, [&](ServerMessage& m) { change(m.body.snapshot_chunk); }, 0);
  };
  wrong([](gs_SnapshotChunk& c) { c.total = 68; });
  wrong([](gs_SnapshotChunk& c) {
    c.offset = 4;
    c.values.size -= 4;
  });
  wrong([](gs_SnapshotChunk& c) { c.values.size -= 4; });
  wrong([](gs_SnapshotChunk& c) { std::memset(c.values.bytes, 0xff, 4); });
}

TEST(Client, WrongTasksAndAcksEndTheSession) {
  EXPECT_MALFORMED(gs_ServerMessage_task_tag, m.body.task.version += 1);
  EXPECT_MALFORMED(gs_ServerMessage_task_tag, m.body.task.step_size = NAN);
  EXPECT_MALFORMED(gs_ServerMessage_ack_tag, m.body.ack.task_sequence += 1);
  EXPECT_MALFORMED(gs_ServerMessage_ack_tag, m = FakeServer::make(gs_ServerMessage_wait_tag));
}

// The digest in a record's last piece is the only thing that is wrong: the device asks for a snapshot.
TEST(Client, AWrongDigestBringsASnapshot) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  uint32_t seen = 0;
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_log_chunk_tag && seen++ == 1) {
      message.body.log_chunk.digest ^= 1;
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().digest_mismatches, 1U);
  EXPECT_EQ(link.client().counters().snapshots, 2U);
  EXPECT_EQ(link.client().counters().sessions, 1U);
  EXPECT_EQ(link.client().counters().corrections, 3U);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
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

TEST(Client, NoiseOnTheLinkEndsTheSession) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  const Bytes noise = {'n', 'o', 'i', 's', 'e'};
  server.send_raw(noise);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().malformed_frames == 1; }));
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().counters().tasks_done, server.run.round_count);
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
  EXPECT_LE(sizeof(Client), 2304U);
  EXPECT_LE(sizeof(Client) + sizeof(FrameReader), 5U * 1024);
  EXPECT_LE(high_water, 12U * 1024);
  EXPECT_GE(high_water, 8U * 1024) << "the figure in docs/wire.md is too high by now";
  std::printf("Client %zu, FrameReader %zu, arena %zu bytes\n", sizeof(Client), sizeof(FrameReader), high_water);
}

}  // namespace
}  // namespace gradstream

// Runs and tasks: correction and residual, tasks that are refused, deadlines of the work, and a change of run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "runtime/manifold/fixed_rank.h"
#include "runtime/problem/holdout.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// ---- Correction ----

// The correction is d - Gbar_i, both from what was folded; here written out in the simplest way.
TEST(ClientTask, CorrectionIsTheFoldMinusItsOwnMean) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().correction() != nullptr; }));
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

// A run without corrections takes the memory of one tensor and of one upload less.
TEST(ClientTask, ARunWithoutCorrectionsTakesNoMemoryForThem) {
  size_t sizes[2] = {};
  for (const bool use_correction : {false, true}) {
    FakeRun run;
    run.shape = {64, 4};
    run.direction_count = 16;
    run.use_correction = use_correction;
    FakeDevice device(64, 12 * 1024);
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().replica().digest(), server.model().digest());
    EXPECT_EQ(link.client().counters().corrections, use_correction ? run.round_count : 0);
    sizes[use_correction ? 1 : 0] = device.memory.arena.high_water_size();
  }
  const size_t upload = Arena::taken_size<uint8_t>(encoded_size(Encoding::kF32, size_t{2} * 16));
  EXPECT_EQ(sizes[1] - sizes[0], Arena::taken_size<Real>(size_t{64} * 4) + upload);
}

TEST(ClientTask, VerdictsSteerTheCorrection) {
  for (const gs_Verdict verdict : {gs_VERDICT_LATE, gs_VERDICT_REFUSED, gs_VERDICT_SUPERSEDED, gs_VERDICT_ABANDONED}) {
    FakeDevice device;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return link.client().correction() != nullptr; }));
    server.verdicts = {verdict};
    ASSERT_TRUE(link.run_past_upload(2));
    ASSERT_TRUE(link.run_to(ClientState::kTrain));
    const ClientCounters& counters = link.client().counters();
    EXPECT_EQ(counters.updates_late, verdict == gs_VERDICT_LATE ? 1U : 0U);
    EXPECT_EQ(counters.updates_refused, verdict == gs_VERDICT_LATE ? 0U : 1U);
    EXPECT_EQ(link.client().correction() != nullptr, verdict == gs_VERDICT_LATE);
    EXPECT_EQ(counters.updates_resent, 0U);
  }
}

// The next task may come before the version that an accepted update counts in has closed.
TEST(ClientTask, TrainsWhileItsLastUpdateWaitsForItsRecord) {
  FakeRun run;
  run.round_count = 8;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().correction() != nullptr; }));
  server.holds_version_open = true;
  ASSERT_TRUE(link.run_past_upload(2));
  ASSERT_TRUE(link.run_to(ClientState::kTrain));  // a second task for the same version
  EXPECT_EQ(link.client().counters().corrections, 1U);
  server.verdicts = {gs_VERDICT_TRY_LATER};
  ASSERT_TRUE(link.run_to(ClientState::kSave));
  server.advance(1);
  server.holds_version_open = false;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

// ---- Error feedback ----

// The second upload is that of a run without feedback and with one more share of what the first left out.
TEST(ClientTask, WhatAnEncodingLeftOutGoesWithTheNextUpload) {
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
TEST(ClientTask, TheResidualIsWhatIsMissing) {
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
TEST(ClientTask, VerdictsSteerTheResidual) {
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

// ---- Partial work ----

TEST(ClientTask, PartialWorkWhenTheDeadlineComes) {
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

TEST(ClientTask, BelowTheLeastStepsTheWorkGoesOn) {
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

// ---- Slices of a local step ----

// A poll is one unit of work, and the run is the same to the last byte but for its length.
TEST(ClientTask, SlicesOfAStepChangeNothing) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    FakeRun run;
    run.stream = stream;
    run.use_correction = stream == StreamKind::kScalarStream;
    FakeDevice whole_device, sliced_device;
    FakeServer whole_server(run), sliced_server(run);
    FakeLink whole(whole_device, whole_server), sliced(sliced_device, sliced_server);
    sliced.client().set_slice(1);
    ASSERT_TRUE(whole.run_to_end());
    uint32_t open_polls = 0;
    ASSERT_TRUE(sliced.run_until([&] {
      open_polls += sliced.client().is_step_open() ? 1 : 0;
      return sliced.client().run_finished();
    }));
    EXPECT_GT(open_polls, 4U * 2 * 6);  // rounds, steps, samples
    EXPECT_EQ(sliced.client().counters().local_steps, whole.client().counters().local_steps);
    EXPECT_EQ(sliced.client().replica().digest(), whole.client().replica().digest());
    EXPECT_EQ(sliced_server.model().digest(), whole_server.model().digest());
    EXPECT_EQ(sliced_device.memory.arena.high_water_size(), whole_device.memory.arena.high_water_size());
  }
}

// The session of a device that cannot dial stays for a step of any length, and its messages are read.
TEST(ClientTask, TheSessionLivesThroughALongStep) {
  FakeDevice device;
  device.config.can_dial = false;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.client().set_slice(1);
  link.step_ms = 1000;
  ASSERT_TRUE(link.run_until([&] { return link.client().is_step_open(); }));
  link.client().on_malformed(link.now_ms);
  ASSERT_TRUE(link.run_until([&] { return !link.is_connected(); }, 3));
  EXPECT_TRUE(link.client().is_step_open()) << "a lost session ends no work";
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(link.client().counters().updates_folded, 4U);
  EXPECT_GT(link.now_ms, 4U * 2 * 24 * 1000) << "steps of half a minute and more";
}

// A task that is refused, and a reset, in the middle of a step: nothing of it is left.
TEST(ClientTask, AStepIsGivenUpAnywhere) {
  for (const bool is_reset : {false, true}) {
    for (uint32_t slices = 1; slices < 60; slices += 7) {
      FakeDevice device;
      FakeServer server{FakeRun{}};
      FakeLink link(device, server);
      link.client().set_slice(1);
      ASSERT_TRUE(link.run_until([&] { return link.client().is_step_open(); }));
      for (uint32_t i = 0; i < slices && link.client().is_step_open(); ++i) {
        link.step();
      }
      if (is_reset) {
        link.restart();
      } else {
        device.samples.read_status = Status::kNotFinite;
        ASSERT_TRUE(link.run_until([&] { return link.client().counters().tasks_refused == 1; }));
        EXPECT_FALSE(link.client().is_step_open());
        device.samples.read_status = Status::kOk;
      }
      ASSERT_TRUE(link.run_to_end()) << slices;
      EXPECT_EQ(link.client().replica().digest(), server.model().digest());
    }
  }
}

// ---- Refused tasks and runs ----

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

TEST(ClientTask, RefusesTasksByName) {
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

// A task of a run that trains another network, from a server that gives one nevertheless.
TEST(ClientTask, AnotherNetworkIsRefusedByName) {
  for (const uint64_t own : {uint64_t{0}, uint64_t{5}}) {
    FakeDevice device;
    device.config.network_digest = own;
    FakeServer server{FakeRun{}};
    server.edit = [](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_welcome_tag) {
        message.body.welcome.network_digest = 7;
      }
    };
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
    EXPECT_EQ(server.refusals[0].reason, gs_REASON_WRONG_NETWORK);
    EXPECT_EQ(link.client().missing_network(), 7U);
    EXPECT_EQ(link.client().counters().local_steps, 0U);
    EXPECT_EQ(server.last_hello.network_digest, own);
    const uint32_t bit = 1U << gs_FEATURE_NETWORK;
    EXPECT_EQ(server.last_hello.capabilities.features & bit, own != 0 ? bit : 0);
  }
}

TEST(ClientTask, TheRunsNetworkIsTrained) {
  FakeDevice device;
  device.config.network_digest = 7;
  FakeServer server{FakeRun{}};
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.network_digest = 7;
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().missing_network(), 0U);
  EXPECT_EQ(link.client().counters().tasks_refused, 0U);
}

TEST(ClientTask, DataThatDoNotHaveTheRunsRowsAreNamed) {
  FakeDevice device(7);  // the run has 8
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_WRONG_SHAPE);
}

TEST(ClientTask, ATaskBeyondItsMemoryIsRefused) {
  FakeDevice device(8, 2000);
  device.config.has_storage = false;
  EXPECT_EQ(reason_after([](gs_Task& t) { t.local_step_count = 256; }, device), gs_REASON_OUT_OF_MEMORY);
}

TEST(ClientTask, ARunBeyondItsMemoryOrItsImageIsRefused) {
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
  ASSERT_TRUE(link.run_until([&] { return server.hello_count() == 4; }));
  EXPECT_GE(link.connect_times[3] - link.connect_times[2], 30000U);
  EXPECT_EQ(link.client().counters().malformed_frames, 0U);
  FakeDevice other;
  other.config.registry.manifolds = other.config.registry.manifolds.first(1);
  FakeServer second{FakeRun{}};
  FakeLink other_link(other, second);
  ASSERT_TRUE(other_link.run_until([&] { return second.refusals.size() == 1; }));
  EXPECT_EQ(second.refusals[0].reason, gs_REASON_TASK_UNIMPLEMENTED);
}

TEST(ClientTask, AProductThatItCannotHoldIsRefused) {
  const Parts parts = {2, {{&kStiefelOps, {2, 2}}, {&kSphereOps, {4, 1}}}};
  struct Case {
    void (*spoil)(gs_Welcome&);
    gs_Reason reason;
  };
  const Case cases[] = {
      {[](gs_Welcome& m) { m.manifold_parts_count = 0; }, gs_REASON_MALFORMED},
      {[](gs_Welcome& m) { m.manifold_parts[1].rows = 5; }, gs_REASON_MALFORMED},
      {[](gs_Welcome& m) { m.manifold_parts[0].rows = 1; }, gs_REASON_MALFORMED},
      {[](gs_Welcome& m) { m.manifold_parts[0] = {gs_MANIFOLD_PRODUCT, 4, 1, {}, {}, {}}; }, gs_REASON_MALFORMED},
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

// Rows, columns and rank of a matrix, in place of those of its factors.
TEST(ClientTask, APartOfFixedRankThatItCannotHoldIsRefused) {
  const Parts factors = fixed_rank_parts(2, 2, 1);
  const Parts parts = {2, {{&kFixedRankOps, fixed_rank_shape(factors)}, {&kSphereOps, {3, 1}}}};
  void (*const spoils[])(gs_Welcome&) = {
      [](gs_Welcome& m) { m.manifold_parts[0].rank = 0; },  // an image that does not know the field
      [](gs_Welcome& m) { m.manifold_parts[0].rank = 3; },
      [](gs_Welcome& m) { m.manifold_parts[0].rows = 3; },  // a number more than the model has
      [](gs_Welcome& m) { m.manifold_parts[1].rank = 1; },  // no matrix
      [](gs_Welcome& m) { m.manifold_parts[0].manifold = gs_MANIFOLD_EUCLIDEAN; },
  };
  for (const auto spoil : spoils) {
    SCOPED_TRACE(&spoil - spoils);
    FakeDevice device;
    device.config.registry.manifolds = all_manifolds();
    FakeServer server(product_run(parts, StreamKind::kScalarStream));
    server.edit = [&](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_welcome_tag) {
        spoil(message.body.welcome);
      }
    };
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
    EXPECT_TRUE(server.refusals[0].reason == gs_REASON_MALFORMED ||
                server.refusals[0].reason == gs_REASON_TASK_UNIMPLEMENTED);
    EXPECT_EQ(link.client().counters().tasks_done, 0U);
  }
}

TEST(ClientTask, AStepThatFailsOnItsDataIsReported) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 1; }));
  device.samples.read_status = Status::kNotFinite;
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 1; }));
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_NOT_FINITE);
  EXPECT_EQ(server.refusals[0].task_sequence, 1U);
  device.samples.read_status = Status::kOk;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

// Labels 1 and 2 where 0 and 1 are meant; the device would meet them in some steps and not in others.
TEST(ClientTask, ALabelThatTheProblemNeverTakesIsNamedBeforeTheFirstStep) {
  FakeDevice device(9);
  for (uint32_t i = 0; i < 10; ++i) {
    device.samples.values[i * 9 + 8] = i == 7 ? 2 : 1;
  }
  device.problems[0].ops = &kLogisticOps;
  FakeServer server{FakeRun{}};  // of two columns: two classes
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) {
      std::strcpy(message.body.task.problem, "logistic");
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 1; }));
  const gs_TaskRefused& refused = server.refusals[0];
  EXPECT_EQ(refused.reason, gs_REASON_OUT_OF_RANGE);
  EXPECT_EQ(refused.sample, 7U + 1);
  EXPECT_EQ(std::vector<float>({refused.value, refused.least, refused.most}), std::vector<float>({2, 0, 1}));
  EXPECT_EQ(link.client().counters().local_steps, 0U);
  EXPECT_STREQ(link.client().sample_fault().what, "label");
  device.samples.values[7 * 9 + 8] = 0;
  ASSERT_TRUE(link.run_to_end()) << "mended data train";
  EXPECT_EQ(link.client().sample_fault().what, nullptr);
}

TEST(ClientTask, ASampleThatBecomesNoNumberIsNamed) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 1; }));
  device.samples.values[3 * 8 + 1] = std::numeric_limits<Real>::quiet_NaN();
  ASSERT_TRUE(link.run_until([&] { return server.refusals.size() == 1; }));
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_NOT_FINITE);
  EXPECT_EQ(server.refusals[0].sample, 3U + 1);
  EXPECT_EQ(server.refusals[0].most, 0);
}

TEST(ClientTask, WhatTheAckSaysOfARangeIsKept) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  server.verdicts = {gs_VERDICT_REFUSED};
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_ack_tag && message.body.ack.verdict == gs_VERDICT_REFUSED) {
      message.body.ack.reason = gs_REASON_OUT_OF_RANGE;
      message.body.ack.value = 640;
      message.body.ack.limit = 128;
      message.body.ack.fold_scale_log2 = 18;
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().updates_refused == 1; }));
  EXPECT_EQ(link.client().range_refusal().value, 640);
  EXPECT_EQ(link.client().range_refusal().limit, 128);
  EXPECT_EQ(link.client().range_refusal().fold_scale_log2, 18U);
}

// ---- Another run ----

// The same client, never reset, meets another server after so many of its updates were answered; to the end of that
// run.
void meet_another(FakeLink& link, uint32_t upload_count, FakeServer& second) {
  ASSERT_TRUE(link.run_past_upload(upload_count));
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

TEST(ClientTask, AnotherRunBeginsAnew) {
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
TEST(ClientTask, ARunThatKeepsFewerUploadsBeginsAnew) {
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

// ---- Samples that are held out ----

// Three in ten, and evaluations of every second version.
void hold_out(FakeServer& server, uint32_t holdout) {
  server.edit = [holdout](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.holdout = holdout;
    } else if (message.which_body == gs_ServerMessage_task_tag) {
      message.body.task.evaluates = message.body.task.version % 2 == 0;
    }
  };
}

TEST(ClientTask, AnUpdateSaysTheEvaluationThatItsTaskAsksFor) {
  for (const FakeRun& run : {FakeRun{}, tangent_run()}) {
    for (const uint16_t slice : {0, 1}) {
      FakeDevice device;
      FakeServer server(run);
      hold_out(server, 19661);
      std::map<uint32_t, std::optional<gs_Evaluation>> said;
      server.intercept = [&said](const DeviceMessage& message) {
        if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
          const gs_UpdateScalars& update = message.body.update_scalars;
          said[update.base_version] = update.has_evaluation ? std::optional(update.evaluation) : std::nullopt;
        } else if (message.which_body == gs_DeviceMessage_update_tangent_tag) {
          const gs_UpdateTangent& update = message.body.update_tangent;
          said[update.base_version] = update.has_evaluation ? std::optional(update.evaluation) : std::nullopt;
        }
        return false;
      };
      const std::vector<Real> first(server.model().model(), server.model().model() + run.shape.size());
      FakeLink link(device, server);
      link.client().set_slice(slice);
      ASSERT_TRUE(link.run_to_end());
      ASSERT_EQ(said.size(), run.round_count);
      for (const auto& [version, evaluation] : said) {
        EXPECT_EQ(evaluation.has_value(), version % 2 == 0) << version;
      }
      // Version 0 is the model that the server began with.
      std::vector<uint16_t> held;
      for (uint16_t i = 0; i < 10; ++i) {
        if (is_held_out(i, 19661)) {
          held.push_back(i);
        }
      }
      TestArena memory;
      const Batch batch = {held.data(), static_cast<uint32_t>(held.size())};
      const Result<Real> loss = kKpcaOps.loss(&device.samples.source, run.shape, first.data(), batch, memory.arena);
      ASSERT_TRUE(loss.ok() && said[0].has_value());
      EXPECT_EQ(said[0]->sample_count, held.size());
      EXPECT_NEAR(said[0]->loss, loss.value(), 1e-5);
      EXPECT_GT(said[0]->metric, 0);
      EXPECT_LE(said[0]->metric, 1);
      EXPECT_NE(server.last_hello.capabilities.features >> gs_FEATURE_EVALUATION & 1U, 0U);
    }
  }
}

// A sample that cannot be had while it evaluates costs the evaluation, and no more than that.
TEST(ClientTask, AnEvaluationThatFailsCostsNoTask) {
  FakeDevice device;
  for (uint32_t c = 0; c < 8; ++c) {
    device.samples.values[c] = std::numeric_limits<Real>::quiet_NaN();  // sample 0 is held out
  }
  FakeServer server{FakeRun{}};
  hold_out(server, 19661);
  bool has_evaluation = false;
  server.intercept = [&has_evaluation](const DeviceMessage& message) {
    has_evaluation = has_evaluation || (message.which_body == gs_DeviceMessage_update_scalars_tag &&
                                        message.body.update_scalars.has_evaluation);
    return false;
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_FALSE(has_evaluation);
  EXPECT_EQ(link.client().counters().tasks_refused, 0U);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

// The server learns how many samples it holds, and how many it needs.
TEST(ClientTask, ADeviceWhoseSamplesAreAllHeldOutRefusesWithTheirNumber) {
  FakeDevice device;
  device.samples.source.count = 1;
  FakeServer server{FakeRun{}};
  hold_out(server, 45000);  // the first three samples are held out, the fourth one is not
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
  EXPECT_EQ(server.refusals[0].reason, gs_REASON_OUT_OF_RANGE);
  EXPECT_EQ(server.refusals[0].sample, 0U);
  EXPECT_EQ(server.refusals[0].value, 1);
  EXPECT_EQ(server.refusals[0].least, 4);
  EXPECT_EQ(server.refusals[0].most, kSampleCountMax);
}

}  // namespace
}  // namespace gradstream

// A client whose loss is measured: it waits without haste, and whatever comes between, nothing is lost.
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/apparatus.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"

namespace gradstream {
namespace {

constexpr uint32_t kTimeoutMs = 1000;

// A device whose k-PCA is measured, or computed.
struct Bench {
  explicit Bench(bool is_measured, const FakeRun& run = {}) : server(run) {
    if (is_measured) {
      device.problems[0] = apparatus.problem();
    }
  }
  FakeDevice device;
  Apparatus apparatus{{&kKpcaOps, &device.samples.source}, kTimeoutMs};
  FakeServer server;
  FakeLink link{device, server};

  Client& client() { return link.client(); }
  bool waits() { return client().is_step_open(); }
  // Until that question waits, of those that are asked from now on.
  bool run_to_question(size_t count) {
    return link.run_until([&] { return apparatus.questions.size() >= count && waits(); });
  }
};

uint64_t computed_digest() {
  static const uint64_t digest = [] {
    Bench bench(false);
    EXPECT_TRUE(bench.link.run_to_end());
    return bench.client().replica().digest();
  }();
  return digest;
}

void expect_computed_end(Bench& bench) {
  ASSERT_TRUE(bench.link.run_to_end());
  EXPECT_EQ(bench.client().replica().digest(), computed_digest());
  EXPECT_EQ(bench.server.model().digest(), computed_digest());
}

TEST(ClientMeasurement, TheRunIsThatOfALossThatAnswersAtOnce) {
  for (const uint16_t slice : {0, 1}) {
    Bench bench(true);
    bench.client().set_slice(slice);
    expect_computed_end(bench);
    EXPECT_EQ(bench.apparatus.questions.size(), 4U * 2 * 5) << "rounds, steps, directions and the point itself";
    EXPECT_EQ(bench.client().counters().local_steps, 8U);
    EXPECT_EQ(bench.client().counters().measurements_lost, 0U);
    EXPECT_TRUE(bench.apparatus.cancelled.empty());
  }
}

// One poll, one ask; and between two asks a time to sleep, which is bounded.
TEST(ClientMeasurement, EachPollAsksOnceAndNamesAWakeTime) {
  Bench bench(true);
  bench.apparatus.asks_needed = 10;
  ASSERT_TRUE(bench.run_to_question(1));
  const uint64_t begun_ms = bench.link.now_ms;
  for (uint64_t asks = 1; asks < 9; ++asks) {
    const ClientAction action = bench.client().poll(bench.link.now_ms);
    ASSERT_EQ(action.kind, ClientActionKind::kWait);
    EXPECT_GT(action.wake_ms, bench.link.now_ms);
    EXPECT_LE(action.wake_ms, bench.link.now_ms + kMeasurePollMs);
    bench.link.now_ms = action.wake_ms;
  }
  EXPECT_EQ(bench.apparatus.questions.size(), 1U) << "the tenth ask has the answer";
  EXPECT_EQ(bench.link.now_ms, begun_ms + 8 * kMeasurePollMs);
  expect_computed_end(bench);
}

TEST(ClientMeasurement, ATaskWhoseMeasurementNeverComesIsRefusedAndAskedForAgain) {
  Bench bench(true);
  bench.apparatus.is_silent = true;
  ASSERT_TRUE(bench.run_to_question(1));
  const uint64_t begun_ms = bench.link.now_ms;
  ASSERT_TRUE(bench.link.run_until([&] { return bench.server.refusals.size() == 1; }));
  EXPECT_EQ(bench.server.refusals[0].reason, gs_REASON_DEADLINE);
  EXPECT_EQ(bench.client().last_reason(), gs_REASON_DEADLINE);
  EXPECT_EQ(bench.client().last_status(), Status::kDeadlineExceeded);
  EXPECT_GE(bench.link.now_ms, begun_ms + kTimeoutMs - kMeasurePollMs);
  EXPECT_LE(bench.link.now_ms, begun_ms + kTimeoutMs + kMeasurePollMs);
  EXPECT_EQ(bench.apparatus.cancelled, (std::vector<uint32_t>{1}));
  EXPECT_EQ(bench.apparatus.reports, 1U);
  ASSERT_TRUE(bench.link.run_until([&] { return bench.server.refusals.size() == 2; })) << "it asks again, and waits";
  bench.apparatus.is_silent = false;
  expect_computed_end(bench);
  EXPECT_EQ(bench.client().counters().measurements_lost, 2U);
}

TEST(ClientMeasurement, StepsBeforeALostMeasurementAreSentWhereTheyAreEnough) {
  for (const uint32_t steps_min : {1U, 2U}) {
    FakeRun run;
    run.steps_min = steps_min;
    Bench bench(true, run);
    ASSERT_TRUE(bench.run_to_question(6 + 3)) << "in the second step";
    bench.apparatus.is_silent = true;
    ASSERT_TRUE(bench.link.run_until([&] { return bench.client().counters().measurements_lost == 1; }));
    bench.apparatus.is_silent = false;
    EXPECT_EQ(bench.apparatus.cancelled.size(), 1U);
    ASSERT_TRUE(bench.link.run_to_end());
    EXPECT_EQ(bench.server.steps_done.front(), steps_min == 1 ? 1U : 2U);
    EXPECT_EQ(bench.server.refusals.size(), steps_min == 1 ? 0U : 1U);
    EXPECT_LT(bench.server.step_times_us.front(), 1000 * kMeasureTimeoutMs / 2) << "of the steps that were done";
    EXPECT_EQ(bench.client().replica().digest(), bench.server.model().digest());
  }
}

// task_deadline_ms: what is done by then is sent, and the question that waits is cancelled.
TEST(ClientMeasurement, TheTasksOwnDeadlineEndsAStepThatWaits) {
  FakeRun run;
  run.deadline_ms = 300;
  Bench bench(true, run);
  ASSERT_TRUE(bench.run_to_question(6 + 3)) << "in the second step";
  bench.apparatus.is_silent = true;
  ASSERT_TRUE(bench.link.run_until([&] { return bench.server.uploads.size() == 1; }));
  EXPECT_LE(bench.link.now_ms, 1000U + run.deadline_ms + 2 * kMeasurePollMs) << "long before the measurement's timeout";
  EXPECT_EQ(bench.apparatus.cancelled.size(), 1U);
  EXPECT_EQ(bench.client().counters().measurements_lost, 0U);
  bench.apparatus.is_silent = false;
  ASSERT_TRUE(bench.link.run_to_end());
  EXPECT_LT(bench.server.step_times_us.front(), 1000 * run.deadline_ms / 2) << "without the step that waited";
  EXPECT_EQ(bench.server.steps_done.front(), 1U);
  EXPECT_EQ(bench.client().replica().digest(), bench.server.model().digest());
}

// Too few steps are done by then: it goes on, as a step that computes does.
TEST(ClientMeasurement, TheTasksOwnDeadlineLeavesAStepThatIsNeeded) {
  FakeRun run;
  run.deadline_ms = 300;
  run.steps_min = 2;
  Bench bench(true, run);
  bench.apparatus.asks_needed = 30;
  expect_computed_end(bench);
  EXPECT_TRUE(bench.apparatus.cancelled.empty());
}

TEST(ClientMeasurement, ALostSessionLosesNoQuestion) {
  Bench bench(true);
  ASSERT_TRUE(bench.run_to_question(7));
  bench.link.break_connection();
  EXPECT_TRUE(bench.waits());
  expect_computed_end(bench);
  EXPECT_EQ(bench.apparatus.questions.size(), 4U * 2 * 5);
  EXPECT_TRUE(bench.apparatus.cancelled.empty());
}

// The device asks for a task when its own has ended. Another one in between does not belong there.
TEST(ClientMeasurement, ANewTaskDoesNotTouchTheQuestionThatWaits) {
  Bench bench(true);
  ASSERT_TRUE(bench.run_to_question(7));
  bench.server.send(bench.server.make_task());
  ASSERT_TRUE(bench.link.run_until([&] { return bench.client().counters().malformed_frames == 1; }));
  EXPECT_EQ(bench.client().last_reason(), gs_REASON_UNEXPECTED_MESSAGE);
  EXPECT_TRUE(bench.apparatus.cancelled.empty());
  expect_computed_end(bench);
  EXPECT_EQ(bench.apparatus.questions.size(), 4U * 2 * 5);
}

TEST(ClientMeasurement, AnUploadThatCountsNowhereIsMeasuredAnew) {
  Bench bench(true);
  bench.server.verdicts = {gs_VERDICT_ABANDONED};
  expect_computed_end(bench);
  EXPECT_EQ(bench.apparatus.questions.size(), 5U * 2 * 5);
}

// The steps that were kept stand. The step in progress begins anew: its questions are asked again, with the same
// values.
TEST(ClientMeasurement, APowerCutAsksTheStepInProgressAgain) {
  for (const size_t question : {1U, 4U, 6U, 9U}) {
    Bench bench(true);
    ASSERT_TRUE(bench.run_to_question(question));
    const std::vector<std::vector<Real>> before = bench.apparatus.questions;
    bench.apparatus.restart();
    bench.link.restart();
    ASSERT_TRUE(bench.run_to_question(question + 1));
    EXPECT_EQ(bench.apparatus.measurement.question(), 1U) << "numbers begin again";
    EXPECT_EQ(bench.apparatus.questions[question], before[question <= 5 ? 0 : 5]) << question;
    expect_computed_end(bench);
    EXPECT_EQ(bench.client().counters().steps_replayed, question <= 5 ? 0U : 1U);
    EXPECT_TRUE(bench.apparatus.cancelled.empty()) << "what was pending went with the power";
  }
}

TEST(ClientMeasurement, AClientThatEndsCancelsTheQuestionThatWaits) {
  Bench bench(true);
  bench.client().drop_open_step();
  EXPECT_TRUE(bench.apparatus.cancelled.empty()) << "no step is open";
  ASSERT_TRUE(bench.run_to_question(7));
  for (int times = 0; times < 2; ++times) {
    bench.client().drop_open_step();
    EXPECT_EQ(bench.apparatus.cancelled, (std::vector<uint32_t>{7})) << "once";
    EXPECT_FALSE(bench.waits());
  }
}

TEST(ClientMeasurement, AnAnswerThatIsNoNumberIsNamedAsAlways) {
  Bench bench(true);
  bench.apparatus.is_broken = true;
  ASSERT_TRUE(bench.link.run_until([&] { return bench.server.refusals.size() == 1; }));
  EXPECT_EQ(bench.server.refusals[0].reason, gs_REASON_NOT_FINITE);
  EXPECT_TRUE(bench.apparatus.cancelled.empty()) << "it had its answer";
  bench.apparatus.is_broken = false;
  expect_computed_end(bench);
}

}  // namespace
}  // namespace gradstream

// When a version opens and closes, is extended or stalls, and how a run ends.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/fleet.h"
#include "server/coordinator/norm_book.h"
#include "server/run/fold_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CoordinatorRounds, OpensVersionZeroWhenEnoughDevicesAreEnrolled) {
  TestServer server(scalar_parameters(), 3);
  server.start();
  EXPECT_TRUE(server.published.empty());
  EXPECT_TRUE(server.has_log("run_waiting enrolled=3 wanted=4"));
  server.hello(0);
  server.pull(0, false, 0, 0);
  ASSERT_NE(server.wait(0), nullptr);
  EXPECT_EQ(server.task(0), nullptr);
  server.names.push_back("d3");
  server.coordinator->on_device_added("d3", server.now_ms);
  server.collect();
  EXPECT_THAT(server.published, testing::ElementsAre(0));
  server.pull(0, false, 0, 0);
  EXPECT_NE(server.task(0), nullptr);
}

TEST(CoordinatorRounds, OneDigestForAnyOrderOfArrival) {
  for (const bool is_scalar : {true, false}) {
    std::vector<uint32_t> order = {0, 1, 2, 3};
    std::vector<uint64_t> digests;
    do {
      TestServer server(is_scalar ? scalar_parameters() : tangent_parameters());
      server.start();
      server.join(4);
      for (const uint32_t device : order) {
        server.upload(device, server.good_upload(device));
      }
      EXPECT_THAT(server.published, testing::ElementsAre(0, 1));
      digests.push_back(server.coordinator->model().digest());
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(digests.size(), 24U);
    EXPECT_EQ(std::count(digests.begin(), digests.end(), digests[0]), 24);
  }
}

TEST(CoordinatorRounds, AtTheDeadlineEnoughAnswersCloseTheRound) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.upload(0, server.good_upload(0));
  server.upload(1, server.good_upload(1));
  EXPECT_EQ(server.coordinator->next_tick_ms(), 2000U);
  server.tick_at(1999);
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  server.tick_at(2000);
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_TRUE(server.has_log("trigger=deadline folded=2 late=0 partial=0 missing=d2,d3"));
  const RoundSummary& round = server.coordinator->last_round();
  EXPECT_EQ(round.asked, 4U);
  EXPECT_EQ(round.wanted, 2U) << "at the deadline fewer are enough";
  EXPECT_EQ(round.time_ms - round.opened_ms, 1000U);
  EXPECT_EQ(round.waited_ms, 1000U) << "the answers came at once";
  EXPECT_EQ(round.waited_for, std::vector<std::string>({"d2", "d3"}));
  server.round(2);
  server.now_ms = 2700;
  server.pull(2);
  server.upload(2, server.good_upload(2));  // the third of the goal
  EXPECT_EQ(server.coordinator->durable_version(), 2U);
  EXPECT_EQ(server.coordinator->last_round().waited_ms, 700U) << "for the last one";
  EXPECT_EQ(server.coordinator->last_round().waited_for, std::vector<std::string>({"d2"}));
}

TEST(CoordinatorRounds, TooFewAnswersExtendThenStallTheRoundByName) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(4);
  server.upload(0, server.good_upload(0));
  server.tick_at(2000);
  EXPECT_TRUE(server.has_log("round_extended version=0 answers=1 wanted=2 missing=d1,d2,d3"));
  const RoundProgressView view = server.coordinator->round_progress();
  EXPECT_EQ(std::vector<uint64_t>({view.answers, view.wanted, view.extensions, view.opened_ms, view.deadline_ms}),
            std::vector<uint64_t>({1, 2, 1, 1000, 3000}));
  server.tick_at(3000);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  server.tick_at(4000);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STALLED);
  EXPECT_TRUE(server.has_log("run_stalled version=0 answers=1 wanted=2 missing=d1,d2,d3"));
  EXPECT_EQ(server.coordinator->counters().rounds_extended, 2U);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  server.pull(0);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_STALLED);
  server.upload(3, server.good_upload(3));
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_ACTIVE);
  EXPECT_TRUE(server.has_log("trigger=stall_ended"));
  EXPECT_EQ(server.coordinator->last_round().extensions, 2U);
  EXPECT_EQ(server.coordinator->next_tick_ms(), 5000U);
}

TEST(CoordinatorRounds, ARevokedDeviceIsNotWaitedFor) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 3; ++device) {
    server.upload(device, server.good_upload(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  server.coordinator->on_device_revoked(3, server.now_ms);
  server.collect();
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.refuse(3)->reason, gs_Reason_REASON_REVOKED);
}

TEST(CoordinatorRounds, TheLastRoundFinishesTheRun) {
  RunParameters p = scalar_parameters();
  p.trigger->round_count = 2;
  TestServer server(p);
  server.start();
  server.join(4);
  server.round(4);
  server.round(4);
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_FINISHED);
  EXPECT_EQ(server.coordinator->next_tick_ms(), UINT64_MAX);
  server.sent.clear();
  server.pull(0, false, 0, 0);  // still brings the last model
  EXPECT_NE(server.last(0, gs_ServerMessage_snapshot_chunk_tag), nullptr);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_FINISHED);
  EXPECT_EQ(server.task(0), nullptr);
}

TEST(CoordinatorRounds, AStoppedRunGivesNoTasks) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  server.coordinator->stop(server.now_ms);
  server.collect();
  server.pull(0);
  EXPECT_EQ(server.wait(0)->cause, gs_WaitCause_WAIT_CAUSE_STOPPED);
  server.upload(1, server.good_upload(1));
  EXPECT_EQ(server.ack(1)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_UNKNOWN_RUN) << "no key of the run would have made it count";
  EXPECT_TRUE(server.has_log("update_refused device=d1 task=1 reason=unknown_run remedy=\"none needed"));
  server.restart();
  EXPECT_EQ(server.coordinator->run_state(), gs_RunState_RUN_STATE_STOPPED);
}

TEST(CoordinatorRounds, UpdatesThatMakeNoStepLeaveTheModel) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.fold->fold_scale_log2 = 0;
  p.steps->server_step = 3e38F;
  TestServer server(p);
  server.start();
  server.join(4);
  const uint64_t digest = server.coordinator->model().digest();
  for (uint32_t device = 0; device < 4; ++device) {
    TestUpload upload = server.good_upload(device);
    std::fill(upload.values.begin(), upload.values.end(), 1e9F);
    server.upload(device, upload);
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  EXPECT_EQ(server.coordinator->model().digest(), digest);
  EXPECT_TRUE(server.has_log("step_failed version=1"));
}

// Rounds whose losses are these, and whose steps have this size, 1 being that of good_upload().
void play_losses(TestServer* server, const std::vector<float>& losses, Real size = 1) {
  for (const float loss : losses) {
    for (uint32_t device = 0; device < 4; ++device) {
      server->pull(device);
      TestUpload upload = server->good_upload(device);
      upload.loss_before = loss;
      for (Real& value : upload.values) {
        value *= size;
      }
      server->upload(device, upload);
    }
  }
}

// Zeros in place of losses are none, whatever the message says beside.
TEST(CoordinatorRounds, TheLossesOfARoundAreThoseOfDevicesThatTell) {
  TestServer server(tangent_parameters());
  server.start();
  const auto round = [&](uint32_t telling) {
    for (uint32_t device = 0; device < 4; ++device) {
      gs_Hello hello = good_hello(10);
      hello.capabilities.features |= device < telling ? 0 : 1U << static_cast<uint32_t>(gs_Feature_FEATURE_NO_LOSSES);
      server.hello(device, hello);
      server.pull(device);
      TestUpload upload = server.good_upload(device);
      upload.loss_before = device < telling ? 2.0F + static_cast<float>(device) : 100;
      upload.loss_after = device < telling ? 1 : -100.0F;
      server.upload(device, upload);
    }
    return server.coordinator->last_round();
  };
  EXPECT_EQ(round(4).loss_before, 3.5);
  EXPECT_EQ(round(2).loss_before, 2.5) << "the mean over two of four";
  EXPECT_EQ(server.coordinator->last_round().loss_after, 1);
  EXPECT_TRUE(server.has_log("round_closed version=2"));
  EXPECT_FALSE(round(0).has_losses);
  EXPECT_EQ(server.coordinator->last_round().loss_before, 0);
  EXPECT_FALSE(server.has_log("version=3 digest=" + hex(server.coordinator->digest()) +
                              " trigger=goal folded=4 late=0 "
                              "partial=0 missing=none loss_before"));
  const RoundSummary before = server.coordinator->last_round();
  server.restart();
  EXPECT_EQ(server.coordinator->replayed_rounds().back().has_losses, before.has_losses) << "the journal knows";
  EXPECT_EQ(server.coordinator->replayed_rounds()[1].loss_before, 2.5);
}

TEST(CoordinatorRounds, SaysOnceThatTheRunDoesNotImprove) {
  RunParameters p = tangent_parameters();
  p.steps->step_size = 1e-4F;  // which makes the promises of these uploads large
  p.steps->step_decay = 0;
  TestServer server(p);
  server.start();
  server.join(4);
  std::vector<float> losses = {2};
  for (int round = 1; round < 40; ++round) {
    losses.push_back(round % 2 == 0 ? 1.0F : 1.1F);
  }
  play_losses(&server, losses);
  EXPECT_EQ(server.coordinator->progress().state, ProgressState::kNotImproving);
  EXPECT_EQ(server.log_count("not_improving version=23"), 1U);
  EXPECT_EQ(server.log_count("not_improving"), 1U) << "at a change alone";
  EXPECT_EQ(server.log_level("not_improving"), LogLevel::kWarn);
  EXPECT_TRUE(server.has_log("kept 0 %: the step is likely too long"));
  EXPECT_TRUE(server.has_log("step_size = 1e-05, a tenth"));
  const ProgressView before = server.coordinator->progress();
  server.restart();
  EXPECT_EQ(server.coordinator->progress(), before) << "it follows from the journal";
  EXPECT_EQ(server.log_count("not_improving"), 1U) << "old news";
}

TEST(CoordinatorRounds, SaysThatASettledRunDrifts) {
  TestServer server(tangent_parameters());
  server.start();
  server.join(4);
  std::vector<float> losses;
  for (int round = 0; round < 100; ++round) {
    losses.push_back(1 + 3 / static_cast<float>(1 << std::min(round, 20)) + (round >= 95 ? 0.5F : 0.0F));
  }
  play_losses(&server, losses, static_cast<Real>(1e-3));
  EXPECT_EQ(server.log_count("settled"), 1U);
  EXPECT_EQ(server.log_count("drift"), 1U);
  EXPECT_EQ(server.coordinator->counters().drifts, 1U);
  EXPECT_TRUE(server.has_log("the median loss of the last 5 rounds is 1.5, that of the 50 before is 1"));
}

TEST(CoordinatorRounds, SaysThatARunDivergedWhoseUpdatesAreRefused) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  server.round(4);
  for (uint32_t device = 0; device < 2; ++device) {
    EXPECT_FALSE(server.has_log("diverged"));
    server.pull(device);
    TestUpload upload = server.good_upload(device);
    upload.values[0] = 1e30F;
    server.upload(device, upload);
  }
  EXPECT_EQ(server.log_count("diverged version=1"), 1U);
  EXPECT_TRUE(server.has_log("the updates of half of the devices were refused for their values"));
}

// ---- Quality ----

RunParameters evaluated_parameters() {
  RunParameters p = scalar_parameters();
  p.trigger->device_count = 2;
  p.quality->holdout_share = 0.2F;
  p.quality->evaluation_period = 2;
  return p;
}

void answer(TestServer& server, uint32_t device, const std::optional<UpdateEvaluation>& evaluation) {
  server.pull(device);
  TestUpload upload = server.good_upload(device);
  upload.notes.evaluation = evaluation;
  server.upload(device, upload);
}

TEST(CoordinatorRounds, EverySecondRoundIsEvaluatedAndItsQualityReplays) {
  TestServer server(evaluated_parameters(), 2);
  server.start();
  server.join(2);
  for (uint32_t round = 0; round < 4; ++round) {
    for (const uint32_t device : {0U, 1U}) {
      server.pull(device);
      EXPECT_EQ(server.task(device)->evaluates, round % 2 == 0) << round;
      const float metric = 0.5F + 0.25F * static_cast<float>(device);
      answer(server, device,
             round % 2 == 0 ? std::optional(UpdateEvaluation{10 + 20 * device, -1, metric}) : std::nullopt);
    }
    const RoundSummary& last = server.coordinator->last_round();
    EXPECT_EQ(last.version, round + 1);
    EXPECT_EQ(last.quality.has_value(), round % 2 == 0);
  }
  const Quality* latest = server.coordinator->quality().latest();
  ASSERT_NE(latest, nullptr);
  EXPECT_EQ(*latest, (Quality{2, 2, 40, -1, 0.6875}));
  EXPECT_TRUE(server.has_log("evaluated=2 metric=explained_variance quality=0.6875"));
  EXPECT_FALSE(server.has_log("not_evaluated"));
  const std::string state = server.coordinator->state_text();
  server.restart();
  EXPECT_EQ(server.coordinator->state_text(), state);
  EXPECT_EQ(*server.coordinator->quality().latest(), (Quality{2, 2, 40, -1, 0.6875}));
  ASSERT_EQ(server.coordinator->replayed_rounds().size(), 4U);
  EXPECT_EQ(server.coordinator->replayed_rounds()[2].quality, server.coordinator->quality().versions().back());
}

// An image from before evaluation is asked for none, trains on, and is named where nobody evaluates.
TEST(CoordinatorRounds, ADeviceThatCannotEvaluateTrainsOn) {
  TestServer server(evaluated_parameters(), 2);
  server.start();
  for (const uint32_t device : {0U, 1U}) {
    gs_Hello hello = good_hello(50);
    hello.capabilities.features &= ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_EVALUATION));
    server.hello(device, hello);
    server.pull(device, false, 0, 0);
    ASSERT_NE(server.task(device), nullptr) << "it gets its task";
    EXPECT_FALSE(server.task(device)->evaluates);
    answer(server, device, std::nullopt);
    EXPECT_EQ(server.ack(device)->verdict, gs_Verdict_VERDICT_FOLDED);
  }
  EXPECT_EQ(server.coordinator->model().version(), 1U);
  EXPECT_TRUE(server.has_log("not_evaluated version=0 unable=d0,d1"));
  EXPECT_EQ(server.coordinator->quality().latest(), nullptr);
}

// A share of five is no share: it is left out and counted, and the update stays.
TEST(CoordinatorRounds, AnImpossibleShareIsLeftOut) {
  TestServer server(evaluated_parameters(), 2);
  server.start();
  server.join(2);
  answer(server, 0, UpdateEvaluation{10, -1, 5});
  answer(server, 1, UpdateEvaluation{10, -1, 0.5F});
  EXPECT_EQ(server.coordinator->counters().notes.evaluations_not_finite, 1U);
  EXPECT_EQ(*server.coordinator->quality().latest(), (Quality{0, 1, 10, -1, 0.5}));
}

// Two rounds of ten members that answer one after the other, beside a device that cannot do the run and others that
// are held. Uses of devices in each round, from version to version.
std::vector<uint64_t> visits_of_rounds(uint32_t enrolled) {
  RunParameters p = tangent_parameters();
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 10;
  p.trigger->device_count = 10;
  p.trigger->update_goal = 9;
  p.trigger->late = LatePolicy::kDrop;
  TestServer server(p, enrolled);
  server.is_auto_persist = false;
  server.start();
  server.persist();
  const Fleet& fleet = server.coordinator->fleet();
  const auto join = [&](uint32_t device, const gs_Hello& hello, uint32_t hold_max_ms) {
    EXPECT_FALSE(hold_max_ms > 0 && fleet.is_member(device)) << "choose another one";
    server.hello(device, hello);
    server.pull(device, false, 0, 0, hold_max_ms);
    server.persist();
  };
  gs_Hello incapable = good_hello(10);
  incapable.capabilities.problems_count = 0;
  join(700, incapable, 0);
  for (const uint32_t device : {701U, 702U, 703U, 704U, 705U}) {
    join(device, good_hello(10), 30'000);
  }
  EXPECT_EQ(server.coordinator->round_progress().held, 5U);
  std::vector<uint64_t> visits;
  for (uint32_t round = 0; round < 2; ++round) {
    const uint64_t before = fleet.visit_count();
    const std::vector<uint32_t> members = fleet.members();
    EXPECT_EQ(members.size(), 10U);
    for (const uint32_t device : members) {
      EXPECT_EQ(server.connects[device], 0U) << "nobody is drawn twice with this seed";
      join(device, good_hello(10), 0);
    }
    for (uint32_t i = 0; i < 9; ++i) {
      server.upload(members[i], server.good_upload(members[i]));
      server.persist();
    }
    EXPECT_EQ(server.coordinator->durable_version(), round + 1);
    EXPECT_EQ(server.coordinator->last_round().missing, "d" + std::to_string(members[9]));
    visits.push_back(fleet.visit_count() - before);
  }
  EXPECT_EQ(fleet.find_miscount(), "");
  EXPECT_EQ(server.coordinator->round_progress().held, 5U) << "nobody wakes them for nothing";
  return visits;
}

TEST(CoordinatorRounds, AVersionCostsItsCohortAndNotItsFleet) {
  EXPECT_EQ(visits_of_rounds(1'000), visits_of_rounds(100'000));
}

// A device whose updates are long again and again is named, at most once an hour, and its status says how long they
// are.
TEST(CoordinatorRounds, AnOutlierIsNamedOnceAnHour) {
  RunParameters p = scalar_parameters();
  p.fold.keys().clip_norm = ClipNorm::kMedian;
  p.trigger->round_count = 100;
  TestServer server(p);
  server.start();
  server.join(4);
  EXPECT_TRUE(server.has_log("run_clip fold_weight=sample_count clip_norm=median clip_factor=4"));
  const auto round = [&server] {
    for (uint32_t device = 0; device < 4; ++device) {
      server.pull(device);
      TestUpload upload = server.good_upload(device);
      for (Real& value : upload.values) {
        value *= device == 2 ? 100 : 1;
      }
      server.upload(device, upload);
    }
  };
  for (uint32_t i = 0; i + 1 < kOutlierCount; ++i) {
    round();
  }
  EXPECT_FALSE(server.has_log("update_outlier"));
  round();
  EXPECT_TRUE(server.has_log("update_outlier device=d2 ratio="));
  const auto lines = [&server] { return server.log_count("update_outlier"); };
  EXPECT_EQ(lines(), 1U);
  round();
  EXPECT_EQ(lines(), 1U);
  server.now_ms += kOutlierLineMs;
  round();
  EXPECT_EQ(lines(), 2U);
  const std::vector<DeviceStatus> statuses = server.coordinator->device_statuses();
  EXPECT_TRUE(statuses[2].oddity.has_long_updates);
  EXPECT_GT(statuses[2].oddity.norm_ratio, 10);
  EXPECT_EQ(statuses[2].oddity.clipped_share, 1);
  EXPECT_FALSE(statuses[1].oddity.has_long_updates);
  EXPECT_EQ(statuses[1].oddity.clipped_share, 0);
  EXPECT_EQ(server.coordinator->counters().notes.updates_clipped, kOutlierCount + 2);
  EXPECT_GT(server.coordinator->round_progress().clip_radius, 0);
  EXPECT_TRUE(server.has_log(" cosine=0."));
  EXPECT_GT(statuses[2].oddity.cosine, statuses[1].oddity.cosine) << "the longest has the most of the step";
  EXPECT_NE(statuses[1].oddity.cosine, 0);
  EXPECT_LE(server.coordinator->round_progress().least_cosine, statuses[1].oddity.cosine);
}

}  // namespace
}  // namespace gradstream

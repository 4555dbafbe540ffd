// The straggler policy as a whole: its four choices in every combination, and what each does to a running fleet.
#include <algorithm>

#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// 0.1 s of work for device 0, 0.2 s for device 1, and so on, with T = 1 s.
constexpr uint32_t kStepUs = 100'000;
constexpr uint32_t kDeadlineMs = 1000;

RunParameters timed_parameters() {
  RunParameters p = scalar_parameters();
  p.local->local_step_count = 8;
  p.trigger->steps_min = 1;
  p.trigger->work = Work::kTimed;
  p.trigger->update_goal = 4;
  p.trigger->update_min = 1;
  p.trigger->report_deadline_ms = kDeadlineMs;
  return p;
}

uint32_t step_us(uint32_t device) { return kStepUs * (device + 1); }

// Every device pulls at the version's opening and answers when its task is done; the round closes by itself.
void timed_round(TestServer* server) {
  const uint64_t opened_ms = server->now_ms;
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (uint32_t device = 0; device < 4; ++device) {
    server->pull(device);
    order.emplace_back(opened_ms + uint64_t{server->task(device)->local_step_count} * step_us(device) / 1000, device);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [at_ms, device] : order) {
    if (server->coordinator->next_tick_ms() < at_ms) {
      server->tick_at(server->coordinator->next_tick_ms());
    }
    server->now_ms = at_ms;
    TestUpload upload = server->good_upload(device);
    upload.step_time_us = step_us(device);
    server->upload(device, upload);
  }
  if (server->coordinator->durable_version() == 0) {
    server->tick_at(server->coordinator->next_tick_ms());
  }
}

TEST(Policy, TimedWorkLetsAllFinishNearTheDeadline) {
  TestServer server(timed_parameters());
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 4; ++device) {
    EXPECT_EQ(server.task(device)->local_step_count, 1U);  // nobody has been measured
    EXPECT_EQ(server.task(device)->steps_min, 1U);
  }
  timed_round(&server);
  const uint64_t opened_ms = server.now_ms;
  timed_round(&server);
  const uint32_t wanted[] = {8, 4, 2, 2};  // of 875 ms
  for (uint32_t device = 0; device < 4; ++device) {
    EXPECT_EQ(server.task(device)->local_step_count, wanted[device]) << device;
    EXPECT_EQ(server.coordinator->device_statuses()[device].step_time_us, step_us(device));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 2U);  // all four, before T
  EXPECT_EQ(server.coordinator->counters().updates_folded, 8U);
  EXPECT_EQ(server.coordinator->counters().updates_partial, 0U);  // each did what it was asked for
  EXPECT_LT(server.now_ms, opened_ms + kDeadlineMs);
  // Half a second late, a device gets what half a second holds.
  server.now_ms += 500;
  server.pull(0);
  EXPECT_EQ(server.task(0)->local_step_count, 4U);
}

// The estimate is the journal's: a server that restarts asks for the same steps.
TEST(Policy, ARestartedServerKnowsHowFastDevicesAre) {
  TestServer server(timed_parameters());
  server.start();
  server.join(4);
  timed_round(&server);
  const std::string before = server.coordinator->state_text();
  server.restart();
  EXPECT_EQ(server.coordinator->state_text(), before);
  server.join(4);
  EXPECT_EQ(server.task(0)->local_step_count, 8U);
  EXPECT_EQ(server.task(3)->local_step_count, 2U);
  // The same task again, whatever the clock says now.
  server.now_ms += 900;
  server.pull(0);
  EXPECT_EQ(server.task(0)->local_step_count, 8U);
}

TEST(Policy, AnUpdateThatCameTooLateSaysHowSlowItsDeviceIs) {
  RunParameters p = timed_parameters();
  p.trigger->update_goal = 1;
  TestServer server(p);
  server.start();
  server.join(2);
  server.now_ms += 400;
  server.upload(1, server.good_upload(1));
  EXPECT_EQ(server.coordinator->device_statuses()[1].step_time_us, 400'000U);  // it did not say: at most so much
  ASSERT_EQ(server.coordinator->durable_version(), 1U);
  server.now_ms += 2000;
  TestUpload late = server.good_upload(0);
  late.step_time_us = 1'500'000;
  server.upload(0, late);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_TOO_STALE);
  EXPECT_EQ(server.coordinator->device_statuses()[0].step_time_us, 1'500'000U);
  server.pull(0);
  EXPECT_TRUE(server.has_log("device_too_slow device=d0 step_time_us=1500000 steps_min=1 deadline_ms=1000"));
}

TEST(Policy, ADeviceThatClaimsMoreStepsThanItHadTimeForHasNoEffect) {
  RunParameters p = scalar_parameters();
  p.trigger->step_time_min_us = 10'000;
  TestServer server(p);
  server.start();
  server.join(2);
  const std::string digest = std::to_string(server.coordinator->model().digest());
  server.now_ms += 20;  // for three steps of 10 ms
  server.upload(0, server.good_upload(0));
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_NO_TIME);
  EXPECT_TRUE(server.has_log("update_refused device=d0 task=1 reason=no_time"));
  EXPECT_EQ(server.coordinator->counters().updates_without_time, 1U);
  EXPECT_EQ(server.coordinator->counters().updates_refused, 1U);
  EXPECT_EQ(server.coordinator->answers_in(), 0U);
  server.now_ms += 80;
  TestUpload claim = server.good_upload(1);
  claim.step_time_us = 70'000;  // in a tenth of a second three steps of 70 ms, on a clock twice as fast as ours
  server.upload(1, claim);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_NO_TIME);
  // The time counts from the task, also over a restart of the server.
  server.pull(0);
  server.pull(1);
  const TestUpload early = server.good_upload(1);
  const TestUpload made = server.good_upload(0);
  server.now_ms += 20;
  server.restart();
  server.hello(1);
  server.upload(1, early);
  EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_NO_TIME);
  server.now_ms += 10;
  server.hello(0);
  server.upload(0, made);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(Policy, OverSelectionClosesWithTheFirstOfTheDrawn) {
  RunParameters p = scalar_parameters();
  p.trigger->device_count = 6;
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 2;
  p.cohort->over_selection = 2;
  p.local->correction_form = CorrectionForm::kNone;
  ASSERT_EQ(check_parameters(p).sentence, "");
  TestServer server(p);
  server.start();
  server.join(6);
  std::vector<uint32_t> asked;
  for (const DeviceStatus& device : server.coordinator->device_statuses()) {
    if (device.is_asked) {
      asked.push_back(device.index);
    }
  }
  ASSERT_EQ(asked.size(), 4U);
  const TestUpload slow = server.good_upload(asked[0]);
  server.upload(asked[3], server.good_upload(asked[3]));
  EXPECT_EQ(server.coordinator->durable_version(), 0U);
  server.upload(asked[1], server.good_upload(asked[1]));
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  server.upload(asked[0], slow);
  EXPECT_EQ(server.ack(asked[0])->reason, gs_Reason_REASON_TOO_STALE);
}

// One device has 60 % of all samples, and counts for a half.
TEST(Policy, ACappedDeviceCountsForItsShare) {
  RunParameters p = scalar_parameters();
  p.fold->weight_share_max = 0.5F;
  TestServer capped(p);
  p.fold->weight_share_max = 1;
  TestServer plain(p);
  for (TestServer* const server : {&capped, &plain}) {
    server->start();
    for (uint32_t device = 0; device < 4; ++device) {
      const uint32_t samples[] = {1000, 2000, 3000, server == &capped ? 9000U : 6000U};
      server->hello(device, good_hello(samples[device]));
      server->pull(device, false, 0, 0);
      server->upload(device, server->good_upload(device));
    }
  }
  ASSERT_EQ(capped.coordinator->durable_version(), 1U);
  EXPECT_EQ(capped.coordinator->model().digest(), plain.coordinator->model().digest());
}

struct Choice {
  const char* name;
  void (*choose)(RunParameters*);
};

// Some devices slow, one dead: versions close all the same, and the journal of it replays.
void run_with_stragglers(const RunParameters& p, const std::string& name) {
  TestServer server(p);
  server.start();
  server.join(4);
  for (uint32_t turn = 0; turn < 12; ++turn) {
    for (uint32_t device = 0; device < 3; ++device) {  // the fourth is dead
      server.pull(device);
      if (server.task(device) != nullptr && (turn + 1) % (device + 1) == 0) {
        server.upload(device, server.good_upload(device));
      }
    }
    server.tick_at(server.now_ms + 400);
  }
  const gs_RunState state = server.coordinator->run_state();
  const bool may_stall = p.trigger->buffer_size == 0 && p.trigger->update_min == 0;
  EXPECT_TRUE(state == gs_RunState_RUN_STATE_ACTIVE || may_stall) << name;
  EXPECT_TRUE(server.coordinator->durable_version() > 0 || may_stall) << name;
  const std::string before = server.coordinator->state_text();
  server.restart();
  EXPECT_EQ(server.coordinator->state_text(), before) << name;
}

// With the keys and the remedy.
TEST(Policy, EveryCombinationIsRefusedOrRuns) {
  const Choice triggers[] = {
      {"all", [](RunParameters*) {}},
      {"k", [](RunParameters* p) { p->trigger->update_goal = 3; }},
      {"k_or_q", [](RunParameters* p) { p->trigger->update_goal = 3, p->trigger->update_min = 1; }},
      {"buffer", [](RunParameters* p) { p->trigger->buffer_size = 2; }},
      {"every", [](RunParameters* p) { p->trigger->buffer_size = 1; }},
  };
  const Choice lates[] = {
      {"drop", [](RunParameters*) {}},
      {"weight", [](RunParameters* p) { p->trigger->late = LatePolicy::kWeight; }},
  };
  const Choice partials[] = {
      {"none", [](RunParameters*) {}},
      {"from_1", [](RunParameters* p) { p->trigger->steps_min = 1; }},
      {"from_1_with_deadline", [](RunParameters* p) { p->trigger->steps_min = 1, p->trigger->task_deadline_ms = 500; }},
  };
  const Choice works[] = {
      {"fixed", [](RunParameters*) {}},
      {"timed", [](RunParameters* p) { p->trigger->work = Work::kTimed; }},
      {"drawn",
       [](RunParameters* p) { p->cohort->participation = Participation::kSchemeOne, p->cohort->cohort_size = 3; }},
      {"over_selected",
       [](RunParameters* p) {
         p->cohort->participation = Participation::kSchemeOne;
         p->cohort->cohort_size = 3;
         p->cohort->over_selection = Real{4} / 3;
       }},
      {"capped", [](RunParameters* p) { p->fold->weight_share_max = 0.5F; }},
  };
  uint32_t valid = 0;
  uint32_t refused = 0;
  for (const Choice& trigger : triggers) {
    for (const Choice& late : lates) {
      for (const Choice& partial : partials) {
        for (const Choice& work : works) {
          const std::string name = std::string(trigger.name) + " " + late.name + " " + partial.name + " " + work.name;
          RunParameters p = scalar_parameters();
          p.local->correction_form = CorrectionForm::kNone;
          for (const Choice* const choice : {&trigger, &late, &partial, &work}) {
            choice->choose(&p);
          }
          const std::string sentence = check_parameters(p).sentence;
          if (!sentence.empty()) {
            // "key, key: reason; remedy"
            EXPECT_NE(sentence.find(": "), std::string::npos) << name;
            EXPECT_TRUE(sentence.find("; ") != std::string::npos || sentence.find("use ") != std::string::npos)
                << name << ": " << sentence;
            ++refused;
            continue;
          }
          ++valid;
          run_with_stragglers(p, name);
        }
      }
    }
  }
  EXPECT_EQ(valid + refused, 150U);
  EXPECT_EQ(valid, 86U);
}

}  // namespace
}  // namespace gradstream

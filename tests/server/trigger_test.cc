// The trigger "k of n or at T": its decision table, and what it comes to in runs whose devices die at random. There
// every version closes, or is extended by name, within T and one tick, however many devices are left: the real
// coordinator, in virtual time, from one seed.
#include "server/run/trigger.h"

#include <algorithm>
#include <queue>

#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/campaign.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Trigger, GoalsFollowTheFleet) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(update_goal(p, 4), 4U);
  EXPECT_EQ(update_goal(p, 3), 3U);
  EXPECT_EQ(update_least(p, 3), 3U);
  p.trigger->update_goal = 3;
  p.trigger->update_min = 2;
  EXPECT_EQ(update_goal(p, 4), 3U);
  EXPECT_EQ(update_goal(p, 2), 2U);
  EXPECT_EQ(update_least(p, 1), 1U);
}

// Of those drawn too many nobody is waited for.
TEST(Trigger, OverSelectionWantsTheCohortOnly) {
  RunParameters p = scalar_parameters();
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 2;
  EXPECT_EQ(update_goal(p, 2), 2U);
  EXPECT_TRUE(p.waits_for_all());
  p.cohort->over_selection = 2;
  EXPECT_FALSE(p.waits_for_all());
  EXPECT_EQ(update_goal(p, 4), 2U);
  EXPECT_EQ(update_least(p, 4), 2U);
  EXPECT_EQ(update_goal(p, 1), 1U);  // the others were revoked
  p.trigger->update_goal = 1;
  EXPECT_EQ(update_goal(p, 4), 1U);
}

TEST(Trigger, TheWholeDecisionTable) {
  RunParameters p = scalar_parameters();
  p.trigger->update_goal = 3;
  p.trigger->update_min = 2;
  p.trigger->extension_count_max = 1;
  struct Case {
    uint32_t on_time;
    uint32_t extensions;
    bool is_stalled;
    bool is_past;
    RoundDecision decision;
    Trigger trigger;
  };
  const Case cases[] = {
      {0, 0, false, false, RoundDecision::kWait, Trigger::kNone},
      {2, 0, false, false, RoundDecision::kWait, Trigger::kNone},
      {3, 0, false, false, RoundDecision::kClose, Trigger::kGoal},
      {2, 0, false, true, RoundDecision::kClose, Trigger::kDeadline},
      {1, 0, false, true, RoundDecision::kExtend, Trigger::kNone},
      {1, 1, false, true, RoundDecision::kStall, Trigger::kNone},
      {1, 1, true, true, RoundDecision::kWait, Trigger::kNone},
      {2, 1, true, false, RoundDecision::kClose, Trigger::kStallEnded},
      {3, 1, true, false, RoundDecision::kClose, Trigger::kStallEnded},
  };
  for (const Case& c : cases) {
    const RoundVerdict verdict = judge_round(p, {4, c.on_time, c.extensions, c.is_stalled, c.is_past});
    EXPECT_EQ(verdict.decision, c.decision) << c.on_time;
    EXPECT_EQ(verdict.trigger, c.trigger) << c.on_time;
  }
  // A phase of anchors wants everybody's until the deadline.
  EXPECT_EQ(judge_round(p, {4, 3, 0, false, false, true}).decision, RoundDecision::kWait);
  EXPECT_EQ(judge_round(p, {4, 4, 0, false, false, true}).trigger, Trigger::kGoal);
  EXPECT_EQ(judge_round(p, {4, 2, 0, false, true, true}).trigger, Trigger::kDeadline);
  // Nobody left and nobody answered: no step to make.
  EXPECT_EQ(judge_round(p, {0, 0, 0, false, false}).decision, RoundDecision::kWait);
}

// Where a round waits for those that it has seen, it closes with what is there where another one would stall.
TEST(Trigger, TheDecisionTableOfThoseSeen) {
  RunParameters p = scalar_parameters();
  p.trigger->extension_count_max = 1;
  p.trigger.keys().seen_versions = 2;
  EXPECT_TRUE(awaits_seen(p));
  struct Case {
    uint32_t on_time;
    uint32_t awaited;
    uint32_t extensions;
    bool is_stalled;
    bool is_past;
    bool has_deadline;
    RoundDecision decision;
    Trigger trigger;
  };
  const Case cases[] = {
      {0, 0, 0, false, false, true, RoundDecision::kWait, Trigger::kNone},
      {3, 1, 0, false, false, true, RoundDecision::kWait, Trigger::kNone},
      {3, 0, 0, false, false, true, RoundDecision::kClose, Trigger::kGoal},
      {3, 1, 0, false, true, true, RoundDecision::kExtend, Trigger::kNone},
      {1, 3, 1, false, true, true, RoundDecision::kClose, Trigger::kDeadline},
      {0, 4, 1, false, true, true, RoundDecision::kStall, Trigger::kNone},
      {0, 0, 1, false, true, true, RoundDecision::kStall, Trigger::kNone},
      {0, 4, 1, true, false, false, RoundDecision::kWait, Trigger::kNone},
      {1, 3, 1, true, false, false, RoundDecision::kExtend, Trigger::kNone},
      {1, 3, 2, true, false, true, RoundDecision::kWait, Trigger::kNone},
      {1, 3, 2, true, true, true, RoundDecision::kClose, Trigger::kStallEnded},
      {4, 0, 1, true, false, false, RoundDecision::kClose, Trigger::kStallEnded},
  };
  for (const Case& c : cases) {
    RoundProgress progress;
    progress.asked_count = 9;
    progress.on_time_count = c.on_time;
    progress.awaited_count = c.awaited;
    progress.extension_count = c.extensions;
    progress.is_stalled = c.is_stalled;
    progress.is_past_deadline = c.is_past;
    progress.has_deadline = c.has_deadline;
    const RoundVerdict verdict = judge_round(p, progress);
    EXPECT_EQ(verdict.decision, c.decision) << c.on_time << " of " << c.awaited << " more";
    EXPECT_EQ(verdict.trigger, c.trigger) << c.on_time << " of " << c.awaited << " more";
  }
}

// A buffer counts answers to any version; at the deadline one is enough.
TEST(Trigger, ABufferClosesByItsCount) {
  RunParameters p = scalar_parameters();
  p.trigger->buffer_size = 2;
  RoundProgress progress;
  progress.asked_count = 4;
  progress.late_count = 1;
  EXPECT_EQ(judge_round(p, progress).decision, RoundDecision::kWait);
  progress.is_past_deadline = true;
  EXPECT_EQ(judge_round(p, progress).trigger, Trigger::kDeadline);
  progress.is_past_deadline = false;
  progress.on_time_count = 1;
  EXPECT_EQ(judge_round(p, progress).trigger, Trigger::kGoal);
  progress.on_time_count = progress.late_count = 0;
  progress.is_past_deadline = true;
  EXPECT_EQ(judge_round(p, progress).decision, RoundDecision::kExtend);
}

// Where updates or answers are kept, a version closes with as many as are kept, however many devices are asked.
TEST(Trigger, AVersionThatTakesNoMoreCloses) {
  const RunParameters plain = tangent_parameters();
  RunParameters kept = plain;
  kept.fold->weight_share_max = 0.5F;
  constexpr uint32_t kMost = kKeptUpdateCountMax;
  EXPECT_EQ(update_goal(plain, 100000), 100000U);
  EXPECT_EQ(update_goal(kept, 100000), kMost);
  EXPECT_EQ(update_least(kept, 100000), kMost);
  EXPECT_EQ(wanted_updates(kept, 100000), 100000U);
  EXPECT_EQ(goal_of_all(plain, 100000, false), 100000U);
  EXPECT_EQ(goal_of_all(plain, 100000, true), kMost);
  EXPECT_EQ(goal_of_all(plain, 9, true), 9U);
  RoundProgress progress;
  progress.asked_count = 100000;
  progress.on_time_count = kMost;
  EXPECT_EQ(judge_round(plain, progress).decision, RoundDecision::kWait);
  EXPECT_EQ(judge_round(kept, progress).trigger, Trigger::kGoal);
  --progress.on_time_count;
  EXPECT_EQ(judge_round(kept, progress).decision, RoundDecision::kWait);
  progress.late_count = 1;  // it fills the version, too
  EXPECT_EQ(judge_round(kept, progress).trigger, Trigger::kGoal);
  progress.is_anchor = true;
  EXPECT_EQ(judge_round(plain, progress).decision, RoundDecision::kWait);
  progress.keeps_answers = true;
  EXPECT_EQ(judge_round(plain, progress).trigger, Trigger::kGoal);
}

// ---- Runs whose devices die ----

// How late the shell's timer may be.
constexpr uint64_t kTickMs = 10;
constexpr uint32_t kRunCount = campaign_draws(1000);
constexpr uint32_t kVersionCount = 12;

struct Dice {
  explicit Dice(uint32_t run) : stream(key(run)) {}
  static RandomKey key(uint32_t run) {
    RandomKey out;
    out.version = run;
    return out;
  }
  uint64_t between(uint64_t low, uint64_t high) { return low + stream.next() % (high - low + 1); }
  RandomStream stream;
};

RunParameters drawn_parameters(Dice* dice) {
  RunParameters p = scalar_parameters();
  p.model->shape = {4, 1};
  p.local->direction_count = 2;
  p.local->local_step_count = 1;
  p.trigger->round_count = kVersionCount;
  p.trigger->device_count = static_cast<uint32_t>(dice->between(2, 10));
  p.trigger->update_goal = static_cast<uint32_t>(dice->between(1, p.trigger->device_count));
  p.trigger->update_min = static_cast<uint32_t>(dice->between(1, p.trigger->update_goal));
  p.trigger->report_deadline_ms = static_cast<uint32_t>(dice->between(100, 2000));
  p.trigger->extension_count_max = static_cast<uint32_t>(dice->between(0, 3));
  p.trigger->late = dice->between(0, 1) == 0 ? LatePolicy::kDrop : LatePolicy::kWeight;
  GS_ASSERT(!check_parameters(p));
  return p;
}

// What a version came to, as the journal tells it.
struct Tally {
  uint32_t by_goal = 0;
  uint32_t by_deadline = 0;
  uint32_t extended = 0;
  uint32_t stalled = 0;
  uint32_t deaths = 0;
  uint64_t latest_ms = 0;  // beyond T
};

class DyingFleet {
 public:
  DyingFleet(uint32_t run, Tally* tally) : dice_(run), server_(drawn_parameters(&dice_)), tally_(tally) {
    for (uint32_t i = 0; i < server_.parameters.trigger->device_count; ++i) {
      step_ms_.push_back(dice_.between(1, server_.parameters.trigger->report_deadline_ms));
      dies_ms_.push_back(1000 +
                         dice_.between(0, 2ULL * kVersionCount * server_.parameters.trigger->report_deadline_ms));
      wakes_.emplace(1000 + dice_.between(0, 50), i);
    }
    has_task_.resize(step_ms_.size());
  }

  void run() {
    server_.start();
    opened_ms_ = server_.now_ms;
    while (!is_over() && (!wakes_.empty() || server_.coordinator->next_tick_ms() != UINT64_MAX)) {
      const uint64_t due_ms = server_.coordinator->next_tick_ms();
      if (due_ms != due_ms_) {  // the shell has a new timer
        due_ms_ = due_ms;
        tick_ms_ = due_ms == UINT64_MAX ? due_ms : due_ms + dice_.between(0, kTickMs);
      }
      if (wakes_.empty() || tick_ms_ <= wakes_.top().first) {
        due_ms_ = 0;
        server_.tick_at(tick_ms_);
      } else {
        const auto [at_ms, device] = wakes_.top();
        wakes_.pop();
        server_.now_ms = at_ms;
        wake(device);
      }
      read_journal();
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    // A fleet too small to close a version stands still, and says so.
    EXPECT_TRUE(is_over() || server_.coordinator->run_state() == gs_RunState_RUN_STATE_STALLED);
  }

 private:
  bool is_over() const { return server_.coordinator->run_state() == gs_RunState_RUN_STATE_FINISHED; }

  void wake(uint32_t device) {
    if (server_.now_ms >= dies_ms_[device]) {
      ++tally_->deaths;
      return;
    }
    if (has_task_[device]) {
      has_task_[device] = false;
      server_.upload(device, server_.good_upload(device));
    }
    if (server_.connects[device] == 0) {
      server_.hello(device);
    }
    const size_t sent = server_.sent.size();
    server_.pull(device);
    has_task_[device] = false;
    for (size_t i = sent; i < server_.sent.size(); ++i) {
      has_task_[device] = has_task_[device] || server_.sent[i].message.which_body == gs_ServerMessage_task_tag;
    }
    const uint64_t next_ms = has_task_[device]
                                 ? step_ms_[device] + dice_.between(0, step_ms_[device])
                                 : dice_.between(1, server_.parameters.trigger->report_deadline_ms / 8 + 1);
    wakes_.emplace(server_.now_ms + next_ms, device);
  }

  // Every decision at its time: no version is open beyond T and a tick without one.
  void read_journal() {
    const RunParameters& p = server_.parameters;
    const std::vector<JournalRecord>& records = server_.store.records();
    for (; read_count_ < records.size(); ++read_count_) {
      const JournalRecord& record = records[read_count_];
      if (record.kind() == RecordKind::kUpdate) {
        on_time_ += record.verdict() == gs_Verdict_VERDICT_FOLDED ? 1 : 0;
        EXPECT_LE(on_time_, update_goal(p, p.trigger->device_count));  // k close it at once
        continue;
      }
      const bool is_event = record.kind() == RecordKind::kRunState;
      if (record.kind() != RecordKind::kVersion && !is_event) {
        continue;
      }
      const RunEvent event = is_event ? record.run_event() : RunEvent::kNone;
      if (record.version() == 0 && !is_event) {
        opened_ms_ = record.time_ms();
        continue;
      }
      if (is_event && event == RunEvent::kFinished) {
        continue;
      }
      const uint64_t open_ms = record.time_ms() - opened_ms_;
      if (!is_stalled_) {
        EXPECT_LE(open_ms, p.trigger->report_deadline_ms + kTickMs);
      }
      const uint64_t late_ms = open_ms - std::min<uint64_t>(open_ms, p.trigger->report_deadline_ms);
      tally_->latest_ms = is_stalled_ ? tally_->latest_ms : std::max(tally_->latest_ms, late_ms);
      if (is_event) {
        EXPECT_LT(on_time_, p.trigger->update_min);
        EXPECT_GE(open_ms, p.trigger->report_deadline_ms);
        is_stalled_ = event == RunEvent::kStalled;
        ++(is_stalled_ ? tally_->stalled : tally_->extended);
      } else {
        judge_close(record, open_ms);
      }
      opened_ms_ = record.time_ms();
    }
  }
  void judge_close(const JournalRecord& record, uint64_t open_ms) {
    const RunParameters& p = server_.parameters;
    const Trigger trigger = record.trigger();
    if (trigger == Trigger::kDeadline) {
      EXPECT_GE(on_time_, p.trigger->update_min);
      EXPECT_GE(open_ms, p.trigger->report_deadline_ms);
      ++tally_->by_deadline;
    } else if (trigger == Trigger::kGoal) {
      EXPECT_EQ(on_time_, p.trigger->update_goal);
      ++tally_->by_goal;
    } else {
      EXPECT_TRUE(is_stalled_);
      EXPECT_GE(on_time_, p.trigger->update_min);
    }
    on_time_ = 0;
    is_stalled_ = false;
  }

  using Wake = std::pair<uint64_t, uint32_t>;
  Dice dice_;
  TestServer server_;
  Tally* tally_;
  std::vector<uint64_t> step_ms_;
  std::vector<uint64_t> dies_ms_;
  std::vector<bool> has_task_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  uint64_t due_ms_ = 0;
  uint64_t tick_ms_ = 0;
  uint64_t opened_ms_ = 0;
  uint32_t on_time_ = 0;
  bool is_stalled_ = false;
  size_t read_count_ = 0;
};

TEST(Trigger, FiresWithinTAndATickInEachRun) {
  Tally tally;
  for (uint32_t run = 0; run < kRunCount; ++run) {
    DyingFleet(run, &tally).run();
    ASSERT_FALSE(HasFailure()) << "run " << run;
  }
  std::printf("%u runs, %u deaths: %u versions by k, %u at T, %u extended, %u stalled; latest %llu ms after T\n",
              kRunCount, tally.deaths, tally.by_goal, tally.by_deadline, tally.extended, tally.stalled,
              static_cast<unsigned long long>(tally.latest_ms));
  // Each of them has happened often.
  EXPECT_GT(tally.deaths, kRunCount);
  EXPECT_GT(tally.by_goal, kRunCount);
  EXPECT_GT(tally.by_deadline, kRunCount);
  EXPECT_GT(tally.extended, kRunCount / 10);
  EXPECT_GT(tally.stalled, kRunCount / 10);
  EXPECT_LE(tally.latest_ms, kTickMs);
}

}  // namespace
}  // namespace gradstream

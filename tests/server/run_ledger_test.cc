#include "server/coordinator/run_ledger.h"

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// Four devices, all of whom take part.
struct Everybody : Enrolment {
  uint32_t active_count() const override { return 4; }
  bool has_left(uint32_t /*device*/) const override { return false; }
};

// A run at version 0.
struct Scene {
  explicit Scene(const RunParameters& p = scalar_parameters()) : parameters(p), run(parameters, everybody, 1) {
    begin(run.make_first({}));
  }
  void begin(const VersionRecord& record) {
    ClipTally clip;
    GS_ASSERT(run.follow(record) == Status::kOk && run.begin(record, &clip) == Status::kOk);
  }
  FoldInput input(uint32_t device) {
    values = draw_values(12, device + 1, 0.1F);
    FoldInput out;
    out.device = device;
    out.owner = parameters.owner_of(device);
    out.base_version = run.version();
    out.steps_done = 3;
    out.weight = 10;
    out.values = values;
    return out;
  }
  // Ends the open version with an update of each device.
  VersionRecord close() {
    for (uint32_t device = 0; device < 4; ++device) {
      GS_ASSERT(run.prepare_fold(input(device)) == Status::kOk);
      run.commit_fold(input(device));
    }
    ClosingNotes notes;
    VersionRecord record = run.close(4, &notes);
    GS_ASSERT(notes.status == Status::kOk);
    ClipTally clip;
    GS_ASSERT(run.begin(record, &clip) == Status::kOk);
    return record;
  }

  RunParameters parameters;
  Everybody everybody;
  RunLedger run;
  std::vector<Real> values;
};

TEST(RunLedger, BeginsAtThePointOfItsSeedOrAtOneThatIsGiven) {
  Scene scene;
  EXPECT_TRUE(scene.run.has_version());
  EXPECT_EQ(scene.run.version(), 0U);
  EXPECT_EQ(scene.run.round(), 0U);
  Scene again;
  EXPECT_EQ(again.run.digest(), scene.run.digest());
  Everybody everybody;
  RunLedger other(scene.parameters, everybody, 1);
  EXPECT_FALSE(other.has_version());
  std::vector<Real> start(32);
  start[0] = start[17] = 1;  // the first columns of the unit matrix, by columns
  const VersionRecord first = other.make_first(start);
  ClipTally clip;
  ASSERT_EQ(other.follow(first), Status::kOk);
  ASSERT_EQ(other.begin(first, &clip), Status::kOk);
  EXPECT_NE(other.digest(), scene.run.digest());
}

// One server closes versions, and another one follows its records alone.
TEST(RunLedger, WhoFollowsTheRecordsComesToTheSameModels) {
  for (const RunParameters& p : {scalar_parameters(), tangent_parameters()}) {
    Scene leader(p);
    Scene follower(p);
    for (int i = 0; i < 3; ++i) {
      if (p.stream() != StreamKind::kScalarStream) {
        ClosingNotes notes;
        const VersionRecord record = leader.run.close(4, &notes);  // nobody has answered: the model stands still
        ClipTally clip;
        ASSERT_EQ(leader.run.begin(record, &clip), Status::kOk);
        follower.begin(record);
      } else {
        follower.begin(leader.close());
      }
      EXPECT_EQ(follower.run.version(), leader.run.version());
      EXPECT_EQ(follower.run.digest(), leader.run.digest());
      EXPECT_EQ(follower.run.round(), leader.run.round());
      EXPECT_EQ(follower.run.log_text(), leader.run.log_text());
    }
  }
}

TEST(RunLedger, ARecordThatDoesNotReachItsDigestIsCorrupt) {
  Scene leader;
  Scene follower;
  VersionRecord record = leader.close();
  record.digest ^= 1;
  EXPECT_EQ(follower.run.follow(record), Status::kDataCorrupt);
}

TEST(RunLedger, AnUpdateThatCountsAlreadyAddsWhatAPreparedOneAdds) {
  Scene prepared;
  Scene added;
  for (uint32_t device = 0; device < 3; ++device) {
    ASSERT_EQ(prepared.run.prepare_fold(prepared.input(device)), Status::kOk);
    prepared.run.commit_fold(prepared.input(device));
    ASSERT_EQ(added.run.add_fold(added.input(2 - device)), Status::kOk);
  }
  EXPECT_EQ(prepared.run.fold_text(), added.run.fold_text()) << "in any order";
  added.run.fold_again_for_test(added.input(0));
  EXPECT_NE(prepared.run.fold_text(), added.run.fold_text());
}

TEST(RunLedger, AnUpdateThatIsCheckedAddsNothing) {
  Scene scene;
  const std::string before = scene.run.fold_text();
  EXPECT_EQ(scene.run.check_fold(scene.input(0)), Status::kOk);
  FoldInput beyond = scene.input(1);
  scene.values.assign(12, 1e30F);
  beyond.values = scene.values;
  EXPECT_EQ(scene.run.check_fold(beyond), Status::kOutOfRange);
  EXPECT_EQ(scene.run.prepare_fold(beyond), Status::kOutOfRange);
  EXPECT_EQ(scene.run.fold_text(), before);
}

TEST(RunLedger, ADeviceGetsWhatItLacks) {
  Scene scene;
  const uint64_t first = scene.run.digest();
  scene.close();
  const uint64_t second = scene.run.digest();
  scene.close();
  const uint64_t third = scene.run.digest();
  EXPECT_FALSE(scene.run.digest_of(0).has_value()) << "two records are longer than a model, and the first is forgotten";
  EXPECT_EQ(scene.run.digest_of(1), second);
  EXPECT_EQ(scene.run.digest_of(2), third);
  EXPECT_FALSE(scene.run.digest_of(3).has_value());
  const struct {
    bool has_model;
    uint32_t version;
    uint64_t digest;
    SyncCause cause;
    bool has_snapshot;
    size_t record_count;
  } kCases[] = {
      {true, 2, third, SyncCause::kCurrent, false, 0},     {true, 1, second, SyncCause::kBehind, false, 1},
      {true, 0, first, SyncCause::kShorter, true, 0},      {false, 0, 0, SyncCause::kJoined, true, 0},
      {true, 2, third + 1, SyncCause::kMismatch, true, 0}, {true, 1, third, SyncCause::kMismatch, true, 1},
      {true, 7, third, SyncCause::kAhead, true, 0},
  };
  for (const auto& one : kCases) {
    const SyncPlan plan = scene.run.plan_sync(one.has_model, one.version, one.digest);
    EXPECT_STREQ(sync_cause_name(plan.cause), sync_cause_name(one.cause));
    EXPECT_EQ(plan.snapshot != nullptr, one.has_snapshot) << sync_cause_name(one.cause);
    EXPECT_EQ(plan.records.size(), one.record_count) << sync_cause_name(one.cause);
  }
}

TEST(RunLedger, ATaskAsksForWhatItsVersionWants) {
  RunParameters p = deadline_parameters();
  Scene scene(p);
  const TaskTerms terms = scene.run.task_terms();
  EXPECT_EQ(terms.local_step_count, 3U);
  EXPECT_EQ(terms.steps_min, 1U);
  EXPECT_EQ(scene.run.steps_min(), 1U);
  EXPECT_EQ(terms.stage, TaskStage::kTrain);
  EXPECT_FALSE(scene.run.asks_everybody());
  EXPECT_EQ(scene.run.inverse_participation(2, 0), 1);
  Scene whole;
  EXPECT_EQ(whole.run.steps_min(), 3U) << "all of them, where partial work does not count";
}

}  // namespace
}  // namespace gradstream

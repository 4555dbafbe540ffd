#include "server/engine/followed_run.h"

#include <type_traits>

#include <gtest/gtest.h>

#include "server/run/fold_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kDevices = 4;

void fold(FollowedRun* run, uint32_t device, size_t value_count) {
  const RunParameters& p = run->parameters();
  const std::vector<Real> values = draw_values(value_count, device + 1, 0.1F);
  FoldInput input;
  input.owner = p.owner_of(device);
  input.base_version = run->version();
  input.steps_done = p.local->local_step_count;
  input.weight = 10;
  input.values = values;
  input.device = device;
  ASSERT_EQ(run->ledger().add_fold(input), Status::kOk);
}

void fold(FollowedRun* run, uint32_t device) {
  const RunParameters& p = run->parameters();
  fold(run, device, size_t{p.local->local_step_count} * p.local->direction_count);
}

PublishedVersion published(const VersionRecord& record) {
  return {record.version, encode_published(record, Trigger::kGoal)};
}

// A copy's ledger would refer to the parameters of the run that it was copied from, and that run may be gone.
static_assert(!std::is_copy_constructible_v<FollowedRun> && !std::is_copy_assignable_v<FollowedRun>);
static_assert(!std::is_move_constructible_v<FollowedRun> && !std::is_move_assignable_v<FollowedRun>);

TEST(FollowedRun, BeginsAtTheVersionThatOneServerOpens) {
  TestServer server(scalar_parameters(), kDevices);
  server.start();
  const FollowedRun run(scalar_parameters(), kDevices);
  EXPECT_EQ(run.version(), 0U);
  EXPECT_EQ(run.ledger().digest(), server.coordinator->digest());
}

TEST(FollowedRun, FollowsWhatAnotherNodeHasMade) {
  RunParameters parameters = scalar_parameters();
  parameters.trigger->round_count = 2;
  FollowedRun maker(parameters, kDevices);
  FollowedRun follower(parameters, kDevices);
  for (uint32_t version = 1; version <= 2; ++version) {
    EXPECT_FALSE(follower.is_done());
    fold(&maker, version);
    const VersionRecord record = *maker.close();
    ASSERT_EQ(maker.begin(record), Status::kOk);
    ASSERT_EQ(follower.follow(published(record)), Status::kOk);
    EXPECT_EQ(follower.version(), version);
    EXPECT_EQ(follower.ledger().digest(), maker.ledger().digest());
  }
  EXPECT_TRUE(follower.is_done());
}

// A node that has started since a device was enrolled knows a larger fleet. Runs of means have its size in version 0.
TEST(FollowedRun, TheSizeOfTheFleetIsInNoDigest) {
  RunParameters means = tangent_parameters();
  means.local->solver = SolverId::kProjection;
  means.local->correction_form = CorrectionForm::kLocal;
  ASSERT_TRUE(means.has_mean());
  ASSERT_FALSE(check_cluster_run(means)) << check_cluster_run(means).sentence;
  FollowedRun before(means, kDevices);
  FollowedRun after(means, kDevices + 3);
  EXPECT_EQ(after.ledger().digest(), before.ledger().digest());
  for (uint32_t version = 1; version <= 3; ++version) {
    FollowedRun& maker = version == 2 ? after : before;
    FollowedRun& follower = version == 2 ? before : after;
    fold(&maker, version - 1, means.model->shape.size());
    const VersionRecord record = *maker.close();
    ASSERT_EQ(maker.begin(record), Status::kOk);
    ASSERT_EQ(follower.follow(published(record)), Status::kOk);
    EXPECT_EQ(follower.ledger().digest(), maker.ledger().digest());
  }
}

// Sums that two nodes have made apart come to the record of one.
TEST(FollowedRun, MergesSumsOfOthers) {
  FollowedRun one(scalar_parameters(), kDevices);
  FollowedRun a(scalar_parameters(), kDevices);
  FollowedRun b(scalar_parameters(), kDevices);
  fold(&one, 0);
  fold(&one, 1);
  fold(&a, 0);
  fold(&b, 1);
  ASSERT_EQ(a.ledger().merge(b.ledger().take_partial()), Status::kOk);
  EXPECT_EQ(*a.close(), *one.close());
}

// A record that was not published leaves nothing behind: the same version makes the same record once more.
TEST(FollowedRun, GoesBackToTheOpenVersion) {
  FollowedRun run(scalar_parameters(), kDevices);
  fold(&run, 0);
  ASSERT_EQ(run.begin(*run.close()), Status::kOk);
  const uint64_t digest = run.ledger().digest();
  fold(&run, 1);
  const VersionRecord record = *run.close();
  run.reopen();
  EXPECT_EQ(run.version(), 1U);
  EXPECT_EQ(run.ledger().digest(), digest);
  fold(&run, 1);
  EXPECT_EQ(*run.close(), record);
}

TEST(FollowedRun, RefusesBytesThatNoNodeWrites) {
  FollowedRun run(scalar_parameters(), kDevices);
  fold(&run, 0);
  const PublishedVersion good = published(*run.close());
  for (size_t i = 0; i <= good.record.size(); ++i) {
    PublishedVersion cut = good;
    cut.record.resize(i);
    FollowedRun other(scalar_parameters(), kDevices);
    EXPECT_EQ(other.follow(cut), i == good.record.size() ? Status::kOk : Status::kDataCorrupt) << i;
  }
  PublishedVersion later = good;
  ++later.version;
  FollowedRun other(scalar_parameters(), kDevices);
  EXPECT_EQ(other.follow(later), Status::kDataCorrupt) << "a version is left out";
  PublishedVersion spoilt = good;
  spoilt.record.back() ^= 1;
  EXPECT_EQ(other.follow(spoilt), Status::kDataCorrupt);
}

TEST(FollowedRun, SaysWhatSeveralNodesCannotTrain) {
  EXPECT_FALSE(check_cluster_run(scalar_parameters()));
  EXPECT_FALSE(check_cluster_run(tangent_parameters()));
  const auto sentence = [](const auto& change) {
    RunParameters parameters = scalar_parameters();
    change(parameters);
    return check_cluster_run(parameters).sentence;
  };
  const auto names = [](const std::string& text, const char* key) { return text.find(key) != std::string::npos; };
  EXPECT_TRUE(names(check_cluster_run(asynchronous_parameters()).sentence, "delay_rule"));
  EXPECT_FALSE(names(check_cluster_run(asynchronous_parameters()).sentence, "aggregator")) << "nobody asked for one";
  const auto with_a_memory = [&](const auto& change) {
    return sentence([&](RunParameters& p) {
      p.local->correction_form = CorrectionForm::kMemory;
      change(p);
    });
  };
  EXPECT_EQ(with_a_memory([](RunParameters& p) { p.trigger->device_count = kClusterMemoryDevicesMax; }), "");
  EXPECT_TRUE(names(with_a_memory([](RunParameters& p) { p.trigger->device_count = kClusterMemoryDevicesMax + 1; }),
                    "16384 devices at most, and device_count is 16385"));
  EXPECT_TRUE(
      names(with_a_memory([](RunParameters& p) { p.fold.keys().clip_norm = ClipNorm::kTrailing; }), "clip_norm"));
  EXPECT_TRUE(names(with_a_memory([](RunParameters& p) { p.fold.keys().clip_norm = ClipNorm::kMedian; }), "clip_norm"));
  EXPECT_TRUE(names(sentence([](RunParameters& p) { p.fold->weight_share_max = 0.5F; }), "weight_share_max"));
  EXPECT_TRUE(names(sentence([](RunParameters& p) { p.fold.keys().clip_norm = ClipNorm::kFixed; }), "clip_norm"));
  EXPECT_TRUE(
      names(sentence([](RunParameters& p) { p.cohort->participation = Participation::kSchemeOne; }), "participation"));
  EXPECT_TRUE(names(sentence([](RunParameters& p) { p.trigger->buffer_size = 4; }), "buffer_size"));
  EXPECT_TRUE(names(sentence([](RunParameters& p) { p.trigger.keys().seen_versions = 3; }), "seen_versions"));
  EXPECT_TRUE(names(sentence([](RunParameters& p) { p.quality->evaluation_period = 2; }), "evaluation_period"));
}

}  // namespace
}  // namespace gradstream

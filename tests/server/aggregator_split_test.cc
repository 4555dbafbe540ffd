// A version whose updates go to several sums has the record of one sum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "tests/support/mergeable_runs.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint32_t kUpdateCount = 9;

TEST(AggregatorSplit, HasTheRecordOfOneSum) {
  for (const MergeableRun& run : mergeable_runs()) {
    SCOPED_TRACE(run.name);
    for (const uint32_t count : {2U, 8U, kAggregatorCountMax}) {
      MergeableRule plain(run);
      MergeableRule split(run, count);
      for (uint32_t device = 0; device < kUpdateCount; ++device) {
        plain.add(device);
        split.add(device);
        EXPECT_EQ(split.record(), plain.record());
        EXPECT_EQ(split.rule->stand_still(), plain.rule->stand_still());
        EXPECT_EQ(split.rule->partial(), plain.rule->partial());
      }
      EXPECT_EQ(split.rule->take_partial(), plain.rule->take_partial());
      split.add(3);
      plain.add(3);
      EXPECT_EQ(split.record(), plain.record());  // what the version's record said is still known
    }
  }
}

// What a checkpoint holds does not depend on the number of sums, and each sum of a new life knows it.
TEST(AggregatorSplit, AStateIsThatOfOneSum) {
  for (const MergeableRun& run : mergeable_runs()) {
    SCOPED_TRACE(run.name);
    MergeableRule plain(run);
    MergeableRule split(run, 3);
    StateArchive of_plain;
    StateArchive of_split;
    plain.rule->exchange(of_plain);
    split.rule->exchange(of_split);
    const std::vector<uint8_t> bytes = of_split.take_bytes();
    EXPECT_EQ(bytes, of_plain.take_bytes());
    MergeableRun other = run;
    other.opened = VersionRecord();
    other.opened.version = 2;
    MergeableRule restored(other, 3);
    StateArchive in(bytes);
    restored.rule->exchange(in);
    EXPECT_TRUE(in.is_sound() && in.is_at_end());
    for (uint32_t device = 0; device < kUpdateCount; ++device) {
      plain.add(device);
      restored.add(device);
    }
    EXPECT_EQ(restored.record(), plain.record());
  }
}

TEST(AggregatorSplit, RefusesWhatEachSumRefuses) {
  for (const MergeableRun& run : mergeable_runs()) {
    SCOPED_TRACE(run.name);
    MergeableRule split(run, 2);
    split.add(0);
    const VersionRecord before = split.record();
    EXPECT_EQ(split.rule->check({0, 2, 1, 5, std::vector<Real>(1), 1}), Status::kInvalidArgument);
    PartialSum sum = split.rule->partial();
    while (sum.weights.update_count() < kFoldUpdateCountMax) {
      const WeightSum half = sum.weights;
      sum.weights.add(half);
    }
    EXPECT_EQ(split.rule->merge(sum), Status::kOutOfRange);
    EXPECT_EQ(split.record(), before);
    split.rule->begin();
    ASSERT_EQ(split.rule->follow(run.opened), Status::kOk);
    ASSERT_EQ(split.rule->merge(sum), Status::kOk);  // the version is full, whichever sum is asked
    for (uint32_t device = 0; device < 2; ++device) {
      const std::vector<Real> values(run.parameters.value_count());
      EXPECT_EQ(split.rule->check({0, 2, run.parameters.local->local_step_count, 5, values, device}),
                Status::kOutOfRange);
    }
  }
}

// Rules that keep updates, or go by their order, say why they take one sum alone.
TEST(AggregatorSplit, RulesThatDoNotMergeAreNamed) {
  for (const MergeableRun& run : mergeable_runs()) {
    EXPECT_EQ(check_aggregator_count(run.parameters, kAggregatorCountMax), Objection()) << run.name;
  }
  const auto refused = [](const RunParameters& p, uint32_t count, const char* cause) {
    EXPECT_EQ(check_parameters(p), Objection());
    EXPECT_THAT(check_aggregator_count(p, count).sentence,
                testing::AllOf(HasSubstr(std::to_string(count) + " aggregators: "), HasSubstr(cause)));
    EXPECT_EQ(check_aggregator_count(p, 1), Objection());
  };
  RunParameters p = scalar_parameters();
  refused(p, 0, "1 to 64");
  refused(p, kAggregatorCountMax + 1, "1 to 64");
  p.fold->weight_share_max = 0.5F;
  refused(p, 8, "set weight_share_max to 1");
  refused(asynchronous_parameters(), 2, "set delay_rule to none");
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    p = scalar_parameters();
    p.local->correction_form = form;
    p.fold->fold_weight = FoldWeight::kUniform;
    refused(p, 2, "set correction_form to local");
  }
}

}  // namespace
}  // namespace gradstream

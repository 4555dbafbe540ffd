#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/rules/norm_clip.h"
#include "server/run/check_parameters.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint32_t kDevices = 9;

RunParameters clipped(RunParameters p, ClipNorm norm, float factor = 4) {
  p.fold.keys().clip_norm = norm;
  p.fold.keys().clip_factor = factor;
  return p;
}

// Scalars, and tangents. Each device weighs alike, so that a factor of an update is a factor of what it adds.
std::vector<RunParameters> plain_runs() {
  std::vector<RunParameters> runs = {scalar_parameters(), tangent_parameters()};
  for (RunParameters& p : runs) {
    p.fold->fold_weight = FoldWeight::kUniform;
  }
  return runs;
}

std::vector<Real> values_of(const RunParameters& p, uint32_t device, Real factor = 1) {
  std::vector<Real> values = draw_values(p.value_count(), 40 + device, 0.1F);
  for (Real& value : values) {
    value *= factor;
  }
  return values;
}

FoldInput input_of(const RunParameters& p, uint32_t device, const std::vector<Real>& values) {
  FoldInput input;
  input.base_version = 2;
  input.steps_done = p.local->local_step_count;
  input.weight = 100;
  input.device = device;
  input.values = values;
  return input;
}

void add(TestRule& f, uint32_t device, Real factor = 1) {
  const RunParameters& p = f.server.parameters;
  const std::vector<Real> values = values_of(p, device, factor);
  ASSERT_EQ(f.rule->add(input_of(p, device, values)), Status::kOk);
}

// The version closes, as in a ledger: the replica stays where it is, so that every version is version 3.
void close(TestRule& f) {
  const VersionRecord record = f.record();
  ASSERT_EQ(f.rule->follow(record), Status::kOk);
}

uint64_t norm_of(const RunParameters& p, uint32_t device, Real factor = 1) {
  UpdateClip clip;
  const std::vector<Real> values = values_of(p, device, factor);
  const uint32_t steps = p.local->local_step_count;
  GS_ASSERT(measure_clip(values, static_cast<Real>(steps), steps, p.fold->fold_scale_log2, kNoClipRadius, &clip) ==
            Status::kOk);
  return clip.norm;
}

VersionRecord unclipped(VersionRecord record) {
  record.clip.reset();
  return record;
}

// Equal updates are never beyond the radius: the record is that of a run without a clip, but for the radius.
TEST(AggregatorClipped, HonestUpdatesCountAsTheyAre) {
  for (const RunParameters& p : plain_runs()) {
    TestRule plain(p);
    for (uint32_t device = 0; device < kDevices; ++device) {
      add(plain, device);
    }
    for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
      TestRule rule(clipped(p, norm));
      for (uint32_t device = 0; device < kDevices; ++device) {
        add(rule, device);
      }
      const VersionRecord record = rule.record();
      EXPECT_EQ(unclipped(record), plain.record());
      EXPECT_EQ(record, rule.record()) << "as often as it is asked for";
      ASSERT_TRUE(record.clip.has_value());
      EXPECT_EQ(record.clip->clipped_count, 0U);
      std::vector<uint64_t> norms;
      for (uint32_t device = 0; device < kDevices; ++device) {
        norms.push_back(norm_of(p, device));
      }
      EXPECT_EQ(record.clip->radius, clip_radius(lower_median(norms), 4 * kClipFactorOne));
      EXPECT_EQ(unclipped(rule.rule->stand_still()), plain.rule->stand_still());
      EXPECT_EQ(rule.rule->stand_still().clip, record.clip);
    }
  }
}

// Two of three send zeros: the third counts as it is, also after a version of zeros alone.
TEST(AggregatorClipped, ZerosClipNobody) {
  const RunParameters p = plain_runs().front();
  for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
    TestRule rule(clipped(p, norm));
    for (const Real third : {Real{0}, Real{1}, Real{1}}) {
      add(rule, 0, 0);
      add(rule, 1, 0);
      add(rule, 2, third);
      const VersionRecord record = rule.record();
      EXPECT_EQ(record.clip->clipped_count, 0U);
      EXPECT_EQ(record.clip->radius, third == 0 ? kNoClipRadius : 4 * norm_of(p, 2));
      close(rule);
    }
  }
}

// One of four sends values a thousand times as large. What is left of it is as long as the radius, whatever it sends,
// and the coefficients are those that whole numbers give.
TEST(AggregatorClipped, ALiarIsAsLongAsTheRadius) {
  const RunParameters p = plain_runs().front();
  const uint32_t steps = p.local->local_step_count;
  for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing, ClipNorm::kFixed}) {
    RunParameters run = clipped(p, norm);
    run.fold.keys().clip_norm_value = 0.5F;
    TestRule rule(run);
    for (uint32_t device = 0; device < 4; ++device) {
      add(rule, device);
    }
    close(rule);
    std::vector<int64_t> sums(p.value_count());
    const Real factors[] = {1, 1, 1, 1000};
    for (uint32_t device = 0; device < 4; ++device) {
      add(rule, device, factors[device]);
    }
    const ClipTally tally = rule.rule->clip_tally();
    for (uint32_t device = 0; device < 4; ++device) {
      const uint64_t length = norm_of(p, device, factors[device]);
      EXPECT_EQ(tally.norms[device].norm, length);
      EXPECT_EQ(length > tally.radius, device == 3);
      std::vector<int64_t> left;
      for (const Real value : values_of(p, device, factors[device])) {
        int64_t fixed = 0;
        ASSERT_EQ(to_fixed(value / static_cast<Real>(steps), p.fold->fold_scale_log2, &fixed), Status::kOk);
        left.push_back(clip_value(fixed, clip_scale(length, tally.radius)));
        sums[left.size() - 1] += left.back();
      }
      EXPECT_LE(update_norm(left, steps), tally.radius);
    }
    const VersionRecord record = rule.record();
    EXPECT_EQ(record.clip->clipped_count, 1U);
    ASSERT_EQ(record.blocks.size(), 1U);
    const RecordBlock& block = record.blocks.front();
    std::vector<Real> coefficients(block.value_count);
    ASSERT_EQ(
        decode_values(block.encoding, block.value_count, block.bytes.data(), block.bytes.size(), coefficients.data()),
        Status::kOk);
    for (size_t i = 0; i < sums.size(); ++i) {
      const Real unit = std::ldexp(Real{1}, -static_cast<int>(p.fold->fold_scale_log2));
      EXPECT_EQ(coefficients[i], static_cast<Real>(divide_rounded(sums[i], 4)) * unit);
    }
  }
}

TEST(AggregatorClipped, TheRecordKnowsNoOrder) {
  for (const RunParameters& p : plain_runs()) {
    for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
      std::vector<uint32_t> order = {0, 1, 2, 3, 4, 5, 6, 7, 8};
      std::optional<VersionRecord> first;
      for (int turn = 0; turn < 5; ++turn) {
        TestRule rule(clipped(p, norm, 1));
        for (int version = 0; version < 3; ++version) {
          for (const uint32_t device : order) {
            add(rule, device, device == 4 ? 30 : 1);
          }
          if (version < 2) {
            close(rule);
          }
          std::rotate(order.begin(), order.begin() + 4, order.end());
        }
        const VersionRecord record = rule.record();
        EXPECT_GT(record.clip->clipped_count, 0U);
        EXPECT_EQ(record, first.value_or(record));
        first = record;
        std::reverse(order.begin(), order.end());
      }
    }
  }
}

TEST(AggregatorClipped, TheFirstVersionOfATrailingRadiusIsNotClipped) {
  const RunParameters p = plain_runs().front();
  TestRule rule(clipped(p, ClipNorm::kTrailing));
  add(rule, 0);
  add(rule, 1);
  add(rule, 2, 1000);
  EXPECT_EQ(rule.record().clip->clipped_count, 0U);
  TestRule plain(p);
  add(plain, 0);
  add(plain, 1);
  add(plain, 2, 1000);
  EXPECT_EQ(unclipped(rule.record()), plain.record());
  close(rule);
  add(rule, 2, 1000);
  EXPECT_EQ(rule.record().clip->clipped_count, 1U);
}

// The radius is over clip_window closed versions, and of the median over the open one too.
TEST(AggregatorClipped, TheWindowForgets) {
  const RunParameters p = plain_runs().front();
  for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
    RunParameters run = clipped(p, norm, 1);
    run.fold.keys().clip_window = 2;
    TestRule rule(run);
    std::vector<uint64_t> norms;
    for (int version = 0; version < 6; ++version) {
      const Real factor = static_cast<Real>(1 + version);
      add(rule, 0, factor);
      norms.push_back(norm_of(p, 0, factor));
      const size_t count = norm == ClipNorm::kMedian ? 3 : 2;
      std::vector<uint64_t> window(norms.end() - static_cast<std::ptrdiff_t>(std::min(count, norms.size())),
                                   norms.end());
      EXPECT_EQ(rule.record().clip->radius, lower_median(window)) << version;
      close(rule);
    }
  }
}

// What the journal's record says of the radius holds, whatever this release would make of the norms.
TEST(AggregatorClipped, AReplayTakesTheRadiusOfTheRecord) {
  const RunParameters p = plain_runs().front();
  TestRule rule(clipped(p, ClipNorm::kTrailing));
  add(rule, 0);
  VersionRecord record = rule.record();
  record.clip->radius = 5;
  ASSERT_EQ(rule.rule->follow(record), Status::kOk);
  add(rule, 1);
  EXPECT_EQ(rule.rule->clip_tally().radius, 5U);
  EXPECT_EQ(rule.rule->prepared_clip().scale, clip_scale(norm_of(p, 1), 5));
}

TEST(AggregatorClipped, AStateIsReadBack) {
  for (const RunParameters& p : plain_runs()) {
    for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
      TestRule rule(clipped(p, norm, 1));
      for (int version = 0; version < 4; ++version) {
        for (uint32_t device = 0; device < 5; ++device) {
          add(rule, device, static_cast<Real>(1 + version));
        }
        close(rule);
      }
      StateArchive out;
      rule.rule->exchange(out);
      const std::vector<uint8_t> bytes = out.take_bytes();
      TestRule other(clipped(p, norm, 1));
      StateArchive in(bytes);
      other.rule->exchange(in);
      EXPECT_TRUE(in.is_sound() && in.is_at_end());
      add(rule, 2, 9);
      add(other, 2, 9);
      EXPECT_EQ(rule.record(), other.record());
      RunParameters narrow = clipped(p, norm, 1);
      narrow.fold.keys().clip_window = 2;
      TestRule third(narrow);
      StateArchive too_long(bytes);
      third.rule->exchange(too_long);
      EXPECT_FALSE(too_long.is_sound());
    }
  }
}

TEST(AggregatorClipped, BadUpdatesAreRefusedAndLeaveNothing) {
  for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
    const RunParameters p = plain_runs().front();
    TestRule rule(clipped(p, norm));
    add(rule, 0);
    const VersionRecord before = rule.record();
    const std::vector<Real> few(1);
    EXPECT_EQ(rule.rule->check(input_of(p, 1, few)), Status::kInvalidArgument);
    const std::vector<Real> huge(p.value_count(), Real{1e9F});
    EXPECT_EQ(rule.rule->add(input_of(p, 1, huge)), Status::kOutOfRange);
    EXPECT_EQ(rule.record(), before);
    rule.rule->begin();
    EXPECT_TRUE(rule.rule->clip_tally().norms.empty());
  }
}

// Sums that servers make apart bring their norms: the record is that of one.
TEST(AggregatorClipped, SumsOfTrailingMerge) {
  for (const RunParameters& p : plain_runs()) {
    const RunParameters run = clipped(p, ClipNorm::kTrailing, 1);
    TestRule whole(run);
    TestRule left(run);
    TestRule right(run);
    for (int version = 0; version < 3; ++version) {
      for (uint32_t device = 0; device < kDevices; ++device) {
        add(whole, device, device == 4 ? 30 : 1);
        add(device % 2 == 0 ? left : right, device, device == 4 ? 30 : 1);
      }
      PartialSum sum;
      ASSERT_EQ(decode_partial(encode_partial(right.rule->take_partial()), &sum), Status::kOk);
      EXPECT_EQ(sum.norms.size(), 4U);
      PartialSum other_radius = sum;
      ++other_radius.clip_radius;
      EXPECT_EQ(left.rule->merge(other_radius), Status::kProtocolError);
      PartialSum without = sum;
      without.norms.pop_back();
      EXPECT_EQ(left.rule->merge(without), Status::kDataCorrupt);
      ASSERT_EQ(left.rule->merge(sum), Status::kOk);
      const VersionRecord record = whole.record();
      EXPECT_EQ(left.record(), record);
      ASSERT_EQ(whole.rule->follow(record), Status::kOk);
      ASSERT_EQ(left.rule->follow(record), Status::kOk);
      // Who serves the next version has every norm of the last one.
      StateArchive out;
      left.rule->exchange(out);
      const std::vector<uint8_t> bytes = out.take_bytes();
      StateArchive in(bytes);
      right.rule->exchange(in);
      ASSERT_TRUE(in.is_sound());
      right.rule->begin();
    }
  }
}

TEST(AggregatorClipped, OneAndEightAggregatorsHaveOneRecord) {
  for (const RunParameters& p : plain_runs()) {
    TestRule one(clipped(p, ClipNorm::kTrailing, 1));
    TestRule eight(clipped(p, ClipNorm::kTrailing, 1));
    AggregatorContext context = {&eight.server.parameters, &eight.server.replica, &eight.models, &eight.server.arena};
    context.aggregator_count = 8;
    eight.rule = make_aggregator(context);
    eight.rule->begin();
    for (int version = 0; version < 3; ++version) {
      for (uint32_t device = 0; device < kDevices; ++device) {
        add(one, device, device == 4 ? 30 : 1);
        add(eight, device, device == 4 ? 30 : 1);
      }
      EXPECT_EQ(one.record(), eight.record());
      EXPECT_EQ(one.rule->partial(), eight.rule->partial());
      close(one);
      close(eight);
    }
    EXPECT_THAT(check_aggregator_count(clipped(p, ClipNorm::kMedian), 8).sentence, HasSubstr("clip_norm to trailing"));
    EXPECT_EQ(check_aggregator_count(clipped(p, ClipNorm::kTrailing), 8).sentence, "");
  }
}

// A stage before training brings no updates: nothing is clipped, and no norm is remembered.
TEST(AggregatorClipped, AStageBeforeTrainingPassesThrough) {
  for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
    const RunParameters p = plain_runs().front();
    TestRule rule(clipped(p, norm, 1));
    OpenRound open;
    open.is_training = false;
    AggregatorContext context = {&rule.server.parameters, &rule.server.replica, &rule.models, &rule.server.arena};
    context.open = &open;
    rule.rule = make_aggregator(context);
    rule.rule->begin();
    TestRule plain(p);
    for (uint32_t device = 0; device < 4; ++device) {
      add(rule, device, device == 3 ? 1000 : 1);
      add(plain, device, device == 3 ? 1000 : 1);
    }
    VersionRecord record;
    VersionRecord other;
    ASSERT_EQ(rule.rule->finish(&record), Status::kOk);
    ASSERT_EQ(plain.rule->finish(&other), Status::kOk);
    EXPECT_EQ(record.blocks, other.blocks);
    EXPECT_FALSE(record.clip.has_value());
    EXPECT_TRUE(rule.rule->clip_tally().norms.empty());
  }
}

// A cap of the weights goes on inside the clip.
TEST(AggregatorClipped, AShareIsCappedToo) {
  RunParameters p = scalar_parameters();
  p.fold->weight_share_max = 0.5F;
  TestRule plain(p);
  TestRule rule(clipped(p, ClipNorm::kMedian));
  for (TestRule* one : {&plain, &rule}) {
    for (uint32_t device = 0; device < 3; ++device) {
      const std::vector<Real> values = values_of(p, device);
      FoldInput input = input_of(p, device, values);
      input.weight = static_cast<uint16_t>(10 + 80 * device);
      ASSERT_EQ(one->rule->add(input), Status::kOk);
    }
  }
  EXPECT_EQ(unclipped(rule.record()), plain.record());
}

// The memory takes in what the clip leaves, and tells the scale to whoever sends the Ack.
TEST(AggregatorClipped, TheMemoryRemembersWhatIsLeft) {
  RunParameters p = plain_runs().front();
  p.local->correction_form = CorrectionForm::kMemory;
  RunParameters run = clipped(p, ClipNorm::kFixed);
  run.fold.keys().clip_norm_value = 0.01F;
  TestRule rule(run);
  add(rule, 0, 1000);
  const UpdateClip clip = rule.rule->prepared_clip();
  EXPECT_EQ(clip.norm, norm_of(p, 0, 1000));
  EXPECT_EQ(clip.scale, clip_scale(clip.norm, fixed_clip_radius(run.fold.keys())));
  EXPECT_LT(clip.scale, kClipScaleOne);
  EXPECT_EQ(rule.record().clip->clipped_count, 1U);
}

// What enters h is what a device of the same numbers takes away: the record is that of a run without a clip whose
// updates are what the clip leaves.
TEST(AggregatorClipped, AMemoryHoldsWhatIsLeft) {
  for (RunParameters p : plain_runs()) {
    p.local->solver = SolverId::kProjection;
    p.local->correction_form = CorrectionForm::kMemory;
    RunParameters run = clipped(p, ClipNorm::kFixed);
    run.fold.keys().clip_norm_value = 0.5F;
    ASSERT_EQ(check_parameters(run).sentence, "");
    TestRule rule(run);
    TestRule plain(p);
    const bool is_scalar = p.stream() == StreamKind::kScalarStream;
    const size_t count = is_scalar ? p.local->direction_count : p.value_count();
    for (uint32_t device = 0; device < 3; ++device) {
      std::vector<Real> values = values_of(p, device, device == 1 ? 50 : Real{1} / 10);
      values.resize(count);
      FoldInput input = input_of(p, device, values);
      input.steps_done = 1;
      input.weight = kStalenessOne;
      ASSERT_EQ(rule.rule->add(input), Status::kOk);
      const uint32_t scale = rule.rule->prepared_clip().scale;
      EXPECT_EQ(scale < kClipScaleOne, device == 1);
      EXPECT_EQ(rule.rule->remembered_clip(device, 2), scale);
      EXPECT_EQ(rule.rule->remembered_clip(device, 1), kClipScaleOne) << "of another version nothing is known";
      ASSERT_EQ((OwnClip{p.fold->fold_scale_log2, scale}.apply(values.size(), values.data())), Status::kOk);
      ASSERT_EQ(plain.rule->add(input), Status::kOk);
    }
    EXPECT_EQ(unclipped(rule.record()), plain.record());
    EXPECT_EQ(rule.record().clip->clipped_count, 1U);
  }
}

ClipTally tally_of(const TestRule& rule) {
  ClipTally tally = rule.rule->clip_tally();
  rule.rule->add_cosines(&tally);
  return tally;
}

// Two agree and the third pulls the other way, as long as they are. A norm is rounded as the fold rounds values.
void expect_the_cosines_of_three(const RunParameters& p, TestRule* rule) {
  const std::vector<Real> values = values_of(p, 0);
  std::vector<Real> against = values;
  for (Real& value : against) {
    value = -value;
  }
  for (uint32_t device = 0; device < 3; ++device) {
    ASSERT_EQ(rule->rule->add(input_of(p, device, device == 1 ? against : values)), Status::kOk);
  }
  const ClipTally tally = tally_of(*rule);
  ASSERT_EQ(tally.norms.size(), 3U);
  EXPECT_NEAR(tally.norms[0].cosine, 1, 1e-5);
  EXPECT_NEAR(tally.norms[1].cosine, -1, 1e-5);
  EXPECT_NEAR(tally.norms[2].cosine, 1, 1e-5);
}

TEST(AggregatorClipped, TheCosinesAreThoseToTheSum) {
  for (const RunParameters& p : plain_runs()) {
    for (const ClipNorm norm : {ClipNorm::kFixed, ClipNorm::kMedian, ClipNorm::kTrailing}) {
      RunParameters run = clipped(p, norm);
      run.fold.keys().clip_norm_value = 1;
      TestRule rule(run);
      expect_the_cosines_of_three(p, &rule);
    }
  }
}

// A version of more updates than may be kept has no cosines, nor has the one after it. The next one of few has them.
TEST(AggregatorClipped, ALargeVersionKeepsNoUpdates) {
  const RunParameters p = plain_runs().front();
  TestRule rule(clipped(p, ClipNorm::kTrailing));
  const std::vector<Real> values = values_of(p, 0);
  for (uint32_t i = 0; i <= kClipKeptUpdateCountMax; ++i) {
    ASSERT_EQ(rule.rule->add(input_of(p, i % kDevices, values)), Status::kOk);
  }
  for (const ClipTally::Norm& one : tally_of(rule).norms) {
    ASSERT_EQ(one.cosine, 0);
  }
  close(rule);
  for (uint32_t device = 0; device < 3; ++device) {
    ASSERT_EQ(rule.rule->add(input_of(p, device, values)), Status::kOk);
  }
  EXPECT_EQ(tally_of(rule).norms.front().cosine, 0);
  close(rule);
  expect_the_cosines_of_three(p, &rule);
}

// Of a sum that was made elsewhere nobody has the updates.
TEST(AggregatorClipped, AMergedSumLeavesNoCosines) {
  const RunParameters p = plain_runs().front();
  TestRule rule(clipped(p, ClipNorm::kTrailing));
  TestRule other(clipped(p, ClipNorm::kTrailing));
  const std::vector<Real> values = values_of(p, 0);
  ASSERT_EQ(other.rule->add(input_of(p, 0, values)), Status::kOk);
  ASSERT_EQ(rule.rule->add(input_of(p, 1, values)), Status::kOk);
  ASSERT_EQ(rule.rule->merge(other.rule->partial()), Status::kOk);
  ASSERT_EQ(rule.rule->add(input_of(p, 2, values)), Status::kOk);
  const ClipTally tally = tally_of(rule);
  ASSERT_EQ(tally.norms.size(), 3U);
  for (const ClipTally::Norm& one : tally.norms) {
    EXPECT_EQ(one.cosine, 0);
  }
}

// What a liar adds is what the clip leaves of it: ten honest ones outweigh a factor of 4, and a thousand times would
// outweigh them.
TEST(AggregatorClipped, TheCosinesAreToTheClippedSum) {
  const RunParameters p = plain_runs().front();
  TestRule rule(clipped(p, ClipNorm::kMedian));
  const std::vector<Real> values = values_of(p, 0);
  for (uint32_t device = 0; device < kDevices; ++device) {
    std::vector<Real> said = values;
    for (Real& value : said) {
      value *= device == 0 ? -1000 : 1;
    }
    ASSERT_EQ(rule.rule->add(input_of(p, device, said)), Status::kOk);
  }
  const ClipTally tally = tally_of(rule);
  EXPECT_NEAR(tally.norms[0].cosine, -1, 1e-5);
  EXPECT_NEAR(tally.norms[1].cosine, 1, 1e-5);
}

TEST(AggregatorClipped, LateUpdatesHaveNoCosine) {
  const RunParameters p = plain_runs().front();
  for (const ClipNorm norm : {ClipNorm::kTrailing, ClipNorm::kMedian}) {
    TestRule rule(clipped(p, norm));
    for (uint32_t device = 0; device < 3; ++device) {
      const std::vector<Real> values = values_of(p, device);
      FoldInput input = input_of(p, device, values);
      input.base_version = device == 2 ? 1 : 2;
      ASSERT_EQ(rule.rule->add(input), Status::kOk);
    }
    const ClipTally tally = tally_of(rule);
    for (uint32_t device = 0; device < 3; ++device) {
      EXPECT_EQ(tally.norms[device].cosine != 0, device < 2);
    }
  }
}

}  // namespace
}  // namespace gradstream

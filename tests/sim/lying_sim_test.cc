// A fleet whose last device lies (docs/how-to/simulate.md). Schedules agree on the model, since every schedule hears
// the same lies; the oracle makes each version again from what was said; the journal replays. That is part of each run
// (sim/end_check.h).
#include <set>

#include <gtest/gtest.h>

#include "sim/simulation.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

constexpr uint32_t kAllFaults = (1U << kFaultCount) - 1;
constexpr uint32_t kAllLies = (1U << kLieCount) - 1;
constexpr uint32_t bit(Lie lie) { return 1U << static_cast<uint32_t>(lie); }

SimOptions lying_options(StreamKind stream, uint32_t lie_bits) {
  SimOptions options;
  options.stream = stream;
  options.trust.lie_bits = lie_bits;
  return options;
}

uint64_t calm_digest(const SimOptions& options) {
  const SimResult result = Simulation(options, 0).run();
  EXPECT_EQ(result.fault, "");
  return result.digest;
}

// Whatever goes wrong, the model of each schedule is that of a calm run with the same lies.
void expect_one_digest(SimOptions options, uint32_t schedule_count) {
  const uint64_t digest = calm_digest(options);
  options.fault_bits = kAllFaults;
  LieCounts lies = {};
  for (uint32_t schedule = 0; schedule < campaign_draws(schedule_count); ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    ASSERT_EQ(result.fault, "") << "schedule " << schedule;
    ASSERT_EQ(result.digest, digest) << "schedule " << schedule;
    for (size_t i = 0; i < kLieCount; ++i) {
      lies[i] += result.lies[i];
    }
  }
  for (size_t i = 0; i < kLieCount; ++i) {
    EXPECT_EQ(lies[i] > 0, (options.trust.lie_bits >> i & 1U) != 0) << kLieNames[i];
  }
}

void expect_sound(SimOptions options) {
  options.fault_bits = kAllFaults;
  for (uint32_t schedule = 0; schedule < campaign_draws(10); ++schedule) {
    ASSERT_EQ(Simulation(options, schedule).run().fault, "") << "schedule " << schedule;
  }
}

TEST(LyingSimulation, OneDigestWhateverGoesWrong) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    expect_one_digest(lying_options(stream, kAllLies), 40);
  }
}

TEST(LyingSimulation, OneDigestInEveryEncodingAndByAMemory) {
  for (const Encoding encoding : {Encoding::kBf16, Encoding::kInt8}) {
    SimOptions options = lying_options(StreamKind::kScalarStream, kAllLies);
    options.encoding = encoding;
    expect_one_digest(options, 5);
  }
  SimOptions options = lying_options(StreamKind::kScalarStream, kAllLies);
  options.correction_form = CorrectionForm::kMemory;
  expect_one_digest(options, 5);
}

// The oracle clips the same bytes by itself, and finds radius, count and model. A clip makes another model where it
// holds a liar back, and with several sums it is that of one.
TEST(LyingSimulation, OneDigestWithAClip) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options = lying_options(stream, kAllLies);
    std::set<uint64_t> digests = {calm_digest(options)};
    for (const ClipNorm clip : {ClipNorm::kFixed, ClipNorm::kMedian, ClipNorm::kTrailing}) {
      options.trust.clip_norm = clip;
      expect_one_digest(options, 20);
      digests.insert(calm_digest(options));
    }
    EXPECT_EQ(digests.size(), 4U);
    const uint64_t of_one = calm_digest(options);
    options.aggregator_count = 2;
    EXPECT_EQ(calm_digest(options), of_one);
  }
}

// A device corrects by what the clip left of its update, as the Ack says. A schedule in which a scale was lost, by a
// drop or a crash of either end, would go another way.
TEST(LyingSimulation, OneDigestWithAClipByAMemory) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    for (const bool uploads_means : {false, true}) {
      SimOptions options =
          lying_options(uploads_means ? StreamKind::kTangentBlock : StreamKind::kScalarStream, kAllLies);
      options.uploads_means = uploads_means;
      options.correction_form = form;
      std::set<uint64_t> digests = {calm_digest(options)};
      for (const ClipNorm clip : {ClipNorm::kFixed, ClipNorm::kTrailing}) {
        options.trust.clip_norm = clip;
        expect_one_digest(options, 20);
        digests.insert(calm_digest(options));
      }
      EXPECT_EQ(digests.size(), 3U);
    }
  }
}

// The lies that are about the model move it, each in its own way; a loss is no part of it.
TEST(LyingSimulation, EachLieMovesWhatItIsAbout) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    const uint64_t honest = calm_digest(lying_options(stream, 0));
    EXPECT_EQ(calm_digest(lying_options(stream, bit(Lie::kLoss))), honest);
    std::set<uint64_t> digests = {honest};
    for (const Lie lie : {Lie::kSize, Lie::kNoise, Lie::kSign, Lie::kSamples}) {
      digests.insert(calm_digest(lying_options(stream, bit(lie))));
    }
    EXPECT_EQ(digests.size(), 5U);
  }
}

// Late and partial updates make a digest depend on the schedule; every invariant holds all the same.
TEST(LyingSimulation, TheInvariantsHoldWithStragglersAndWithoutRounds) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    for (const ClipNorm clip : {ClipNorm::kNone, ClipNorm::kMedian, ClipNorm::kTrailing}) {
      SimOptions options = lying_options(stream, kAllLies);
      options.trust.clip_norm = clip;
      options.has_stragglers = true;
      expect_sound(options);
      options.correction_form = clip == ClipNorm::kMedian ? options.correction_form : CorrectionForm::kMemory;
      expect_sound(options);
    }
    SimOptions options = lying_options(stream, kAllLies);
    options.buffer_size = 2;
    expect_sound(options);
  }
}

}  // namespace
}  // namespace gradstream

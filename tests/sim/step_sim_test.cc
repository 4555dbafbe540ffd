// Runs that find their step by themselves (step_size "auto"), whatever goes wrong.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/task_stages.h"
#include "server/journal/update_notes.h"
#include "server/run/run_stages.h"
#include "sim/simulation.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

constexpr uint32_t kAllFaults = (1U << kFaultCount) - 1;
// Faults after which each device still has the model that the next record begins at. A device that resets has it in its
// storage.
constexpr uint32_t kKeepLines = kAllFaults & ~(1U << static_cast<uint32_t>(Fault::kBitFlip));

enum class Upload : uint8_t { kScalars, kTangents, kMeans };

SimOptions auto_options(Upload upload) {
  SimOptions options;
  options.chooses_step = true;
  options.stream = upload == Upload::kScalars ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
  options.uploads_means = upload == Upload::kMeans;
  return options;
}

// All of what the oracle knows holds under every fault. How many lines there were.
uint64_t expect_sound(SimOptions options, uint32_t schedule_count) {
  options.fault_bits = kAllFaults;
  uint64_t lines = 0;
  for (uint32_t schedule = 0; schedule < campaign_draws(schedule_count) && !testing::Test::HasFailure(); ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    EXPECT_EQ(result.fault, "") << "schedule " << schedule;
    lines += result.line_count;
  }
  return lines;
}

// Lines of a run in which nobody misses one: of each device in each round but the first.
uint64_t line_count_of(const SimOptions& options) { return uint64_t{options.device_count} * (options.round_count - 1); }

// No line is lost by a lost session, a crash of the server or of a device, or a full disk. Versions of tangents with
// units travel in two pieces: a device that got one of them alone has no model.
TEST(StepSimulation, OneDigestWhereModelsAreKept) {
  std::set<uint64_t> digests;
  for (const Upload upload : {Upload::kScalars, Upload::kTangents}) {
    for (const bool has_units : {false, true}) {
      if (has_units && upload == Upload::kTangents) {
        continue;
      }
      SimOptions options = auto_options(upload);
      options.centre = has_units ? Centre::kFederated : Centre::kNone;
      options.scale = has_units ? UnitScale::kCommon : UnitScale::kNone;
      const SimResult calm = Simulation(options, 0).run();
      ASSERT_EQ(calm.fault, "");
      EXPECT_EQ(calm.line_count, line_count_of(options));
      digests.insert(calm.digest);
      options.fault_bits = kKeepLines;
      for (uint32_t schedule = 0; schedule < campaign_draws(8); ++schedule) {
        const SimResult result = Simulation(options, schedule).run();
        ASSERT_EQ(result.fault, "") << "schedule " << schedule;
        ASSERT_EQ(result.digest, calm.digest) << "schedule " << schedule;
        ASSERT_EQ(result.line_count, line_count_of(options)) << "schedule " << schedule;
      }
    }
  }
  EXPECT_EQ(digests.size(), 3U);
}

TEST(StepSimulation, TheRuleHoldsUnderEveryFault) {
  for (const Upload upload : {Upload::kScalars, Upload::kTangents, Upload::kMeans}) {
    SimOptions options = auto_options(upload);
    EXPECT_GT(expect_sound(options, 6), 0U);
    options.centre = Centre::kFederated;
    options.scale = UnitScale::kDeviation;
    EXPECT_GT(expect_sound(options, 3), 0U);
    options.encoding = Encoding::kInt8;
    options.correction_form = CorrectionForm::kNone;
    options.error_feedback = upload != Upload::kScalars;
    EXPECT_GT(expect_sound(options, 3), 0U);
  }
}

// Late lines, partial updates, and rounds that close before all have answered.
TEST(StepSimulation, TheRuleHoldsWithStragglers) {
  for (const Upload upload : {Upload::kScalars, Upload::kTangents, Upload::kMeans}) {
    SimOptions options = auto_options(upload);
    options.has_stragglers = true;
    EXPECT_GT(expect_sound(options, 12), 0U);
    options.device_count = 9;  // some lines are left out of the means
    options.is_timed = true;
    options.centre = Centre::kFederated;
    options.scale = UnitScale::kRange;
    EXPECT_GT(expect_sound(options, 4), 0U);
  }
}

TEST(StepSimulation, TheRuleHoldsWithoutRounds) {
  for (const Upload upload : {Upload::kScalars, Upload::kTangents, Upload::kMeans}) {
    for (const bool has_stragglers : {false, true}) {
      SimOptions options = auto_options(upload);
      options.buffer_size = 3;
      options.round_count = 16;
      options.has_stragglers = has_stragglers;
      EXPECT_GT(expect_sound(options, 6), 0U);
    }
  }
}

TEST(StepSimulation, TheRuleHoldsWhereCohortsAreChosen) {
  for (const Participation participation : {Participation::kSchemeOne, Participation::kSchemeTwo}) {
    for (const Upload upload : {Upload::kScalars, Upload::kTangents, Upload::kMeans}) {
      SimOptions options = auto_options(upload);
      options.participation = participation;
      EXPECT_GT(expect_sound(options, 3), 0U);
      options.has_stragglers = true;
      options.device_count = 8;  // a cohort's round closes with one fewer than its four, and three lines are needed
      expect_sound(options, 2);
    }
  }
}

TEST(StepSimulation, TheRuleHoldsInEveryKindOfRun) {
  SimOptions options = auto_options(Upload::kTangents);
  options.tangent_solver = SolverId::kSvrg;
  EXPECT_GT(expect_sound(options, 3), 0U);
  options.tangent_solver = SolverId::kTangentMean;
  EXPECT_GT(expect_sound(options, 3), 0U);
  options = auto_options(Upload::kScalars);
  options.weight_share_max = 0.34F;
  EXPECT_GT(expect_sound(options, 3), 0U);
  options = auto_options(Upload::kScalars);
  options.asks_needed = 3;
  options.holdout_share = static_cast<Real>(0.3);
  EXPECT_GT(expect_sound(options, 3), 0U);
  options = auto_options(Upload::kScalars);
  options.is_fixed_rank = true;
  EXPECT_GT(expect_sound(options, 3), 0U);
  options = auto_options(Upload::kScalars);
  options.is_product = true;  // nothing bounds its models
  EXPECT_GT(expect_sound(options, 3), 0U);
}

TEST(StepSimulation, FindsAPlantedStep) {
  for (const Upload upload : {Upload::kScalars, Upload::kTangents}) {
    SimOptions options = auto_options(upload);
    options.plants.step = true;
    EXPECT_NE(Simulation(options, 0).run().fault.find("the step of a version"), std::string::npos);
  }
}

// The first sentence of an oracle that reads these records, which knows the devices' samples or not.
std::string sentence_of(const SimOptions& options, const std::vector<JournalRecord>& records, bool knows_samples) {
  const RunParameters parameters = sim_parameters(options);
  Oracle oracle(parameters);
  std::vector<std::unique_ptr<SimDevice>> devices;
  for (uint32_t i = 0; i < options.device_count && knows_samples; ++i) {
    devices.push_back(std::make_unique<SimDevice>(i, parameters));
    const SampleSource& source = devices.back()->source();
    oracle.hold_samples(i, devices.back()->samples(), source.count, source.dimension);
  }
  std::string sentence;
  for (size_t i = 0; i < records.size() && sentence.empty(); ++i) {
    sentence = oracle.on_record(records[i]);
  }
  return sentence.substr(0, sentence.find(" ("));
}

// The oracle of the step sees what is not as it should be: else its silence would say nothing.
TEST(StepOracle, NoticesWhatIsNotOfTheSamplesOrTheLines) {
  for (const Upload upload : {Upload::kScalars, Upload::kTangents, Upload::kMeans}) {
    const SimOptions options = auto_options(upload);
    Simulation simulation(options, 0);
    ASSERT_EQ(simulation.run().fault, "");
    const std::vector<JournalRecord>& records = simulation.store().records();
    ASSERT_EQ(sentence_of(options, records, true), "");
    size_t trials = 0, line = 0;  // one of each
    for (size_t i = 0; i < records.size(); ++i) {
      const bool is_update = records[i].kind() == RecordKind::kUpdate;
      trials = is_update && records[i].base_version() == 1 ? i : trials;
      line = is_update && records[i].notes().line && records[i].base_version() > 6 ? i : line;
    }
    ASSERT_GT(trials, 0U);
    ASSERT_GT(line, 0U);

    std::vector<JournalRecord> spoiled = records;
    JournalRow row = records[trials].row();
    row.payload[3] ^= 0x80U;  // the longest step raises the loss instead of lowering it, or the other way round
    spoiled[trials] = JournalRecord(row);
    EXPECT_EQ(sentence_of(options, spoiled, true), "a trial step is not what its device's samples say");

    spoiled = records;
    row = records[line].row();
    UpdateNotes notes = records[line].notes();
    notes.line->slope *= 1.125F;
    row.notes = encode_notes(notes);
    spoiled[line] = JournalRecord(row);
    EXPECT_EQ(sentence_of(options, spoiled, true), "the line of an update is not what its device's samples say");
    EXPECT_EQ(sentence_of(options, spoiled, false).find("the step of a version is not what the lines"), 0U);

    row.notes.clear();
    spoiled[line] = JournalRecord(row);
    EXPECT_EQ(sentence_of(options, spoiled, true),
              "a version says another move, or another number of lines, than that of its updates");
  }
}

}  // namespace
}  // namespace gradstream

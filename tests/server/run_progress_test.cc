// What a run's records say of its progress: the same live, in a replay, and for whoever reads the database.
#include "server/coordinator/run_progress.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/wire/codec.h"
#include "server/coordinator/ledger.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

JournalRecord update(uint32_t device, uint32_t version, float loss, uint32_t weight = 1, bool is_late = false) {
  return JournalRecord::update({.device = device,
                                .base_version = version - (is_late ? 1 : 0),
                                .version = version + 1,
                                .steps_done = 1,
                                .weight = weight,
                                .verdict = is_late ? gs_Verdict_VERDICT_LATE : gs_Verdict_VERDICT_FOLDED,
                                .loss_before = loss});
}

JournalRecord refusal(uint32_t device, uint32_t version, gs_Reason reason) {
  return JournalRecord::verdict(
      {.device = device, .version = version, .verdict = gs_Verdict_VERDICT_REFUSED, .reason = reason});
}

JournalRecord version(uint32_t number, std::optional<float> promise, Real step_scale = 1) {
  return JournalRecord::begin_version({.version = number, .step_scale = step_scale, .promise = promise});
}

float bounce(uint32_t round) { return round == 0 ? 2.0F : 1.0F + 0.1F * static_cast<float>(round % 2); }

RunParameters parameters_of(uint32_t devices) {
  RunParameters p = scalar_parameters();
  p.trigger->device_count = devices;
  p.local->direction_count = 16;
  p.steps->step_decay = 0;
  return p;
}

// A run of so many devices that bounces, with all its records in one round.
void feed_bounces(RunProgress* progress, uint32_t devices, uint32_t rounds, uint32_t asked = 0) {
  asked = asked == 0 ? devices : asked;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < asked; ++i) {
      progress->follow(update((round * asked + i) % devices, round, bounce(round)));
    }
    progress->follow(version(round + 1, 3.0F));
  }
}

TEST(RunProgress, AccusesARunThatBounces) {
  RunProgress progress(parameters_of(4));
  feed_bounces(&progress, 4, 30);
  EXPECT_EQ(progress.view().state, ProgressState::kNotImproving);
  const ProgressWords words = progress_words(progress.view(), parameters_of(4));
  EXPECT_THAT(words.text, HasSubstr("the last 10 rounds promised "));
  EXPECT_THAT(words.text, HasSubstr("the step is likely too long"));
  EXPECT_THAT(words.remedy, HasSubstr("step_size = "));
}

TEST(RunProgress, AStepThatShrinksIsWatchedLongerToo) {
  RunParameters p = parameters_of(4);
  p.steps->step_decay = 0.05F;
  RunProgress progress(p);
  feed_bounces(&progress, 4, kProgressFirstShrinking);
  EXPECT_EQ(progress.view().state, ProgressState::kWatching);
  feed_bounces(&progress, 4, 2);
  EXPECT_EQ(progress.view().state, ProgressState::kNotImproving);
}

TEST(RunProgress, ASingleDeviceIsWatchedLongerBeforeItIsAccused) {
  RunProgress progress(parameters_of(1));
  feed_bounces(&progress, 1, kProgressFirstNoisy - 1);
  EXPECT_EQ(progress.view().state, ProgressState::kWatching);
}

TEST(RunProgress, LossesThatAreAllZeroAccuseNobody) {
  RunProgress progress(parameters_of(3));
  for (uint32_t round = 0; round < 100; ++round) {
    for (uint32_t device = 0; device < 3; ++device) {
      progress.follow(update(device, round, 0));
    }
    progress.follow(version(round + 1, 5.0F));
  }
  EXPECT_EQ(progress.view().state, ProgressState::kStarting);
}

// Single devices' directions do not vanish at the optimum.
TEST(RunProgress, VersionsThatHearAFewDevicesAccuseNobody) {
  RunProgress progress(parameters_of(12));
  feed_bounces(&progress, 12, 1200, 1);
  EXPECT_EQ(progress.view().state, ProgressState::kWatching);
  RunProgress half(parameters_of(12));
  feed_bounces(&half, 12, 60, 6);
  EXPECT_EQ(half.view().state, ProgressState::kNotImproving);
}

TEST(RunProgress, ALateLossDoesNotCountBesideThoseInTime) {
  RunProgress progress(parameters_of(2));
  progress.follow(update(0, 1, 1, 3));
  progress.follow(update(1, 1, 5, 1));
  progress.follow(update(1, 1, 100, 1, true));
  progress.follow(version(2, 1.0F));
  EXPECT_EQ(progress.view().first_loss, 2);
}

TEST(RunProgress, AVersionThatEndsNoRoundDoesNotCount) {
  RunProgress progress(parameters_of(1));
  progress.follow(update(0, 0, 100));
  progress.follow(version(1, {}));
  progress.follow(update(0, 1, 3));
  progress.follow(version(2, 1.0F));
  EXPECT_EQ(progress.view().first_loss, 3) << "an anchor's loss is no round's";
}

TEST(RunProgress, AStepThatCannotBeMadeIsADivergence) {
  RunProgress progress(parameters_of(1));
  progress.follow(update(0, 0, 1));
  progress.follow(version(1, 0.0F, 0));
  EXPECT_EQ(progress.view().state, ProgressState::kDiverged);
  EXPECT_THAT(progress_words(progress.view(), parameters_of(1)).text, HasSubstr("made no step"));
}

TEST(RunProgress, TheRefusalsOfHalfOfTheDevicesAreADivergence) {
  RunProgress progress(parameters_of(4));
  progress.follow(refusal(0, 0, gs_Reason_REASON_OUT_OF_RANGE));
  progress.follow(refusal(1, 0, gs_Reason_REASON_OUT_OF_RANGE));
  EXPECT_EQ(progress.view().state, ProgressState::kStarting) << "before the first step the units are at fault";
  for (uint32_t device = 0; device < 4; ++device) {
    progress.follow(update(device, 0, 1));
  }
  progress.follow(version(1, 1.0F));
  progress.follow(refusal(0, 1, gs_Reason_REASON_OUT_OF_RANGE));
  progress.follow(refusal(0, 1, gs_Reason_REASON_OUT_OF_RANGE));
  progress.follow(refusal(1, 1, gs_Reason_REASON_TOO_STALE));
  EXPECT_EQ(progress.view().state, ProgressState::kStarting) << "one device, twice, and one that is late";
  progress.follow(refusal(1, 1, gs_Reason_REASON_NOT_FINITE));
  EXPECT_EQ(progress.view().state, ProgressState::kDiverged);
  EXPECT_THAT(progress_words(progress.view(), parameters_of(4)).text, HasSubstr("half of the devices"));
}

TEST(RunProgress, DriftIsSaidWithItsNumbers) {
  RunProgress progress(parameters_of(3));
  for (uint32_t round = 0; round < 120; ++round) {
    const float loss = 1 + 3 * std::pow(0.5F, static_cast<float>(round)) + 0.001F * static_cast<float>(round % 3) +
                       (round >= 110 ? 0.5F : 0.0F);
    for (uint32_t device = 0; device < 3; ++device) {
      progress.follow(update(device, round, loss));
    }
    progress.follow(version(round + 1, 1e-3F));
    EXPECT_EQ(progress.view().drift_count, round >= 112 ? 1U : 0U) << round;
  }
  EXPECT_THAT(drift_words(progress.view()).text, HasSubstr("the median loss of the last 5 rounds is 1.5"));
}

// An update of the stage START, whose line has the ratios.
JournalRecord start_update(uint32_t device, float at_quarter, float at_fourfold) {
  return JournalRecord::update({.device = device,
                                .version = 1,
                                .steps_done = 1,
                                .weight = 1,
                                .verdict = gs_Verdict_VERDICT_FOLDED,
                                .notes = {.line = UpdateLine{at_quarter, at_fourfold}, .evaluation = {}}});
}

TEST(RunProgress, SaysThatTheSmoothingDoesNotFit) {
  RunProgress progress(parameters_of(3));
  for (uint32_t device = 0; device < 3; ++device) {
    progress.follow(start_update(device, 0.4F, 1.5F));
  }
  EXPECT_EQ(progress.smoothing().fit, SmoothingFit::kUnknown);
  progress.follow(version(1, {}));
  EXPECT_EQ(progress.smoothing().fit, SmoothingFit::kTooLarge);
  EXPECT_THAT(smoothing_words(progress.smoothing(), parameters_of(3)).text, HasSubstr("differ by 150 %"));
  EXPECT_THAT(smoothing_words(progress.smoothing(), parameters_of(3)).remedy, HasSubstr("smoothing = 0.001"));
  progress.follow(version(2, {}));  // of the trials, which have no lines
  progress.follow(start_update(0, 0.01F, 0.02F));
  progress.follow(version(3, {}));
  EXPECT_EQ(progress.smoothing().fit, SmoothingFit::kTooLarge) << "a second direction does not take it back";
  progress.follow(start_update(0, 3, 5));
  progress.follow(version(4, 1.0F));  // a round, whose lines are slopes
  EXPECT_EQ(progress.smoothing().at_fourfold, 1.5F);
  RunProgress gradients(tangent_parameters());
  gradients.follow(start_update(0, 3, 5));
  gradients.follow(version(1, {}));
  EXPECT_EQ(gradients.smoothing().fit, SmoothingFit::kUnknown) << "gradients know no smoothing";
}

TEST(RunProgress, LossesOfHeldOutSamplesDriftToo) {
  RunProgress progress(parameters_of(1));
  for (uint32_t round = 0; round < 140; ++round) {
    JournalRecord record = JournalRecord::update(
        {.device = 0,
         .base_version = round,
         .version = round + 1,
         .steps_done = 1,
         .weight = 1,
         .verdict = gs_Verdict_VERDICT_FOLDED,
         .loss_before = 1 + 3 * std::pow(0.5F, static_cast<float>(round)),
         .notes = {.line = {}, .evaluation = UpdateEvaluation{9, round >= 120 ? 1.2F : 1.1F, 0}}});
    progress.follow(record);
    progress.follow(version(round + 1, 1e-3F));
    EXPECT_EQ(progress.view().drift_count, round >= 122 ? 1U : 0U) << round;
  }
}

// An update of a device that keeps its losses. loss: on the samples that it holds out; none: it evaluates nothing.
JournalRecord quiet_update(uint32_t device, uint32_t number, std::optional<float> loss) {
  UpdateNotes notes;
  notes.hides_losses = true;
  if (loss) {
    notes.evaluation = UpdateEvaluation{9, *loss, 0};
  }
  return JournalRecord::update({.device = device,
                                .base_version = number,
                                .version = number + 1,
                                .steps_done = 1,
                                .weight = 1,
                                .verdict = gs_Verdict_VERDICT_FOLDED,
                                .notes = notes});
}

TEST(RunProgress, WhereNobodyTellsItsLossTheSamplesHeldOutDo) {
  RunProgress told(parameters_of(4)), quiet(parameters_of(4)), silent(parameters_of(4));
  feed_bounces(&told, 4, 40);
  for (uint32_t round = 0; round < 40; ++round) {
    for (uint32_t device = 0; device < 4; ++device) {
      quiet.follow(quiet_update(device, round, bounce(round)));
      silent.follow(quiet_update(device, round, {}));
    }
    quiet.follow(version(round + 1, 3.0F));
    silent.follow(version(round + 1, 3.0F));
  }
  EXPECT_EQ(quiet.view().state, ProgressState::kNotImproving);
  EXPECT_EQ(quiet.view(), told.view()) << "the same losses say the same";
  EXPECT_EQ(silent.view().state, ProgressState::kStarting) << "zeros are no losses";
}

// Losses of one kind do not compare with those of the other: the first round that has any decides.
TEST(RunProgress, TheKindOfLossDoesNotChangeWithinARun) {
  RunProgress progress(parameters_of(2));
  for (uint32_t round = 0; round < 10; ++round) {
    progress.follow(quiet_update(0, round, 1.0F));
    if (round == 5) {
      progress.follow(update(1, round, 1000));
    } else {
      progress.follow(quiet_update(1, round, 1.0F));
    }
    progress.follow(version(round + 1, 1.0F));
    EXPECT_EQ(progress.view().first_loss, 1);
    EXPECT_EQ(progress.view().loss, 1);
  }
  RunProgress mixed(parameters_of(2));
  for (uint32_t round = 0; round < 10; ++round) {
    mixed.follow(update(0, round, 7));
    mixed.follow(quiet_update(1, round, 1.0F));
    mixed.follow(version(round + 1, 1.0F));
    EXPECT_EQ(mixed.view().loss, 7) << "the mean over those that tell";
  }
}

TEST(RunProgress, ACheckpointKnowsWhichLossesAreWatched) {
  RunProgress progress(parameters_of(2));
  const auto play = [](RunProgress* one, uint32_t round) {
    one->follow(quiet_update(0, round, 1 + 0.1F * static_cast<float>(round)));
    one->follow(quiet_update(1, round, 1));
    one->follow(version(round + 1, 1.0F));
  };
  for (uint32_t round = 0; round < 5; ++round) {
    play(&progress, round);
  }
  StateArchive out;
  progress.exchange(out);
  StateArchive in(out.bytes());
  RunProgress restored(parameters_of(2));
  restored.exchange(in);
  EXPECT_TRUE(in.is_sound() && in.is_at_end());
  restored.follow(update(0, 5, 1000));
  restored.follow(version(6, 1.0F));
  EXPECT_LT(restored.view().loss, 2) << "it watches the samples held out";
  // A checkpoint of the release before has no such fields, and reads.
  StateArchive first;
  first.set_form(1);
  RunProgress(parameters_of(2)).exchange(first);
  StateArchive old(first.bytes());
  old.set_form(1);
  RunProgress begun(parameters_of(2));
  begun.exchange(old);
  EXPECT_TRUE(old.is_sound() && old.is_at_end());
  EXPECT_LT(first.bytes().size(), out.bytes().size());
}

// Every rule tells what its step promises, and a replay comes to the same state as the life before it.
TEST(RunProgress, EveryRuleTellsItsPromiseAndAReplayTheSameState) {
  RunParameters memory = scalar_parameters();
  memory.local->correction_form = CorrectionForm::kMemory;
  RunParameters capped = tangent_parameters();
  capped.fold->weight_share_max = 0.5F;
  for (const RunParameters& p : {scalar_parameters(), tangent_parameters(), memory, capped}) {
    TestServer server(p);
    server.start();
    server.join(4);
    for (int round = 0; round < 3; ++round) {
      server.round(4);
    }
    uint32_t told = 0;
    Ledger replayed(p, server.names);
    for (const JournalRecord& record : server.store.records()) {
      ASSERT_EQ(replayed.apply(record), Status::kOk);
      if (record.kind() == RecordKind::kVersion && record.version() > 0) {
        ASSERT_TRUE(record.promise().has_value());
        EXPECT_GT(*record.promise(), 0);
        EXPECT_TRUE(std::isfinite(*record.promise()));
        ++told;
      }
    }
    EXPECT_EQ(told, 3U);
    EXPECT_EQ(replayed.progress().view(), server.coordinator->progress());
    EXPECT_EQ(replayed.progress().view().first_loss, 2);
  }
}

// In Euclidean space no projection shortens a move, so that the promise is its square over the step.
TEST(RunProgress, APromiseIsTheSquareOfTheMoveOverTheStep) {
  RunParameters memory = scalar_parameters();
  memory.local->correction_form = CorrectionForm::kMemory;
  struct Case {
    const char* name;
    RunParameters parameters;
    double step_of_scale;  // a over step_scale
  };
  const double tangent_eta = static_cast<double>(tangent_parameters().steps->step_size);
  const double late_eta = static_cast<double>(asynchronous_parameters().steps->step_size);
  for (Case& c : std::vector<Case>{{"scalars", scalar_parameters(), 1},
                                   {"memory", memory, 1},
                                   {"gradient stream", tangent_parameters(), tangent_eta},
                                   {"delayed", asynchronous_parameters(), 3 * late_eta}}) {
    c.parameters.model->manifold = ManifoldId::kEuclidean;
    c.parameters.steps->step_decay = 0;
    TestServer server(c.parameters);
    server.start();
    server.join(4);
    server.round(4);
    Ledger replayed(c.parameters, server.names);
    std::vector<Real> before;
    uint32_t checked = 0;
    for (const JournalRecord& record : server.store.records()) {
      if (replayed.run().has_version()) {
        before.assign(replayed.run().replica().model(),
                      replayed.run().replica().model() + c.parameters.model->shape.size());
      }
      ASSERT_EQ(replayed.apply(record), Status::kOk);
      if (record.kind() == RecordKind::kVersion && record.version() == 1) {
        double move2 = 0;
        for (size_t e = 0; e < before.size(); ++e) {
          move2 += std::pow(static_cast<double>(replayed.run().replica().model()[e] - before[e]), 2);
        }
        const double step = static_cast<double>(record.step_scale()) * c.step_of_scale;
        EXPECT_NEAR(*record.promise(), move2 / step, 1e-3 * move2 / step) << c.name;
        ++checked;
      }
    }
    EXPECT_EQ(checked, 1U) << c.name;
  }
}

}  // namespace
}  // namespace gradstream

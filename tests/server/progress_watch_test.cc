#include "server/rules/progress_watch.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

struct GoldenRound {
  WatchedStep step;
  std::string state;
  double ratio = 0;
};
struct GoldenSeries {
  std::string name;
  int drift_round = -1;
  std::vector<GoldenRound> rounds;
};

// States of the prototype, an independent implementation: tests/golden/README.md.
std::vector<GoldenSeries> golden_series() {
  std::ifstream file(GS_SOURCE_DIR "/tests/golden/not_improving.txt");
  std::vector<GoldenSeries> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "#") {
      continue;
    }
    if (first == "series") {
      GoldenSeries& series = all.emplace_back();
      words >> series.name >> series.drift_round;
      continue;
    }
    GoldenRound& round = all.back().rounds.emplace_back();
    std::string loss;
    std::string ratio;
    words >> loss >> round.step.is_alive >> round.state >> ratio;
    round.step.promise = std::strtod(first.c_str(), nullptr);
    if (loss != "-") {
      round.step.loss = std::strtod(loss.c_str(), nullptr);
    }
    round.ratio = std::strtod(ratio.c_str(), nullptr);
  }
  return all;
}

TEST(ProgressWatch, JudgesEveryRoundAsThePrototype) {
  const std::vector<GoldenSeries> all = golden_series();
  ASSERT_EQ(all.size(), 9U);
  for (const GoldenSeries& series : all) {
    ProgressWatch watch;
    ASSERT_EQ(series.rounds.size(), 150U) << series.name;
    for (size_t k = 0; k < series.rounds.size(); ++k) {
      const GoldenRound& round = series.rounds[k];
      watch.add(round.step);
      EXPECT_EQ(watch.view().drift_count, series.drift_round >= 0 && static_cast<int>(k) >= series.drift_round)
          << series.name << " " << k;
      if (watch.view().drift_count > 0) {
        continue;  // here the run begins anew, and the prototype leaves that to its caller
      }
      EXPECT_STREQ(name_of(watch.judged()), round.state.c_str()) << series.name << " " << k;
      if (k >= kProgressFirst || watch.view().ratio > 0) {  // two different losses are in
        EXPECT_NEAR(watch.view().ratio, std::min(round.ratio, kPromiseRatioMax), 1e-4 * watch.view().ratio)
            << series.name << " " << k;
      }
    }
  }
}

// A run whose every window promises all of its history again, and keeps nothing.
WatchedStep bouncing(uint32_t round) { return {.promise = 3, .loss = round == 0 ? 2 : 1 + 0.1 * (round % 2)}; }

TEST(ProgressWatch, AccusesABouncingRunFromItsTwentiethRoundOn) {
  ProgressWatch watch;
  for (uint32_t round = 0; round < 22; ++round) {
    watch.add(bouncing(round));
    EXPECT_EQ(watch.view().state, ProgressState::kStarting) << round;
  }
  watch.add(bouncing(22));
  EXPECT_EQ(watch.view().state, ProgressState::kNotImproving);
  EXPECT_GT(watch.view().ratio, 25);
  EXPECT_LT(watch.view().kept, 0.1);
}

TEST(ProgressWatch, WatchesNoisyRunsBeforeItAccusesThem) {
  ProgressWatch watch;
  for (uint32_t round = 0; round < 70; ++round) {
    WatchedStep step = bouncing(round);
    step.accused_from = kProgressFirstNoisy;
    watch.add(step);
    EXPECT_EQ(watch.view().state, round < 22                    ? ProgressState::kStarting
                                  : round < kProgressFirstNoisy ? ProgressState::kWatching
                                                                : ProgressState::kNotImproving)
        << round;
  }
}

TEST(ProgressWatch, OnlyWatchesWhereAPromiseSaysTooLittle) {
  ProgressWatch watch;
  for (uint32_t round = 0; round < 100; ++round) {
    WatchedStep step = bouncing(round);
    step.may_accuse = false;
    watch.add(step);
    EXPECT_NE(watch.view().state, ProgressState::kNotImproving) << round;
  }
  EXPECT_EQ(watch.view().state, ProgressState::kWatching);
}

TEST(ProgressWatch, SaysNothingOfARunWithoutLosses) {
  for (const std::optional<double> loss : {std::optional<double>(), std::optional(0.0), std::optional(3.5)}) {
    ProgressWatch watch;
    for (uint32_t round = 0; round < 200; ++round) {
      watch.add({.promise = 1, .loss = loss});
      EXPECT_EQ(watch.view().state, ProgressState::kStarting) << round;
    }
    EXPECT_EQ(watch.view().ratio, 0);
    EXPECT_EQ(watch.view().drift_count, 0U);
  }
}

TEST(ProgressWatch, AChangeBetweenCalmStatesIsToldWhenItHasStood) {
  ProgressWatch watch;
  std::vector<ProgressState> told;
  for (uint32_t round = 0; round < 160; ++round) {
    watch.add({.promise = 1e-3, .loss = 10 - 0.05 * std::min(round, 80U)});
    if (told.empty() || told.back() != watch.view().state) {
      told.push_back(watch.view().state);
    }
  }
  EXPECT_EQ(told, std::vector<ProgressState>(
                      {ProgressState::kStarting, ProgressState::kStillFalling, ProgressState::kSettled}));
}

// After round 120 the last 30 rounds make 1 to 3 % of the whole fall, to and fro around the bound of 2 %, and from
// round 420 on 6 %.
TEST(ProgressWatch, ARunNearItsBoundStaysSettledUntilItFallsAgain) {
  ProgressWatch watch;
  std::vector<ProgressState> told;
  uint32_t crossings = 0;
  ProgressState judged = ProgressState::kStarting;
  double loss = 10;
  for (uint32_t round = 0; round < 520; ++round) {
    loss -= round < 80 ? 0.05 : round < 120 ? 0 : round < 420 ? 0.0027 : 0.01;
    const double wave = round < 120 ? 0 : 0.02 * std::sin(round * 2 * 3.14159265 / 60);
    watch.add({.promise = 1e-3, .loss = loss + wave});
    if (told.empty() || told.back() != watch.view().state) {
      told.push_back(watch.view().state);
    }
    crossings += round >= 150 && watch.judged() != judged ? 1 : 0;
    judged = watch.judged();
  }
  EXPECT_GT(crossings, 8U) << "the round alone says one and the other";
  EXPECT_EQ(told, std::vector<ProgressState>({ProgressState::kStarting, ProgressState::kStillFalling,
                                              ProgressState::kSettled, ProgressState::kStillFalling}));
}

TEST(ProgressWatch, ALossThatIsNoNumberDivergesAndDoesNoHarm) {
  ProgressWatch watch;
  for (uint32_t round = 0; round < 30; ++round) {
    watch.add({.promise = 0.1, .loss = round < 10 ? 1 - 0.01 * round : std::numeric_limits<double>::quiet_NaN()});
  }
  EXPECT_EQ(watch.view().state, ProgressState::kDiverged);
  EXPECT_EQ(watch.view().diverged_by, DivergedBy::kLoss);
}

TEST(ProgressWatch, RefusalsAreADivergenceUntilTheNextRound) {
  ProgressWatch watch;
  watch.add({.promise = 0.1, .loss = 1});
  watch.refuse();
  EXPECT_EQ(watch.view().state, ProgressState::kDiverged);
  EXPECT_EQ(watch.view().diverged_by, DivergedBy::kRefusals);
  watch.add({.promise = 0.1, .loss = 0.9});
  EXPECT_EQ(watch.view().state, ProgressState::kStarting);
}

}  // namespace
}  // namespace gradstream

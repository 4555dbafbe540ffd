#include "bench/parameters_plan.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// Jobs of constant steps of one table and seed, whose gaps at the last round are given by the multiple.
std::vector<BenchJob> constant_jobs(const std::vector<std::pair<double, double>>& gaps) {
  std::vector<BenchJob> jobs;
  for (const auto& [multiple, gap] : gaps) {
    BenchJob& job = jobs.emplace_back();
    job.row = &parameter_workloads().front();
    job.part = BenchPart::kConstant;
    job.value = multiple;
    job.outcome.gaps = {{100, gap}, {150, gap}};
  }
  return jobs;
}

TEST(ParametersPlan, ABadRunThatNobodyNamedIsMissed) {
  std::vector<BenchJob> jobs =
      constant_jobs({{0.01, 0.6}, {0.1, 0.3}, {1, 1e-3}, {3.16, 2e-3}, {31.6, 0.4}, {100, 0.5}});
  BenchFigures figures;
  report(BenchPart::kConstant, jobs, &figures);
  EXPECT_EQ(figures.missed_bad_runs, "3/3");  // 0.01 is too far from the best to be judged
  EXPECT_EQ(figures.false_alarms, "0/2");
  EXPECT_EQ(figures.missed_bars, 2U);
  jobs[1].outcome.events = {{40, "still_falling", ""}};
  jobs[4].outcome.events = {{60, "not_improving", ""}};
  jobs[5].outcome.fault = "update_refused reason=out_of_range";
  figures = {};
  report(BenchPart::kConstant, jobs, &figures);
  EXPECT_EQ(figures.missed_bad_runs, "0/3");
  EXPECT_EQ(figures.missed_bars, 0U);
}

TEST(ParametersPlan, AGoodRunThatWasEverNamedIsAFalseAlarm) {
  std::vector<BenchJob> jobs = constant_jobs({{1, 1e-3}, {3.16, 2e-3}, {10, 1e-2}});
  jobs[0].outcome.events = {{30, "not_improving", ""}, {90, "settled", ""}};
  jobs[1].outcome.events = {{120, "not_improving", ""}};
  jobs[2].outcome.events = {{30, "not_improving", ""}};  // neither good nor bad
  BenchFigures figures;
  report(BenchPart::kConstant, jobs, &figures);
  EXPECT_EQ(figures.missed_bad_runs, "0/0");
  EXPECT_EQ(figures.false_alarms, "2/2");
  EXPECT_EQ(figures.missed_bars, 1U);  // at round 100 none stands
}

TEST(ParametersPlan, ABarIsOfTheWorstSeedOfTheTable) {
  std::vector<BenchJob> jobs;
  for (const double gap : {1e-4, 2e-3}) {
    BenchJob& job = jobs.emplace_back();
    job.row = &parameter_workloads().front();
    job.outcome.gaps = {{50, gap}, {100, gap}, {150, gap}, {300, 1e-4}};
  }
  BenchFigures figures;
  report(BenchPart::kAuto, jobs, &figures);
  EXPECT_EQ(figures.digits_150, 2e-3);
  EXPECT_EQ(figures.digits_300, 1e-4);
  EXPECT_EQ(figures.missed_bars, 1U);
  EXPECT_EQ(figures.workloads.size(), 1U);
}

TEST(ParametersPlan, ChoosesByNameAndSeed) {
  BenchChoice choice;
  choice.names = {"iris_raw", "log_wine_raw"};
  EXPECT_EQ(jobs_of(BenchPart::kAuto, choice).size(), 6U);
  EXPECT_TRUE(jobs_of(BenchPart::kConstant, choice).empty());
  choice.seed = 2;
  EXPECT_EQ(jobs_of(BenchPart::kAuto, choice).size(), 2U);
  EXPECT_EQ(jobs_of(BenchPart::kSmoothing, choice).size(), 14U);
}

// The real coordinator and clients, by a step set by hand.
TEST(ParametersPlan, AStepOfTheRightSizeTrains) {
  BenchChoice choice;
  choice.names = {"iris_com"};
  choice.seed = 1;
  std::vector<BenchJob> jobs = jobs_of(BenchPart::kConstant, choice);
  for (BenchJob& job : jobs) {
    if (job.value == 1 || job.value == 1000) {
      run_job(&job);
      EXPECT_EQ(job.outcome.fault, "");
      EXPECT_EQ(job.outcome.exchange_count, 0U);
      EXPECT_EQ(job.outcome.gap_at(150) < 1e-4, job.value == 1) << job.outcome.gap_at(150);
    }
  }
}

}  // namespace
}  // namespace gradstream

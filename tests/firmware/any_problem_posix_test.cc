// Which built-in problems samples fit.
#include "firmware/any_problem_posix.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/application.h"

namespace gradstream {
namespace {

using Rows = std::vector<std::vector<Real>>;

Status read_row(const void* rows, uint32_t index, Real* out) {
  const std::vector<Real>& row = (*static_cast<const Rows*>(rows))[index];
  std::copy(row.begin(), row.end(), out);
  return Status::kOk;
}

std::string fits(const Rows& rows) {
  const SampleSource source = {&rows, static_cast<uint32_t>(rows.size()), static_cast<uint32_t>(rows[0].size()),
                               read_row};
  return names_of_problems(fitting_problems(source));
}

TEST(AnyProblemPosix, MeasuredValuesFitWhatTakesAnySamples) {
  EXPECT_EQ(fits({{0.5F, -1, 2.5F}, {1, 2, 0.25F}}), "kpca,least_squares");
  EXPECT_EQ(fits({{0.5F}}), "kpca") << "there is no target";
}

TEST(AnyProblemPosix, LabelsAreWholeNumbersOfAllSamples) {
  Rows rows(100, {0.5F, -1, 3.5F, 1});
  EXPECT_EQ(fits(rows), "kpca,logistic,least_squares");
  rows.back().back() = 0.5F;
  EXPECT_EQ(fits(rows), "kpca,least_squares") << "one is no label";
}

TEST(AnyProblemPosix, MatricesEntriesAndPointsComeFirst) {
  EXPECT_EQ(fits({{2, 0.5F, 0.5F, 3}}), "spd_mean,brockett,kpca,logistic,least_squares");
  EXPECT_EQ(fits({{-2, 0.5F, 0.5F, 3.5F}}), "brockett,kpca,least_squares");
  EXPECT_EQ(fits({{3, 7, 0.5F}, {0, 1, -2}}), "completion,kpca,least_squares");
  EXPECT_EQ(fits({{1.4142135F, 1, 0, 0.5F}}), "hyperbolic,kpca,least_squares");
}

TEST(AnyProblemPosix, TheClientGetsThemAll) {
  const Rows rows(3, {0.5F, -1, 1});
  const SampleSource source = {&rows, 3, 3, read_row};
  AnyProblem any;
  const gs_linked_problem* const linked = link_any(source, &any);
  EXPECT_STREQ(linked->problem.ops->name, "kpca");
  ASSERT_EQ(linked->more.size(), 2U);
  EXPECT_STREQ(linked->more[0].ops->name, "logistic");
  EXPECT_EQ(linked->more[1].context, nullptr) << "the client's own samples";
}

TEST(AnyProblemPosix, WhatAHelloHasNoRoomForIsNamed) {
  const Rows rows = {{2, 0.5F, 0.5F, 3}};
  const SampleSource source = {&rows, 1, 4, read_row};
  AnyProblem any;
  const gs_linked_problem* const linked = link_any(source, &any);
  EXPECT_EQ(linked->more.size(), kAnyProblemsMax - 1);
  EXPECT_EQ(names_of_problems(any.problems), "spd_mean,brockett,kpca,logistic");
  EXPECT_EQ(names_of_problems(any.left_out), "least_squares");
}

TEST(AnyProblemPosix, ScoresAreByTheProblemOfTheRun) {
  const Rows rows(3, {0.5F, -1, 1});
  const SampleSource source = {&rows, 3, 3, read_row};
  AnyProblem any;
  link_any(source, &any);
  std::copy(any.problems.begin(), any.problems.end(), app().problems);
  app().problem = app().problems[0];
  app().problem_count = any.problems.size();
  choose_problem("logistic");
  EXPECT_STREQ(app().problem.ops->name, "logistic");
  choose_problem("");  // before the first task
  choose_problem("spd_mean");
  EXPECT_STREQ(app().problem.ops->name, "logistic");
  app().problem_count = 0;
}

}  // namespace
}  // namespace gradstream

#include "runtime/problem/problem.h"

#include <cstring>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Problem, IsFoundByItsWholeName) {
  ProblemOps other = kKpcaOps;
  other.name = "kpca2";
  const Problem linked[] = {{&other, nullptr}, {&kKpcaOps, nullptr}};
  EXPECT_EQ(find_problem(linked, "kpca"), &linked[1]);
  EXPECT_EQ(find_problem(linked, "kpca2"), &linked[0]);
  EXPECT_EQ(find_problem(linked, "kpc"), nullptr);
  EXPECT_EQ(find_problem(linked, ""), nullptr);
  EXPECT_EQ(find_problem({}, "kpca"), nullptr);
}

TEST(Problem, NamesFitTheWire) { EXPECT_LE(std::strlen(kKpcaOps.name), kProblemNameSizeMax); }

TEST(Batch, IsAListOrEverything) {
  const uint16_t indices[] = {5, 2};
  const Batch list = {indices, 2};
  const Batch all = {nullptr, 9};
  EXPECT_EQ(list.at(0), 5u);
  EXPECT_EQ(list.at(1), 2u);
  EXPECT_EQ(all.at(8), 8u);
}

}  // namespace
}  // namespace gradstream

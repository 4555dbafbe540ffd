#include "server/run/key_group.h"

#include <utility>

#include <gtest/gtest.h>

#include "server/run/fold_keys.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

TEST(KeyGroup, ACopyHasItsOwnKeys) {
  RunParameters first;
  first.fold->fold_weight_max = 7;
  RunParameters copy = first;
  copy.fold->fold_weight_max = 9;
  EXPECT_EQ(first.fold->fold_weight_max, 7U);
  first = copy;
  copy.fold->fold_weight_max = 11;
  EXPECT_EQ(first.fold->fold_weight_max, 9U);
  const RunParameters& same = first;
  first = same;
  EXPECT_EQ(first.fold->fold_weight_max, 9U);
}

// What most sources read of a group is a base of it, and each copy has its own.
TEST(KeyGroup, TheCoreOfAGroupIsItsOwn) {
  RunParameters first;
  first.fold->fold_weight_max = 7;
  RunParameters copy = first;
  copy.fold.keys().fold_weight_max = 9;
  EXPECT_EQ(copy.fold->fold_weight_max, 9U);
  EXPECT_EQ((*first.fold).fold_weight_max, 7U);
  EXPECT_EQ(first.fold.keys().fold_weight_max, 7U);
}

// A run that was moved from is still one: its groups are never null.
TEST(KeyGroup, WhatWasMovedFromHasKeys) {
  RunParameters first;
  first.fold->fold_weight_max = 7;
  const RunParameters second = std::move(first);
  EXPECT_EQ(second.fold->fold_weight_max, 7U);
  EXPECT_EQ(first.fold->fold_weight_max, 7U);  // NOLINT(bugprone-use-after-move): that it may be used is the test
}

}  // namespace
}  // namespace gradstream

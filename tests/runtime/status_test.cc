#include "runtime/base/status.h"

#include <cstring>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

Status pass_on(Status status, int* reached) {
  GS_TRY(status);
  ++*reached;
  return Status::kOk;
}

TEST(Status, EveryCodeHasItsOwnText) {
  for (uint8_t i = 0; i <= static_cast<uint8_t>(Status::kUnfinished); ++i) {
    EXPECT_STRNE(status_text(static_cast<Status>(i)), "unknown status") << int{i};
    for (uint8_t j = 0; j < i; ++j) {
      EXPECT_STRNE(status_text(static_cast<Status>(i)), status_text(static_cast<Status>(j)));
    }
  }
  EXPECT_STREQ(status_text(static_cast<Status>(200)), "unknown status");
}

TEST(Status, TryReturnsTheFirstFault) {
  int reached = 0;
  EXPECT_EQ(pass_on(Status::kSingular, &reached), Status::kSingular);
  EXPECT_EQ(reached, 0);
  EXPECT_EQ(pass_on(Status::kOk, &reached), Status::kOk);
  EXPECT_EQ(reached, 1);
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<int> good = 7;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.status(), Status::kOk);
  good.value() += 1;
  EXPECT_EQ(good.value(), 8);
  const Result<int> bad = Status::kOutOfMemory;
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status(), Status::kOutOfMemory);
}

TEST(ResultDeathTest, ValueOfAnErrorIsABreach) {
  const Result<int> bad = Status::kOutOfMemory;
  EXPECT_DEATH(static_cast<void>(bad.value()), "assertion failed");
}

}  // namespace
}  // namespace gradstream

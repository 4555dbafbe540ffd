// A value or the status that says why there is none, and nothing between the two.
#include "server/store/expected.h"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// A row that is not there is a value; a store that failed has none.
Expected<std::optional<int>> find(int number) {
  if (number < 0) {
    return StoreStatus::kCorrupt;
  }
  if (number == 0) {
    return std::nullopt;
  }
  return number;
}

TEST(Expected, HoldsTheValueOrTheStatus) {
  const Expected<std::optional<int>> found = find(7);
  ASSERT_TRUE(found.is_ok());
  EXPECT_EQ(found.status(), StoreStatus::kOk);
  EXPECT_EQ(*found, 7);
  EXPECT_TRUE(found->has_value());
  EXPECT_TRUE(find(0).is_ok());
  EXPECT_FALSE(find(0)->has_value());
  EXPECT_FALSE(find(-1).is_ok());
  EXPECT_EQ(find(-1).status(), StoreStatus::kCorrupt);
}

TEST(Expected, IsNotTakenForItsValue) {
  static_assert(!std::is_convertible_v<Expected<bool>, bool>);
  static_assert(!std::is_constructible_v<bool, Expected<bool>>);
  const Expected<bool> is_there = false;
  EXPECT_TRUE(is_there.is_ok());
  EXPECT_FALSE(*is_there);
}

TEST(Expected, GivesAwayAValueThatOnlyMoves) {
  Expected<std::unique_ptr<std::string>> owned = std::make_unique<std::string>("row");
  *owned->get() += "s";
  const std::unique_ptr<std::string> taken = *std::move(owned);
  EXPECT_EQ(*taken, "rows");
}

TEST(Expected, HandsTheStatusOnThroughTry) {
  const auto add = [](int number) -> Expected<std::string> {
    const Expected<std::optional<int>> found = find(number);
    GS_TRY_STORE(found);
    GS_TRY_STORE(StoreStatus::kOk);
    return "found " + std::to_string(found->value_or(0));
  };
  EXPECT_EQ(*add(3), "found 3");
  EXPECT_EQ(add(-3).status(), StoreStatus::kCorrupt);
}

TEST(ExpectedDeathTest, EndsTheProgramWhereAValueIsReadThatIsNotThere) {
  EXPECT_DEATH(static_cast<void>(**find(-1)), "");
  EXPECT_DEATH(static_cast<void>(Expected<int>(StoreStatus::kOk)), "") << "kOk names no value";
}

}  // namespace
}  // namespace gradstream

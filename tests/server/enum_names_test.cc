// Words to values and back, from one table.
#include "server/base/enum_names.h"

#include <array>

#include <gtest/gtest.h>

namespace gradstream {

enum class Weekday : int { kMonday = 1, kTuesday = 2, kSunday = 7 };
template <>
inline constexpr auto kEnumNames<Weekday> = std::to_array<EnumName<Weekday>>({{"monday", Weekday::kMonday},
                                                                              {"sunday", Weekday::kSunday}});

namespace {

TEST(EnumNames, AWordAndItsValueFindEachOther) {
  EXPECT_EQ(names_of<Weekday>().size(), 2U);
  for (const auto& [word, value] : names_of<Weekday>()) {
    EXPECT_STREQ(name_of(value), word);
    EXPECT_EQ(parse_name(word, Weekday::kTuesday), value);
  }
}

TEST(EnumNames, WhatIsNotInTheTableIsSaidSo) {
  EXPECT_STREQ(name_of(Weekday::kTuesday), "none");
  EXPECT_STREQ(name_of(Weekday::kTuesday, "unknown"), "unknown");
  EXPECT_EQ(parse_name("tuesday", Weekday::kSunday), Weekday::kSunday);
  EXPECT_EQ(parse_name("", Weekday::kSunday), Weekday::kSunday);
}

}  // namespace
}  // namespace gradstream

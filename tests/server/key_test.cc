#include "server/run/key.h"

#include <limits>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Key, ARangeKnowsWhetherItsEndsBelongToIt) {
  EXPECT_TRUE(Range().has(-std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(Range().has(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(from(1, 3).has(1));
  EXPECT_TRUE(from(1, 3).has(3));
  EXPECT_FALSE(from(1, 3).has(0));
  EXPECT_FALSE(from(1, 3).has(4));
  EXPECT_FALSE(above(0).has(0));
  EXPECT_TRUE(above(0, 1).has(1));
  EXPECT_TRUE(from_below(0, 1).has(0));
  EXPECT_FALSE(from_below(0, 1).has(1));
  EXPECT_STREQ(above(0).only("scheme_1").where, "scheme_1");
  EXPECT_FALSE(above(0).only("scheme_1").has(0));
}

}  // namespace
}  // namespace gradstream

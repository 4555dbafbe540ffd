#include "runtime/base/text.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Text, TrimsBlanksAndKeepsWhatIsWithin) {
  EXPECT_EQ(trim(" \t a b\r"), "a b");
  EXPECT_EQ(trim("ab"), "ab");
  EXPECT_EQ(trim(" \t\r"), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("a\n"), "a\n") << "a line's end is no blank";
}

TEST(Text, SlicesUpToBothEnds) {
  EXPECT_EQ(slice("abc", 0, 3), "abc");
  EXPECT_EQ(slice("abc", 1, 2), "b");
  EXPECT_EQ(slice("abc", 3, 3), "");
}

TEST(Text, KnowsHexDigits) {
  for (int value = 0; value < 16; ++value) {
    EXPECT_EQ(hex_digit("0123456789abcdef"[value]), value);
    EXPECT_EQ(hex_digit("0123456789ABCDEF"[value]), value);
  }
  for (const char c : {'g', 'G', '/', ':', '@', '`', ' ', '\0', '\x10', '\x19'}) {  // the last two: digits less 0x20
    EXPECT_EQ(hex_digit(c), -1) << static_cast<int>(c);
  }
}

}  // namespace
}  // namespace gradstream

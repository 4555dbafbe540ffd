#include "server/rules/wide_int.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

__int128 value_of(const WideInt& x) {
  return static_cast<__int128>(static_cast<unsigned __int128>(static_cast<uint64_t>(x.high)) << 64 | x.low);
}
WideInt wide_of(__int128 x) { return WideInt::of_words(static_cast<uint64_t>(x), static_cast<int64_t>(x >> 64)); }

// Of every width, and of both signs.
__int128 draw(std::mt19937_64* random) {
  const auto bits = static_cast<__int128>(static_cast<unsigned __int128>((*random)()) << 64 | (*random)());
  return bits >> (2 + (*random)() % 126);
}

TEST(WideInt, CountsAsTheCompilersOwn) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 20000; ++trial) {
    const __int128 a = draw(&random);
    const __int128 b = draw(&random);
    EXPECT_TRUE(value_of(wide_of(a) + wide_of(b)) == a + b);
    WideInt doubled = wide_of(a);
    doubled += doubled;
    EXPECT_TRUE(value_of(doubled) == 2 * a);
    EXPECT_TRUE(value_of(-wide_of(a)) == -a);
    EXPECT_TRUE(value_of(wide_of(a).magnitude()) == (a < 0 ? -a : a));
    EXPECT_EQ(wide_of(a) < wide_of(b), a < b);
    EXPECT_EQ(wide_of(a) == wide_of(b), a == b);
    const auto narrow = static_cast<int64_t>(a);
    EXPECT_TRUE(value_of(WideInt(narrow)) == narrow);
    EXPECT_TRUE(value_of(wide_of(b) + narrow) == b + narrow);
    const auto word = static_cast<uint64_t>(b);
    const unsigned shift = 1 + static_cast<unsigned>(random() % 63);
    EXPECT_TRUE(value_of(WideInt::shifted(word, shift)) == static_cast<__int128>(word) << shift);
    const uint64_t other = static_cast<uint64_t>(a) >> 1;  // the product is below 2^127
    EXPECT_TRUE(value_of(WideInt::product(word, other)) == static_cast<__int128>(word) * other);
  }
}

TEST(WideInt, DividesAndRoundsHalfAwayFromZero) {
  std::mt19937_64 random(13);
  for (int trial = 0; trial < 20000; ++trial) {
    const __int128 sum = draw(&random);
    const __int128 magnitude = sum < 0 ? -sum : sum;
    const uint64_t least = static_cast<uint64_t>(magnitude >> 62) + 1;  // the quotient is then below 2^63
    if (magnitude >> 62 >> 62 != 0) {
      continue;
    }
    const uint64_t divisor = least + random() % (uint64_t{1} << (random() % 48 + 1));
    const __int128 rounded = (2 * magnitude + divisor) / (2 * static_cast<__int128>(divisor));
    EXPECT_TRUE(divide_rounded(wide_of(sum), divisor) == (sum < 0 ? -rounded : rounded));
  }
  const WideInt half = WideInt::shifted(3, 63);  // 1.5 * 2^64
  EXPECT_EQ(divide_rounded(half, uint64_t{1} << 62), 6);
  EXPECT_EQ(divide_rounded(half + int64_t{1} + WideInt::shifted(1, 60), uint64_t{1} << 61), 13);  // 12.5 and more
  EXPECT_EQ(divide_rounded(half + WideInt::shifted(1, 60), uint64_t{1} << 61), 13);               // 12.5
  EXPECT_EQ(divide_rounded(-(half + WideInt::shifted(1, 60)), uint64_t{1} << 61), -13);
}

TEST(WideInt, HasTheValueOfADouble) {
  EXPECT_EQ(WideInt(int64_t{1} << 62).value(), 0x1p62);
  EXPECT_EQ(WideInt::shifted(5, 63).value(), 0x5p63);
  EXPECT_EQ(WideInt::of_words(0x8000000000000000, 3).value(), 0x7p63);
  EXPECT_EQ(WideInt(-5).value(), -5.0);
  EXPECT_EQ((-WideInt::shifted(5, 63)).value(), -0x5p63);
  EXPECT_EQ(WideInt::of_words(0, std::numeric_limits<int64_t>::min()).value(), -0x1p127);
}

TEST(WideIntDeathTest, AQuotientBeyondAWordIsAMistake) {
  EXPECT_DEATH(static_cast<void>(divide_rounded(WideInt::shifted(1, 63) + WideInt::shifted(1, 63), 1)),
               "assertion failed");
}

}  // namespace
}  // namespace gradstream

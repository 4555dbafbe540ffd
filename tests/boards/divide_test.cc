#include "boards/cortex_m/divide.h"

#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

void expect_division(uint64_t n, uint64_t d) {
  uint64_t remainder = 1;
  EXPECT_EQ(divide(n, d, &remainder), n / d) << n << " / " << d;
  EXPECT_EQ(remainder, n % d) << n << " % " << d;
}

TEST(Divide, IsTheProcessorsOwnAtEveryEdge) {
  constexpr uint64_t kMost = UINT64_MAX;
  for (const uint64_t d : {uint64_t{1}, uint64_t{2}, uint64_t{10}, uint64_t{3125}, uint64_t{65535}, uint64_t{65536},
                           uint64_t{65537}, uint64_t{1} << 32, uint64_t{1} << 63, kMost - 1, kMost}) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, d - 1, d, d + 1, 3 * d, uint64_t{1} << 63, kMost - 1, kMost}) {
      expect_division(n, d);
    }
  }
}

TEST(Divide, IsTheProcessorsOwnForNumbersOfEverySize) {
  std::mt19937_64 random(7);
  for (uint32_t turn = 0; turn < 20000; ++turn) {
    const uint64_t n = random() >> (turn % 64);
    const uint64_t d = random() >> (turn / 64 % 64);
    expect_division(n, d == 0 ? 1 : d);
  }
}

}  // namespace
}  // namespace gradstream

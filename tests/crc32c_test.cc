// Known answers, and that a sum over parts is the sum over the whole.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

TEST(Crc32c, KnownAnswers) {
  const uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32c(0, digits, 9), 0xe3069283u);
  EXPECT_EQ(crc32c(crc32c(0, digits, 4), digits + 4, 5), 0xe3069283u);
  const std::vector<uint8_t> zeros(32, 0);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(0, zeros.data(), zeros.size()), 0x8a9136aau);
  EXPECT_EQ(crc32c(0, nullptr, 0), 0u);
}

}  // namespace
}  // namespace gradstream

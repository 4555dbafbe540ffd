// Known answers, and that a sum over parts is the sum over the whole.
#include "runtime/base/crc32c.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

class Crc32c : public testing::TestWithParam<decltype(&crc32c)> {
 protected:
  const decltype(&crc32c) sum_ = GetParam();
};
INSTANTIATE_TEST_SUITE_P(, Crc32c, testing::Values(&crc32c, &crc32c_by_table));

TEST_P(Crc32c, KnownAnswers) {
  const uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(sum_(0, digits, 9), 0xe3069283u);
  EXPECT_EQ(sum_(sum_(0, digits, 4), digits + 4, 5), 0xe3069283u);
  const std::vector<uint8_t> zeros(32, 0);  // RFC 3720, B.4
  EXPECT_EQ(sum_(0, zeros.data(), zeros.size()), 0x8a9136aau);
  EXPECT_EQ(sum_(0, nullptr, 0), 0u);
  std::vector<uint8_t> rising(32);  // the same place
  std::iota(rising.begin(), rising.end(), uint8_t{0});
  EXPECT_EQ(sum_(0, rising.data(), rising.size()), 0x46dd794eu);
}

// Cut in two anywhere, and begun at any address, the sum is that of single bytes.
TEST_P(Crc32c, StridesAreWhatBytesAre) {
  std::vector<uint8_t> bytes(67);
  std::iota(bytes.begin(), bytes.end(), uint8_t{200});
  for (size_t begin = 0; begin < 9; ++begin) {
    uint32_t expected = 0;
    for (size_t i = begin; i < bytes.size(); ++i) {
      expected = sum_(expected, &bytes[i], 1);
    }
    for (size_t cut = begin; cut <= bytes.size(); ++cut) {
      const uint32_t head = sum_(0, &bytes[begin], cut - begin);
      ASSERT_EQ(sum_(head, bytes.data() + cut, bytes.size() - cut), expected) << begin << " " << cut;
    }
  }
}

}  // namespace
}  // namespace gradstream

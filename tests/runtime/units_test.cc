// The whole numbers of units, against arithmetic in 128 bits, and the table.
#include "runtime/base/units.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

// Values of all kinds: extremes, both sides of powers of two, and random bits.
std::vector<float> some_values() {
  std::vector<float> values = {0,        -0.0F,     1,      -1,      1e17F, -1e17F, 1e-17F,
                               kLargest, -kLargest, kLeast, -kLeast, 0.5F,  1.5F};
  for (int e = -126; e < 128; e += 7) {
    const float power = std::ldexp(1.0F, e);
    values.insert(values.end(), {power, std::nextafter(power, 0.0F), std::nextafter(power, kLargest), -power});
  }
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    const uint32_t bits = random();
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isfinite(value)) {
      values.push_back(value);
    }
  }
  return values;
}

// Half away from zero of mantissa 2^power, in 128 bits.
int64_t rounded(float value, int unit) {
  int power = 0;
  const auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(value, &power), 24));  // exact
  const int shift = power - 24 - unit;
  const bool is_negative = mantissa < 0;
  __int128 magnitude = is_negative ? -mantissa : mantissa;
  if (shift >= 0) {
    magnitude = shift < 100 ? magnitude << shift : 0;  // beyond what whole_of() takes
  } else {
    const int right = -shift < 100 ? -shift : 100;
    magnitude = (2 * magnitude + (__int128{1} << right)) / (__int128{2} << right);
  }
  return static_cast<int64_t>(is_negative ? -magnitude : magnitude);
}

TEST(Units, AnExponentIsTheLeastPowerAbove) {
  for (const float value : some_values()) {
    const int32_t e = exponent_of(value);
    const double magnitude = std::fabs(static_cast<double>(value));
    EXPECT_LT(magnitude, std::ldexp(1.0, e)) << value;
    EXPECT_TRUE(e == kUnitsExponentMin || magnitude >= std::ldexp(1.0, e - 1)) << value;
    EXPECT_LE(e, kUnitsExponentMax);
  }
  EXPECT_EQ(exponent_of(0), -126);
  EXPECT_EQ(exponent_of(kLeast), -126);
  EXPECT_EQ(exponent_of(1), 1);
  EXPECT_EQ(exponent_of(std::nextafter(1.0F, 0.0F)), 0);
  EXPECT_EQ(exponent_of(kLargest), 128);
  EXPECT_GT(exponent_of(std::numeric_limits<float>::infinity()), kUnitsExponentMax);
  EXPECT_GT(exponent_of(std::numeric_limits<float>::quiet_NaN()), kUnitsExponentMax);
}

TEST(Units, WholeNumbersAreRoundedHalfAwayFromZero) {
  EXPECT_EQ(whole_of(2.5F, 0), 3);
  EXPECT_EQ(whole_of(-2.5F, 0), -3);
  EXPECT_EQ(whole_of(0.5F, 0), 1);
  EXPECT_EQ(whole_of(-0.5F, 0), -1);
  EXPECT_EQ(whole_of(std::nextafter(0.5F, 0.0F), 0), 0);
  EXPECT_EQ(whole_of(-0.0F, 0), 0);
  EXPECT_EQ(whole_of(kLeast, -149), 1);
  EXPECT_EQ(whole_of(kLeast, -148), 1);
  EXPECT_EQ(whole_of(kLeast, -147), 0);
  for (const float value : some_values()) {
    const int32_t e = exponent_of(value);
    for (const int32_t unit : {e - kSumBits, e - kSquareBits, e - 1, e, e + 1, e + 40}) {
      EXPECT_EQ(whole_of(value, unit), rounded(value, unit)) << value << " in units of 2^" << unit;
    }
    EXPECT_LE(std::llabs(whole_of(value, e - kSumBits)), int64_t{1} << kSumBits);
  }
}

TEST(Units, PowersOfTwo) {
  for (int32_t e = kUnitsExponentMin; e < kUnitsExponentMax; ++e) {
    EXPECT_EQ(power_of_two(e), std::ldexp(1.0F, e));
  }
  EXPECT_EQ(power_of_two(kUnitsExponentMax), kLargest);
}

TEST(Units, ATableIsAppliedOnceItIsDecided) {
  const UnitsColumn columns[] = {{3, 2, 0.5F}, {1, -1, 4}};
  const Units units{columns, 2};
  EXPECT_TRUE(units.are_decided());
  Real sample[] = {5, 1, 7};
  units.apply(sample);
  EXPECT_EQ(sample[0], static_cast<Real>(1.5));
  EXPECT_EQ(sample[1], 8);
  EXPECT_EQ(sample[2], 7) << "a label";
  const UnitsColumn half[] = {{3, 2, 0.5F}, {1, -1, 0}};
  EXPECT_FALSE((Units{half, 2}.are_decided()));
}

// As the wire has the table: 12 bytes a column, little-endian.
TEST(Units, TheDigestIsThatOfTheBytesOfTheWire) {
  const UnitsColumn columns[] = {{-3, 0.25F, 2}, {128, -1e30F, 1e-30F}};
  std::vector<uint8_t> bytes;
  for (const UnitsColumn& column : columns) {
    uint32_t words[3] = {static_cast<uint32_t>(column.exponent), 0, 0};
    std::memcpy(words + 1, &column.mean, 4);
    std::memcpy(words + 2, &column.factor, 4);
    for (const uint32_t word : words) {
      for (int shift = 0; shift < 32; shift += 8) {
        bytes.push_back(static_cast<uint8_t>(word >> shift));
      }
    }
  }
  uint64_t digest = 42;
  for (const uint8_t byte : bytes) {
    digest = digest_byte(digest, byte);
  }
  EXPECT_EQ(digest_units(42, {columns, 2}), digest);
  EXPECT_EQ(digest_units(42, {}), 42U);
}

}  // namespace
}  // namespace gradstream

#include "runtime/training/encoding.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
constexpr float kFloatMax = std::numeric_limits<float>::max();

std::vector<uint8_t> encode(Encoding encoding, const std::vector<Real>& values) {
  std::vector<uint8_t> bytes(encoded_size(encoding, values.size()));
  EXPECT_EQ(encode_values(encoding, values.size(), values.data(), bytes.data()), Status::kOk);
  return bytes;
}

std::vector<Real> decode(Encoding encoding, const std::vector<uint8_t>& bytes, size_t count) {
  std::vector<Real> values(count);
  EXPECT_EQ(decode_values(encoding, count, bytes.data(), bytes.size(), values.data()), Status::kOk);
  return values;
}

Status encode_status(Encoding encoding, Real value) {
  uint8_t bytes[16];
  return encode_values(encoding, 1, &value, bytes);
}

Status decode_status(Encoding encoding, std::vector<uint8_t> bytes, size_t count) {
  std::vector<Real> values(count);
  return decode_values(encoding, count, bytes.data(), bytes.size(), values.data());
}

std::vector<Real> normals(size_t count, Real factor) {
  std::vector<Real> values(count);
  fill_normal(RandomKey{}, 0, count, values.data());
  for (Real& value : values) {
    value *= factor;
  }
  return values;
}

float bf16(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

TEST(Encoding, Sizes) {
  EXPECT_EQ(encoded_size(Encoding::kF32, 80), 320u);
  EXPECT_EQ(encoded_size(Encoding::kBf16, 80), 160u);
  EXPECT_EQ(encoded_size(Encoding::kInt8, 80), 86u);
  EXPECT_EQ(encoded_size(Encoding::kInt8, 0), 0u);
  EXPECT_EQ(encoded_size(Encoding::kInt8, 33), 37u);
  EXPECT_EQ(encoded_size(Encoding::kNone, 80), 0u);
  EXPECT_EQ(encoded_size(static_cast<Encoding>(99), 80), 0u);
  EXPECT_EQ(encoded_size(Encoding::kF64, 80), sizeof(Real) == 8 ? 640u : 0u);
}

TEST(Encoding, ValuesPerMessageFillPayloadWithWholeBlocks) {
  EXPECT_EQ(values_per_message(Encoding::kF32), 224u);
  EXPECT_EQ(values_per_message(Encoding::kBf16), 448u);
  EXPECT_EQ(values_per_message(Encoding::kInt8), 832u);
  EXPECT_EQ(values_per_message(Encoding::kNone), 0u);
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    const size_t count = values_per_message(encoding);
    EXPECT_EQ(count % kInt8BlockSize, 0u);
    EXPECT_LE(encoded_size(encoding, count), kPayloadSizeMax);
    EXPECT_GT(encoded_size(encoding, count + kInt8BlockSize), kPayloadSizeMax);
  }
}

TEST(Encoding, F32IsLittleEndianAndExact) {
  const std::vector<uint8_t> bytes = encode(Encoding::kF32, {1, -2});
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}));
  for (const Real value : normals(1000, 3)) {
    const Real narrowed = static_cast<Real>(static_cast<float>(value));
    EXPECT_EQ(decode(Encoding::kF32, encode(Encoding::kF32, {value}), 1)[0], narrowed);
  }
}

TEST(Encoding, Bf16EveryPatternDecodesAndEncodesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const std::vector<uint8_t> bytes = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)};
    if (!std::isfinite(bf16(bits))) {
      EXPECT_EQ(decode_status(Encoding::kBf16, bytes, 1), Status::kNotFinite) << bits;
      continue;
    }
    const std::vector<Real> value = decode(Encoding::kBf16, bytes, 1);
    ASSERT_EQ(std::bit_cast<uint32_t>(static_cast<float>(value[0])), bits << 16);
    ASSERT_EQ(encode(Encoding::kBf16, value), bytes);
  }
}

// Around every gap between neighbours of positive sign: just below half, half, just above half.
TEST(Encoding, Bf16RoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const uint32_t half = (bits << 16) + 0x8000;
    for (const int offset : {-1, 0, 1}) {
      const float value = std::bit_cast<float>(half + static_cast<uint32_t>(offset));
      const uint32_t expected = offset < 0 ? bits : offset > 0 ? bits + 1 : bits + (bits & 1);
      const std::vector<uint8_t> positive = encode(Encoding::kBf16, {static_cast<Real>(value)});
      ASSERT_EQ(positive[0] | positive[1] << 8, static_cast<int>(expected));
      const std::vector<uint8_t> negative = encode(Encoding::kBf16, {static_cast<Real>(-value)});
      ASSERT_EQ(negative[0] | negative[1] << 8, static_cast<int>(expected | 0x8000));
    }
  }
}

TEST(Encoding, Bf16RefusesWhatRoundsToInfinity) {
  const float largest = bf16(0x7f7f);
  EXPECT_EQ(encode_status(Encoding::kBf16, static_cast<Real>(largest)), Status::kOk);
  EXPECT_EQ(encode_status(Encoding::kBf16, static_cast<Real>(kFloatMax)), Status::kOutOfRange);
  EXPECT_EQ(encode_status(Encoding::kBf16, static_cast<Real>(-kFloatMax)), Status::kOutOfRange);
}

// One block: the scale is the smallest that reaches, each byte the nearest, each value the exact product.
void check_int8_block(const std::vector<Real>& values) {
  const std::vector<uint8_t> bytes = encode(Encoding::kInt8, values);
  const uint32_t scale_bits = bytes[0] | static_cast<uint32_t>(bytes[1]) << 8;
  const double scale = bf16(scale_bits);
  double largest = 0;
  for (const Real value : values) {
    largest = std::max(largest, std::fabs(static_cast<double>(static_cast<float>(value))));
  }
  ASSERT_GE(scale * 127, largest);
  if (scale_bits > 0) {
    ASSERT_LT(static_cast<double>(bf16(scale_bits - 1)) * 127, largest);
  }
  const std::vector<Real> decoded = decode(Encoding::kInt8, bytes, values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int8_t byte = static_cast<int8_t>(bytes[2 + i]);
    ASSERT_NE(byte, -128);
    ASSERT_EQ(static_cast<double>(decoded[i]), byte * scale);
    const double error = std::fabs(static_cast<double>(static_cast<float>(values[i])) - byte * scale);
    ASSERT_LE(error, scale * 0.5 * (1 + 1e-6));
  }
}

TEST(Encoding, Int8ScaleIsSmallestAndValuesNearest) {
  for (const Real factor : {Real{1}, Real{1e-3}, Real{3e4}, static_cast<Real>(1e-39), static_cast<Real>(1e30)}) {
    for (size_t count = 1; count <= kInt8BlockSize; ++count) {
      check_int8_block(normals(count, factor));
    }
  }
  // Every significand of the largest value at which the choice of scale may turn.
  for (uint32_t bits = 0x3f800000; bits < 0x40000000; bits += 4099) {
    check_int8_block({static_cast<Real>(std::bit_cast<float>(bits)), Real{-0.25}});
  }
}

TEST(Encoding, Int8RoundsHalfAwayFromZero) {
  // Scale 1: the bytes are the rounded values.
  const std::vector<Real> values = {127, 0.5, -0.5, 2.5, -2.5, static_cast<Real>(0.49999997f), 1.49, -1.51};
  const std::vector<uint8_t> bytes = encode(Encoding::kInt8, values);
  const std::vector<int8_t> expected = {127, 1, -1, 3, -3, 0, 1, -2};
  EXPECT_EQ(bytes[0] | bytes[1] << 8, 0x3f80);
  EXPECT_EQ(0, std::memcmp(bytes.data() + 2, expected.data(), expected.size()));
}

TEST(Encoding, Int8OfZerosIsZeros) {
  const std::vector<uint8_t> bytes = encode(Encoding::kInt8, std::vector<Real>(32, 0));
  EXPECT_EQ(bytes, std::vector<uint8_t>(34, 0));
  EXPECT_EQ(decode(Encoding::kInt8, bytes, 32), std::vector<Real>(32, 0));
}

TEST(Encoding, Int8BlocksAreIndependent) {
  std::vector<Real> values = normals(80, 1);
  const std::vector<uint8_t> whole = encode(Encoding::kInt8, values);
  for (size_t first = 0; first < values.size(); first += kInt8BlockSize) {
    const size_t last = std::min(values.size(), first + kInt8BlockSize);
    const std::vector<uint8_t> part =
        encode(Encoding::kInt8, {values.begin() + static_cast<long>(first), values.begin() + static_cast<long>(last)});
    const size_t offset = encoded_size(Encoding::kInt8, first);
    EXPECT_EQ(0, std::memcmp(part.data(), whole.data() + offset, part.size()));
  }
}

TEST(Encoding, Int8RefusesWhatDecodesToInfinity) {
  EXPECT_EQ(encode_status(Encoding::kInt8, static_cast<Real>(bf16(0x7c01) * 127)), Status::kOk);
  EXPECT_EQ(encode_status(Encoding::kInt8, static_cast<Real>(kFloatMax)), Status::kOutOfRange);
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x01, 0x7c, 127}, 1), Status::kOk);
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x02, 0x7c, 127}, 1), Status::kDataCorrupt);
}

TEST(Encoding, RefusesWhatIsNotFinite) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    EXPECT_EQ(encode_status(encoding, kInfinity), Status::kNotFinite);
    EXPECT_EQ(encode_status(encoding, -kInfinity), Status::kNotFinite);
    EXPECT_EQ(encode_status(encoding, std::nan("")), Status::kNotFinite);
  }
  EXPECT_EQ(decode_status(Encoding::kF32, {0, 0, 0x80, 0x7f}, 1), Status::kNotFinite);
  EXPECT_EQ(decode_status(Encoding::kF32, {0, 0, 0xc0, 0x7f}, 1), Status::kNotFinite);
}

TEST(Encoding, RefusesWhatIsNotFiniteInAnyPlace) {
  for (size_t place = 0; place < 9; ++place) {
    std::vector<Real> values(9, Real{1});
    std::vector<uint8_t> bytes(encoded_size(Encoding::kF32, values.size()));
    EXPECT_EQ(encode_values(Encoding::kF32, values.size(), values.data(), bytes.data()), Status::kOk);
    std::vector<Real> decoded(9);
    EXPECT_EQ(decode_values(Encoding::kF32, decoded.size(), bytes.data(), bytes.size(), decoded.data()), Status::kOk);
    EXPECT_EQ(decoded, values);
    bytes[4 * place + 3] = 0x7f;
    bytes[4 * place + 2] = 0xc0;
    EXPECT_EQ(decode_values(Encoding::kF32, decoded.size(), bytes.data(), bytes.size(), decoded.data()),
              Status::kNotFinite);
    values[place] = -kInfinity;
    EXPECT_EQ(encode_values(Encoding::kF32, values.size(), values.data(), bytes.data()), Status::kNotFinite);
  }
}

TEST(Encoding, RefusesWhatNoEncoderMakes) {
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x80, 0x3f, 0x80}, 1), Status::kDataCorrupt);  // -128
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x80, 0xbf, 1}, 1), Status::kDataCorrupt);     // negative scale
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x00, 0x80, 0}, 1), Status::kDataCorrupt);     // scale -0
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x80, 0x7f, 1}, 1), Status::kDataCorrupt);     // infinite scale
  EXPECT_EQ(decode_status(Encoding::kInt8, {0xc0, 0x7f, 1}, 1), Status::kDataCorrupt);     // NaN scale
  EXPECT_EQ(decode_status(Encoding::kInt8, {0x00, 0x00, 1}, 1), Status::kDataCorrupt);     // scale 0, byte 1
}

TEST(Encoding, RefusesWrongSizesAndNames) {
  EXPECT_EQ(decode_status(Encoding::kF32, {0, 0, 0}, 1), Status::kInvalidArgument);
  EXPECT_EQ(decode_status(Encoding::kF32, {0, 0, 0, 0, 0}, 1), Status::kInvalidArgument);
  EXPECT_EQ(decode_status(Encoding::kInt8, {0, 0}, 1), Status::kInvalidArgument);
  EXPECT_EQ(decode_status(Encoding::kNone, {}, 0), Status::kInvalidArgument);
  EXPECT_EQ(encode_status(Encoding::kNone, 1), Status::kInvalidArgument);
  EXPECT_EQ(encode_status(static_cast<Encoding>(5), 1), Status::kInvalidArgument);
  if (sizeof(Real) == 4) {
    EXPECT_EQ(encode_status(Encoding::kF64, 1), Status::kInvalidArgument);
  }
}

TEST(Encoding, F64IsExactInTheDoubleBuild) {
  if (sizeof(Real) != 8) {
    GTEST_SKIP() << "double build only";
  }
  const std::vector<Real> values = normals(100, 1);
  EXPECT_EQ(decode(Encoding::kF64, encode(Encoding::kF64, values), values.size()), values);
  EXPECT_EQ(encode_status(Encoding::kF64, kInfinity), Status::kNotFinite);
  EXPECT_EQ(encode_status(Encoding::kF32, static_cast<Real>(1e300)), Status::kOutOfRange);
}

TEST(Encoding, DigestIsFnv1aOfLittleEndianBytes) {
  EXPECT_EQ(digest_values(kDigestStart, 0, nullptr), kDigestStart);
  const std::vector<Real> values = {1, -2, 0.5};
  uint64_t expected = kDigestStart;
  for (const Real value : values) {
    uint8_t bytes[sizeof(Real)];
    std::memcpy(bytes, &value, sizeof(Real));  // tests run on little-endian machines
    for (const uint8_t byte : bytes) {
      expected = (expected ^ byte) * 0x100000001b3ULL;
    }
  }
  EXPECT_EQ(digest_values(kDigestStart, 3, values.data()), expected);
  EXPECT_EQ(digest_values(digest_values(kDigestStart, 1, values.data()), 2, values.data() + 1), expected);
  const std::vector<Real> zeros = {0};
  const std::vector<Real> negative_zeros = {static_cast<Real>(-0.0)};
  EXPECT_NE(digest_values(kDigestStart, 1, zeros.data()), digest_values(kDigestStart, 1, negative_zeros.data()));
}

}  // namespace
}  // namespace gradstream

#include "runtime/base/no_contraction.h"

#include "runtime/base/units.h"

#include <bit>
#include <limits>

namespace gradstream {
namespace {

constexpr uint32_t kFractionBits = 23;
constexpr uint32_t kFractionMask = (uint32_t{1} << kFractionBits) - 1;
constexpr int32_t kFieldMax = 255;
constexpr int32_t kFieldBias = 127;
// A shift to the right that leaves nothing of 24 bits, not even a half.
constexpr int32_t kShiftMax = 25;

// The exponent's field of a float: 0 for zero and subnormal numbers, kFieldMax for infinity and NaN.
int32_t field_of(float value) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value) >> kFractionBits) & kFieldMax;
}

uint64_t digest_word(uint64_t digest, uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) {
    digest = (digest ^ (word >> shift & 0xff)) * 0x100000001b3ULL;  // FNV-1a, as digest_byte()
  }
  return digest;
}

}  // namespace

bool Units::are_decided() const {
  for (uint32_t i = 0; i < count; ++i) {
    if (columns[i].factor == 0) {
      return false;
    }
  }
  return true;
}

void Units::apply(Real* sample) const {
  for (uint32_t i = 0; i < count; ++i) {
    sample[i] = (sample[i] - static_cast<Real>(columns[i].mean)) * static_cast<Real>(columns[i].factor);
  }
}

int32_t exponent_of(float value) {
  const int32_t field = field_of(value);
  if (field == kFieldMax) {
    return kUnitsExponentMax + 1;
  }
  return field == 0 ? kUnitsExponentMin : field + kUnitsExponentMin;  // 1 <= abs(value) / 2^(field - 127) < 2
}

int64_t whole_of(float value, int32_t unit) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const int32_t field = field_of(value);
  int64_t magnitude = bits & kFractionMask;
  if (field != 0) {
    magnitude |= int64_t{1} << kFractionBits;
  }
  // The value is magnitude 2^(max(field, 1) - 150).
  const int32_t shift = (field == 0 ? 1 : field) - 150 - unit;
  if (shift >= 0) {
    magnitude <<= shift;
  } else if (shift < -kShiftMax) {
    magnitude = 0;
  } else {
    magnitude = (magnitude + (int64_t{1} << (-shift - 1))) >> -shift;
  }
  return (bits >> 31) != 0 ? -magnitude : magnitude;
}

float power_of_two(int32_t exponent) {
  if (exponent >= kUnitsExponentMax) {
    return std::numeric_limits<float>::max();
  }
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + kFieldBias) << kFractionBits);
}

uint64_t digest_units(uint64_t digest, const Units& units) {
  for (uint32_t i = 0; i < units.count; ++i) {
    const UnitsColumn& column = units.columns[i];
    digest = digest_word(digest, static_cast<uint32_t>(column.exponent));
    digest = digest_word(digest, std::bit_cast<uint32_t>(column.mean));
    digest = digest_word(digest, std::bit_cast<uint32_t>(column.factor));
  }
  return digest;
}

}  // namespace gradstream

// Units of the columns of a device's data, and the whole numbers from which a run finds them out.
//
// Before training a run may find for each column an exponent, a mean and a factor (docs/wire.md). From then on a device
// hands (z - mean) factor to its problem in place of a value z. What leads there are sums of whole numbers, so that
// mean and factor do not depend on the order of samples or devices, nor on a processor.
#ifndef GRADSTREAM_RUNTIME_BASE_UNITS_H_
#define GRADSTREAM_RUNTIME_BASE_UNITS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// One column of the table. On the wire it takes the same 12 bytes: the fields in this order, each little-endian.
struct UnitsColumn {
  int32_t exponent = 0;  // abs(value) < 2^exponent on every device that counted
  float mean = 0;
  float factor = 0;  // 0: not decided yet
};
inline constexpr size_t kUnitsColumnSize = sizeof(UnitsColumn);
static_assert(kUnitsColumnSize == 12, "no padding: tables are received and digested as bytes");

// Columns of a table. Reason: as many as a sample may have that is a point's rows and its targets.
inline constexpr uint32_t kUnitsColumnMax = 2 * kDimensionMax;

// The table of a run; the columns are the caller's.
struct Units {
  const UnitsColumn* columns = nullptr;
  uint32_t count = 0;

  // Whether every column has its factor. Until then samples are used as they are.
  bool are_decided() const;
  // sample[i] <- (sample[i] - mean_i) factor_i for the first `count` values, in Real and in this order of operations.
  void apply(Real* sample) const;
};

// Exponents of columns. Reason: those of the float: 2^-126 is its least normal number, and 2^128 is above all.
inline constexpr int32_t kUnitsExponentMin = -126;
inline constexpr int32_t kUnitsExponentMax = 128;

// The least whole number e from kUnitsExponentMin on with abs(value) < 2^e; kUnitsExponentMax + 1 for NaN and infinity.
int32_t exponent_of(float value);
// value 2^-unit, rounded to the nearest whole number, halves away from zero: exact on every processor. The value is
// finite and below 2^(unit + 38) in magnitude, so that the result is below 2^38.
int64_t whole_of(float value, int32_t unit);

// 2^exponent for exponents from kUnitsExponentMin on; the largest float where that is above it.
float power_of_two(int32_t exponent);

// Fractional bits of a value in the stage SUMS: x 2^(30 - e) is at most 2^30. Reason: 65,535 samples sum below 2^46.
inline constexpr int32_t kSumBits = 30;
// The same of x - mean in the stage SQUARES: it is below 2^(e + 1), its square below 2^46. Reason: 65,535 of these fit
// a signed word of 64 bits.
inline constexpr int32_t kSquareBits = 22;

// Chains the bytes of a table to a version's digest, as digest_values() does (runtime/training/encoding.h).
uint64_t digest_units(uint64_t digest, const Units& units);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_UNITS_H_

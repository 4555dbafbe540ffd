// A whole number of 128 bits, for sums that are exact in any order. It stands in two words because the processors on
// which the digest proves the fold have no type of this width. No heap.
#ifndef GRADSTREAM_SERVER_RULES_WIDE_INT_H_
#define GRADSTREAM_SERVER_RULES_WIDE_INT_H_

#include <cmath>
#include <cstdint>

#include "runtime/base/status.h"

namespace gradstream {

// In two's complement: high * 2^64 + low. A sum beyond 2^127 wraps around; whoever adds keeps below that.
struct WideInt {
  uint64_t low = 0;
  int64_t high = 0;

  constexpr WideInt() = default;
  constexpr WideInt(int64_t value)  // NOLINT: implicit on purpose
      : low(static_cast<uint64_t>(value)), high(value < 0 ? -1 : 0) {}
  // The number of these two words.
  static constexpr WideInt of_words(uint64_t low_word, int64_t high_word) {
    WideInt out;
    out.low = low_word;
    out.high = high_word;
    return out;
  }
  // value * 2^shift; shift from 1 to 63.
  static constexpr WideInt shifted(uint64_t value, unsigned shift) {
    return of_words(value << shift, static_cast<int64_t>(value >> (64 - shift)));
  }
  // a * b, below 2^127.
  static constexpr WideInt product(uint64_t a, uint64_t b) {
    constexpr uint64_t kLow = UINT32_MAX;
    const uint64_t low = (a & kLow) * (b & kLow);
    const uint64_t middle = (a >> 32) * (b & kLow) + (low >> 32);
    const uint64_t other = (a & kLow) * (b >> 32) + (middle & kLow);
    const uint64_t high = (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
    return of_words(other << 32 | (low & kLow), static_cast<int64_t>(high));
  }

  constexpr WideInt& operator+=(const WideInt& other) {
    const uint64_t before = low;  // other may be this number
    low += other.low;
    const uint64_t carry = low < before ? 1 : 0;
    high = static_cast<int64_t>(static_cast<uint64_t>(high) + static_cast<uint64_t>(other.high) + carry);
    return *this;
  }
  friend constexpr WideInt operator+(WideInt a, const WideInt& b) { return a += b; }
  constexpr WideInt operator-() const {
    return of_words(0 - low, static_cast<int64_t>(0 - static_cast<uint64_t>(high) - (low == 0 ? 0 : 1)));
  }
  constexpr WideInt magnitude() const { return high < 0 ? -*this : *this; }

  friend constexpr bool operator==(const WideInt&, const WideInt&) = default;
  friend constexpr bool operator<(const WideInt& a, const WideInt& b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  }

  // The nearest double, but that numbers of 2^64 and more in magnitude are rounded twice: high first.
  double value() const {
    const WideInt m = magnitude();
    const double size = std::ldexp(static_cast<double>(static_cast<uint64_t>(m.high)), 64) + static_cast<double>(m.low);
    return high < 0 ? -size : size;
  }
};

// The quotient rounded half away from zero. 0 < divisor < 2^63, and the quotient is below 2^63 in magnitude.
constexpr int64_t divide_rounded(const WideInt& sum, uint64_t divisor) {
  const WideInt magnitude = sum.magnitude();
  uint64_t quotient = 0;
  uint64_t rest = 0;
  if (magnitude.high == 0) {
    quotient = magnitude.low / divisor;
    rest = magnitude.low % divisor;
  } else {
    rest = static_cast<uint64_t>(magnitude.high);
    GS_ASSERT(rest < divisor);  // the quotient fits a word
    for (int bit = 63; bit >= 0; --bit) {
      rest = rest << 1 | (magnitude.low >> bit & 1);
      const bool is_in = rest >= divisor;
      rest -= is_in ? divisor : 0;
      quotient = quotient << 1 | (is_in ? 1 : 0);
    }
  }
  quotient += rest >= divisor - rest ? 1 : 0;
  return sum.high < 0 ? -static_cast<int64_t>(quotient) : static_cast<int64_t>(quotient);
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_WIDE_INT_H_

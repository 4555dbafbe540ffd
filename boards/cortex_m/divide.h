// Division of words of 64 bits, which a Cortex-M does in software.
#ifndef GRADSTREAM_BOARDS_CORTEX_M_DIVIDE_H_
#define GRADSTREAM_BOARDS_CORTEX_M_DIVIDE_H_

#include <cstdint>

namespace gradstream {

// n / d; *remainder <- n % d. d must not be 0. A divisor below 2^16, as those of clocks and of decimal digits are,
// takes four divisions of 32 bits; another one takes a turn for each bit of the quotient.
inline uint64_t divide(uint64_t n, uint64_t d, uint64_t* remainder) {
  uint64_t quotient = 0;
  if (d >> 16 == 0) {
    const auto divisor = static_cast<uint32_t>(d);
    uint32_t rest = 0;
    for (int shift = 48; shift >= 0; shift -= 16) {
      const uint32_t part = rest << 16 | static_cast<uint16_t>(n >> shift);
      quotient = quotient << 16 | part / divisor;
      rest = part % divisor;
    }
    *remainder = rest;
    return quotient;
  }
  uint64_t bit = 1;
  for (; d < n && d >> 63 == 0; d <<= 1) {
    bit <<= 1;
  }
  for (; bit != 0; bit >>= 1, d >>= 1) {
    if (n >= d) {
      n -= d;
      quotient |= bit;
    }
  }
  *remainder = n;
  return quotient;
}

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_CORTEX_M_DIVIDE_H_

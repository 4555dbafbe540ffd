// What libgcc calls for a division of 64 bits, in the place of its own, which takes 700 bytes of flash. Only libgcc
// names it, so this file is compiled by itself (cortex_m.cmake).
#include "boards/cortex_m/divide.h"

extern "C" uint64_t __udivmoddi4(uint64_t n, uint64_t d, uint64_t* remainder) {
  uint64_t rest = 0;
  const uint64_t quotient = gradstream::divide(n, d, &rest);
  if (remainder != nullptr) {
    *remainder = rest;
  }
  return quotient;
}

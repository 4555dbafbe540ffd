// The product of 64-bit numbers on ARMv6-M, which multiplies 32 bits by 32 bits to 32. The compiler calls it. libgcc's
// own branches on carries, so that the time of X25519 (cmake/x25519_driver.h) would depend on the key.
#include <stdint.h>

#if defined(__ARM_ARCH_6M__)

uint64_t __aeabi_lmul(uint64_t a, uint64_t b);

// No product here is wider than 32 bits: the compiler would call this function for it.
__attribute__((used)) uint64_t __aeabi_lmul(uint64_t a, uint64_t b) {
  const uint32_t a_low = (uint32_t)a;
  const uint32_t b_low = (uint32_t)b;
  const uint32_t a0 = a_low & 0xFFFF;
  const uint32_t a1 = a_low >> 16;
  const uint32_t b0 = b_low & 0xFFFF;
  const uint32_t b1 = b_low >> 16;
  const uint32_t lowest = a0 * b0;
  const uint32_t first = a0 * b1 + (lowest >> 16);     // < 2^32: (2^16 - 1)^2 + 2^16 - 1
  const uint32_t second = a1 * b0 + (first & 0xFFFF);  // likewise
  const uint32_t high =
      a1 * b1 + (first >> 16) + (second >> 16) + a_low * (uint32_t)(b >> 32) + (uint32_t)(a >> 32) * b_low;
  return (uint64_t)high << 32 | (second << 16 | (lowest & 0xFFFF));
}

#else

typedef int gs_no_long_multiplication;  // a unit is not empty in C

#endif

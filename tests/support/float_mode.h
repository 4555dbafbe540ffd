// The processor's modes that flush subnormal numbers to zero, for tests of what must notice them.
#ifndef GRADSTREAM_TESTS_SUPPORT_FLOAT_MODE_H_
#define GRADSTREAM_TESTS_SUPPORT_FLOAT_MODE_H_

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace gradstream {

using FloatMode = uintptr_t;  // bits to set in the control register: MXCSR, FPCR or FPSCR

#if defined(__SSE__)
inline constexpr FloatMode kFlushingModes[] = {0x8000, 0x0040, 0x8040};  // results, operands, both
inline FloatMode float_mode() { return _mm_getcsr(); }
inline void set_float_mode(FloatMode mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
inline constexpr FloatMode kFlushingModes[] = {1U << 24};
inline FloatMode float_mode() {
  FloatMode mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_float_mode(FloatMode mode) { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
#elif defined(__ARM_FP)
inline constexpr FloatMode kFlushingModes[] = {1U << 24};
inline FloatMode float_mode() {
  FloatMode mode = 0;
  asm volatile("vmrs %0, fpscr" : "=r"(mode));
  return mode;
}
inline void set_float_mode(FloatMode mode) { asm volatile("vmsr fpscr, %0" : : "r"(mode) : "memory"); }
#else
#error "name this processor's modes"
#endif

// Sets the bits for the calling thread, and at its end puts back what was there.
class FloatModeScope {
 public:
  explicit FloatModeScope(FloatMode bits) : before_(float_mode()) { set_float_mode(before_ | bits); }
  ~FloatModeScope() { set_float_mode(before_); }
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 private:
  FloatMode before_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FLOAT_MODE_H_

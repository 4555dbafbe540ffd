// Calls to the emulator (Arm's semihosting). Only images for an emulator may contain them: on a board without a
// debugger the first one hangs, and a device must not take its keys from there.
#ifndef GRADSTREAM_BOARDS_BARE_SEMIHOSTING_H_
#define GRADSTREAM_BOARDS_BARE_SEMIHOSTING_H_

#if !defined(GS_EMULATOR)
#error "only images for the emulator may contain this file"
#endif

#include <cstddef>
#include <cstdint>

#include "boards/halt.h"

namespace gradstream::semihosting {

enum Operation : uint32_t {
  kOpen = 0x01,
  kWrite = 0x05,
  kRead = 0x06,
  kSeek = 0x0A,
  kCommandLine = 0x15,
  kExitExtended = 0x20
};
inline constexpr uint32_t kFailed = 0xFFFFFFFF;
inline constexpr uint32_t kReadBinary = 1, kUpdateBinary = 3;  // modes of kOpen

// Exit codes of an image besides those of firmware/client_main.h.
inline constexpr int kExitFault = 70;
inline constexpr int kExitPowerCut = 75;
inline constexpr int kExitIdentityWiped = 3;  // as an image without an identity

inline uint32_t call(Operation operation, const void* arguments) {
#if defined(__riscv)
  // What the emulator knows the call by: three instructions of 32 bits, of which two do nothing, in one page.
  register uint32_t result asm("a0") = operation;
  register const void* a1 asm("a1") = arguments;
  asm volatile(
      ".option push\n .option norvc\n .balign 16\n"
      "slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n"
      ".option pop"
      : "+r"(result)
      : "r"(a1)
      : "memory");
#else
  register uint32_t result asm("r0") = operation;
  register const void* r1 asm("r1") = arguments;
  asm volatile("bkpt 0xab" : "+r"(result) : "r"(r1) : "memory");
#endif
  return result;
}

inline uint32_t address(const void* pointer) { return reinterpret_cast<uint32_t>(pointer); }

[[noreturn]] inline void leave(int code) {
  const uint32_t arguments[] = {0x20026, static_cast<uint32_t>(code)};  // ADP_Stopped_ApplicationExit
  (void)call(kExitExtended, arguments);
  halt();
}

// The words given to the image by -semihosting-config arg=..., read once. word("flash=") is what follows this prefix in
// the word that begins with it, up to the next blank or the end; null: there is none.
const char* word(const char* prefix, size_t* size);
// The decimal number behind that prefix; 0: there is none.
uint32_t number(const char* prefix);

}  // namespace gradstream::semihosting

#endif  // GRADSTREAM_BOARDS_BARE_SEMIHOSTING_H_

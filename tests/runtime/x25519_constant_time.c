// Built and run by tests/tools/constant_time_test.py alone, in two ways.
//
// With clang's memory sanitizer, on this machine: private keys are marked as never written. A branch or an address
// that depends on one then ends the program. The argument `branch` or `index` plants such a fault.
// For a board without an operating system (GS_COUNTS): the instructions of the same calls with other keys, by SysTick.
#if defined(GS_COUNTS)
#define GS_MARK_SECRET(pointer, size) ((void)0)
#else
#include <sanitizer/msan_interface.h>
#define GS_MARK_SECRET(pointer, size) __msan_poison(pointer, size)
#define GS_DECLASSIFY(pointer, size) __msan_unpoison(pointer, size)
#endif

#include "cmake/x25519_driver.c"  // with what it declassifies

enum { kKeyCount = 4 };

// Drawn once, so that every build has the same.
static const uint8_t kScalars[kKeyCount][kKeySize] = {
    {0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
     0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a},
    {0x5d, 0xab, 0x08, 0x7e, 0x62, 0x4a, 0x8a, 0x4b, 0x79, 0xe1, 0x7f, 0x8b, 0x83, 0x80, 0x0e, 0xe6,
     0x6f, 0x3b, 0xb1, 0x29, 0x26, 0x18, 0xb6, 0xfd, 0x1c, 0x2f, 0x8b, 0x27, 0xff, 0x88, 0xe0, 0xeb},
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
     0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40},
    {0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}};

void mbedtls_platform_zeroize(void* bytes, size_t size) { memset(bytes, 0, size); }

// As on a board: the key is made, its public half goes out, and a secret is agreed on.
psa_status_t psa_generate_random(uint8_t* out, size_t size) {
  memcpy(out, kScalars[0], size);
  GS_MARK_SECRET(out, size);
  return PSA_SUCCESS;
}

static int use_key(const uint8_t* scalar) {
  psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
  psa_set_key_type(&attributes, PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_MONTGOMERY));
  psa_set_key_bits(&attributes, kKeyBits);
  uint8_t secret[kKeySize], key[kKeySize], public_key[kKeySize], shared[kKeySize];
  memcpy(secret, scalar, kKeySize);
  GS_MARK_SECRET(secret, kKeySize);
  size_t size = 0;
  size_t bits = 0;
  static const uint8_t kPeer[kKeySize] = {0xe6, 0xdb, 0x68, 0x67, 0x58, 0x30, 0x30, 0xdb, 0x35, 0x94, 0xc1,
                                          0xa4, 0x24, 0xb1, 0x5f, 0x7c, 0x72, 0x66, 0x24, 0xec, 0x26, 0xb3,
                                          0x35, 0x3b, 0x10, 0xa9, 0x03, 0xa6, 0xd0, 0xab, 0x1c, 0x4c};
  return gs_x25519_import_key(&attributes, secret, kKeySize, key, kKeySize, &size, &bits) == PSA_SUCCESS &&
         gs_x25519_export_public_key(&attributes, key, kKeySize, public_key, kKeySize, &size) == PSA_SUCCESS &&
         gs_x25519_key_agreement(&attributes, key, kKeySize, PSA_ALG_ECDH, kPeer, kKeySize, shared, kKeySize, &size) ==
             PSA_SUCCESS &&
         gs_x25519_generate_key(&attributes, key, kKeySize, &size) == PSA_SUCCESS;
}

#if !defined(GS_COUNTS)

int main(int count, char** words) {
  uint8_t secret[2] = {7, 9};
  GS_MARK_SECRET(secret, sizeof secret);
  if (count > 1 && strcmp(words[1], "branch") == 0) {
    return secret[0] == 7 ? 3 : 4;
  }
  if (count > 1 && strcmp(words[1], "index") == 0) {
    const volatile uint8_t* const table = kScalars[0];
    volatile uint8_t found = table[secret[1] & 31];
    (void)found;
    return 3;
  }
  for (int i = 0; i < kKeyCount; ++i) {
    if (!use_key(kScalars[i])) {
      return 1;
    }
  }
  return 0;
}

#else

// Semihosting: 4 writes text, 0x20 ends with a status.
static void call_host(uintptr_t operation, const void* argument) {
  register uintptr_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

extern uint32_t stack_end;
int main(void);
__attribute__((section(".vectors"), used)) void* const kVectors[2] = {&stack_end, (void*)main};

int main(void) {
  volatile uint32_t* const systick = (uint32_t*)0xE000E010;
  systick[1] = 0xFFFFFF;
  systick[2] = 0;
  systick[0] = 5;
  int failed = 0;
  for (int i = 0; i < kKeyCount; ++i) {
    const uint32_t before = systick[2];
    failed |= !use_key(kScalars[i]);
    uint32_t ticks = (before - systick[2]) & 0xFFFFFF;
    char text[12];
    char* end = text + sizeof text;
    *--end = 0;
    *--end = '\n';
    do {
      *--end = (char)('0' + ticks % 10);
      ticks /= 10;
    } while (ticks != 0);
    call_host(4, end);
  }
  const uintptr_t status[2] = {0x20026, (uintptr_t)failed};
  call_host(0x20, status);
  for (;;) {
  }
}

#endif

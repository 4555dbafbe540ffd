// libsodium's portable X25519 in one unit, so that its inlined field arithmetic is in the image once.
#include "cmake/x25519_driver.h"

// What libsodium's own build would say. Registers of 64 bits hold the field in five limbs, others in ten.
#define CONFIGURED 1
#if __SIZEOF_POINTER__ == 8 && !defined(GS_TEST_SHORT_LIMBS)
#define HAVE_TI_MODE 1
#endif
#pragma GCC diagnostic ignored "-Wunused-function"  // the unit has more of libsodium than it calls

#include <crypto_core/ed25519/ref10/ed25519_ref10.c>
#include <crypto_scalarmult/curve25519/ref10/x25519_ref10.c>
#include <mbedtls/platform_util.h>
#include <string.h>

// tests/tools/constant_time_test.py watches what depends on a secret, and is told here what all may know.
#if !defined(GS_DECLASSIFY)
#define GS_DECLASSIFY(pointer, size) ((void)0)
#endif

enum { kKeySize = 32, kKeyBits = 255 };

// What the ladder takes of the stack, bytes: GCC's -fstack-usage says so.
#if defined(__ARM_ARCH_6M__)
enum { kLadderStackSize = 1152 };
#else
enum { kLadderStackSize = 768 };
#endif

// What libsodium's code calls of the rest of its library: how it is declared is in its utils.h.
void sodium_memzero(void* const bytes, const size_t size) { mbedtls_platform_zeroize(bytes, size); }
int sodium_is_zero(const unsigned char* bytes, const size_t size) {
  unsigned char any = 0;
  for (size_t i = 0; i < size; ++i) {
    any |= bytes[i];
  }
  return any == 0;
}

static int is_x25519(const psa_key_attributes_t* attributes) {
  const psa_key_type_t type = psa_get_key_type(attributes);
  // A key that is imported may leave its bits open.
  const size_t bits = psa_get_key_bits(attributes);
  return PSA_KEY_TYPE_IS_ECC(type) && PSA_KEY_TYPE_ECC_GET_FAMILY(type) == PSA_ECC_FAMILY_MONTGOMERY &&
         (bits == kKeyBits || bits == 0);
}

// RFC 7748, section 5: decodeScalar25519.
static void clamp(uint8_t* scalar) {
  scalar[0] &= 0xF8;
  scalar[kKeySize - 1] &= 0x7F;
  scalar[kKeySize - 1] |= 0x40;
}

// The ladder leaves numbers on its stack, the secret among them. So it has frames of its own, which are written over.
__attribute__((noinline)) static int multiply_alone(uint8_t* out, const uint8_t* scalar, const uint8_t* point) {
  return crypto_scalarmult_curve25519_ref10(out, scalar, point);
}

__attribute__((noinline)) static void wipe_stack(void) {
  uint8_t bytes[kLadderStackSize];
  mbedtls_platform_zeroize(bytes, sizeof bytes);
}

static int multiply(uint8_t* out, const uint8_t* scalar, const uint8_t* point) {
  const int status = multiply_alone(out, scalar, point);
  wipe_stack();
  return status;
}

psa_status_t gs_x25519_import_key(const psa_key_attributes_t* attributes, const uint8_t* data, size_t data_length,
                                  uint8_t* key_buffer, size_t key_buffer_size, size_t* key_buffer_length,
                                  size_t* bits) {
  if (!is_x25519(attributes) || !PSA_KEY_TYPE_IS_ECC_KEY_PAIR(psa_get_key_type(attributes))) {
    return PSA_ERROR_NOT_SUPPORTED;
  }
  if (data_length != kKeySize) {
    // A key of 56 bytes without bits is one of Curve448.
    return psa_get_key_bits(attributes) == 0 ? PSA_ERROR_NOT_SUPPORTED : PSA_ERROR_INVALID_ARGUMENT;
  }
  if (key_buffer_size < kKeySize) {
    return PSA_ERROR_BUFFER_TOO_SMALL;
  }
  memcpy(key_buffer, data, kKeySize);
  clamp(key_buffer);
  *key_buffer_length = kKeySize;
  *bits = kKeyBits;
  return PSA_SUCCESS;
}

psa_status_t gs_x25519_export_public_key(const psa_key_attributes_t* attributes, const uint8_t* key_buffer,
                                         size_t key_buffer_size, uint8_t* data, size_t data_size, size_t* data_length) {
  if (!is_x25519(attributes) || !PSA_KEY_TYPE_IS_ECC_KEY_PAIR(psa_get_key_type(attributes))) {
    return PSA_ERROR_NOT_SUPPORTED;
  }
  if (key_buffer_size < kKeySize || data_size < kKeySize) {
    return PSA_ERROR_BUFFER_TOO_SMALL;
  }
  // The ladder again, not libsodium's multiples of the base point: these are a table of 30 KB.
  static const uint8_t kBasePoint[kKeySize] = {9};
  if (multiply(data, key_buffer, kBasePoint) != 0) {
    return PSA_ERROR_CORRUPTION_DETECTED;
  }
  *data_length = kKeySize;
  return PSA_SUCCESS;
}

psa_status_t gs_x25519_generate_key(const psa_key_attributes_t* attributes, uint8_t* key_buffer, size_t key_buffer_size,
                                    size_t* key_buffer_length) {
  if (!is_x25519(attributes)) {
    return PSA_ERROR_NOT_SUPPORTED;
  }
  if (key_buffer_size < kKeySize) {
    return PSA_ERROR_BUFFER_TOO_SMALL;
  }
  const psa_status_t status = psa_generate_random(key_buffer, kKeySize);
  if (status != PSA_SUCCESS) {
    return status;
  }
  clamp(key_buffer);
  *key_buffer_length = kKeySize;
  return PSA_SUCCESS;
}

psa_status_t gs_x25519_key_agreement(const psa_key_attributes_t* attributes, const uint8_t* key_buffer,
                                     size_t key_buffer_size, psa_algorithm_t algorithm, const uint8_t* peer_key,
                                     size_t peer_key_length, uint8_t* shared_secret, size_t shared_secret_size,
                                     size_t* shared_secret_length) {
  if (!is_x25519(attributes) || !PSA_ALG_IS_ECDH(algorithm)) {
    return PSA_ERROR_NOT_SUPPORTED;
  }
  // A public key may have the right to derive, but is no scalar.
  if (!PSA_KEY_TYPE_IS_ECC_KEY_PAIR(psa_get_key_type(attributes))) {
    return PSA_ERROR_INVALID_ARGUMENT;
  }
  if (peer_key_length != kKeySize) {
    return PSA_ERROR_INVALID_ARGUMENT;
  }
  if (key_buffer_size < kKeySize || shared_secret_size < kKeySize) {
    return PSA_ERROR_BUFFER_TOO_SMALL;
  }
  // libsodium knows the points of small order by their bytes. The second check needs no list.
  if (multiply(shared_secret, key_buffer, peer_key) != 0) {
    return PSA_ERROR_INVALID_ARGUMENT;
  }
  const int is_zero = sodium_is_zero(shared_secret, kKeySize);
  GS_DECLASSIFY(&is_zero, sizeof is_zero);
  if (is_zero != 0) {
    return PSA_ERROR_INVALID_ARGUMENT;
  }
  *shared_secret_length = kKeySize;
  return PSA_SUCCESS;
}

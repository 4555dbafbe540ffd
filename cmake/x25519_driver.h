// X25519 (RFC 7748) for Mbed TLS, as a PSA driver for transparent keys: libsodium computes, Mbed TLS calls. Mbed TLS's
// own curve takes ten times the instructions on a board, and brings big numbers into its image.
//
// cmake/mbedtls.cmake puts the four calls into Mbed TLS's table of drivers. Each returns PSA_ERROR_NOT_SUPPORTED for a
// key of another curve, and Mbed TLS then computes with its own code. Keys are 32 bytes, little-endian. A private key
// is stored clamped (RFC 7748, section 5), as Mbed TLS stores it. What a call computes does not branch on a secret, nor
// does an address depend on one. No call keeps anything of a key, and none leaves the secret on the stack.
#ifndef GRADSTREAM_CMAKE_X25519_DRIVER_H_
#define GRADSTREAM_CMAKE_X25519_DRIVER_H_

#include <psa/crypto.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A private key, which is clamped. Public ones are left to Mbed TLS, which judges the point.
// PSA_ERROR_INVALID_ARGUMENT: not 32 bytes. PSA_ERROR_BUFFER_TOO_SMALL.
psa_status_t gs_x25519_import_key(const psa_key_attributes_t* attributes, const uint8_t* data, size_t data_length,
                                  uint8_t* key_buffer, size_t key_buffer_size, size_t* key_buffer_length, size_t* bits);
// Of a private key. PSA_ERROR_BUFFER_TOO_SMALL.
psa_status_t gs_x25519_export_public_key(const psa_key_attributes_t* attributes, const uint8_t* key_buffer,
                                         size_t key_buffer_size, uint8_t* data, size_t data_size, size_t* data_length);
// 32 bytes of psa_generate_random(), whose failure it returns, clamped.
psa_status_t gs_x25519_generate_key(const psa_key_attributes_t* attributes, uint8_t* key_buffer, size_t key_buffer_size,
                                    size_t* key_buffer_length);
// PSA_ERROR_INVALID_ARGUMENT: the own key is a public one; or the peer's is not 32 bytes, or of small order, so that
// the secret would be 0 (RFC 7748, section 6.1). PSA_ERROR_NOT_SUPPORTED: another algorithm than ECDH.
// PSA_ERROR_BUFFER_TOO_SMALL.
psa_status_t gs_x25519_key_agreement(const psa_key_attributes_t* attributes, const uint8_t* key_buffer,
                                     size_t key_buffer_size, psa_algorithm_t algorithm, const uint8_t* peer_key,
                                     size_t peer_key_length, uint8_t* shared_secret, size_t shared_secret_size,
                                     size_t* shared_secret_length);

#ifdef __cplusplus
}
#endif

#endif  // GRADSTREAM_CMAKE_X25519_DRIVER_H_

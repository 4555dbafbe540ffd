// Mbed TLS on boards: a TLS 1.3 client with a pre-shared key, nothing else. No libc heap: memory comes from one static
// pool that the board hands over, entropy and time from the port.
//
// A board that needs other choices has its own boards/<board>/mbedtls_config.h.
#ifndef GRADSTREAM_CMAKE_MBEDTLS_CONFIG_BOARD_H_
#define GRADSTREAM_CMAKE_MBEDTLS_CONFIG_BOARD_H_

// ---- Platform: no files, no clock, no heap, no operating system ----
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_PLATFORM_NO_STD_FUNCTIONS  // its defaults would link malloc and printf
#define MBEDTLS_MEMORY_BUFFER_ALLOC_C      // mbedtls_memory_buffer_alloc_init(pool, size)
#define MBEDTLS_PLATFORM_SNPRINTF_ALT      // newlib's would link malloc
#define MBEDTLS_PLATFORM_ZEROIZE_ALT       // mbedtls_platform_zeroize
#define MBEDTLS_PLATFORM_EXIT_ALT
#define MBEDTLS_NO_PLATFORM_ENTROPY
#define MBEDTLS_ENTROPY_HARDWARE_ALT  // mbedtls_hardware_poll
#define MBEDTLS_ENTROPY_FORCE_SHA256

// ---- TLS 1.3 ----
#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_PROTO_TLS1_3
#if defined(GS_PSK_KE_ONLY)
// psk_ke: no forward secrecy; who learns a device's key can read what was recorded of its sessions before.
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_ENABLED
#else
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED  // psk_dhe_ke
#endif
#define MBEDTLS_SSL_KEEP_PEER_CERTIFICATE                           // TLS 1.3 in Mbed TLS 3.6 demands it
#define MBEDTLS_SSL_CIPHERSUITES MBEDTLS_TLS1_3_AES_128_GCM_SHA256  // the default list names all that exist
#define MBEDTLS_SSL_RECORD_SIZE_LIMIT
#define MBEDTLS_SSL_IN_CONTENT_LEN 1024
#define MBEDTLS_SSL_OUT_CONTENT_LEN 1024

// ---- Cryptography: TLS_AES_128_GCM_SHA256, x25519 ----
#define MBEDTLS_PSA_CRYPTO_C
#define MBEDTLS_PSA_KEY_SLOT_COUNT 8
#define MBEDTLS_ENTROPY_C
#define MBEDTLS_CTR_DRBG_C
#define MBEDTLS_CTR_DRBG_USE_128_BIT_KEY
#define MBEDTLS_AES_C
#define MBEDTLS_AES_ROM_TABLES
#define MBEDTLS_AES_FEWER_TABLES
#define MBEDTLS_AES_ONLY_128_BIT_KEY_LENGTH
#define MBEDTLS_BLOCK_CIPHER_NO_DECRYPT
#define MBEDTLS_CIPHER_C
#define MBEDTLS_GCM_C
#define MBEDTLS_MD_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA256_SMALLER
#if !defined(GS_PSK_KE_ONLY)
// All that is asked of the curve, cmake/x25519_driver.h does: neither big numbers nor curves are linked.
#define PSA_CRYPTO_ACCELERATOR_DRIVER_PRESENT
#define MBEDTLS_PSA_ACCEL_ECC_MONTGOMERY_255
#define MBEDTLS_PSA_ACCEL_ALG_ECDH
#define MBEDTLS_PSA_ACCEL_KEY_TYPE_ECC_PUBLIC_KEY
#define MBEDTLS_PSA_ACCEL_KEY_TYPE_ECC_KEY_PAIR_BASIC
#define MBEDTLS_PSA_ACCEL_KEY_TYPE_ECC_KEY_PAIR_IMPORT
#define MBEDTLS_PSA_ACCEL_KEY_TYPE_ECC_KEY_PAIR_EXPORT
#define MBEDTLS_PSA_ACCEL_KEY_TYPE_ECC_KEY_PAIR_GENERATE
#endif

// ---- PSA: what TLS 1.3 with a pre-shared key asks of it; without this list Mbed TLS would derive more ----
#define MBEDTLS_PSA_CRYPTO_CONFIG
#define MBEDTLS_PSA_CRYPTO_CONFIG_FILE MBEDTLS_CONFIG_FILE  // this file
#define PSA_WANT_ALG_SHA_256 1
#define PSA_WANT_ALG_HMAC 1
#define PSA_WANT_ALG_HKDF_EXTRACT 1
#define PSA_WANT_ALG_HKDF_EXPAND 1
#define PSA_WANT_ALG_GCM 1
#define PSA_WANT_KEY_TYPE_AES 1
#define PSA_WANT_KEY_TYPE_HMAC 1
#define PSA_WANT_KEY_TYPE_DERIVE 1
#define PSA_WANT_KEY_TYPE_RAW_DATA 1
#if !defined(GS_PSK_KE_ONLY)
#define PSA_WANT_ALG_ECDH 1
#define PSA_WANT_ECC_MONTGOMERY_255 1
#define PSA_WANT_KEY_TYPE_ECC_PUBLIC_KEY 1
#define PSA_WANT_KEY_TYPE_ECC_KEY_PAIR_BASIC 1
#define PSA_WANT_KEY_TYPE_ECC_KEY_PAIR_IMPORT 1
#define PSA_WANT_KEY_TYPE_ECC_KEY_PAIR_EXPORT 1
#define PSA_WANT_KEY_TYPE_ECC_KEY_PAIR_GENERATE 1
#endif

#endif  // GRADSTREAM_CMAKE_MBEDTLS_CONFIG_BOARD_H_

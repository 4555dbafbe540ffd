// What a device asks beside the configuration that Mbed TLS comes with.
#ifndef GRADSTREAM_TESTS_CONSUME_OWN_MBEDTLS_MBEDTLS_USER_CONFIG_H_
#define GRADSTREAM_TESTS_CONSUME_OWN_MBEDTLS_MBEDTLS_USER_CONFIG_H_

#define MBEDTLS_SSL_RECORD_SIZE_LIMIT
#define MBEDTLS_SSL_IN_CONTENT_LEN 1024
#define MBEDTLS_SSL_OUT_CONTENT_LEN 1024

// A board has neither files nor clock, no sockets, and no random numbers of a system.
#if !defined(__linux__)
#undef MBEDTLS_NET_C
#undef MBEDTLS_TIMING_C
#undef MBEDTLS_FS_IO
#undef MBEDTLS_HAVE_TIME
#undef MBEDTLS_HAVE_TIME_DATE
#undef MBEDTLS_PSA_ITS_FILE_C
#undef MBEDTLS_PSA_CRYPTO_STORAGE_C
#define MBEDTLS_NO_PLATFORM_ENTROPY
#define MBEDTLS_ENTROPY_HARDWARE_ALT
#endif
// For consume_test.py: a platform with memory and functions of its own, and a configuration without the group.
#if defined(GS_TEST_OWN_PLATFORM)
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_MEMORY_BUFFER_ALLOC_C
#define MBEDTLS_NO_PLATFORM_ENTROPY
#define MBEDTLS_ENTROPY_HARDWARE_ALT
#define MBEDTLS_PLATFORM_ZEROIZE_ALT
#endif
#if defined(GS_TEST_WITHOUT_X25519)
#undef MBEDTLS_ECP_DP_CURVE25519_ENABLED
#endif

#endif  // GRADSTREAM_TESTS_CONSUME_OWN_MBEDTLS_MBEDTLS_USER_CONFIG_H_

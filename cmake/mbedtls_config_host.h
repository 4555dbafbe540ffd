// Mbed TLS on hosts: the server, native clients, Raspberry Pi. TLS 1.3 only, as server and as client.
//
// One frame of the wire is one TLS record of at most 1,024 bytes, which is all that this end sends: a connection costs
// 12 KB of heap instead of 42 KB, and a small client may rely on short records. It takes records of 2,048 bytes: a
// ClientHello with the share of a hybrid group, such as X25519MLKEM768, has 1,500 to 1,800. Session tickets are off: a
// pre-shared key already makes the short handshake, and tickets would be state that outlives a revoked device.
#ifndef GRADSTREAM_CMAKE_MBEDTLS_CONFIG_HOST_H_
#define GRADSTREAM_CMAKE_MBEDTLS_CONFIG_HOST_H_

// ---- Platform ----
#define MBEDTLS_HAVE_ASM
#define MBEDTLS_HAVE_TIME
#define MBEDTLS_HAVE_TIME_DATE  // certificates are checked for expiry
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY  // the server gives it another calloc (server/link/tls_stream.cc)
#define MBEDTLS_FS_IO            // certificate and key files
#define MBEDTLS_ERROR_C          // error strings, for log lines
#define MBEDTLS_THREADING_C      // the server's threads share PSA's keys and random numbers
#define MBEDTLS_THREADING_PTHREAD

// ---- TLS 1.3 ----
#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_SRV_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_PROTO_TLS1_3
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED  // psk_dhe_ke: the default of boards
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_ENABLED            // psk_ke: the smallest boards, mass reconnects
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ENABLED      // certificates
#define MBEDTLS_SSL_KEEP_PEER_CERTIFICATE                           // TLS 1.3 in Mbed TLS 3.6 demands it
#define MBEDTLS_SSL_SERVER_NAME_INDICATION
#define MBEDTLS_SSL_ALL_ALERT_MESSAGES
#define MBEDTLS_SSL_RECORD_SIZE_LIMIT
#define MBEDTLS_SSL_IN_CONTENT_LEN 2048
#define MBEDTLS_SSL_OUT_CONTENT_LEN 1024

// ---- Cryptography ----
#define MBEDTLS_PSA_CRYPTO_C
#define MBEDTLS_PSA_KEY_STORE_DYNAMIC  // handshakes hold keys: no fixed number of slots
#define MBEDTLS_ENTROPY_C
#define MBEDTLS_CTR_DRBG_C
#define MBEDTLS_AES_C
#define MBEDTLS_AESNI_C
#define MBEDTLS_AESCE_C
#define MBEDTLS_CIPHER_C
#define MBEDTLS_GCM_C
#define MBEDTLS_CCM_C
#define MBEDTLS_MD_C
#define MBEDTLS_SHA224_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA384_C  // certificates of others may be signed with it
#define MBEDTLS_SHA512_C
#define MBEDTLS_HKDF_C
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_ECP_C
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECDH_C
#define PSA_CRYPTO_ACCELERATOR_DRIVER_PRESENT  // cmake/x25519_driver.h
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ECDSA_DETERMINISTIC  // a signature of a journal's head needs no random bytes
#define MBEDTLS_HMAC_DRBG_C

// ---- Certificates: ECDSA over P-256, PEM or DER ----
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_OID_C
#define MBEDTLS_BASE64_C
#define MBEDTLS_PEM_PARSE_C
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C
#define MBEDTLS_PK_WRITE_C
#define MBEDTLS_X509_USE_C
#define MBEDTLS_X509_CRT_PARSE_C
#define MBEDTLS_X509_CRL_PARSE_C

#endif  // GRADSTREAM_CMAKE_MBEDTLS_CONFIG_HOST_H_

// Mbed TLS as on hosts, with what the project leaves out and bench/handshake_main.cc measures or needs: tickets, and
// the making of certificates.
#ifndef GRADSTREAM_BENCH_MBEDTLS_CONFIG_HANDSHAKE_H_
#define GRADSTREAM_BENCH_MBEDTLS_CONFIG_HANDSHAKE_H_

#include "cmake/mbedtls_config_host.h"

#define MBEDTLS_SSL_SESSION_TICKETS
#define MBEDTLS_SSL_TICKET_C
#define MBEDTLS_X509_CREATE_C
#define MBEDTLS_X509_CRT_WRITE_C
#define MBEDTLS_PEM_WRITE_C

#endif  // GRADSTREAM_BENCH_MBEDTLS_CONFIG_HANDSHAKE_H_

// What the flags of a build decide, as symbols of an object: the sizes of these arrays and the code of one function.
#include <mbedtls/ssl.h>
#include <pb_decode.h>

#include "firmware/device.h"

extern "C" {

char device_shell[sizeof(gradstream::DeviceShell)];
char device_config[sizeof(gradstream::DeviceConfig)];
char tls_session[sizeof(gradstream::TlsSession)];
char input_stream[sizeof(pb_istream_t)];
char host_members[gradstream::kHasHostMembers ? 2 : 1];
#if defined(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED)
char ephemeral_keys[2];
#else
char ephemeral_keys[1];
#endif

float product_and_sum(float a, float b, float c) { return a * b + c; }
}

// The configuration of Mbed TLS on hosts offers what the wire promises: TLS 1.3 alone, short records, PSK and ECDSA.
#include <array>
#include <cstring>
#include <deque>

#include <gtest/gtest.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/ssl.h>
#include <psa/crypto.h>

#if defined(MBEDTLS_SSL_PROTO_TLS1_2) || defined(MBEDTLS_SSL_SESSION_TICKETS)
#error "only TLS 1.3, and no session tickets"
#endif
#if !defined(MBEDTLS_SSL_RECORD_SIZE_LIMIT) || MBEDTLS_SSL_IN_CONTENT_LEN != 2048 || MBEDTLS_SSL_OUT_CONTENT_LEN != 1024
#error "one frame is one record of at most 1024 bytes, and a ClientHello one of 2048"
#endif

namespace {

constexpr std::array<unsigned char, 32> kKey{1, 2, 3, 4, 5, 6, 7, 8};
constexpr char kIdentity[] = "device-1";

struct Pipe {
  std::deque<unsigned char> in;
  std::deque<unsigned char>* out = nullptr;
};

int send_bytes(void* context, const unsigned char* data, size_t size) {
  auto* pipe = static_cast<Pipe*>(context);
  pipe->out->insert(pipe->out->end(), data, data + size);
  return static_cast<int>(size);
}

int receive_bytes(void* context, unsigned char* data, size_t size) {
  auto* pipe = static_cast<Pipe*>(context);
  if (pipe->in.empty()) return MBEDTLS_ERR_SSL_WANT_READ;
  size_t count = 0;
  while (count < size && !pipe->in.empty()) {
    data[count++] = pipe->in.front();
    pipe->in.pop_front();
  }
  return static_cast<int>(count);
}

class End {
 public:
  End(int endpoint, int key_exchange_mode, const std::array<unsigned char, 32>& key) {
    mbedtls_ssl_init(&ssl_);
    mbedtls_ssl_config_init(&config_);
    mbedtls_entropy_init(&entropy_);
    mbedtls_ctr_drbg_init(&random_);
    EXPECT_EQ(mbedtls_ctr_drbg_seed(&random_, mbedtls_entropy_func, &entropy_, nullptr, 0), 0);
    EXPECT_EQ(mbedtls_ssl_config_defaults(&config_, endpoint, MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT),
              0);
    mbedtls_ssl_conf_rng(&config_, mbedtls_ctr_drbg_random, &random_);
    mbedtls_ssl_conf_tls13_key_exchange_modes(&config_, key_exchange_mode);
    EXPECT_EQ(mbedtls_ssl_conf_psk(&config_, key.data(), key.size(), reinterpret_cast<const unsigned char*>(kIdentity),
                                   std::strlen(kIdentity)),
              0);
    EXPECT_EQ(mbedtls_ssl_setup(&ssl_, &config_), 0);
    mbedtls_ssl_set_bio(&ssl_, &pipe, send_bytes, receive_bytes, nullptr);
  }
  ~End() {
    mbedtls_ssl_free(&ssl_);
    mbedtls_ssl_config_free(&config_);
    mbedtls_ctr_drbg_free(&random_);
    mbedtls_entropy_free(&entropy_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  mbedtls_ssl_context* ssl() { return &ssl_; }
  Pipe pipe;

 private:
  mbedtls_ssl_context ssl_{};
  mbedtls_ssl_config config_{};
  mbedtls_entropy_context entropy_{};
  mbedtls_ctr_drbg_context random_{};
};

struct Pair {
  End server;
  End client;
  Pair(int mode, const std::array<unsigned char, 32>& client_key)
      : server(MBEDTLS_SSL_IS_SERVER, mode, kKey), client(MBEDTLS_SSL_IS_CLIENT, mode, client_key) {
    server.pipe.out = &client.pipe.in;
    client.pipe.out = &server.pipe.in;
  }
  // Returns 0 when both ends are done, else the first error.
  int handshake() {
    for (int turn = 0; turn < 50; ++turn) {
      const int c = mbedtls_ssl_handshake(client.ssl());
      if (c != 0 && c != MBEDTLS_ERR_SSL_WANT_READ) return c;
      const int s = mbedtls_ssl_handshake(server.ssl());
      if (s != 0 && s != MBEDTLS_ERR_SSL_WANT_READ) return s;
      if (c == 0 && s == 0) return 0;
    }
    return MBEDTLS_ERR_SSL_TIMEOUT;
  }
};

class MbedtlsConfig : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { ASSERT_EQ(psa_crypto_init(), PSA_SUCCESS); }
};

TEST_P(MbedtlsConfig, HandshakeAndOneFullFrame) {
  Pair pair(GetParam(), kKey);
  ASSERT_EQ(pair.handshake(), 0);
  EXPECT_STREQ(mbedtls_ssl_get_version(pair.client.ssl()), "TLSv1.3");
  std::array<unsigned char, 1000> frame{};
  frame.fill(7);
  ASSERT_EQ(mbedtls_ssl_write(pair.client.ssl(), frame.data(), frame.size()), static_cast<int>(frame.size()));
  std::array<unsigned char, 1000> received{};
  ASSERT_EQ(mbedtls_ssl_read(pair.server.ssl(), received.data(), received.size()), static_cast<int>(frame.size()));
  EXPECT_EQ(received, frame);
}

TEST_P(MbedtlsConfig, WrongKeyIsRefused) {
  std::array<unsigned char, 32> wrong = kKey;
  wrong[0] ^= 1;
  Pair pair(GetParam(), wrong);
  EXPECT_NE(pair.handshake(), 0);
}

INSTANTIATE_TEST_SUITE_P(Psk, MbedtlsConfig,
                         testing::Values(MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK,
                                         MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL));

}  // namespace

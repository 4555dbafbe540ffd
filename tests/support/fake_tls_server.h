// The server's end of a TLS session, straight on Mbed TLS, over the peer's end of a FakePipe.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_TLS_SERVER_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_TLS_SERVER_H_

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mbedtls/ssl.h>
#include <psa/crypto.h>
extern "C" {
#include <mbedtls/psa_util.h>  // knows no C++
}

#include "runtime/wire/identity.h"
#include "tests/support/fake_pipe.h"

namespace gradstream {

inline constexpr int kAnyKeyExchange =
    MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK | MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL;

inline Identity test_identity(uint8_t key_byte = 7, const char* name = "device-1") {
  Identity identity;
  std::strncpy(identity.name, name, Identity::kNameSizeMax);
  std::memset(identity.key, key_byte, sizeof(identity.key));
  return identity;
}

class FakeTlsServer {
 public:
  FakeTlsServer(FakePipe& pipe, const Identity& known, int key_exchange_modes = kAnyKeyExchange)
      : pipe_(pipe), known_(known) {
    EXPECT_EQ(psa_crypto_init(), PSA_SUCCESS);
    mbedtls_ssl_init(&ssl_);
    mbedtls_ssl_config_init(&config_);
    EXPECT_EQ(mbedtls_ssl_config_defaults(&config_, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                          MBEDTLS_SSL_PRESET_DEFAULT),
              0);
    mbedtls_ssl_conf_rng(&config_, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE);
    mbedtls_ssl_conf_tls13_key_exchange_modes(&config_, key_exchange_modes);
    mbedtls_ssl_conf_psk_cb(&config_, find_key, this);
    restart();
  }
  ~FakeTlsServer() {
    mbedtls_ssl_free(&ssl_);
    mbedtls_ssl_config_free(&config_);
  }
  FakeTlsServer(const FakeTlsServer&) = delete;
  FakeTlsServer& operator=(const FakeTlsServer&) = delete;

  // Forgets the session, as a server does that accepts a new connection.
  void restart() {
    mbedtls_ssl_free(&ssl_);
    mbedtls_ssl_init(&ssl_);
    EXPECT_EQ(mbedtls_ssl_setup(&ssl_, &config_), 0);
    mbedtls_ssl_set_bio(&ssl_, this, send_bytes, receive_bytes, nullptr);
    fault_ = 0;
    established_ = false;
    received.clear();
  }

  // Goes on as far as it can: handshake, then reads.
  void pump() {
    if (fault_ != 0) {
      return;
    }
    if (!established_) {
      const int code = mbedtls_ssl_handshake(&ssl_);
      established_ = code == 0;
      note(code);
    }
    uint8_t buffer[2048];
    while (established_ && fault_ == 0) {
      const int code = mbedtls_ssl_read(&ssl_, buffer, sizeof(buffer));
      if (code <= 0) {
        note(code);
        break;
      }
      largest_read = std::max(largest_read, static_cast<size_t>(code));
      received.insert(received.end(), buffer, buffer + code);
    }
  }
  // One record.
  void send(const std::vector<uint8_t>& bytes) {
    EXPECT_EQ(mbedtls_ssl_write(&ssl_, bytes.data(), bytes.size()), static_cast<int>(bytes.size()));
  }
  bool established() const { return established_; }
  int fault() const { return fault_; }
  const char* version() const { return mbedtls_ssl_get_version(&ssl_); }

  std::vector<uint8_t> received;
  size_t largest_read = 0;

 private:
  void note(int code) {
    if (code != 0 && code != MBEDTLS_ERR_SSL_WANT_READ && code != MBEDTLS_ERR_SSL_WANT_WRITE) {
      fault_ = code;
    }
  }
  static int find_key(void* context, mbedtls_ssl_context* ssl, const unsigned char* name, size_t size) {
    const FakeTlsServer& self = *static_cast<FakeTlsServer*>(context);
    if (std::string(reinterpret_cast<const char*>(name), size) != self.known_.name) {
      return MBEDTLS_ERR_SSL_UNKNOWN_IDENTITY;
    }
    return mbedtls_ssl_set_hs_psk(ssl, self.known_.key, sizeof(self.known_.key));
  }
  static int send_bytes(void* context, const unsigned char* bytes, size_t size) {
    FakePipe& pipe = static_cast<FakeTlsServer*>(context)->pipe_;
    pipe.to_device.insert(pipe.to_device.end(), bytes, bytes + size);
    return static_cast<int>(size);
  }
  static int receive_bytes(void* context, unsigned char* out, size_t size) {
    std::deque<uint8_t>& input = static_cast<FakeTlsServer*>(context)->pipe_.to_peer;
    if (input.empty()) {
      return MBEDTLS_ERR_SSL_WANT_READ;
    }
    const size_t count = std::min(size, input.size());
    std::copy_n(input.begin(), count, out);
    input.erase(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<int>(count);
  }

  FakePipe& pipe_;
  Identity known_;
  mbedtls_ssl_context ssl_;
  mbedtls_ssl_config config_;
  int fault_ = 0;
  bool established_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_TLS_SERVER_H_

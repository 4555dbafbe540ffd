// gradstream-handshakes: what TLS 1.3 handshakes cost a bare Mbed TLS server, with nothing around it: processor time of
// the server's end alone. Both ends in memory, and over TCP connections of the loopback, each accepted, shaken hands on
// and closed: what a server cannot do without. For ./run bench server.
//
//   gradstream-handshakes --certificates FOLDER COUNT   certificates for gradstream-load and its server: ca.pem,
//                                   server.pem, server.key, device.key, and devices.pem: COUNT of them, for that one
//                                   key and the names d00000, d00001 ...
//   gradstream-handshakes COUNT     one line `event=bare link=memory|tcp mode=... handshakes=COUNT processor_s=...` for
//                                   each link and mode, the last two in memory alone:
//
//   psk_ke, psk_dhe_ke              with a device's key; x25519
//   server_ecdsa, mutual_ecdsa      one end or both prove themselves by a certificate of one CA, P-256; x25519
//   ticket_ke, ticket_dhe_ke        a session of mutual_ecdsa resumed by its ticket; each brings the next ticket
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <mbedtls/error.h>
#include <mbedtls/pem.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crt.h>
#include <psa/crypto.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradstream {
namespace {

constexpr uint32_t kTicketLifetimeS = 86400;
constexpr int kFlightsMax = 10;
constexpr unsigned char kKey[32] = {1, 2, 3};
constexpr unsigned char kIdentity[] = {'b', 'a', 'r', 'e'};
constexpr uint16_t kGroups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519, MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
                                MBEDTLS_SSL_IANA_TLS_GROUP_NONE};
constexpr int kCiphersuites[] = {MBEDTLS_TLS1_3_AES_128_GCM_SHA256, 0};

void check(int code, const char* what) {
  if (code < 0) {
    char text[128];
    mbedtls_strerror(code, text, sizeof text);
    std::fprintf(stderr, "handshakes: error: %s: %s\n", what, text);
    std::exit(1);
  }
}

int random_bytes(void*, unsigned char* out, size_t size) {
  return psa_generate_random(out, size) == PSA_SUCCESS ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

double processor_s() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A key with its certificate, by the CA or, without one, by itself.
class Credential {
 public:
  Credential(const char* subject, Credential* authority) {
    mbedtls_pk_init(&key);
    check(mbedtls_pk_setup(&key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)), "a key");
    check(mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(key), random_bytes, nullptr), "a key");
    mbedtls_x509_crt_init(&certificate);
    sign(subject, authority);
  }
  // Another certificate for the same key.
  void sign(const char* subject, Credential* authority) {
    mbedtls_x509_crt_free(&certificate);
    mbedtls_x509_crt_init(&certificate);
    mbedtls_x509write_cert draft;
    mbedtls_x509write_crt_init(&draft);
    mbedtls_x509write_crt_set_version(&draft, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&draft, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(&draft, &key);
    mbedtls_x509write_crt_set_issuer_key(&draft, authority != nullptr ? &authority->key : &key);
    unsigned char serial[] = {1};
    unsigned char der[1024];
    int size = 0;
    check(mbedtls_x509write_crt_set_serial_raw(&draft, serial, sizeof serial), "a certificate");
    check(mbedtls_x509write_crt_set_validity(&draft, "20200101000000", "20991231235959"), "a certificate");
    check(mbedtls_x509write_crt_set_subject_name(&draft, subject), "a certificate");
    check(mbedtls_x509write_crt_set_issuer_name(&draft, "CN=ca"), "a certificate");
    check(mbedtls_x509write_crt_set_basic_constraints(&draft, authority == nullptr, -1), "a certificate");
    check(size = mbedtls_x509write_crt_der(&draft, der, sizeof der, random_bytes, nullptr), "a certificate");
    check(mbedtls_x509_crt_parse_der(&certificate, der + sizeof der - size, static_cast<size_t>(size)), "its bytes");
    mbedtls_x509write_crt_free(&draft);
  }
  ~Credential() {
    mbedtls_x509_crt_free(&certificate);
    mbedtls_pk_free(&key);
  }
  Credential(const Credential&) = delete;
  Credential& operator=(const Credential&) = delete;

  mbedtls_pk_context key = {};
  mbedtls_x509_crt certificate = {};
};

// What all ends of a mode have in common.
struct Mode {
  const char* name;
  int exchanges;  // that the client offers
  bool has_psk;
  bool has_client_certificate;
  bool is_resumed;
};
constexpr Mode kModes[] = {
    {"psk_ke", MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK, true, false, false},
    {"psk_dhe_ke", MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL, true, false, false},
    {"server_ecdsa", MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL, false, false, false},
    {"mutual_ecdsa", MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL, false, true, false},
    {"ticket_ke", MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK, false, true, true},
    {"ticket_dhe_ke", MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL, false, true, true},
};

// One end's configuration.
class Settings {
 public:
  Settings(int endpoint, const Mode& mode, Credential& authority, Credential& own) {
    mbedtls_ssl_config_init(&config);
    check(mbedtls_ssl_config_defaults(&config, endpoint, MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT),
          "a configuration");
    mbedtls_ssl_conf_min_tls_version(&config, MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_groups(&config, kGroups);
    mbedtls_ssl_conf_ciphersuites(&config, kCiphersuites);
    mbedtls_ssl_conf_rng(&config, random_bytes, nullptr);
    mbedtls_ssl_conf_ca_chain(&config, &authority.certificate, nullptr);
    const bool is_server = endpoint == MBEDTLS_SSL_IS_SERVER;
    if (mode.has_psk) {
      check(mbedtls_ssl_conf_psk(&config, kKey, sizeof kKey, kIdentity, sizeof kIdentity), "a key");
    } else if (is_server || mode.has_client_certificate) {
      check(mbedtls_ssl_conf_own_cert(&config, &own.certificate, &own.key), "a certificate");
    }
    mbedtls_ssl_conf_tls13_key_exchange_modes(&config, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_ALL);
    mbedtls_ssl_conf_authmode(
        &config, !is_server || mode.has_client_certificate ? MBEDTLS_SSL_VERIFY_REQUIRED : MBEDTLS_SSL_VERIFY_NONE);
    mbedtls_ssl_conf_session_tickets(&config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    if (is_server) {
      mbedtls_ssl_conf_new_session_tickets(&config, mode.is_resumed ? 1 : 0);
    } else {
      mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(&config,
                                                               MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
    }
  }
  ~Settings() { mbedtls_ssl_config_free(&config); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  mbedtls_ssl_config config = {};
};

// One end of one connection, and what has been sent to it.
struct End {
  mbedtls_ssl_context ssl = {};
  std::deque<uint8_t> inbox;
  End* peer = nullptr;

  void begin(const mbedtls_ssl_config& config) {
    mbedtls_ssl_init(&ssl);
    check(mbedtls_ssl_setup(&ssl, &config), "a connection");
    mbedtls_ssl_set_bio(
        &ssl, this,
        [](void* self, const unsigned char* bytes, size_t size) {
          auto& to = static_cast<End*>(self)->peer->inbox;
          to.insert(to.end(), bytes, bytes + size);
          return static_cast<int>(size);
        },
        [](void* self, unsigned char* out, size_t size) -> int {
          auto& from = static_cast<End*>(self)->inbox;
          const size_t count = std::min(size, from.size());
          std::copy_n(from.begin(), count, out);
          from.erase(from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
          return count > 0 ? static_cast<int>(count) : MBEDTLS_ERR_SSL_WANT_READ;
        },
        nullptr);
  }
  bool is_over() const { return mbedtls_ssl_is_handshake_over(const_cast<mbedtls_ssl_context*>(&ssl)) != 0; }
  void go_on(const char* what) {
    const int code = mbedtls_ssl_handshake(&ssl);
    check(code == MBEDTLS_ERR_SSL_WANT_READ ? 0 : code, what);
  }
};

// ---- Over TCP ----

int check_socket(int result, const char* what) {
  if (result < 0) {
    std::perror(what);
    std::exit(1);
  }
  return result;
}

// A connected socket that TLS speaks over; blocks.
class Connection {
 public:
  // peer: the name that its certificate must have; null: any.
  Connection(int socket, const mbedtls_ssl_config& config, const char* peer) : socket_(socket) {
    mbedtls_ssl_init(&ssl_);
    check(mbedtls_ssl_setup(&ssl_, &config), "a connection");
    check(mbedtls_ssl_set_hostname(&ssl_, peer), "the peer's name");
    mbedtls_ssl_set_bio(
        &ssl_, this,
        [](void* self, const unsigned char* bytes, size_t size) {
          return check_socket(
              static_cast<int>(send(static_cast<Connection*>(self)->socket_, bytes, size, MSG_NOSIGNAL)), "send");
        },
        [](void* self, unsigned char* out, size_t size) {
          return check_socket(static_cast<int>(recv(static_cast<Connection*>(self)->socket_, out, size, 0)), "recv");
        },
        nullptr);
  }
  ~Connection() {
    mbedtls_ssl_free(&ssl_);
    close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void shake_hands(const char* mode) { check(mbedtls_ssl_handshake(&ssl_), mode); }
  void wait_for_end() {
    uint8_t byte = 0;
    check_socket(static_cast<int>(recv(socket_, &byte, 1, 0)), "recv");
  }

 private:
  mbedtls_ssl_context ssl_ = {};
  int socket_;
};

// Seconds of the server's processor, the kernel's work for it included.
double handshakes_over_tcp(const Mode& mode, long count, Settings& server, Settings& client) {
  mbedtls_ssl_conf_tls13_key_exchange_modes(&client.config, mode.exchanges);
  const int listener = check_socket(socket(AF_INET, SOCK_STREAM, 0), "socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  check_socket(bind(listener, any, size), "bind");
  check_socket(listen(listener, 1), "listen");
  check_socket(getsockname(listener, any, &size), "getsockname");
  std::thread dials([&] {
    for (long i = 0; i < count; ++i) {
      const int dialled = check_socket(socket(AF_INET, SOCK_STREAM, 0), "socket");
      check_socket(connect(dialled, any, size), "connect");
      Connection connection(dialled, client.config, "server");
      connection.shake_hands(mode.name);
      connection.wait_for_end();
    }
  });
  const double begin_s = processor_s();
  for (long i = 0; i < count; ++i) {
    Connection connection(check_socket(accept(listener, nullptr, nullptr), "accept"), server.config, nullptr);
    connection.shake_hands(mode.name);
  }
  const double spent = processor_s() - begin_s;
  dials.join();
  close(listener);
  return spent;
}

// A mode's server and client, which keeps the last ticket.
class Pair {
 public:
  Pair(const Mode& mode, Credential& authority, Credential& server, Credential& client)
      : mode_(mode),
        server_(MBEDTLS_SSL_IS_SERVER, mode, authority, server),
        client_(MBEDTLS_SSL_IS_CLIENT, mode, authority, client) {
    mbedtls_ssl_session_init(&session_);
    mbedtls_ssl_ticket_init(&tickets_);
    check(mbedtls_ssl_ticket_setup(&tickets_, random_bytes, nullptr, MBEDTLS_CIPHER_AES_128_GCM, kTicketLifetimeS),
          "tickets");
    mbedtls_ssl_conf_session_tickets_cb(&server_.config, mbedtls_ssl_ticket_write, mbedtls_ssl_ticket_parse, &tickets_);
  }
  ~Pair() {
    mbedtls_ssl_session_free(&session_);
    mbedtls_ssl_ticket_free(&tickets_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Seconds of the server's processor for one handshake.
  double handshake() {
    End server;
    End client;
    server.peer = &client;
    client.peer = &server;
    double spent = -processor_s();
    server.begin(server_.config);
    spent += processor_s();
    // A server prefers certificates to psk_ke: they are offered for the first ticket alone.
    const bool wants_first = mode_.is_resumed && !has_ticket_;
    mbedtls_ssl_conf_tls13_key_exchange_modes(
        &client_.config, mode_.exchanges | (wants_first ? MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL : 0));
    client.begin(client_.config);
    check(mbedtls_ssl_set_hostname(&client.ssl, "server"), "the server's name");
    if (has_ticket_) {
      check(mbedtls_ssl_set_session(&client.ssl, &session_), "the ticket");
    }
    for (int flight = 0; flight < kFlightsMax && !(server.is_over() && client.is_over()); ++flight) {
      client.go_on(mode_.name);
      spent -= processor_s();
      server.go_on(mode_.name);
      spent += processor_s();
    }
    check(server.is_over() && client.is_over() ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR, "a handshake that does not end");
    const bool has_certificate = mbedtls_ssl_get_peer_cert(&server.ssl) != nullptr;
    check(has_certificate == (mode_.has_client_certificate && !has_ticket_) ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR,
          "a handshake of another mode");
    keep_ticket(client);
    mbedtls_ssl_free(&client.ssl);
    spent -= processor_s();
    mbedtls_ssl_free(&server.ssl);
    return spent + processor_s();
  }

 private:
  void keep_ticket(End& client) {
    if (!mode_.is_resumed) {
      return;
    }
    unsigned char byte = 0;
    int code = MBEDTLS_ERR_SSL_WANT_READ;
    for (int attempt = 0; code == MBEDTLS_ERR_SSL_WANT_READ && attempt < kFlightsMax; ++attempt) {
      code = mbedtls_ssl_read(&client.ssl, &byte, 1);  // it wants to read although it has the ticket
    }
    check(code == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET ? 0 : code, "no ticket came");
    mbedtls_ssl_session_free(&session_);
    mbedtls_ssl_session_init(&session_);
    check(mbedtls_ssl_get_session(&client.ssl, &session_), "the ticket");
    has_ticket_ = true;
  }

  const Mode& mode_;
  Settings server_;
  Settings client_;
  mbedtls_ssl_ticket_context tickets_ = {};
  mbedtls_ssl_session session_ = {};
  bool has_ticket_ = false;
};

class PemFile {
 public:
  PemFile(const std::string& folder, const char* name) : file_(std::fopen((folder + "/" + name).c_str(), "w")) {
    check(file_ != nullptr ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR, "a file for PEM");
    fchmod(fileno(file_), S_IRUSR | S_IWUSR);  // the server takes no keys that others can read
  }
  ~PemFile() { std::fclose(file_); }
  PemFile(const PemFile&) = delete;
  PemFile& operator=(const PemFile&) = delete;

  void write(const mbedtls_x509_crt& certificate) {
    unsigned char text[2048];
    size_t size = 0;
    check(mbedtls_pem_write_buffer("-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n", certificate.raw.p,
                                   certificate.raw.len, text, sizeof text, &size),
          "a certificate");
    std::fwrite(text, 1, size - 1, file_);  // without the 0 at its end
  }
  void write(const mbedtls_pk_context& key) {
    unsigned char text[1024];
    check(mbedtls_pk_write_key_pem(&key, text, sizeof text), "a key");
    std::fputs(reinterpret_cast<const char*>(text), file_);
  }

 private:
  std::FILE* file_;
};

void write_certificates(const std::string& folder, long count) {
  Credential authority("CN=ca", nullptr);
  Credential server("CN=server", &authority);
  Credential device("CN=device", &authority);
  PemFile(folder, "ca.pem").write(authority.certificate);
  PemFile(folder, "server.pem").write(server.certificate);
  PemFile(folder, "server.key").write(server.key);
  PemFile(folder, "device.key").write(device.key);
  PemFile devices(folder, "devices.pem");
  for (long i = 0; i < count; ++i) {
    char subject[32];
    std::snprintf(subject, sizeof subject, "CN=d%05ld", i);
    device.sign(subject, &authority);
    devices.write(device.certificate);
  }
}

int run_program(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--certificates" && psa_crypto_init() == PSA_SUCCESS) {
    write_certificates(argv[2], std::strtol(argv[3], nullptr, 10));
    return 0;
  }
  const long count = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (count < 1) {
    std::fprintf(stderr, "usage: gradstream-handshakes COUNT | --certificates FOLDER COUNT\n");
    return 2;
  }
  if (psa_crypto_init() != PSA_SUCCESS) {
    std::fprintf(stderr, "handshakes: error: no randomness for TLS\n");
    return 1;
  }
  Credential authority("CN=ca", nullptr);
  Credential server("CN=server", &authority);
  Credential client("CN=client", &authority);
  for (const Mode& mode : kModes) {
    Pair pair(mode, authority, server, client);
    pair.handshake();  // not counted: it brings the first ticket
    double spent = 0;
    for (long i = 0; i < count; ++i) {
      spent += pair.handshake();
    }
    std::printf("event=bare link=memory mode=%s handshakes=%ld processor_s=%.3f\n", mode.name, count, spent);
    if (!mode.is_resumed) {
      Settings server_end(MBEDTLS_SSL_IS_SERVER, mode, authority, server);
      Settings client_end(MBEDTLS_SSL_IS_CLIENT, mode, authority, client);
      std::printf("event=bare link=tcp mode=%s handshakes=%ld processor_s=%.3f\n", mode.name, count,
                  handshakes_over_tcp(mode, count, server_end, client_end));
    }
  }
  return 0;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run_program(argc, argv); }

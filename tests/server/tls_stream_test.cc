// The TLS server over a socket: who gets in, what every other peer is called, and what flights cost.
#include "server/link/tls_stream.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
extern "C" {
#include <mbedtls/psa_util.h>  // knows no C++
}

#include "tests/support/certificates.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// A TLS 1.2 ClientHello without supported_versions, as a client of that age sends it.
std::vector<uint8_t> tls12_client_hello() {
  std::vector<uint8_t> body = {0x03, 0x03};
  body.insert(body.end(), 32, 0x5a);                                                      // random
  body.push_back(0);                                                                      // session id
  body.insert(body.end(), {0x00, 0x04, 0xc0, 0x2b, 0x00, 0xa8});                          // two cipher suites
  body.insert(body.end(), {0x01, 0x00});                                                  // no compression
  body.insert(body.end(), {0x00, 0x08, 0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17});  // groups: P-256
  std::vector<uint8_t> hello = {0x01, 0x00, 0x00, static_cast<uint8_t>(body.size())};
  hello.insert(hello.end(), body.begin(), body.end());
  std::vector<uint8_t> record = {0x16, 0x03, 0x01, 0x00, static_cast<uint8_t>(hello.size())};
  record.insert(record.end(), hello.begin(), hello.end());
  return record;
}

using Bytes = std::vector<uint8_t>;

// What a ClientHello of TLS 1.3 says, as `openssl s_client` sends one.
struct HelloForm {
  uint8_t group = 29;                         // x25519; 24: P-384
  std::vector<uint8_t> share = Bytes(32, 9);  // of that group
  std::string identity = {};                  // of a pre-shared key, whose binder is wrong; empty: none is offered
  uint8_t key_exchange = 1;                   // psk_dhe_ke; 0: psk_ke
  size_t padding_size = 0;                    // of an extension that says nothing
};

void append_number(size_t value, Bytes* out) {
  out->insert(out->end(), {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)});
}

void append_extension(uint8_t type, const Bytes& content, Bytes* out) {
  append_number(type, out);
  append_number(content.size(), out);
  out->insert(out->end(), content.begin(), content.end());
}

Bytes psk_offer(const std::string& identity) {
  Bytes offer;
  append_number(identity.size() + 6, &offer);
  append_number(identity.size(), &offer);
  offer.insert(offer.end(), identity.begin(), identity.end());
  offer.insert(offer.end(), {0, 0, 0, 0, 0, 33, 32});  // its age; binders
  offer.insert(offer.end(), 32, 5);
  return offer;
}

Bytes client_hello(const HelloForm& form = {}) {
  Bytes shares;
  append_number(form.share.size() + 4, &shares);
  append_number(form.group, &shares);
  append_number(form.share.size(), &shares);
  shares.insert(shares.end(), form.share.begin(), form.share.end());
  Bytes extensions;
  append_extension(43, {2, 3, 4}, &extensions);                 // supported_versions
  append_extension(10, {0, 2, 0, form.group}, &extensions);     // supported_groups
  append_extension(13, {0, 2, 4, 3}, &extensions);              // signature_algorithms
  append_extension(51, shares, &extensions);                    // key_share
  append_extension(45, {1, form.key_exchange}, &extensions);    // psk_key_exchange_modes
  append_extension(21, Bytes(form.padding_size), &extensions);  // padding
  if (!form.identity.empty()) {
    append_extension(41, psk_offer(form.identity), &extensions);
  }
  Bytes body = {3, 3};
  body.insert(body.end(), 32, 7);
  body.insert(body.end(), {0, 0, 2, 0x13, 1, 1, 0});
  append_number(extensions.size(), &body);
  body.insert(body.end(), extensions.begin(), extensions.end());
  Bytes bytes = {22, 3, 1};
  append_number(body.size() + 4, &bytes);
  bytes.insert(bytes.end(), {1, 0});
  append_number(body.size(), &bytes);
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

// A fatal one, in clear.
Bytes alert_record(uint8_t alert) { return {0x15, 3, 3, 0, 2, 2, alert}; }

// All that the server says to the bytes, until it closes.
Bytes answer_to(ListenerHarness& server, const Bytes& bytes) {
  RawPeer peer(server.listener.port());
  peer.send(bytes);
  EXPECT_TRUE(server.until([&] { return peer.closed_by_server(); }));
  return peer.received();
}

TEST(TlsStream, BothKeyExchangesCarryFullFramesBothWays) {
  for (const TlsKeyExchange exchange : {TlsKeyExchange::kPskEphemeral, TlsKeyExchange::kPsk}) {
    ListenerHarness server({}, true);
    ASSERT_EQ(server.problem, "");
    TlsPeer peer(server.listener.port(), ListenerHarness::device(3), exchange);
    ASSERT_TRUE(server.until([&] { return peer.established() && !server.established.empty(); }));
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_update_scalars_tag;
    auto& update = message.body.update_scalars;
    update.task_sequence = 1;
    update.steps_done = 14;
    update.direction_count = 16;
    update.encoding = gs_Encoding_ENCODING_F32;
    update.value_count = 224;
    update.values.size = kPayloadSizeMax;
    ASSERT_TRUE(peer.send(message));
    ASSERT_TRUE(server.until([&] { return !server.messages.empty(); }));
    EXPECT_EQ(server.messages[0].first, 2U) << "the identity that TLS proved";
    ServerMessage chunk = {};
    chunk.which_body = gs_ServerMessage_snapshot_chunk_tag;
    chunk.body.snapshot_chunk.part = gs_ModelPart_MODEL_PART_MODEL;
    chunk.body.snapshot_chunk.total = kPayloadSizeMax;
    chunk.body.snapshot_chunk.values.size = kPayloadSizeMax;
    server.listener.find(server.established[0])->send(chunk);
    std::optional<ServerMessage> got;
    ASSERT_TRUE(server.until([&] { return (got = peer.next()).has_value(); }));
    EXPECT_EQ(got->body.snapshot_chunk.values.size, kPayloadSizeMax);
  }
}

TEST(TlsStream, PskWithoutForwardSecrecyNeedsTheOption) {
  ListenerHarness server;
  TlsPeer peer(server.listener.port(), ListenerHarness::device(1), TlsKeyExchange::kPsk);
  ASSERT_TRUE(server.until([&] { return peer.gone(); }));
  EXPECT_TRUE(server.established.empty());
  EXPECT_EQ(server.counters.handshakes.tls_other_faults, 1U);
  const std::string line = server.log.find("tls_key_exchange");
  EXPECT_THAT(line, HasSubstr("identity=device-1"));
  EXPECT_THAT(line, HasSubstr("allow_psk_ke"));
}

// Whoever holds the claim's key would read such a session, also one that was recorded.
TEST(TlsStream, AClaimIsRefusedWithoutForwardSecrecy) {
  for (const bool allow_psk_ke : {false, true}) {
    ListenerHarness server({}, allow_psk_ke);
    TlsPeer peer(server.listener.port(), identity_of("~batch", 10), TlsKeyExchange::kPsk);
    ASSERT_TRUE(server.until([&] { return peer.gone(); }));
    EXPECT_TRUE(server.established.empty());
    EXPECT_THAT(server.log.find("tls_claim_key_exchange"), HasSubstr("identity=~batch"));
    EXPECT_EQ(server.counters.handshakes.tls_other_faults, 1U);
    TlsPeer good(server.listener.port(), identity_of("~batch", 10));
    EXPECT_TRUE(server.until([&] { return good.established() && server.established.size() == 1; }));
    TlsPeer device(server.listener.port(), ListenerHarness::device(1), TlsKeyExchange::kPsk);
    EXPECT_TRUE(server.until([&] { return device.gone() || device.established(); }));
    EXPECT_EQ(device.established(), allow_psk_ke) << "which is no matter of claims";
  }
}

TEST(TlsStream, AnUnknownIdentityIsNamedOnBothEnds) {
  ListenerHarness server;
  TlsPeer peer(server.listener.port(), identity_of("stranger", 1));
  ASSERT_TRUE(server.until([&] { return peer.gone(); }));
  peer.raw().close();
  ASSERT_TRUE(server.until([&] { return server.listener.connection_count() == 0; }));
  EXPECT_EQ(server.counters.handshakes.unknown_identities, 1U);
  const std::string line = server.log.find("tls_unknown_identity");
  EXPECT_THAT(line, HasSubstr("identity=stranger"));
  EXPECT_THAT(line, HasSubstr("device add"));
  EXPECT_EQ(peer.session().last_alert(), 115) << "unknown_psk_identity";
}

// Mbed TLS has an alert of its own for what this one refuses.
TEST(TlsStream, ARefusedIdentityGetsOneAlert) {
  ListenerHarness server;
  EXPECT_EQ(answer_to(server, client_hello({.identity = "stranger"})), alert_record(115)) << "unknown_psk_identity";
  EXPECT_EQ(answer_to(server, client_hello({.identity = "device-9"})), alert_record(49)) << "access_denied";
  EXPECT_EQ(answer_to(server, client_hello({.identity = "device-1"})), alert_record(51)) << "decrypt_error";
}

// Who has no key asks for names; the log tells the operator.
TEST(TlsStream, HiddenIdentitiesHaveOneAnswer) {
  for (const bool allow_psk_ke : {false, true}) {
    ListenerHarness server({}, allow_psk_ke, 0, nullptr, true);
    for (const uint8_t key_exchange : {uint8_t{1}, uint8_t{0}}) {
      const auto answer = [&](const std::string& identity) {
        return answer_to(server, client_hello({.identity = identity, .key_exchange = key_exchange}));
      };
      const Bytes wrong_key = answer("device-1");
      EXPECT_EQ(wrong_key.size(), 7U);
      EXPECT_EQ(answer("stranger"), wrong_key) << "unknown";
      EXPECT_EQ(answer(std::string(70, 'x')), wrong_key) << "too long to be known";
      EXPECT_EQ(answer("device-9"), wrong_key) << "revoked";
      EXPECT_EQ(answer("~nobody"), answer("~batch")) << "claims";
    }
    EXPECT_EQ(server.counters.handshakes.wrong_keys, allow_psk_ke ? 3U : 2U) << "the device, and the claim";
    EXPECT_EQ(server.counters.handshakes.unknown_identities, 6U) << "two of each kind, and the claim";
    EXPECT_EQ(server.counters.handshakes.revoked_identities, 2U);
    EXPECT_THAT(server.log.find("tls_unknown_identity"), HasSubstr("identity=stranger"));
    EXPECT_THAT(server.log.find("tls_revoked_identity"), HasSubstr("identity=device-9"));
    EXPECT_TRUE(server.established.empty());
  }
}

TEST(TlsStream, WhoProvesItsKeyIsToldWhyItIsRefused) {
  ListenerHarness server({}, false, 0, nullptr, true);
  TlsPeer revoked(server.listener.port(), ListenerHarness::device(9));
  ASSERT_TRUE(server.until([&] { return revoked.gone(); }));
  EXPECT_EQ(revoked.session().last_alert(), 49) << "access_denied";
  EXPECT_THAT(server.log.find("tls_revoked_identity"), HasSubstr("identity=device-9"));
  EXPECT_TRUE(server.established.empty());
  TlsPeer stranger(server.listener.port(), identity_of("stranger", 1));
  ASSERT_TRUE(server.until([&] { return stranger.gone(); }));
  EXPECT_EQ(stranger.session().last_alert(), 51) << "decrypt_error";
  TlsPeer good(server.listener.port(), ListenerHarness::device(1));
  EXPECT_TRUE(server.until([&] { return good.established() && server.established.size() == 1; }));
}

TEST(TlsStream, AWrongKeyIsNamedOnBothEnds) {
  ListenerHarness server;
  TlsPeer peer(server.listener.port(), identity_of("device-1", 77));
  ASSERT_TRUE(server.until([&] { return peer.gone(); }));
  peer.raw().close();
  ASSERT_TRUE(server.until([&] { return server.listener.connection_count() == 0; }));
  EXPECT_EQ(server.counters.handshakes.wrong_keys, 1U);
  EXPECT_THAT(server.log.find("tls_wrong_key"), HasSubstr("identity=device-1"));
  EXPECT_EQ(peer.session().last_alert(), 51) << "decrypt_error";
}

TEST(TlsStream, ARevokedDeviceIsNamed) {
  ListenerHarness server;
  TlsPeer peer(server.listener.port(), ListenerHarness::device(9));
  ASSERT_TRUE(server.until([&] { return peer.gone(); }));
  peer.raw().close();
  ASSERT_TRUE(server.until([&] { return server.listener.connection_count() == 0; }));
  EXPECT_EQ(server.counters.handshakes.revoked_identities, 1U);
  EXPECT_THAT(server.log.find("tls_revoked_identity"), HasSubstr("identity=device-9"));
  EXPECT_EQ(peer.session().last_alert(), 49) << "access_denied";
}

TEST(TlsStream, PlainTextIsNamedWithItsFirstBytes) {
  for (const std::string& text : std::vector<std::string>{"GET / HTTP/1.1\r\n\r\n", "\x16\x13", "x"}) {
    ListenerHarness server;
    RawPeer peer(server.listener.port());
    peer.send(text);
    ASSERT_TRUE(server.until([&] { return peer.closed_by_server(); })) << text;
    EXPECT_EQ(server.counters.handshakes.plain_text_peers, 1U);
    EXPECT_THAT(server.log.find("tls_plain_text_peer"), HasSubstr("first_bytes="));
    EXPECT_TRUE(peer.received().empty());
  }
}

TEST(TlsStream, ATls12PeerIsNamedAndGetsTheAlert) {
  ListenerHarness server;
  RawPeer peer(server.listener.port());
  peer.send(tls12_client_hello());
  ASSERT_TRUE(server.until([&] { return peer.closed_by_server(); }));
  EXPECT_EQ(server.counters.handshakes.tls_version_peers, 1U);
  EXPECT_THAT(server.log.find("tls_version"), HasSubstr("TLS 1.3"));
  const std::vector<uint8_t> alert = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 70};  // fatal, protocol_version
  EXPECT_EQ(peer.received(), alert);
}

TEST(TlsStream, GarbageAfterATlsRecordHeaderIsAProtocolFault) {
  ListenerHarness server;
  RawPeer peer(server.listener.port());
  peer.send(
      std::string("\x16\x03\x01\x00\x08\x01\x00\x00\x04"
                  "bad!",
                  13));
  ASSERT_TRUE(server.until([&] { return peer.closed_by_server(); }));
  EXPECT_EQ(server.counters.handshakes.tls_other_faults, 1U);
  EXPECT_THAT(server.log.find("tls_protocol"), HasSubstr("detail="));
}

TEST(TlsStream, ARecordLargerThanTheLimitIsNamed) {
  ListenerHarness server;
  RawPeer peer(server.listener.port());
  std::string record("\x16\x03\x01\x40\x00", 5);
  peer.send(record.append(8192, 'x'));
  ASSERT_TRUE(server.until([&] { return peer.closed_by_server(); }));
  EXPECT_EQ(server.counters.traffic.large_records, 1U);
}

TEST(TlsStream, AByteAtATimeIsAsGoodAsAFlight) {
  // A relay that hands every byte over alone, both ways.
  ListenerHarness server;
  RawPeer front(server.listener.port());
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  (void)tls_start(nullptr, 0);
  TransportOps ops = {};
  ops.open = [](void*) { return Status::kOk; };
  ops.read = [](void* context, uint8_t* out, size_t) -> Result<size_t> {
    return ::recv(*static_cast<int*>(context), out, 1, 0) == 1 ? Result<size_t>(1)
                                                               : Result<size_t>(Status::kWouldBlock);
  };
  ops.write = [](void* context, const uint8_t* bytes, size_t) -> Result<size_t> {
    return ::send(*static_cast<int*>(context), bytes, 1, 0) == 1 ? Result<size_t>(1)
                                                                 : Result<size_t>(Status::kWouldBlock);
  };
  ops.close = [](void*) {};
  const Identity identity = ListenerHarness::device(1);
  TlsSession session;
  ASSERT_EQ(session.begin(Transport{&ops, &pair[0]}, identity, TlsKeyExchange::kPskEphemeral), Status::kOk);
  Status status = Status::kWouldBlock;
  size_t forwarded = 0;
  EXPECT_TRUE(server.until([&] {
    if (status == Status::kWouldBlock) {
      status = session.handshake();
    } else {
      (void)session.flush();
    }
    uint8_t byte = 0;
    if (::recv(pair[1], &byte, 1, 0) == 1) {
      front.send(std::span<const uint8_t>(&byte, 1));
    }
    front.closed_by_server();
    if (forwarded < front.received().size()) {
      forwarded += ::send(pair[1], &front.received()[forwarded], 1, 0) == 1 ? 1 : 0;
    }
    return !server.established.empty();
  }));
  EXPECT_EQ(status, Status::kOk) << session.last_fault_text();
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST(TlsStream, TheLastWordsArriveBeforeTheClose) {
  ListenerHarness server;
  TlsPeer peer(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return peer.established() && !server.established.empty(); }));
  // Input that the server will not read would make a careless close reset the connection.
  peer.send(hello_message());
  peer.send(hello_message());
  server.listener.find(server.established[0])->close(gs_Reason_REASON_NEWER_SESSION);
  ASSERT_TRUE(server.until([&] { return peer.refusal() == gs_Reason_REASON_NEWER_SESSION; }));
  ASSERT_TRUE(server.until([&] { return peer.gone(); }));
  peer.raw().close();
  EXPECT_TRUE(server.until([&] { return server.listener.connection_count() == 0; }));
  EXPECT_EQ(server.ended, server.established);
}

// A board with the certificates of tests/support/certificates.h, and devices that prove one.
class Certificates : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    ASSERT_EQ(tls_start(nullptr, 0), Status::kOk);
    folder_ = std::filesystem::temp_directory_path() / ("gradstream_tls_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    publish(test_pem::kServer, test_pem::kServerKey);
    server_.emplace(ListenerLimits{}, false, GetParam(), &board_);
    ASSERT_EQ(server_->problem, "");
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  void publish(const std::string& certificate, const std::string& key) {
    const CredentialPaths paths = {folder_ / "ca.pem", folder_ / "server.pem", folder_ / "server.key"};
    std::ofstream(paths.authority) << test_pem::kCa;
    std::ofstream(paths.certificate) << certificate;
    std::ofstream(paths.key) << key;
    std::filesystem::permissions(paths.key, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    ASSERT_EQ(board_.load(paths).sentence, "");
  }
  std::unique_ptr<TlsPeer> dial(const std::string& certificate, const std::string& authority = test_pem::kCa,
                                const char* name = "127.0.0.1", const std::string& key = test_pem::kDeviceKey) {
    auto credentials = std::make_unique<Credentials>();
    EXPECT_EQ(test_pem::parse(credentials.get(), CertificateRole::kDevice, test_pem::kDevice, key, authority).text,
              nullptr);
    // What a device itself would not take, it still may show.
    mbedtls_x509_crt_free(credentials->certificate());
    mbedtls_x509_crt_init(credentials->certificate());
    EXPECT_EQ(
        mbedtls_x509_crt_parse(credentials->certificate(), reinterpret_cast<const unsigned char*>(certificate.c_str()),
                               certificate.size() + 1),
        0);
    auto peer = std::make_unique<TlsPeer>(server_->listener.port(), *credentials, name);
    credentials_.push_back(std::move(credentials));
    return peer;
  }

  std::filesystem::path folder_;
  CredentialBoard board_;
  std::vector<std::unique_ptr<Credentials>> credentials_;
  std::optional<ListenerHarness> server_;
};

TEST_P(Certificates, BothKindsOfDevicesShareAPort) {
  const auto by_certificate = dial(test_pem::kDevice);
  TlsPeer by_key(server_->listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server_->until([&] {
    return by_certificate->established() && by_key.established() && server_->established.size() == 2;
  })) << by_certificate->session().last_fault_text();
  by_certificate->send(hello_message());
  ASSERT_TRUE(server_->until([&] { return server_->messages.size() == 1; }));
  EXPECT_EQ(server_->messages[0].first, 0U) << "the device that the CN names";
  by_key.send(hello_message());
  ASSERT_TRUE(server_->until([&] { return server_->messages.size() == 2; }));
  EXPECT_EQ(server_->messages[1].first, 1U);
}

// A share of a hybrid group makes a ClientHello of 1,500 to 1,800 bytes.
TEST_P(Certificates, ALongClientHelloIsAnswered) {
  RawPeer peer(server_->listener.port());
  peer.send(client_hello({.padding_size = 1800}));
  ASSERT_TRUE(server_->until([&] { return !peer.closed_by_server() && !peer.received().empty(); }));
  EXPECT_EQ(peer.received()[0], 22) << "a ServerHello";
  EXPECT_EQ(answer_to(*server_, client_hello({.padding_size = 3000})), alert_record(22)) << "record_overflow";
  EXPECT_THAT(server_->log.find("tls_hello_too_large"), HasSubstr("2,048"));
  EXPECT_EQ(server_->counted().traffic.large_records, 1U);
}

TEST_P(Certificates, WithoutACommonGroupThereIsAnAlert) {
  EXPECT_EQ(answer_to(*server_, client_hello({.group = 24, .share = Bytes(97, 4)})), alert_record(40));
  EXPECT_THAT(server_->log.find("tls_no_group"), HasSubstr("x25519 or P-256"));
}

// Its secret would be zeros, whatever this end's key is.
TEST_P(Certificates, AShareOfZerosGetsAnAlert) {
  const Bytes answer = answer_to(*server_, client_hello({.share = Bytes(32)}));
  ASSERT_GE(answer.size(), 7U);
  EXPECT_EQ(Bytes(answer.end() - 7, answer.end()), alert_record(47)) << "illegal_parameter";
}

// Before it knows anything of them this end signs for peers without a key: so many in a second, and no more.
TEST_P(Certificates, PeersWithoutAKeyWaitForASignature) {
  ListenerLimits limits;
  limits.signatures = {1, 5};
  ListenerHarness server(limits, false, GetParam(), &board_);
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server.listener.port()));
    flood.back()->send(client_hello());
  }
  ASSERT_TRUE(server.until([&] { return server.counted().arrivals.signatures_over_rate > 0; }));
  EXPECT_NE(server.log.find("signatures_over_rate"), "");
  const auto count_answered = [&] {
    return std::count_if(flood.begin(), flood.end(), [](const std::unique_ptr<RawPeer>& peer) {
      return !peer->closed_by_server() && !peer->received().empty();
    });
  };
  ASSERT_TRUE(server.until([&] { return count_answered() >= 5; }));
  EXPECT_GT(server.waits(), 0U);
  TlsPeer device(server.listener.port(), ListenerHarness::device(1));
  EXPECT_TRUE(server.until([&] { return device.established(); })) << "it has a key";
  const auto before = count_answered();
  EXPECT_TRUE(server.until([&] { return count_answered() > before; })) << "one after the other";
}

TEST_P(Certificates, EachRefusalIsNamedOnBothEnds) {
  struct Case {
    const std::string& certificate;
    const char* event;
    const char* counter;
    int alert;
    const char* words;  // at the device
  };
  const Case cases[] = {
      {test_pem::kDeviceExpired, "tls_certificate_expired", "certificates_expired", 45, "expired"},
      {test_pem::kDeviceEarly, "tls_certificate_not_yet_valid", "certificates_early", 45, "has not come"},
      {test_pem::kDeviceForeign, "tls_certificate_foreign", "certificates_foreign", 48, "device_ca_file"},
      {test_pem::kDeviceMisused, "tls_certificate_usage", "certificates_misused", 43, "clientAuth"},
      {test_pem::kDeviceUnnamed, "tls_certificate_name", "certificates_unnamed", 42, "CN"},
      {test_pem::kDeviceSpaced, "tls_certificate_name", "certificates_unnamed", 42, "CN"},
      {test_pem::kDeviceLong, "tls_certificate_name", "certificates_unnamed", 42, "CN"},
      {test_pem::kDeviceTwice, "tls_certificate_name", "certificates_unnamed", 42, "CN"},
      {test_pem::kDeviceRevoked, "tls_revoked_identity", "revoked_identities", 49, "revoked"},
      {test_pem::kDeviceUnknown, "tls_unknown_identity", "unknown_identities", 115, "device add"},
  };
  const auto counted = [&](std::string_view wanted) {
    uint64_t found = 0;
    const ShellCounters now = server_->counted();
    visit_shell_counters(now, [&](std::string_view key, const char*, const Counter& counter) {
      found = key == wanted ? uint64_t{counter} : found;
    });
    return found;
  };
  for (const Case& row : cases) {
    const uint64_t before = counted(row.counter);
    const auto peer = dial(row.certificate);
    ASSERT_TRUE(server_->until([&] { return peer->gone(); })) << row.event;
    EXPECT_EQ(peer->session().last_alert(), row.alert) << row.event;
    EXPECT_THAT(peer->session().last_fault_text(), HasSubstr(row.words)) << row.event;
    peer->raw().close();
    ASSERT_TRUE(server_->until([&] { return server_->listener.connection_count() == 0; })) << row.event;
    EXPECT_EQ(counted(row.counter), before + 1) << row.event;
    EXPECT_THAT(server_->log.find(row.event), HasSubstr("remedy=")) << row.event;
  }
  EXPECT_THAT(server_->log.find("tls_certificate_expired"), HasSubstr("identity=device-1"));
  EXPECT_TRUE(server_->established.empty());
}

TEST_P(Certificates, TheOwnerMayRegisterWhoIsUnknown) {
  server_->registration = TlsFault::kNone;
  const auto peer = dial(test_pem::kDeviceUnknown);
  ASSERT_TRUE(server_->until([&] { return peer->established(); }));
  peer->send(hello_message());  // waits with the server until it is admitted
  ASSERT_TRUE(server_->until([&] { return !server_->messages.empty(); }));
  EXPECT_EQ(server_->messages[0].first, 5U);
  server_->registration = TlsFault::kRegistrationLimit;
  const auto late = dial(test_pem::kDeviceUnknown);
  ASSERT_TRUE(server_->until([&] { return late->gone(); }));
  EXPECT_THAT(late->session().last_fault_text(), HasSubstr("registers no more"));
  EXPECT_EQ(server_->counted().certificates.registrations_refused, 1U);
  EXPECT_THAT(server_->log.find("tls_registration_limit"), HasSubstr("identity=stranger"));
}

TEST_P(Certificates, AStolenCertificateWithoutItsKeyLetsNobodyIn) {
  auto credentials = std::make_unique<Credentials>();
  ASSERT_EQ(test_pem::parse(credentials.get(), CertificateRole::kDevice, test_pem::kDevice, test_pem::kDeviceKey).text,
            nullptr);
  mbedtls_pk_free(credentials->key());
  mbedtls_pk_init(credentials->key());
  ASSERT_EQ(mbedtls_pk_parse_key(
                credentials->key(), reinterpret_cast<const unsigned char*>(test_pem::kOtherKey.c_str()),
                test_pem::kOtherKey.size() + 1, nullptr, 0, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE),
            0);
  TlsPeer peer(server_->listener.port(), *credentials, "127.0.0.1");
  ASSERT_TRUE(server_->until([&] { return peer.gone(); }));
  peer.raw().close();
  ASSERT_TRUE(server_->until([&] { return server_->listener.connection_count() == 0; }));
  EXPECT_TRUE(server_->established.empty());
  EXPECT_EQ(server_->counted().certificates.unusable, 1U);
  EXPECT_NE(server_->log.find("tls_certificate_broken"), "");
}

TEST_P(Certificates, ADeviceJudgesTheServer) {
  const struct {
    const std::string& authority;
    const char* name;
    const char* words;
  } cases[] = {{test_pem::kForeignCa, "127.0.0.1", "not signed by the CA"},
               {test_pem::kCa, "server.example", "another name"}};
  for (const auto& row : cases) {
    const auto peer = dial(test_pem::kDevice, row.authority, row.name);
    ASSERT_TRUE(server_->until([&] { return peer->gone(); })) << row.words;
    EXPECT_THAT(peer->session().last_fault_text(), HasSubstr(row.words));
    peer->raw().close();
    ASSERT_TRUE(server_->until([&] { return server_->listener.connection_count() == 0; })) << row.words;
  }
  EXPECT_EQ(server_->log.count("tls_server_untrusted"), 2U);
  EXPECT_EQ(server_->counted().handshakes.tls_other_faults, 2U);
}

TEST_P(Certificates, AReloadCountsFromTheNextHandshake) {
  const auto before = dial(test_pem::kDevice);
  ASSERT_TRUE(server_->until([&] { return before->established() && server_->established.size() == 1; }));
  before->send(hello_message());  // or the second one would replace it
  ASSERT_TRUE(server_->until([&] { return !server_->messages.empty(); }));
  publish(test_pem::kServerOfOther, test_pem::kOtherKey);
  const auto after = dial(test_pem::kDevice, test_pem::kCa, "server.example");
  ASSERT_TRUE(server_->until([&] { return after->established() && server_->established.size() == 2; }))
      << after->session().last_fault_text();
  EXPECT_FALSE(before->gone());
}

INSTANTIATE_TEST_SUITE_P(Threads, Certificates, testing::Values(0, 2),
                         [](const auto& threads) { return "io_threads_" + std::to_string(threads.param); });

}  // namespace
}  // namespace gradstream

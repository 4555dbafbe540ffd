// The device's TLS session against a Mbed TLS server, in one process over a pipe in memory.
#include "runtime/link/tls.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "tests/support/fake_pipe.h"
#include "tests/support/fake_tls_server.h"

namespace gradstream {
namespace {

class Tls : public testing::TestWithParam<TlsKeyExchange> {
 protected:
  void SetUp() override { ASSERT_EQ(tls_start(nullptr, 0), Status::kOk); }

  // Turns until the session says something else than kWouldBlock, or neither end moves any more.
  Status shake(FakeTlsServer* server, FakePipe& pipe, TlsSession& session, int turns_max = 5000) {
    Status status = Status::kWouldBlock;
    for (int turn = 0; turn < turns_max && status == Status::kWouldBlock; ++turn) {
      status = session.handshake();
      if (server != nullptr && !pipe.dropped()) {
        server->pump();
      }
    }
    return status;
  }

  Identity identity_ = test_identity();
};

Result<size_t> write_all(TlsSession& session, const std::vector<uint8_t>& bytes) {
  for (int turn = 0; turn < 100000; ++turn) {
    const Result<size_t> count = session.write(bytes.data(), bytes.size());
    if (count.status() != Status::kWouldBlock) {
      return count;
    }
  }
  return Status::kDeadlineExceeded;
}

std::vector<uint8_t> pattern(size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
  }
  return bytes;
}

TEST_P(Tls, CarriesFramesBothWays) {
  for (const size_t piece : {FakePipe::kNever, size_t{1}, size_t{2}, size_t{7}, size_t{100}}) {
    FakePipe pipe;
    pipe.piece_size_max = piece;
    pipe.blocks_often = piece != FakePipe::kNever;
    FakeTlsServer server(pipe, identity_);
    TlsSession session;
    ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
    ASSERT_EQ(shake(&server, pipe, session), Status::kOk) << session.last_fault_text();
    for (int i = 0; i < 20 && !server.established(); ++i) {
      (void)session.flush();
      server.pump();
    }
    EXPECT_STREQ(server.version(), "TLSv1.3");

    const std::vector<uint8_t> frame = pattern(kFrameSizeMax);
    for (int round = 0; round < 3; ++round) {
      const Result<size_t> count = write_all(session, frame);
      ASSERT_EQ(count.status(), Status::kOk);
      ASSERT_EQ(count.value(), frame.size()) << "a frame is one record";
    }
    while (session.flush() == Status::kWouldBlock) {
    }
    server.pump();
    EXPECT_EQ(server.received.size(), 3 * frame.size());
    EXPECT_EQ(server.largest_read, frame.size());

    server.send(frame);
    server.send(frame);
    std::vector<uint8_t> got;
    for (int turn = 0; turn < 10000 && got.size() < 2 * frame.size(); ++turn) {
      uint8_t buffer[300];
      const Result<size_t> count = session.read(buffer, sizeof(buffer));
      if (count.ok()) {
        got.insert(got.end(), buffer, buffer + count.value());
      } else {
        ASSERT_EQ(count.status(), Status::kWouldBlock);
      }
    }
    EXPECT_EQ(got.size(), 2 * frame.size());
    EXPECT_TRUE(std::equal(frame.begin(), frame.end(), got.begin()));
    EXPECT_EQ(session.wire_bytes_sent() + session.wire_bytes_received(), pipe.moved());
    pipe.piece_size_max = FakePipe::kNever;
    pipe.blocks_often = false;
    session.end();
    server.pump();
    EXPECT_EQ(server.fault(), MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY);
  }
}

TEST_P(Tls, OneWriteForEachFlight) {
  FakePipe pipe;
  FakeTlsServer server(pipe, identity_);
  TlsSession session;
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  ASSERT_EQ(shake(&server, pipe, session), Status::kOk);
  EXPECT_EQ(pipe.writes, 2u);  // ClientHello; Finished
}

TEST_P(Tls, SurvivesADropAtEveryByte) {
  size_t total = 0;
  {
    FakePipe pipe;
    FakeTlsServer server(pipe, identity_);
    TlsSession session;
    ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
    ASSERT_EQ(shake(&server, pipe, session), Status::kOk);
    total = pipe.moved();
  }
  const size_t stride = 3;
  TlsSession session;  // the same object again and again, as a device uses it
  for (size_t cut = 0; cut < total; cut += stride) {
    FakePipe pipe;
    pipe.drop_after = cut;
    FakeTlsServer server(pipe, identity_);
    ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
    ASSERT_EQ(shake(&server, pipe, session), Status::kClosed) << cut;
    EXPECT_NE(std::string(session.last_fault_text()), "") << cut;
    session.end();
  }
  FakePipe pipe;
  FakeTlsServer server(pipe, identity_);
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  EXPECT_EQ(shake(&server, pipe, session), Status::kOk);
  EXPECT_STREQ(session.last_fault_text(), "");
  session.end();  // the pipe goes before it
  session.end();  // the pipe goes first
}

TEST_P(Tls, WrongKeyIsNamed) {
  FakePipe pipe;
  FakeTlsServer server(pipe, test_identity(8));
  TlsSession session;
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  EXPECT_EQ(shake(&server, pipe, session), Status::kUnauthenticated);
  EXPECT_EQ(session.last_alert(), MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR);
  EXPECT_NE(std::string(session.last_fault_text()).find("wrong key"), std::string::npos);
}

TEST_P(Tls, UnknownIdentityIsNamed) {
  FakePipe pipe;
  FakeTlsServer server(pipe, test_identity(7, "another"));
  TlsSession session;
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  EXPECT_EQ(shake(&server, pipe, session), Status::kUnauthenticated);
  EXPECT_NE(std::string(session.last_fault_text()).find("device add"), std::string::npos)
      << session.last_fault() << " " << session.last_alert();
}

TEST_P(Tls, PlainTextPeerIsNamed) {
  for (const std::string text : {"HTTP/1.1 400 Bad Request\r\n\r\n", "220 mail ready\r\n", "GS\x10"}) {
    FakePipe pipe;
    pipe.to_device.assign(text.begin(), text.end());
    TlsSession session;
    ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
    Status status = shake(nullptr, pipe, session, 10);
    if (status == Status::kWouldBlock) {  // too short for Mbed TLS to judge: the peer then hangs up
      pipe.drop_after = pipe.moved();
      status = shake(nullptr, pipe, session, 10);
    }
    EXPECT_EQ(status, Status::kProtocolError) << text;
    EXPECT_NE(std::string(session.last_fault_text()).find("no TLS"), std::string::npos) << session.last_fault_text();
  }
}

// What servers of TLS 1.2 alone answer to a ClientHello of TLS 1.3 alone: an alert, or a ServerHello of their own.
TEST_P(Tls, OlderTlsIsNamed) {
  std::vector<uint8_t> hello = {0x16, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3};
  hello.resize(hello.size() + 32, 0x55);  // random
  for (const uint8_t byte : {0, 0x00, 0xa8, 0})
    hello.push_back(byte);  // no session, a suite of TLS 1.2, no compression
  for (const std::vector<uint8_t>& answer : {std::vector<uint8_t>{0x15, 3, 3, 0, 2, 2, 70}, hello}) {
    FakePipe pipe;
    TlsSession session;
    ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
    ASSERT_EQ(session.handshake(), Status::kWouldBlock);
    pipe.to_device.assign(answer.begin(), answer.end());
    EXPECT_EQ(shake(nullptr, pipe, session, 10), Status::kProtocolError);
    EXPECT_NE(std::string(session.last_fault_text()).find("TLS 1.3"), std::string::npos)
        << session.last_fault() << " " << session.last_fault_text();
  }
}

TEST_P(Tls, DamagedRecordEndsTheSession) {
  FakePipe pipe;
  FakeTlsServer server(pipe, identity_);
  TlsSession session;
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  ASSERT_EQ(shake(&server, pipe, session), Status::kOk);
  server.pump();
  server.send(pattern(50));
  pipe.to_device[20] ^= 1;
  uint8_t buffer[100];
  EXPECT_EQ(session.read(buffer, sizeof(buffer)).status(), Status::kDataCorrupt);
  EXPECT_EQ(session.read(buffer, sizeof(buffer)).status(), Status::kClosed);
  EXPECT_EQ(session.write(buffer, sizeof(buffer)).status(), Status::kClosed);
}

TEST_P(Tls, PeersGoodbyeIsClosed) {
  FakePipe pipe;
  auto server = std::make_unique<FakeTlsServer>(pipe, identity_);
  TlsSession session;
  uint8_t byte = 0;
  EXPECT_EQ(session.read(&byte, 1).status(), Status::kClosed) << "before begin";
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  ASSERT_EQ(shake(server.get(), pipe, session), Status::kOk);
  pipe.drop_after = pipe.moved();
  EXPECT_EQ(session.read(&byte, 1).status(), Status::kClosed);
  EXPECT_NE(session.last_fault(), 0);
}

// A peer that takes nothing: the session holds at most one record more than what the transport took.
TEST_P(Tls, APeerThatReadsNothingBlocksTheWriter) {
  FakePipe pipe;
  FakeTlsServer server(pipe, identity_);
  TlsSession session;
  ASSERT_EQ(session.begin(pipe.transport(), identity_, GetParam()), Status::kOk);
  ASSERT_EQ(shake(&server, pipe, session), Status::kOk);
  pipe.stalled = true;
  const std::vector<uint8_t> frame = pattern(kFrameSizeMax);
  size_t taken = 0;
  for (int i = 0; i < 10; ++i) {
    const Result<size_t> count = session.write(frame.data(), frame.size());
    taken += count.ok() ? count.value() : 0;
  }
  EXPECT_EQ(taken, frame.size());
  EXPECT_EQ(session.flush(), Status::kWouldBlock);
  pipe.stalled = false;
  EXPECT_EQ(session.flush(), Status::kOk);
  server.pump();
  EXPECT_EQ(server.received, frame);
}

INSTANTIATE_TEST_SUITE_P(Psk, Tls, testing::Values(TlsKeyExchange::kPskEphemeral, TlsKeyExchange::kPsk));

}  // namespace
}  // namespace gradstream

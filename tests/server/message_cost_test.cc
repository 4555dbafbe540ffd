// What a message costs the server beside its work: calls of the kernel and of the heap, and lookups of a handshake.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/call_counter.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

constexpr size_t kMessageCount = 200;

DeviceMessage report() {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_status_report_tag;
  return message;
}

// A device that sends a Pull whenever it has its Wait. All of it runs within one io.run(), as a server does.
class Exchanges {
 public:
  explicit Exchanges(ListenerHarness& server) : server_(server), peer_(server.listener.port(), server.device(1)) {
    pull_.which_body = gs_DeviceMessage_pull_tag;
    wait_.which_body = gs_ServerMessage_wait_tag;
    wait_.body.wait.has_retry = true;
    server.messages.reserve(2 * kMessageCount);
    server.answer = [this](SessionId session) {
      server_.listener.send(session, wait_);
      server_.listener.flush();
    };
  }
  // Until so many Waits have come.
  void run(size_t count) {
    left_ = count;
    asio::post(server_.io, [this] { turn(); });
    server_.io.restart();
    server_.io.run();
  }
  // Calls of operator new of the peer, within run().
  uint64_t peer_allocations() const { return peer_allocations_; }

 private:
  void turn() {
    const uint64_t before = allocation_count();
    const bool is_established = peer_.established();
    if (is_established && !is_asked_) {
      peer_.send(pull_);
      is_asked_ = true;
    } else if (is_established && peer_.next()) {
      --left_;
      is_asked_ = false;
    }
    peer_allocations_ += allocation_count() - before;
    left_ == 0 ? server_.io.stop() : asio::post(server_.io, [this] { turn(); });
  }

  ListenerHarness& server_;
  TlsPeer peer_;
  DeviceMessage pull_ = {};
  ServerMessage wait_ = {};
  size_t left_ = 0;
  bool is_asked_ = false;
  uint64_t peer_allocations_ = 0;
};

TEST(MessageCost, AMessageCostsNoCallOfEpollCtl) {
  if (!counts_calls()) {
    GTEST_SKIP();
  }
  ListenerHarness server;
  Exchanges exchanges(server);
  exchanges.run(3);
  const uint64_t before = epoll_ctl_count();
  exchanges.run(kMessageCount);
  EXPECT_GE(server.messages.size(), kMessageCount);
  EXPECT_LE(epoll_ctl_count() - before, kMessageCount / 20);
}

TEST(MessageCost, AMessageAndItsAnswerAllocateNothing) {
  if (!counts_calls()) {
    GTEST_SKIP();
  }
  for (const size_t thread_count : {0, 1}) {
    ListenerHarness server({}, false, thread_count);
    Exchanges exchanges(server);
    exchanges.run(10);
    const uint64_t peers_before = exchanges.peer_allocations();
    const uint64_t before = allocation_count();
    exchanges.run(kMessageCount);
    const uint64_t own = allocation_count() - before - (exchanges.peer_allocations() - peers_before);
    EXPECT_LE(own, kMessageCount / 20) << "beside the first ones after a stop of the loop; threads: " << thread_count;
  }
}

TEST(MessageCost, AHandshakeThatBeginsAtOnceLooksItsKeyUpOnce) {
  for (const char* const name : {"device-1", "device-9", "nobody"}) {
    size_t lookups = 0;
    const PskLookup lookup = [&lookups](std::string_view identity, PskEntry* out) {
      ++lookups;
      return ListenerHarness::find(identity, out);
    };
    ListenerHarness owner;
    asio::io_context io;
    TlsContext tls(lookup, {});
    ASSERT_EQ(tls.start(), Status::kOk);
    ShellCounters counters;
    Listener listener(io, tls, {}, counters, owner, lookup);
    ASSERT_EQ(listener.open(Tcp::endpoint(asio::ip::address_v4::loopback(), 0)).sentence, "");
    TlsPeer peer(listener.port(), identity_of(name, 1));
    ASSERT_TRUE(run_until(io, [&] { return peer.established() || peer.gone(); })) << name;
    EXPECT_EQ(lookups, 1U) << name;
  }
}

// A device may be revoked while it waits for a place.
TEST(MessageCost, AHandshakeThatHadToWaitLooksItsKeyUpAgain) {
  bool is_revoked = false;
  const PskLookup lookup = [&is_revoked](std::string_view identity, PskEntry* out) {
    const bool is_known = ListenerHarness::find(identity, out);
    out->refusal = is_revoked ? PskRefusal::kRevoked : out->refusal;
    return is_known;
  };
  ListenerLimits limits;
  limits.connection_count_max = 1;
  ListenerHarness owner;
  asio::io_context io;
  TlsContext tls(lookup, {});
  ASSERT_EQ(tls.start(), Status::kOk);
  ShellCounters counters;
  Listener listener(io, tls, limits, counters, owner, lookup);
  ASSERT_EQ(listener.open(Tcp::endpoint(asio::ip::address_v4::loopback(), 0)).sentence, "");
  TlsPeer first(listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(run_until(io, [&] { return first.established() && owner.established.size() == 1; }));
  TlsPeer second(listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(run_until(io, [&] {
    (void)second.turn();
    return listener.waiting_count() == 1;
  }));
  is_revoked = true;
  first.raw().close();
  ASSERT_TRUE(run_until(io, [&] { return second.gone(); }));
  EXPECT_EQ(counters.handshakes.revoked_identities, 1U);
}

TEST(MessageCost, APeerThatSendsWithoutPauseStarvesNobody) {
  ListenerHarness server;
  TlsPeer flood(server.listener.port(), ListenerHarness::device(1));
  TlsPeer other(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return flood.established() && other.established(); }));
  ASSERT_TRUE(server.until([&] { return server.established.size() == 2; }));
  size_t sent = 0;
  while (sent < 2 * kMessageCount && flood.send(report())) {
    ++sent;
  }
  ASSERT_GT(sent, kMessageCount);
  ASSERT_TRUE(other.send(report()));
  ASSERT_TRUE(server.until([&] { return server.messages.size() == sent + 1; }));
  size_t at = 0;
  while (server.messages[at].first != 1) {
    ++at;
  }
  EXPECT_LT(at, sent) << "the other one had to wait for all of the flood";
}

// While a write waits for its peer, bytes may come with the event that ends it.
TEST(MessageCost, WhatComesWhileAWriteWaitsIsReadWhole) {
  ListenerHarness server;
  TlsPeer slow(server.listener.port(), ListenerHarness::device(1), TlsKeyExchange::kPskEphemeral, 4096);
  TlsPeer other(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return slow.established() && other.established(); }));
  ASSERT_TRUE(server.until([&] { return server.established.size() == 2; }));
  slow.set_reading(false);
  ServerMessage chunk = {};
  chunk.which_body = gs_ServerMessage_snapshot_chunk_tag;
  chunk.body.snapshot_chunk.values.size = kPayloadSizeMax;
  const SessionId session = std::min(server.established[0], server.established[1]);  // slow, which came first
  for (size_t i = 0; i < 300; ++i) {
    server.listener.send(session, chunk);
  }
  server.listener.flush();
  for (size_t turn = 0; turn < 20; ++turn) {
    slow.set_reading(turn % 2 == 1);
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(slow.send(report()));
      ASSERT_TRUE(other.send(report()));
    }
    (void)slow.turn();
    ASSERT_TRUE(server.until([&] { return server.messages.size() == 10 * (turn + 1); })) << turn;
  }
  EXPECT_EQ(server.counters.handshakes.tls_other_faults, 0U);
}

}  // namespace
}  // namespace gradstream

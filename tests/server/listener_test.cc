// The caps of the listening socket, the occupied port, and the orderly end.
#include "server/link/listener.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/listen_address.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// How many threads of their own the sessions have.
class ListenerThreads : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ListenerThreads, testing::Values(0, 2),
                         [](const auto& parameter) { return "threads_" + std::to_string(parameter.param); });

TEST(Listener, AnOccupiedPortIsNamedWithItsRemedy) {
  ListenerHarness first;
  ListenerHarness second;
  Listener third(second.io, second.tls, {}, second.counters, second);
  const std::string problem = third.open(Tcp::endpoint(asio::ip::address_v4::loopback(), first.listener.port()));
  EXPECT_THAT(problem, HasSubstr("127.0.0.1:" + std::to_string(first.listener.port())));
  EXPECT_THAT(problem, HasSubstr("server.listen"));
  EXPECT_EQ(check_listen_address(Tcp::endpoint(asio::ip::address_v4::loopback(), first.listener.port())), problem);
  EXPECT_EQ(check_listen_address(Tcp::endpoint(asio::ip::address_v4::loopback(), 0)), "");
}

TEST_P(ListenerThreads, ConnectionsOverTheCapAreClosedAndCounted) {
  ListenerLimits limits;
  limits.connection_count_max = 2;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return one.established() && two.established() && server.established.size() == 2; }));
  RawPeer third(server.listener.port());
  EXPECT_TRUE(server.until([&] { return third.closed_by_server(); }));
  EXPECT_EQ(server.counted().connections_over_cap, 1U);
  EXPECT_THAT(server.log.find("connections_over_cap"), HasSubstr("connection_count_max"));
  EXPECT_FALSE(one.gone());
  one.raw().close();
  ASSERT_TRUE(server.until([&] { return server.listener.connection_count() == 1; }));
  TlsPeer fourth(server.listener.port(), ListenerHarness::device(3));
  EXPECT_TRUE(server.until([&] { return fourth.established(); })) << "room again";
}

TEST_P(ListenerThreads, FiftyHalfOpenPeersKeepNobodyOut) {
  for (const uint32_t handshake_count_max : {64U, 10U}) {
    ListenerLimits limits;
    limits.handshake_count_max = handshake_count_max;
    ListenerHarness server(limits, false, GetParam());
    TlsPeer early(server.listener.port(), ListenerHarness::device(1));
    ASSERT_TRUE(server.until([&] { return early.established() && !server.established.empty(); }));
    std::vector<std::unique_ptr<RawPeer>> silent;
    for (int i = 0; i < 50; ++i) {
      silent.push_back(std::make_unique<RawPeer>(server.listener.port()));
      ASSERT_TRUE(silent.back()->connected());
    }
    ASSERT_TRUE(server.until([&] { return server.counted().connections_accepted == 51; }));
    EXPECT_EQ(server.listener.handshake_count(), std::min(50U, handshake_count_max));
    ASSERT_TRUE(early.send(hello_message()));
    EXPECT_TRUE(server.until([&] { return server.messages.size() == 1; })) << "the old session goes on";
    TlsPeer late(server.listener.port(), ListenerHarness::device(2));
    EXPECT_TRUE(server.until([&] { return late.established(); })) << "a new session comes in";
    EXPECT_EQ(server.counted().handshakes_over_cap, handshake_count_max == 10U ? 41U : 0U);
    if (handshake_count_max == 10U) {
      EXPECT_THAT(server.log.find("handshakes_over_cap"), HasSubstr("handshake_count_max"));
      EXPECT_LT(server.log.count("handshakes_over_cap"), 5U) << "a flood must not flood the log";
    }
  }
}

TEST_P(ListenerThreads, AFloodFromOneAddressEndsItsOwnHandshakesFirst) {
  ListenerLimits limits;
  limits.handshake_count_max = 4;
  ListenerHarness server(limits, false, GetParam());
  RawPeer slow(server.listener.port(), 0, 2);
  ASSERT_TRUE(server.until([&] { return server.counted().connections_accepted == 1; }));
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (uint64_t i = 0; i < 40; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server.listener.port()));
    ASSERT_TRUE(server.until([&] { return server.counted().connections_accepted == 2 + i; }));
  }
  EXPECT_EQ(server.counted().handshakes_over_cap, 37U);
  EXPECT_FALSE(slow.closed_by_server()) << "the oldest of all, and of another address";
  EXPECT_TRUE(server.until([&] { return flood.front()->closed_by_server(); }));
  EXPECT_FALSE(flood.back()->closed_by_server());
}

TEST_P(ListenerThreads, FailedHandshakesDoNotFloodTheLog) {
  ListenerHarness server({}, false, GetParam());
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (uint64_t i = 0; i < 150; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server.listener.port()));
    flood.back()->send(std::string("GET / HTTP/1.1"));
    ASSERT_TRUE(server.until([&] { return server.counted().plain_text_peers == i + 1; }));
  }
  EXPECT_LT(server.log.count("tls_plain_text_peer"), 150U);
  EXPECT_GE(server.log.count("tls_plain_text_peer"), kFaultLines.burst);
  EXPECT_TRUE(server.until(
      [&] { return server.log.count("tls_plain_text_peer") + server.counted().fault_lines_dropped == 150; }));
}

TEST_P(ListenerThreads, ADeviceHasOneSessionWithoutAHello) {
  ListenerHarness server({}, false, GetParam());
  std::vector<std::unique_ptr<TlsPeer>> peers;
  const auto connect = [&](int device) {
    peers.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(device)));
    const size_t count = server.established.size();
    return server.until([&] { return peers.back()->established() && server.established.size() > count; });
  };
  ASSERT_TRUE(connect(1) && peers[0]->send(hello_message()));
  ASSERT_TRUE(server.until([&] { return server.messages.size() == 1; }));
  ASSERT_TRUE(connect(1) && connect(2));
  EXPECT_EQ(server.counted().greetings_replaced, 0U);
  ASSERT_TRUE(connect(1));
  EXPECT_TRUE(server.until([&] { return peers[1]->refusal() == gs_Reason_REASON_NEWER_SESSION; }));
  EXPECT_EQ(server.counted().greetings_replaced, 1U);
  EXPECT_FALSE(peers[0]->gone()) << "it has said Hello: which of those is to live the coordinator decides";
  EXPECT_FALSE(peers[2]->gone()) << "another device";
  peers[3]->raw().close();
  ASSERT_TRUE(server.until([&] { return server.ended.size() >= 1 && !peers[0]->gone(); }));
  ASSERT_TRUE(connect(1));
  EXPECT_TRUE(peers[4]->send(hello_message()));
  EXPECT_TRUE(server.until([&] { return server.messages.size() == 2; }));
}

// A batch's key lies in many devices. Whoever reads it out of one keeps none of the others out.
TEST_P(ListenerThreads, ClaimsThatSayNothingKeepNoDeviceOut) {
  raise_descriptor_limit();
  const ListenerLimits limits;
  ListenerHarness server(limits, false, GetParam());
  std::vector<std::unique_ptr<TlsPeer>> silent;
  for (uint32_t i = 1; i <= limits.connection_count_max; ++i) {
    silent.push_back(std::make_unique<TlsPeer>(server.listener.port(), identity_of("~batch", 10)));
    ASSERT_TRUE(server.until([&] { return silent.back()->established(); })) << i;
    if (i % 128 == 0) {
      TlsPeer device(server.listener.port(), ListenerHarness::device(1));
      const size_t count = server.messages.size();
      ASSERT_TRUE(server.until([&] { return device.established(); })) << i;
      ASSERT_TRUE(device.send(hello_message()));
      ASSERT_TRUE(server.until([&] { return server.messages.size() > count; })) << i;
    }
  }
  EXPECT_EQ(server.counted().connections_over_cap, 0U);
  EXPECT_EQ(server.counted().greetings_replaced, limits.connection_count_max - kSilentClaimSessionsMax);
  EXPECT_TRUE(server.until([&] { return silent.front()->gone(); })) << "the oldest makes room";
  EXPECT_FALSE(silent.back()->gone());
}

// Refused in its handshake or after it, a peer that does not close its own end keeps no place by that.
TEST_P(ListenerThreads, SessionsThatAreClosingMakeRoom) {
  ListenerLimits limits;
  limits.connection_count_max = 4;
  ListenerHarness server(limits, false, GetParam());
  std::vector<std::unique_ptr<RawPeer>> refused;
  for (uint64_t i = 1; i <= 10; ++i) {
    refused.push_back(std::make_unique<RawPeer>(server.listener.port()));
    refused.back()->send(std::string("GET / HTTP/1.1"));
    ASSERT_TRUE(server.until([&] { return server.counted().plain_text_peers == i; })) << i;
  }
  std::vector<std::unique_ptr<TlsPeer>> replaced;
  for (size_t i = 1; i <= 10; ++i) {
    replaced.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(1)));
    ASSERT_TRUE(server.until([&] { return replaced.back()->established() && server.established.size() == i; })) << i;
  }
  EXPECT_EQ(server.counted().connections_over_cap, 0U);
  EXPECT_FALSE(replaced.back()->gone());
}

TEST_P(ListenerThreads, DrainTellsEverySessionAndEndsAll) {
  ListenerHarness server({}, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  RawPeer half_open(server.listener.port());
  ASSERT_TRUE(server.until([&] {
    return one.established() && two.established() && server.established.size() == 2 &&
           server.counted().connections_accepted == 3;
  }));
  server.listener.drain({100, 900});
  EXPECT_TRUE(server.until([&] { return half_open.closed_by_server(); }));
  for (TlsPeer* const peer : {&one, &two}) {
    std::optional<ServerMessage> message;
    ASSERT_TRUE(server.until([&] { return (message = peer->next()).has_value(); }));
    ASSERT_EQ(message->which_body, gs_ServerMessage_drain_tag);
    EXPECT_EQ(message->body.drain.retry.max_ms, 900U);
    EXPECT_TRUE(server.until([&] { return peer->gone(); }));
    peer->raw().close();
  }
  EXPECT_TRUE(server.until([&] { return server.listener.connection_count() == 0; }));
}

}  // namespace
}  // namespace gradstream

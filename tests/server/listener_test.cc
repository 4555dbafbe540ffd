// The caps of the listening socket, the occupied port, and the orderly end.
#include "server/link/listener.h"

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/listen_address.h"
#include "server/link/client_hello.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// For thousands of peers, each of which takes a descriptor at both ends.
constexpr uint64_t kDescriptorsOfThousands = 8192;
// Longer than ctest lets a test run.
constexpr uint32_t kNoDeadlineMs = 3'600'000;
constexpr uint32_t kNoRefillS = 3600;
// Of handshakes that end by it, beside one that must not. That one takes some 10 ms, and a machine with other work lets
// this process stand for hundreds.
constexpr uint32_t kShortHandshakeMs = 1000;

// How many threads of their own the sessions have.
class ListenerThreads : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ListenerThreads, testing::Values(0, 2),
                         [](const auto& parameter) { return "threads_" + std::to_string(parameter.param); });

TEST(Listener, AnOccupiedPortIsNamedWithItsRemedy) {
  ListenerHarness first;
  ListenerHarness second;
  Listener third(second.io, second.tls, {}, second.counters, second);
  const std::string problem =
      third.open(Tcp::endpoint(asio::ip::address_v4::loopback(), first.listener.port())).sentence;
  EXPECT_THAT(problem, HasSubstr("127.0.0.1:" + std::to_string(first.listener.port())));
  EXPECT_THAT(problem, HasSubstr("server.listen"));
  EXPECT_EQ(check_listen_address(Tcp::endpoint(asio::ip::address_v4::loopback(), first.listener.port())).sentence,
            problem);
  EXPECT_EQ(check_listen_address(Tcp::endpoint(asio::ip::address_v4::loopback(), 0)).sentence, "");
}

TEST_P(ListenerThreads, ConnectionsOverTheCapWaitForAPlace) {
  ListenerLimits limits;
  limits.connection_count_max = 2;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return one.established() && two.established() && server.established.size() == 2; }));
  TlsPeer third(server.listener.port(), ListenerHarness::device(3));
  TlsPeer fourth(server.listener.port(), ListenerHarness::device(4));
  ASSERT_TRUE(server.until([&] { return !third.established() && !fourth.established() && server.waits() == 2; }));
  one.raw().close();
  EXPECT_TRUE(server.until([&] { return third.established(); })) << "the first that came is the first that gets in";
  EXPECT_FALSE(fourth.established());
  two.raw().close();
  EXPECT_TRUE(server.until([&] { return fourth.established(); }));
  EXPECT_EQ(server.counted().arrivals.connections_over_cap, 0U);
}

ServerMessage wait_message(uint32_t min_ms, uint32_t max_ms) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  message.body.wait.has_retry = true;
  message.body.wait.retry = {min_ms, max_ms};
  return message;
}

TEST_P(ListenerThreads, ADeviceThatWaitsMakesRoomAndOneAtWorkDoesNot) {
  ListenerLimits limits;
  limits.connection_count_max = 3;
  ListenerHarness server(limits, false, GetParam());
  bool does_wait = false;
  server.answer = [&](SessionId session) {
    if (does_wait) {
      server.listener.send(session, wait_message(100, 900));
      server.listener.flush();
    }
  };
  std::vector<std::unique_ptr<TlsPeer>> peers;
  const auto connect = [&](int device) {
    peers.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(device)));
    TlsPeer& peer = *peers.back();
    const size_t count = server.messages.size();
    return server.until([&] { return peer.established(); }) && peer.send(hello_message()) &&
           server.until([&] { return server.messages.size() > count; }) &&
           (!does_wait || server.until([&] { return peer.next().has_value(); }));
  };
  ASSERT_TRUE(connect(1));  // this end owes it an answer
  does_wait = true;
  ASSERT_TRUE(connect(2) && connect(3));
  TlsPeer four(server.listener.port(), ListenerHarness::device(4));
  std::optional<ServerMessage> message;
  ASSERT_TRUE(server.until([&] { return !four.established() && (message = peers[1]->next()).has_value(); }));
  ASSERT_EQ(message->which_body, gs_ServerMessage_drain_tag) << "the one that has waited the longest";
  EXPECT_EQ(message->body.drain.retry.min_ms, 100U);
  EXPECT_EQ(message->body.drain.retry.max_ms, 900U);
  ASSERT_TRUE(server.until([&] { return peers[1]->gone(); }));
  peers[1]->raw().close();
  EXPECT_TRUE(server.until([&] { return four.established(); }));
  EXPECT_EQ(server.counted().arrivals.places_yielded, 1U);
  EXPECT_FALSE(peers[0]->gone() || peers[2]->gone());

  does_wait = false;  // the other one asks for something, and is owed an answer too
  ASSERT_TRUE(peers[2]->send(hello_message()));
  ASSERT_TRUE(server.until([&] { return server.messages.size() == 4; }));
  TlsPeer five(server.listener.port(), ListenerHarness::device(5));
  ASSERT_TRUE(server.until([&] { return !five.established() && server.waits() == 1; }));
  EXPECT_FALSE(peers[0]->gone() || peers[2]->gone());
  EXPECT_FALSE(five.established());
  does_wait = true;
  ASSERT_TRUE(peers[0]->send(hello_message()));
  ASSERT_TRUE(server.until([&] { return peers[0]->gone(); })) << "it has had its answer and waits";
  peers[0]->raw().close();
  EXPECT_TRUE(server.until([&] { return five.established(); }));
  EXPECT_EQ(server.counted().arrivals.connections_over_cap, 0U);
  EXPECT_FALSE(four.gone()) << "it has not said Hello yet, which takes it a moment";
}

// Where descriptors are short, who finds none waits in the system's own queue, before the accept.
TEST_P(ListenerThreads, DevicesBeyondTheDescriptorsGetTheirTurn) {
  ListenerLimits limits;
  limits.descriptor_count_max = 3;
  ListenerHarness server(limits, false, GetParam());
  server.answer = [&](SessionId session) {
    server.listener.send(session, wait_message(100, 900));
    server.listener.flush();
  };
  std::vector<std::unique_ptr<TlsPeer>> peers;
  for (int device = 1; device <= 8; ++device) {
    peers.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(device)));
  }
  std::vector<bool> has_greeted(peers.size());
  const auto turn = [&] {
    for (size_t i = 0; i < peers.size(); ++i) {
      has_greeted[i] = has_greeted[i] || (peers[i]->established() && peers[i]->send(hello_message()));
      if (has_greeted[i] && peers[i]->gone()) {
        peers[i]->raw().close();
      }
    }
    EXPECT_LE(server.listener.connection_count() + server.listener.lobby_count(), 3U);
    return server.messages.size() == peers.size();
  };
  EXPECT_TRUE(server.until(turn)) << server.messages.size();
  EXPECT_EQ(server.counted().arrivals.connections_over_cap, 0U);
  EXPECT_EQ(server.counted().arrivals.accept_failures, 0U);
}

TEST_P(ListenerThreads, SilentPeersDoNotStopTheAcceptWhereDescriptorsAreShort) {
  ListenerLimits limits;
  limits.descriptor_count_max = 4;
  ListenerHarness server(limits, false, GetParam());
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(std::make_unique<RawPeer>(server.listener.port()));
  }
  TlsPeer device(server.listener.port(), ListenerHarness::device(1));
  EXPECT_TRUE(server.until([&] { return device.established(); }));
}

TEST_P(ListenerThreads, WhoGetsNoPlaceWithinTheDeadlineIsClosedAndCounted) {
  ListenerLimits limits;
  limits.connection_count_max = 1;
  limits.session.handshake_deadline_ms = kShortHandshakeMs;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return one.established() && server.established.size() == 1; }));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  EXPECT_TRUE(server.until([&] { return two.gone(); }));
  EXPECT_EQ(server.counted().arrivals.connections_over_cap, 1U);
  EXPECT_THAT(server.log.find("connections_over_cap"), HasSubstr("connection_count_max"));
  RawPeer silent(server.listener.port());
  silent.send(std::string("\x16\x03\x01"));
  EXPECT_TRUE(server.until([&] { return silent.closed_by_server(); }));
  EXPECT_EQ(server.counted().deadlines.handshake, 1U);
  EXPECT_THAT(server.log.find("deadline"), HasSubstr("handshake_deadline_ms"));
  EXPECT_FALSE(one.gone());
}

// A peer's first flight, caught at a socket of the test's own.
std::vector<uint8_t> client_hello_of(const Identity& identity) {
  asio::io_context io;
  Tcp::acceptor acceptor(io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  TlsPeer peer(acceptor.local_endpoint().port(), identity);
  Tcp::socket socket = acceptor.accept();
  (void)peer.turn();
  std::vector<uint8_t> bytes(kClientHelloSizeMax);
  bytes.resize(socket.read_some(asio::buffer(bytes)));
  return bytes;
}

// Peers that stop before, in the midst of and behind their ClientHello, and one whose bytes come one by one for longer
// than a handshake may take. Each byte that comes puts no deadline off.
TEST_P(ListenerThreads, HandshakesThatStopOrTrickleEndByTheirDeadlineAndHarmNobody) {
  constexpr uint64_t kByteMs = 25;
  ListenerLimits limits;
  limits.session.handshake_deadline_ms = kShortHandshakeMs;
  ListenerHarness server(limits, false, GetParam());
  const std::vector<uint8_t> hello = client_hello_of(ListenerHarness::device(1));
  std::vector<std::unique_ptr<RawPeer>> stopped;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5}, hello.size() / 2, hello.size() - 1, hello.size()}) {
    stopped.push_back(std::make_unique<RawPeer>(server.listener.port()));
    stopped.back()->send(std::span(hello).first(size));
  }
  RawPeer trickling(server.listener.port());
  const uint64_t begun_ms = steady_ms();
  size_t sent = 0;
  const auto trickle = [&] {
    const size_t due = std::min<size_t>((steady_ms() - begun_ms) / kByteMs, hello.size() - 1);
    for (; sent < due; ++sent) {
      trickling.send(std::span(hello).subspan(sent, 1));
    }
    return trickling.closed_by_server();
  };
  TlsPeer device(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] {
    trickle();
    return device.established() && server.established.size() == 1;
  }));
  ASSERT_TRUE(device.send(hello_message()));
  EXPECT_TRUE(server.until(trickle));
  EXPECT_LT(sent, hello.size());
  for (const auto& peer : stopped) {
    EXPECT_TRUE(server.until([&] { return peer->closed_by_server(); }));
  }
  EXPECT_TRUE(server.until([&] { return server.counted().deadlines.handshake == stopped.size() + 1; }));
  EXPECT_THAT(server.log.find("deadline"), HasSubstr("limit=handshake_deadline_ms state=tls"));
  EXPECT_TRUE(server.until([&] { return server.listener.handshake_count() + server.listener.lobby_count() == 0; }));
  EXPECT_TRUE(server.until([&] { return server.messages.size() == 1; }));
  EXPECT_FALSE(device.gone());
}

TEST_P(ListenerThreads, PeersThatSayNothingTakeNoHandshake) {
  ListenerLimits limits;
  limits.handshake_count_max = 10;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer early(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return early.established() && !server.established.empty(); }));
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(std::make_unique<RawPeer>(server.listener.port()));
    ASSERT_TRUE(silent.back()->connected());
  }
  ASSERT_TRUE(server.until([&] { return server.counted().arrivals.connections_accepted == 51; }));
  EXPECT_EQ(server.listener.handshake_count(), 0U);
  EXPECT_EQ(server.listener.lobby_count(), 50U);
  ASSERT_TRUE(early.send(hello_message()));
  EXPECT_TRUE(server.until([&] { return server.messages.size() == 1; })) << "the old session goes on";
  TlsPeer late(server.listener.port(), ListenerHarness::device(2));
  EXPECT_TRUE(server.until([&] { return late.established(); })) << "a new session comes in";
  EXPECT_EQ(server.counted().arrivals.handshakes_over_cap, 0U);
}

// The handshake of a small board, which takes seconds before its ClientHello and before its Finished.
TEST_P(ListenerThreads, ASlowHandshakeOutlivesThousandsOfSilentPeers) {
  raise_descriptor_limit(kDescriptorsOfThousands);
  for (const bool is_one_address : {true, false}) {
    ListenerLimits limits;
    limits.handshake_count_max = 4;
    limits.session.handshake_deadline_ms = kNoDeadlineMs;  // the flood alone may put the device out
    ListenerHarness server(limits, false, GetParam());
    TlsPeer slow(server.listener.port(), ListenerHarness::device(1));
    std::vector<std::unique_ptr<RawPeer>> flood;
    const auto connect = [&](int count) {
      for (int i = 0; i < count; ++i) {
        const auto source = static_cast<uint8_t>(is_one_address ? 1 : 1 + i % 254);
        flood.push_back(std::make_unique<RawPeer>(server.listener.port(), 0, source));
        const uint64_t accepted = flood.size() + 1;
        ASSERT_TRUE(server.until([&] { return server.counted().arrivals.connections_accepted == accepted; }));
      }
    };
    connect(1000);
    const uint64_t received = server.counted().traffic.wire_bytes_received;
    (void)slow.turn();  // its ClientHello
    ASSERT_TRUE(server.until([&] { return server.counted().traffic.wire_bytes_received > received; }));
    connect(1100);
    EXPECT_GT(server.counted().arrivals.handshakes_over_cap, 0U) << "the lobby was full";
    EXPECT_TRUE(server.until([&] { return slow.established() && server.established.size() == 1; }));
  }
}

// Whoever hears the wire can send a device's first flight again, but cannot go on from there.
TEST_P(ListenerThreads, WhoNamedADeviceIsEvictedLast) {
  ListenerLimits limits;
  limits.handshake_count_max = 4;
  ListenerHarness server(limits, false, GetParam());
  RawPeer slow(server.listener.port());
  slow.send(client_hello_of(ListenerHarness::device(1)));
  ASSERT_TRUE(server.until([&] { return !slow.closed_by_server() && !slow.received().empty(); }));
  const std::vector<uint8_t> claim = client_hello_of(identity_of("~batch", 10));
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (size_t i = 0; i < 20; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server.listener.port()));
    flood.back()->send(claim);
    ASSERT_TRUE(server.until([&] { return !flood.back()->closed_by_server() && !flood.back()->received().empty(); }));
  }
  EXPECT_EQ(server.counted().arrivals.handshakes_over_cap, 17U);
  EXPECT_TRUE(server.until([&] { return flood.front()->closed_by_server(); })) << "the oldest of the address";
  EXPECT_FALSE(flood.back()->closed_by_server());
  EXPECT_FALSE(slow.closed_by_server()) << "older than all of them, and of the same address";
  const std::vector<uint8_t> device = client_hello_of(ListenerHarness::device(2));
  RawPeer other(server.listener.port(), 0, 2);
  other.send(device);
  ASSERT_TRUE(server.until([&] { return !other.closed_by_server() && !other.received().empty(); }));
  for (size_t i = 0; i < 20; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server.listener.port()));
    flood.back()->send(device);
    ASSERT_TRUE(server.until([&] { return !flood.back()->closed_by_server() && !flood.back()->received().empty(); }));
  }
  EXPECT_TRUE(server.until([&] { return slow.closed_by_server(); })) << "the oldest of the address with most";
  EXPECT_FALSE(other.closed_by_server()) << "of an address with one";
  RawPeer late(server.listener.port());
  late.send(claim);
  ASSERT_TRUE(server.until([&] { return server.waits() == 1; })) << "a claim evicts no device";
  EXPECT_FALSE(flood.back()->closed_by_server());
}

TEST_P(ListenerThreads, FailedHandshakesDoNotFloodTheLog) {
  ListenerHarness server({}, false, GetParam());
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (uint64_t i = 0; i < 150; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server.listener.port()));
    flood.back()->send(std::string("GET / HTTP/1.1"));
    ASSERT_TRUE(server.until([&] { return server.counted().handshakes.plain_text_peers == i + 1; }));
  }
  ASSERT_TRUE(server.until(
      [&] { return server.log.count("tls_plain_text_peer") + server.counted().fault_lines_dropped == 150; }));
  EXPECT_LT(server.log.count("tls_plain_text_peer"), 150U);
  EXPECT_GE(server.log.count("tls_plain_text_peer"), kFaultLines.burst);
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
  EXPECT_EQ(server.counted().arrivals.greetings_replaced, 0U);
  ASSERT_TRUE(connect(1));
  EXPECT_TRUE(server.until([&] { return peers[1]->refusal() == gs_Reason_REASON_NEWER_SESSION; }));
  EXPECT_TRUE(server.until([&] { return server.counted().arrivals.greetings_replaced == 1; }));
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
  raise_descriptor_limit(kDescriptorsOfThousands);
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
  EXPECT_EQ(server.counted().arrivals.connections_over_cap, 0U);
  const uint64_t replaced = limits.connection_count_max - kSilentClaimSessionsMax;
  EXPECT_TRUE(server.until([&] { return server.counted().arrivals.greetings_replaced == replaced; }));
  EXPECT_TRUE(server.until([&] { return silent.front()->gone(); })) << "the oldest makes room";
  EXPECT_FALSE(silent.back()->gone());
}

TEST_P(ListenerThreads, AClaimThatSaysNothingMakesRoomForADevice) {
  ListenerLimits limits;
  limits.connection_count_max = 4;
  ListenerHarness server(limits, false, GetParam());
  std::vector<std::unique_ptr<TlsPeer>> silent;
  for (size_t i = 1; i <= 4; ++i) {
    silent.push_back(std::make_unique<TlsPeer>(server.listener.port(), identity_of("~batch", 10)));
    ASSERT_TRUE(server.until([&] { return silent.back()->established() && server.established.size() == i; })) << i;
  }
  TlsPeer claim(server.listener.port(), identity_of("~batch", 10));
  ASSERT_TRUE(server.until([&] { return !claim.established() && server.waits() == 1; }));
  TlsPeer device(server.listener.port(), ListenerHarness::device(1));
  EXPECT_TRUE(server.until([&] { return device.established(); }));
  EXPECT_FALSE(claim.established()) << "of its own standing nobody goes";
  EXPECT_TRUE(server.until([&] { return silent.front()->gone(); }));
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
    ASSERT_TRUE(server.until([&] { return server.counted().handshakes.plain_text_peers == i; })) << i;
  }
  std::vector<std::unique_ptr<TlsPeer>> replaced;
  for (size_t i = 1; i <= 10; ++i) {
    replaced.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(1)));
    ASSERT_TRUE(server.until([&] { return replaced.back()->established() && server.established.size() == i; })) << i;
  }
  EXPECT_EQ(server.counted().arrivals.connections_over_cap, 0U);
  EXPECT_FALSE(replaced.back()->gone());
}

TEST_P(ListenerThreads, ADeviceThatShakesHandsTooOftenIsRefused) {
  ListenerLimits limits;
  limits.device_handshakes = {1, 3, kNoRefillS};
  ListenerHarness server(limits, false, GetParam());
  std::vector<std::unique_ptr<TlsPeer>> peers;
  for (size_t i = 1; i <= 20 && server.counted().arrivals.handshakes_over_rate == 0; ++i) {
    peers.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(1)));
    ASSERT_TRUE(server.until([&] { return peers.back()->established() && server.established.size() == i; }));
  }
  EXPECT_EQ(server.counted().arrivals.handshakes_over_rate, 1U);
  EXPECT_GE(peers.size(), 4U);
  EXPECT_TRUE(server.until([&] { return peers.back()->refusal() == gs_Reason_REASON_RATE_LIMIT; }));
  EXPECT_NE(server.log.find("handshakes_over_rate"), "");
  TlsPeer other(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return other.established(); }));
  ASSERT_TRUE(other.send(hello_message()));
  EXPECT_TRUE(server.until([&] { return server.messages.size() == 1; }));
}

TEST_P(ListenerThreads, ASessionThatIsOldEnoughIsAskedToBeginAnew) {
  ListenerLimits limits;
  limits.session_age_max_ms = 1;
  limits.session.refusal_retry_min_ms = 100;
  limits.session.refusal_retry_max_ms = 900;
  ListenerHarness server(limits, false, GetParam());
  for (int device = 1; device <= 2; ++device) {
    TlsPeer peer(server.listener.port(), ListenerHarness::device(device));
    std::optional<ServerMessage> message;
    ASSERT_TRUE(server.until([&] { return peer.established() && (message = peer.next()).has_value(); }));
    ASSERT_EQ(message->which_body, gs_ServerMessage_drain_tag);
    EXPECT_EQ(message->body.drain.retry.min_ms, 100U);
    EXPECT_EQ(message->body.drain.retry.max_ms, 900U);
    ASSERT_TRUE(server.until([&] { return peer.gone(); }));
    peer.raw().close();
    EXPECT_TRUE(server.until([&] { return server.listener.connection_count() == 0; }));
  }
  EXPECT_EQ(server.counted().arrivals.sessions_renewed, 2U);
}

TEST_P(ListenerThreads, TheSessionsOfOneDeviceAreAskedToBeginAnew) {
  ListenerHarness server({}, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return one.established() && two.established() && server.established.size() == 2; }));
  server.listener.renew(1);
  std::optional<ServerMessage> message;
  ASSERT_TRUE(server.until([&] { return (message = two.next()).has_value(); }));
  EXPECT_EQ(message->which_body, gs_ServerMessage_drain_tag);
  ASSERT_TRUE(server.until([&] { return two.gone(); }));
  EXPECT_FALSE(one.gone());
  EXPECT_EQ(server.counted().arrivals.sessions_renewed, 1U);
}

TEST_P(ListenerThreads, DrainTellsEverySessionAndEndsAll) {
  ListenerHarness server({}, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  RawPeer half_open(server.listener.port());
  ASSERT_TRUE(server.until([&] {
    return one.established() && two.established() && server.established.size() == 2 &&
           server.counted().arrivals.connections_accepted == 3;
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

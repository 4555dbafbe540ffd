// Who waits, who is first, and who is turned away.
#include "server/link/lobby.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "server/base/ports.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

constexpr uint64_t kNoDeadlineMs = 1'000'000;

// A lobby whose guests come one after the other. Their standing is that of the identity "1", "2", "3".
class LobbyHarness {
 public:
  explicit LobbyHarness(uint64_t deadline_ms = kNoDeadlineMs, const AddressRanges& balancers = {})
      : lobby(io, deadline_ms,
              {[](std::string_view identity, std::unique_ptr<KnownPsk>* known) {
                 *known = std::make_unique<KnownPsk>();
                 return static_cast<Standing>(identity[0] - '0');
               },
               [this] { ++ready_count; },
               [this](const Guest& guest, Lobby::Turned why) { turned_away.emplace_back(guest.id, why); }},
              balancers) {}

  // Whether it was let in. Its number is that of its coming, from 1.
  bool enter(size_t count_max, uint8_t source = 1) {
    peers.push_back(std::make_unique<RawPeer>(acceptor.local_endpoint().port(), 0, source));
    Tcp::endpoint peer;
    Tcp::socket socket = acceptor.accept(peer);
    return lobby.enter(peers.size(), std::move(socket), peer, count_max);
  }
  // The same, and its first bytes are there when it comes.
  bool enter_with(const std::vector<uint8_t>& bytes, size_t count_max, uint8_t source) {
    peers.push_back(std::make_unique<RawPeer>(acceptor.local_endpoint().port(), 0, source));
    Tcp::endpoint peer;
    Tcp::socket socket = acceptor.accept(peer);
    peers.back()->send(bytes);
    EXPECT_TRUE(run_until(io, [&] { return socket.available() >= bytes.size(); }));
    return lobby.enter(peers.size(), std::move(socket), peer, count_max);
  }
  // The guest sends what names somebody of this standing.
  void show(size_t guest, Standing standing) {
    const size_t count = ready_count;
    peers[guest - 1]->send(hello_of(standing));
    ASSERT_TRUE(run_until(io, [&] { return ready_count > count; }));
  }
  static std::vector<uint8_t> hello_of(Standing standing) {
    const std::string name = standing == Standing::kNobody ? "" : std::to_string(static_cast<int>(standing));
    const auto size = static_cast<uint8_t>(name.size());
    std::vector<uint8_t> psk = {0, 41, 0, static_cast<uint8_t>(4 + size), 0, static_cast<uint8_t>(2 + size), 0, size};
    psk.insert(psk.end(), name.begin(), name.end());
    std::vector<uint8_t> bytes = {22, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3};
    bytes.insert(bytes.end(), 32 + 4, 0);
    bytes.push_back(0);
    bytes.push_back(static_cast<uint8_t>(psk.size()));
    bytes.insert(bytes.end(), psk.begin(), psk.end());
    bytes[4] = static_cast<uint8_t>(bytes.size() - 5);
    bytes[8] = static_cast<uint8_t>(bytes.size() - 9);
    return bytes;
  }

  asio::io_context io;
  Tcp::acceptor acceptor{io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::vector<std::unique_ptr<RawPeer>> peers;
  size_t ready_count = 0;
  std::vector<std::pair<SessionId, Lobby::Turned>> turned_away;
  Lobby lobby;
};

using TurnedAway = std::vector<std::pair<SessionId, Lobby::Turned>>;

TEST(Lobby, KeepsTheOrderOfComingForEachStanding) {
  LobbyHarness harness;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(harness.enter(10));
  }
  EXPECT_EQ(harness.lobby.waiting_count(), 0U);
  harness.show(4, Standing::kDevice);
  harness.show(2, Standing::kDevice);
  harness.show(3, Standing::kNobody);
  EXPECT_EQ(harness.lobby.waiting_count(), 3U);
  ASSERT_NE(harness.lobby.first(Standing::kDevice), nullptr);
  EXPECT_EQ(harness.lobby.first(Standing::kDevice)->id, 2U);
  EXPECT_EQ(harness.lobby.first(Standing::kClaim), nullptr);
  const Guest guest = harness.lobby.take(2);
  EXPECT_EQ(guest.arrival.bytes, LobbyHarness::hello_of(Standing::kDevice));
  EXPECT_GT(guest.arrival.accepted_ms, 0U);
  EXPECT_EQ(harness.lobby.first(Standing::kDevice)->id, 4U);
  EXPECT_EQ(harness.lobby.first(Standing::kNobody)->id, 3U);
  EXPECT_EQ(harness.lobby.count(), 4U);
}

TEST(Lobby, ReadsAtOnceWhatIsThere) {
  LobbyHarness harness;
  harness.peers.push_back(std::make_unique<RawPeer>(harness.acceptor.local_endpoint().port()));
  Tcp::socket socket = harness.acceptor.accept();
  harness.peers[0]->send(LobbyHarness::hello_of(Standing::kClaim));
  ASSERT_TRUE(run_until(harness.io, [&] { return socket.available() > 0; }));
  ASSERT_TRUE(harness.lobby.enter(1, std::move(socket), {}, 1));
  EXPECT_EQ(harness.ready_count, 1U);
  EXPECT_EQ(harness.lobby.first(Standing::kClaim)->id, 1U);
}

TEST(Lobby, APeerThatLeavesWaitsForItsSessionToSaySo) {
  LobbyHarness harness;
  ASSERT_TRUE(harness.enter(1));
  harness.peers[0]->close();
  EXPECT_TRUE(run_until(harness.io, [&] { return harness.lobby.first(Standing::kNobody) != nullptr; }));
}

TEST(Lobby, WhenItIsFullTurnsAwayWhoHasShownLeast) {
  LobbyHarness harness;
  const auto enter = [&](uint8_t source, Standing standing) {
    ASSERT_TRUE(harness.enter(6, source));
    if (standing != Standing::kSilent) {
      harness.show(harness.peers.size(), standing);
    }
  };
  enter(1, Standing::kDevice);
  enter(1, Standing::kClaim);
  enter(1, Standing::kNobody);
  enter(2, Standing::kSilent);
  enter(1, Standing::kSilent);
  enter(1, Standing::kSilent);
  enter(1, Standing::kDevice);  // 5 goes: the oldest silent one of the address with most
  enter(1, Standing::kDevice);  // 4: the addresses have one each
  enter(1, Standing::kDevice);  // 6
  enter(1, Standing::kDevice);  // 3
  enter(1, Standing::kDevice);  // 2
  const auto full = [](SessionId id) { return std::pair(id, Lobby::Turned::kFull); };
  EXPECT_EQ(harness.turned_away, (TurnedAway{full(5), full(4), full(6), full(3), full(2)}));
  EXPECT_FALSE(harness.enter(6)) << "all have named a device";
  EXPECT_TRUE(harness.peers.back()->closed_by_server());
  EXPECT_FALSE(harness.peers[0]->closed_by_server());
  EXPECT_EQ(harness.lobby.count(), 6U);
}

TEST(Lobby, TheDeadlineCountsFromTheAccept) {
  LobbyHarness harness(100);
  ASSERT_TRUE(harness.enter(4) && harness.enter(4));
  harness.show(2, Standing::kDevice);
  EXPECT_TRUE(run_until(harness.io, [&] { return harness.lobby.count() == 0; }));
  EXPECT_EQ(harness.turned_away, (TurnedAway{{1, Lobby::Turned::kLate}, {2, Lobby::Turned::kWaited}}));
  ASSERT_TRUE(harness.enter(4));
  EXPECT_TRUE(run_until(harness.io, [&] { return harness.lobby.count() == 0; })) << "the timer runs again";
}

TEST(Lobby, IsEmptyAfterClear) {
  LobbyHarness harness;
  ASSERT_TRUE(harness.enter(4) && harness.enter(4));
  harness.show(1, Standing::kDevice);
  harness.lobby.clear();
  EXPECT_EQ(harness.lobby.count(), 0U);
  EXPECT_EQ(harness.lobby.first(Standing::kDevice), nullptr);
  harness.peers[1]->send(LobbyHarness::hello_of(Standing::kDevice));
  harness.io.poll();
  EXPECT_TRUE(harness.turned_away.empty());
}

// ---- Balancers -----------------------------------------------------------------------------------------------------

constexpr uint8_t kBalancer = 7;  // 127.0.0.7

AddressRanges balancers() {
  AddressRanges ranges;
  EXPECT_TRUE(ranges.add("127.0.0.7"));
  return ranges;
}

// A PROXY header for a peer 203.0.113.`last`, or for nobody: the balancer's own connection.
std::vector<uint8_t> proxy_header(uint8_t last) {
  std::vector<uint8_t> bytes = {'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n', 0x20, 0, 0, 0};
  if (last != 0) {
    bytes[12] = 0x21;
    bytes[13] = 0x11;
    bytes[15] = 12;
    bytes.insert(bytes.end(), {203, 0, 113, last, 127, 0, 0, 1, 0x1F, 0x90, 0x1D, 0x09});
  }
  return bytes;
}

std::vector<uint8_t> joined(std::vector<uint8_t> first, const std::vector<uint8_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(LobbyBalancer, AGuestIsThePeerThatTheHeaderNames) {
  const std::vector<uint8_t> hello = LobbyHarness::hello_of(Standing::kDevice);
  const std::vector<uint8_t> bytes = joined(proxy_header(9), hello);
  // The header and what follows come together, byte by byte, or cut where the header ends.
  for (const size_t piece : {bytes.size(), size_t{1}, size_t{28}}) {
    LobbyHarness harness(kNoDeadlineMs, balancers());
    ASSERT_TRUE(harness.enter(4, kBalancer));
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      harness.peers[0]->send({bytes.data() + begin, std::min(piece, bytes.size() - begin)});
      harness.io.poll();
    }
    ASSERT_TRUE(run_until(harness.io, [&] { return harness.lobby.first(Standing::kDevice) != nullptr; })) << piece;
    const Guest guest = harness.lobby.take(1);
    EXPECT_EQ(text_of(guest.arrival.peer), "203.0.113.9:8080");
    EXPECT_EQ(guest.arrival.bytes, hello) << "the session sees the peer's own bytes";
  }
}

// Or a fleet behind one balancer would be one address, whose oldest go first.
TEST(LobbyBalancer, WhoSaysNothingCountsByItsOwnAddress) {
  LobbyHarness harness(kNoDeadlineMs, balancers());
  for (const uint8_t last : {1, 2, 2, 3}) {
    ASSERT_TRUE(harness.enter_with(proxy_header(last), 4, kBalancer));
  }
  ASSERT_TRUE(harness.enter(4, kBalancer));
  EXPECT_EQ(harness.turned_away, (TurnedAway{{2, Lobby::Turned::kFull}})) << "203.0.113.2 has two";
}

TEST(LobbyBalancer, ALookAtThePortIsNoFault) {
  LobbyHarness harness(kNoDeadlineMs, balancers());
  ASSERT_TRUE(harness.enter(4, kBalancer));
  harness.peers[0]->close();
  ASSERT_TRUE(run_until(harness.io, [&] { return harness.turned_away.size() == 1; }));
  ASSERT_TRUE(harness.enter(4, kBalancer));
  harness.peers[1]->send(proxy_header(0));
  harness.peers[1]->close();
  ASSERT_TRUE(run_until(harness.io, [&] { return harness.turned_away.size() == 2; }));
  EXPECT_EQ(harness.turned_away, (TurnedAway{{1, Lobby::Turned::kCheck}, {2, Lobby::Turned::kCheck}}));
}

TEST(LobbyBalancer, ItsOwnConnectionMayBeADevices) {
  LobbyHarness harness(kNoDeadlineMs, balancers());
  ASSERT_TRUE(harness.enter(4, kBalancer));
  harness.peers[0]->send(joined(proxy_header(0), LobbyHarness::hello_of(Standing::kDevice)));
  ASSERT_TRUE(run_until(harness.io, [&] { return harness.lobby.first(Standing::kDevice) != nullptr; }));
  EXPECT_EQ(harness.lobby.take(1).arrival.peer.address().to_string(), "127.0.0.7");
}

TEST(LobbyBalancer, ABalancerThatNamesNobodyIsClosed) {
  const std::string text = "PROXY TCP4 203.0.113.9 10.0.0.7 8080 7433\r\n";
  for (const std::vector<uint8_t>& bytes :
       {LobbyHarness::hello_of(Standing::kDevice), std::vector<uint8_t>(text.begin(), text.end())}) {
    LobbyHarness harness(kNoDeadlineMs, balancers());
    ASSERT_TRUE(harness.enter(4, kBalancer));
    harness.peers[0]->send(bytes);
    ASSERT_TRUE(run_until(harness.io, [&] { return !harness.turned_away.empty(); }));
    EXPECT_EQ(harness.turned_away, (TurnedAway{{1, Lobby::Turned::kHeaderless}}));
    EXPECT_TRUE(harness.peers[0]->closed_by_server());
  }
  LobbyHarness harness(kNoDeadlineMs, balancers());
  ASSERT_TRUE(harness.enter(4, kBalancer));
  const std::vector<uint8_t> header = proxy_header(9);
  harness.peers[0]->send({header.data(), 20});
  harness.peers[0]->close();
  ASSERT_TRUE(run_until(harness.io, [&] { return !harness.turned_away.empty(); }));
  EXPECT_EQ(harness.turned_away, (TurnedAway{{1, Lobby::Turned::kHeaderless}})) << "a header that ends too early";
}

// Whoever could name another address would be closed in its place, and stand in the log under its name.
TEST(LobbyBalancer, NobodyElseNamesAnAddress) {
  LobbyHarness harness(kNoDeadlineMs, balancers());
  ASSERT_TRUE(harness.enter(4));
  harness.peers[0]->send(joined(proxy_header(9), LobbyHarness::hello_of(Standing::kDevice)));
  ASSERT_TRUE(run_until(harness.io, [&] { return !harness.turned_away.empty(); }));
  EXPECT_EQ(harness.turned_away, (TurnedAway{{1, Lobby::Turned::kNotBalancer}}));
  ASSERT_TRUE(harness.enter(4));
  harness.peers[1]->send(std::string("\r\n"));
  EXPECT_TRUE(run_until(harness.io, [&] { return harness.lobby.first(Standing::kNobody) != nullptr; }))
      << "two bytes are no header: its session says what they are";
}

TEST(AddressKey, OfIpv6IsANetwork) {
  const auto key = [](const char* text) { return address_key(asio::ip::make_address(text)); };
  EXPECT_EQ(key("::ffff:10.0.0.1"), key("10.0.0.1"));
  EXPECT_EQ(key("2001:db8::1"), key("2001:db8::2"));
  EXPECT_NE(key("2001:db8::1"), key("2001:db8:0:1::1"));
  EXPECT_NE(key("10.0.0.1"), key("10.0.0.2"));
}

}  // namespace
}  // namespace gradstream

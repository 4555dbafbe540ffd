// Who gets in where descriptors or places are short, and what the log says of those who do not.
#include <cerrno>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "server/link/client_hello.h"
#include "server/link/listener.h"
#include "tests/support/server_peer.h"
#include "tests/support/server_support.h"

namespace {

// Of the next calls of accept() in this process: each fails by the first code that is left.
std::mutex accept_faults_mutex;
std::deque<int> accept_faults;

}  // namespace

// In place of the system's, as Linux gives no test a connection that ends in its queue.
extern "C" int accept(int descriptor, sockaddr* address, socklen_t* size) {
  {
    const std::lock_guard guard(accept_faults_mutex);
    if (!accept_faults.empty()) {
      errno = accept_faults.front();
      accept_faults.pop_front();
      return -1;
    }
  }
  return accept4(descriptor, address, size, 0);
}

namespace gradstream {
namespace {

void fail_accepts(std::deque<int> codes) {
  const std::lock_guard guard(accept_faults_mutex);
  accept_faults = std::move(codes);
}

bool have_accepts_failed() {
  const std::lock_guard guard(accept_faults_mutex);
  return accept_faults.empty();
}

using testing::HasSubstr;
using testing::Not;

// Of handshakes that end by it, beside one that must not. That one takes some 10 ms, and a machine with other work lets
// this process stand for hundreds.
constexpr uint32_t kShortHandshakeMs = 1000;

// How many threads of their own the sessions have.
class ListenerAccept : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ListenerAccept, testing::Values(0, 2),
                         [](const auto& parameter) { return "threads_" + std::to_string(parameter.param); });

ServerMessage wait_message() {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  message.body.wait.has_retry = true;
  message.body.wait.retry = {100, 900};
  return message;
}

// Whoever waits in the system's queue has sent its ClientHello there, so the flood before it costs it nothing.
TEST_P(ListenerAccept, AFloodThatSaysNothingDoesNotSetThePaceOfDevices) {
  for (const bool is_one_address : {true, false}) {
    ListenerLimits limits;
    limits.descriptor_count_max = 6;
    ListenerHarness server(limits, false, GetParam());
    std::deque<std::unique_ptr<RawPeer>> flood;
    uint32_t count = 0;
    const auto pour = [&](int peers) {
      for (; peers > 0; --peers) {
        flood.push_back(std::make_unique<RawPeer>(server.listener.port(), 0,
                                                  static_cast<uint8_t>(is_one_address ? 1 : 2 + count++ % 200)));
      }
    };
    pour(400);
    std::vector<std::unique_ptr<TlsPeer>> devices;
    for (int device = 1; device <= 3; ++device) {
      devices.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(device)));
      (void)devices.back()->turn();  // its ClientHello
      pour(20);
      ASSERT_TRUE(server.until([&] {
        if (flood.size() < 600) {
          pour(1);
        }
        return devices.back()->established();
      })) << device;
    }
    EXPECT_EQ(server.counted().arrivals.accept_failures, 0U);
    EXPECT_LE(server.listener.connection_count() + server.listener.lobby_count(), 6U);
    EXPECT_THAT(server.log.find("handshakes_over_cap"), HasSubstr("limit=\"open files\" most=6"));
    EXPECT_THAT(server.log.find("handshakes_over_cap"), Not(HasSubstr("handshake_count_max")));
  }
}

TEST_P(ListenerAccept, TheLimitThatKeepsADeviceOutIsNamedWithWhatRaisesIt) {
  for (const bool is_by_descriptors : {true, false}) {
    ListenerLimits limits;
    limits.session.handshake_deadline_ms = kShortHandshakeMs;
    (is_by_descriptors ? limits.descriptor_count_max : limits.connection_count_max) = 2;
    const int places = static_cast<int>(session_count_max(limits));
    ListenerHarness server(limits, false, GetParam());
    std::vector<std::unique_ptr<TlsPeer>> peers;
    for (int device = 1; device <= places; ++device) {
      peers.push_back(std::make_unique<TlsPeer>(server.listener.port(), ListenerHarness::device(device)));
      ASSERT_TRUE(server.until([&] { return peers.back()->established(); }));
      ASSERT_TRUE(peers.back()->send(hello_message()));  // it is owed an answer
      ASSERT_TRUE(server.until([&] { return server.messages.size() == peers.size(); }));
    }
    TlsPeer late(server.listener.port(), ListenerHarness::device(8));
    ASSERT_TRUE(server.until([&] { return late.gone(); }));
    const std::string line = server.log.find("connections_over_cap");
    if (is_by_descriptors) {
      EXPECT_THAT(line, HasSubstr("limit=\"open files\" most=2"));
      EXPECT_THAT(line, HasSubstr("LimitNOFILE"));
      EXPECT_THAT(line, Not(HasSubstr("connection_count_max")));
    } else {
      EXPECT_THAT(line, HasSubstr("limit=server.limits.connection_count_max most=2"));
    }
  }
}

// The lobby is full of devices that wait, because there are too few sessions, and another one comes.
TEST_P(ListenerAccept, ALobbyThatIsFullForWantOfPlacesNamesThePlaces) {
  ListenerLimits limits;
  limits.descriptor_count_max = 3;
  limits.connection_count_max = 1;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return one.established(); }));
  ASSERT_TRUE(one.send(hello_message()));
  ASSERT_TRUE(server.until([&] { return server.messages.size() == 1; }));
  TlsPeer nobody(server.listener.port(), identity_of("nobody", 1));
  ASSERT_TRUE(server.until([&] { return !nobody.established() && server.waits() == 1; }));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  TlsPeer three(server.listener.port(), ListenerHarness::device(3));
  ASSERT_TRUE(server.until([&] { return !two.established() && !three.established() && nobody.gone(); }));
  EXPECT_THAT(server.log.find("connections_over_cap"), HasSubstr("raise server.limits.connection_count_max"));
  EXPECT_EQ(server.log.count("handshakes_over_cap"), 0U);
}

// An identity that nobody has waits behind every device, however early it came.
TEST_P(ListenerAccept, ADeviceComesBeforeANameThatIsUnknown) {
  ListenerLimits limits;
  limits.connection_count_max = 1;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return one.established(); }));
  ASSERT_TRUE(one.send(hello_message()));
  ASSERT_TRUE(server.until([&] { return server.messages.size() == 1; }));
  TlsPeer nobody(server.listener.port(), identity_of("nobody", 1));
  ASSERT_TRUE(server.until([&] { return !nobody.established() && server.waits() == 1; }));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return !two.established() && server.waits() == 2; }));
  one.raw().close();
  ASSERT_TRUE(server.until([&] { return two.established(); }));
  EXPECT_FALSE(nobody.gone());
}

// A handshake that takes longer than what the lobby has left of the guest's time.
TEST_P(ListenerAccept, WhoWaitedInTheLobbyHasTheWholeTimeOfAHandshake) {
  constexpr uint32_t kDeadlineMs = 2500;
  constexpr uint64_t kPartMs = 1500;  // of which two are more than the deadline; a busy machine has the rest
  ListenerLimits limits;
  limits.connection_count_max = 1;
  limits.session.handshake_deadline_ms = kDeadlineMs;
  ListenerHarness server(limits, false, GetParam());
  TlsPeer one(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return one.established() && !server.established.empty(); }));
  ASSERT_TRUE(one.send(hello_message()));
  TlsPeer two(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return !two.established() && server.waits() == 1; }));
  const uint64_t came_ms = steady_ms();
  ASSERT_TRUE(server.until([&] { return steady_ms() > came_ms + kPartMs; }));
  one.raw().close();
  ASSERT_TRUE(server.until([&] { return server.listener.handshake_count() == 1; }));
  const uint64_t begun_ms = steady_ms();
  ASSERT_TRUE(server.until([&] { return steady_ms() > begun_ms + kPartMs; })) << "the peer is slow, and says nothing";
  EXPECT_EQ(server.counted().deadlines.handshake, 0U);
  EXPECT_TRUE(server.until([&] { return two.established(); }));
  EXPECT_EQ(server.counted().deadlines.handshake, 0U);
}

// A device that was told to wait while its update had begun to come is not one that rests, whatever it was told.
TEST_P(ListenerAccept, ADeviceThatUploadsKeepsItsPlaceUntilItsAckAndIsToldOnce) {
  ListenerLimits limits;
  limits.connection_count_max = 2;
  ListenerHarness server(limits, false, GetParam());
  std::vector<SessionId> sessions;
  server.answer = [&](SessionId session) {
    sessions.push_back(session);
    server.listener.send(session, wait_message());
    server.listener.flush();
  };
  TlsPeer uploader(server.listener.port(), ListenerHarness::device(1));
  ASSERT_TRUE(server.until([&] { return uploader.established(); }));
  ASSERT_TRUE(uploader.send(hello_message()));
  ASSERT_TRUE(server.until([&] { return uploader.next().has_value(); }));
  TestUpload upload;
  upload.task_sequence = 1;
  upload.kind = StreamKind::kTangentBlock;
  upload.values.assign(4 * values_per_message(upload.encoding), 0.5F);
  const std::vector<DeviceMessage> pieces = upload_messages(upload);
  ASSERT_TRUE(uploader.send(pieces[0]));
  ASSERT_TRUE(server.until([&] { return uploader.next().has_value(); })) << "a Wait in the middle of its update";
  TlsPeer resting(server.listener.port(), ListenerHarness::device(2));
  ASSERT_TRUE(server.until([&] { return resting.established(); }));
  ASSERT_TRUE(resting.send(hello_message()));
  ASSERT_TRUE(server.until([&] { return resting.next().has_value(); }));
  TlsPeer third(server.listener.port(), ListenerHarness::device(3));
  ASSERT_TRUE(server.until([&] { return !third.established() && resting.gone(); })) << "the next one that rests";
  resting.raw().close();
  EXPECT_TRUE(server.until([&] { return third.established(); }));
  EXPECT_EQ(server.log.count("place_kept"), 1U);
  EXPECT_THAT(server.log.find("place_kept"), HasSubstr("session_idle_max_ms"));
  EXPECT_FALSE(uploader.gone());
  ServerMessage ack = {};
  ack.which_body = gs_ServerMessage_ack_tag;
  ack.body.ack.has_retry = true;
  ack.body.ack.retry = {100, 900};
  server.listener.send(sessions[0], ack);
  server.listener.flush();
  EXPECT_TRUE(server.until([&] { return uploader.gone(); })) << "it gives its place after the Ack";
}

// Asio's accept() waits in poll() after such an error, with all that the loop has to do behind it.
TEST_P(ListenerAccept, AConnectionThatEndsInTheQueueIsPassedOver) {
  for (const bool is_in_turn : {false, true}) {  // by accept_waiting()
    ListenerLimits limits;
    limits.descriptor_count_max = 2;
    limits.session.handshake_deadline_ms = kShortHandshakeMs;
    ListenerHarness server(limits, false, GetParam());
    std::deque<std::unique_ptr<RawPeer>> silent;
    for (int i = 0; is_in_turn && i < 2; ++i) {
      silent.push_back(std::make_unique<RawPeer>(server.listener.port(), 0, uint8_t{1}));
    }
    ASSERT_TRUE(server.until([&] { return server.listener.lobby_count() == silent.size(); }));
    fail_accepts({ECONNABORTED, EPROTO, ECONNABORTED});
    TlsPeer device(server.listener.port(), ListenerHarness::device(1));
    ASSERT_TRUE(server.until([&] { return device.established(); }));
    ASSERT_TRUE(server.until(have_accepts_failed));
    EXPECT_EQ(server.counted().arrivals.accept_failures, 0U);
    EXPECT_EQ(server.log.count("accept_failed"), 0U);
  }
}

// The timer of a pause was due when the drain began: its callback comes after the acceptor was closed.
TEST_P(ListenerAccept, ADrainEndsThePauseWhoseTimerIsDue) {
  ListenerLimits limits;
  limits.descriptor_count_max = 1;
  ListenerHarness server(limits, false, GetParam());
  const RawPeer silent(server.listener.port(), 0, uint8_t{1});
  ASSERT_TRUE(server.until([&] { return server.listener.lobby_count() == 1; }));
  const uint64_t paused_ms = steady_ms();
  asio::post(server.io, [&] {
    while (steady_ms() < paused_ms + 200) {  // kAcceptRetry is over, and nobody has looked at the timer
    }
    asio::post(server.io, [&] { server.listener.drain({100, 900}); });
  });
  ASSERT_TRUE(server.until([&] { return server.listener.port() == 0; }));
  const uint64_t drained_ms = steady_ms();
  ASSERT_TRUE(server.until([&] { return steady_ms() > drained_ms + 150; }));
  EXPECT_EQ(server.counted().arrivals.accept_failures, 0U);
  EXPECT_EQ(server.log.count("accept_failed"), 0U);
}

}  // namespace
}  // namespace gradstream

// Threads with sessions, seen from the thread that owns them.
#include "server/link/io_thread.h"

#include <atomic>
#include <memory>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/base/ports.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

// One thread with sessions, whose reports pile up as long as the test does not turn its own loop.
class Home {
 public:
  explicit Home(PskLookup lookup = ListenerHarness::find)
      : thread(io, std::move(lookup), TlsPolicy(), nullptr, SessionLimits(), fault_lines_,
               [this](std::vector<SessionReport>& reports) { take(reports); }) {
    EXPECT_EQ(thread.start(), Status::kOk);
  }
  std::unique_ptr<TlsPeer> begin(SessionId id, int device) {
    auto peer = std::make_unique<TlsPeer>(acceptor_.local_endpoint().port(), ListenerHarness::device(device));
    thread.begin(id, acceptor_.accept(), {}, std::make_shared<QueueGauge>(0));
    thread.deliver(frames);
    return peer;
  }
  // A session whose descriptor the kernel watches for nobody. It stays open: another file must not get its number.
  void begin_unwatchable(SessionId id) {
    const RawPeer peer(acceptor_.local_endpoint().port());
    Tcp::socket socket = acceptor_.accept();
    const int folder = ::open("/", O_PATH | O_CLOEXEC);
    ASSERT_GE(folder, 0);
    ASSERT_EQ(::dup2(folder, socket.native_handle()), socket.native_handle());
    ::close(folder);
    thread.begin(id, std::move(socket), {}, std::make_shared<QueueGauge>(0));
    thread.deliver(frames);
  }
  bool until(const std::function<bool()>& condition) { return run_until(io, condition); }

  asio::io_context io;
  LogCapture log;
  std::vector<SessionReport::Kind> kinds;
  size_t batch_size = 0;  // the largest

 private:
  void take(const std::vector<SessionReport>& reports) {
    batch_size = std::max(batch_size, reports.size());
    for (const SessionReport& report : reports) {
      kinds.push_back(report.kind);
    }
  }
  Tcp::acceptor acceptor_{io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  FaultLines fault_lines_;

 public:
  FramePool frames;
  IoThread thread;  // last: its end reports to the above
};

// Without home's loop: what the thread does by itself.
bool alone_until(const std::function<bool()>& condition) {
  asio::io_context idle;
  return run_until(idle, condition);
}

TEST(IoThread, AFloodWaitsForHomeAndNothingIsLost) {
  constexpr size_t kMessages = 3 * kReportCountMax;
  Home home;
  const auto peer = home.begin(1, 1);
  ASSERT_TRUE(alone_until([&] { return peer->established(); }));
  size_t sent = 0;
  const auto send = [&] {
    while (sent < kMessages && peer->send(hello_message())) {
      ++sent;
    }
    return home.thread.counters().traffic.frames_received >= kReportCountMax;
  };
  ASSERT_TRUE(alone_until(send)) << "as many as the box holds without home";
  ASSERT_TRUE(home.until([&] {
    send();
    return home.kinds.size() == kMessages + 1;
  }));
  EXPECT_LE(home.batch_size, kReportCountMax);
  EXPECT_EQ(home.kinds.front(), SessionReport::Kind::kEstablished);
  EXPECT_EQ(home.kinds.back(), SessionReport::Kind::kMessage);
}

TEST(IoThread, OneThatHangsIsSeen) {
  std::atomic<bool> is_inside = false;
  std::atomic<bool> may_go = false;
  Home home([&](std::string_view identity, PskEntry* out) {
    is_inside = true;
    while (!may_go) {
      std::this_thread::yield();
    }
    return ListenerHarness::find(identity, out);
  });
  const auto peer = home.begin(1, 1);
  ASSERT_TRUE(alone_until([&] {
    (void)peer->turn();
    return is_inside.load();
  }));
  const uint64_t before = home.thread.beaten_ms();
  const uint64_t begin = steady_ms();
  ASSERT_TRUE(alone_until([&] {
    home.thread.beat();
    return steady_ms() > begin + 1;
  }));
  EXPECT_EQ(home.thread.beaten_ms(), before);
  may_go = true;
  EXPECT_TRUE(alone_until([&] { return home.thread.beaten_ms() > before; })) << "what was asked for is done";
  EXPECT_TRUE(home.until([&] { return peer->established(); }));
}

TEST(IoThread, ASocketThatItCannotTakeIsReportedAsEnded) {
  Home home;
  home.begin_unwatchable(1);
  ASSERT_TRUE(home.until([&] { return home.kinds.size() == 1; }));
  EXPECT_EQ(home.kinds.back(), SessionReport::Kind::kEnded);
}

TEST(IoThread, ItsEndReportsTheEndOfItsSessions) {
  Home home;
  const auto one = home.begin(1, 1);
  ASSERT_TRUE(home.until([&] { return one->established() && home.kinds.size() == 1; }));
  const auto two = home.begin(2, 2);
  home.thread.stop();
  EXPECT_EQ(home.kinds.size(), 1U) << "on home's thread alone";
  home.io.restart();
  home.io.poll();
  EXPECT_EQ(home.kinds.size(), 3U);
  EXPECT_EQ(home.kinds.back(), SessionReport::Kind::kEnded);
  EXPECT_TRUE(one->gone() && two->gone());
}

}  // namespace
}  // namespace gradstream

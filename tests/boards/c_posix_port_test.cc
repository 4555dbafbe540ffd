// The port for Linux of one of several devices, as C functions: its address, its connection, its state file, its sleep.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/gradstream/port.h"
#include "include/gradstream/posix.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;

// Of 127.0.0.1, at a port that the system chose.
class Listener {
 public:
  Listener() : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(file_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(file_, 4), 0);
    EXPECT_EQ(::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    server = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::close(file_); }
  int accept() const { return ::accept(file_, nullptr, nullptr); }

  std::string server;

 private:
  int file_;
};

// Sleeps for a minute at most, and until a link of two has news. A sleep that misses the news ends by its time alone.
void sleep_until_news(const gs_posix_port* posix) {
  const uint64_t before_ms = port_now_ms();
  gs_posix_sleep_until_any(posix, 2, before_ms + 60000);
  EXPECT_LT(port_now_ms(), before_ms + 60000) << "the sleep missed the news";
}

// Until it is open or refused; a connection to this machine takes one wait.
int32_t open_link(const gs_port& port, const gs_posix_port& posix) {
  int32_t answer = GS_PORT_WOULD_BLOCK;
  for (int i = 0; i < 100 && answer == GS_PORT_WOULD_BLOCK; ++i) {
    answer = port.link_open(port.context);
    if (answer == GS_PORT_WOULD_BLOCK) gs_posix_sleep_until_any(&posix, 1, port_now_ms() + 1000);
  }
  return answer;
}

TEST(CPosixPort, RefusesWhatIsNoAddressOrPath) {
  gs_posix_port posix = {};
  gs_port port = {};
  for (const char* const address : {"", "kitchen", "kitchen:", ":7433", "kitchen:70000", "a b:7433"}) {
    EXPECT_FALSE(gs_posix_port_init(&posix, address, nullptr, &port)) << address;
  }
  EXPECT_FALSE(gs_posix_port_init(&posix, nullptr, nullptr, &port));
  EXPECT_FALSE(gs_posix_port_init(nullptr, "kitchen:7433", nullptr, &port));
  EXPECT_FALSE(gs_posix_port_init(&posix, "kitchen:7433", nullptr, nullptr));
  EXPECT_FALSE(gs_posix_port_init(&posix, "kitchen:7433", std::string(4001, 'a').c_str(), &port));
  EXPECT_EQ(port.size, 0u) << "nothing is written";
  ASSERT_TRUE(gs_posix_port_init(&posix, "[fe80::1%eth0]:7433", nullptr, &port));
  EXPECT_STREQ(port.peer, "[fe80::1%eth0]:7433");
  EXPECT_EQ(port.size, sizeof port);
  EXPECT_TRUE(port.link_can_dial);
  EXPECT_EQ(port.storage_write, nullptr) << "no state is kept";
}

TEST(CPosixPort, TwoHaveAConnectionEachAndOneSleepLooksAtBoth) {
  const Listener listener;
  gs_posix_port posix[2] = {};
  gs_port port[2] = {};
  int peers[2] = {-1, -1};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(gs_posix_port_init(&posix[i], listener.server.c_str(), nullptr, &port[i]));
    ASSERT_EQ(open_link(port[i], posix[i]), 1);
    peers[i] = listener.accept();
  }
  uint8_t bytes[4] = {};
  EXPECT_EQ(port[0].link_read(port[0].context, bytes, sizeof bytes), GS_PORT_WOULD_BLOCK);
  ASSERT_EQ(::write(peers[1], "abc", 3), 3);
  sleep_until_news(posix);
  EXPECT_EQ(port[0].link_read(port[0].context, bytes, sizeof bytes), GS_PORT_WOULD_BLOCK);
  EXPECT_EQ(port[1].link_read(port[1].context, bytes, sizeof bytes), 3);
  EXPECT_EQ(bytes[2], 'c');
  EXPECT_EQ(port[0].link_write(port[0].context, bytes, 2), 2);
  EXPECT_EQ(::read(peers[0], bytes, sizeof bytes), 2);
  port[0].link_close(port[0].context);
  EXPECT_EQ(port[0].link_read(port[0].context, bytes, sizeof bytes), GS_PORT_CLOSED);
  ::close(peers[1]);
  sleep_until_news(posix);
  EXPECT_EQ(port[1].link_read(port[1].context, bytes, sizeof bytes), GS_PORT_CLOSED);
  port[1].link_close(port[1].context);
  ::close(peers[0]);
}

TEST(CPosixPort, SaysWhyALinkDoesNotOpen) {
  std::string closed;
  {
    const Listener listener;
    closed = listener.server;
  }
  gs_posix_port posix = {};
  gs_port port = {};
  ASSERT_TRUE(gs_posix_port_init(&posix, closed.c_str(), nullptr, &port));
  EXPECT_EQ(open_link(port, posix), GS_PORT_CLOSED);
  port.link_close(port.context);
}

TEST(CPosixPort, EachKeepsAFileOfItsOwn) {
  std::string pattern = (fs::temp_directory_path() / "c_posix_port_XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  const std::string paths[2] = {(folder / "a.state").string(), (folder / "b.state").string()};
  gs_posix_port posix[2] = {};
  gs_port port[2] = {};
  const uint8_t text[] = {'a', 'b', 'c'};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(gs_posix_port_init(&posix[i], "kitchen:7433", paths[i].c_str(), &port[i]));
    EXPECT_EQ(port[i].storage_read(port[i].context, nullptr, 0), 0) << "nothing is stored";
    const gs_port_piece pieces[2] = {{text, sizeof text}, {text, i}};
    EXPECT_EQ(port[i].storage_write(port[i].context, pieces, 2), 1);
  }
  uint8_t out[2] = {};
  EXPECT_EQ(port[0].storage_read(port[0].context, out, sizeof out), 3);
  EXPECT_EQ(out[1], 'b');
  EXPECT_EQ(port[1].storage_read(port[1].context, out, sizeof out), 4);
  fs::remove_all(folder);
  const gs_port_piece piece = {text, sizeof text};
  EXPECT_EQ(port[0].storage_write(port[0].context, &piece, 1), GS_PORT_FAILED) << "the folder is gone";
}

}  // namespace
}  // namespace gradstream

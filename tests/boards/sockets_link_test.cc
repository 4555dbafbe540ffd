// How long the link of boards/sockets waits, over a connect() and a poll() that this file plays.
#include <climits>
#include <cstdint>

#include <gtest/gtest.h>

#include "boards/sockets/sockets.h"
#include "include/gradstream/port.h"
#include "tests/boards/played_sockets.h"

namespace {

int waited_ms;

}  // namespace

int played_connect(int, const struct sockaddr*, socklen_t) { return 0; }

int played_poll(struct pollfd*, nfds_t, int timeout_ms) {
  waited_ms = timeout_ms;
  return 0;
}

namespace gradstream {
namespace {

TEST(SocketsLink, NeverWaitsForEver) {
  EXPECT_FALSE(gs_sockets_wait(1000)) << "there is no connection yet";
  ASSERT_TRUE(gs_sockets_set_server("127.0.0.1", 7433));
  EXPECT_EQ(gs_port_link_open(), GS_PORT_WOULD_BLOCK);
  for (const uint32_t timeout_ms : {0U, 1000U, static_cast<uint32_t>(INT_MAX)}) {
    EXPECT_TRUE(gs_sockets_wait(timeout_ms));
    EXPECT_EQ(waited_ms, static_cast<int>(timeout_ms));
  }
  for (const uint32_t timeout_ms : {static_cast<uint32_t>(INT_MAX) + 1, UINT32_MAX}) {
    EXPECT_TRUE(gs_sockets_wait(timeout_ms));
    EXPECT_EQ(waited_ms, INT_MAX) << timeout_ms;
  }
  gs_port_link_close();
  EXPECT_FALSE(gs_sockets_wait(1000));
}

}  // namespace
}  // namespace gradstream

// The port of one of several devices: while one is at work its functions answer, and else those of the process.
#include "boards/device_port.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "include/gradstream/port.h"
#include "runtime/link/port.h"

extern "C" {
uint64_t gs_port_now_ms(void) { return 1; }
bool gs_port_random(uint8_t*, size_t) { return false; }
int32_t gs_port_link_read(uint8_t*, size_t) { return 1; }
int32_t gs_port_link_write(const uint8_t*, size_t) { return 1; }
}

namespace gradstream {
namespace {

struct Platform {
  int32_t answer = 0;
  uint32_t step = 0;
  uint32_t closed = 0;
  std::vector<uint8_t> stored;
  std::string line;
};

Platform& of(void* context) { return *static_cast<Platform*>(context); }

int32_t store(void* context, const gs_port_piece* pieces, size_t count) {
  std::for_each(pieces, pieces + count, [&](const gs_port_piece& piece) {
    of(context).stored.insert(of(context).stored.end(), piece.bytes, piece.bytes + piece.size);
  });
  return of(context).answer;
}

gs_port whole_port(Platform* platform) {
  gs_port port = {};
  port.size = sizeof port;
  port.context = platform;
  port.peer = "server.test:7433";
  port.link_can_dial = true;
  port.link_open = [](void* context) { return of(context).answer; };
  port.link_read = [](void* context, uint8_t*, size_t) { return of(context).answer; };
  port.link_write = [](void* context, const uint8_t*, size_t) { return of(context).answer; };
  port.link_close = [](void* context) { ++of(context).closed; };
  port.storage_write = store;
  port.storage_read = [](void* context, uint8_t*, size_t) { return of(context).answer; };
  port.step_write = [](void* context, uint32_t index, const gs_port_piece* pieces, size_t count) {
    of(context).step = index;
    return store(context, pieces, count);
  };
  port.step_read = [](void* context, uint32_t index, uint8_t*, size_t) {
    of(context).step = index;
    return of(context).answer;
  };
  port.log = [](void* context, const char* line) { of(context).line = line; };
  return port;
}

class DevicePort : public testing::Test {
 protected:
  ~DevicePort() override { (void)port_use(nullptr); }

  Platform platform_;
  gs_port port_ = whole_port(&platform_);
  std::array<uint8_t, 3> bytes_ = {1, 2, 3};
  StoragePiece piece_ = {bytes_.data(), bytes_.size()};
};

TEST_F(DevicePort, SaysWhichWasThereBefore) {
  const gs_port other = {};
  EXPECT_EQ(port_use(&port_), nullptr);
  EXPECT_EQ(port_use(&other), &port_);
  EXPECT_EQ(port_use(nullptr), &other);
}

TEST_F(DevicePort, ReadsAnswersOfTheLink) {
  (void)port_use(&port_);
  const Transport link = port_transport();
  (void)port_use(nullptr);  // a session of another device may be at work between two calls
  EXPECT_STREQ(link.peer, "server.test:7433");
  EXPECT_TRUE(link.ops->can_dial);
  using Row = std::pair<int32_t, Status>;
  for (const auto& [answer, status] :
       {Row{1, Status::kOk}, Row{0, Status::kWouldBlock}, Row{GS_PORT_CLOSED, Status::kClosed},
        Row{GS_PORT_NO_ANSWER, Status::kDeadlineExceeded}, Row{GS_PORT_NO_ADDRESS, Status::kInvalidArgument},
        Row{-77, Status::kClosed}}) {
    platform_.answer = answer;
    EXPECT_EQ(link.ops->open(link.context), status) << answer;
  }
  for (const auto& [answer, status] : {Row{0, Status::kWouldBlock}, Row{GS_PORT_NO_ADDRESS, Status::kClosed}}) {
    platform_.answer = answer;
    EXPECT_EQ(link.ops->read(link.context, bytes_.data(), 3).status(), status) << answer;
    EXPECT_EQ(link.ops->write(link.context, bytes_.data(), 3).status(), status) << answer;
  }
  platform_.answer = 2;
  EXPECT_EQ(link.ops->read(link.context, bytes_.data(), 3).value(), 2u);
  EXPECT_EQ(link.ops->write(link.context, bytes_.data(), 3).value(), 2u);
  platform_.answer = 4;
  EXPECT_DEATH((void)link.ops->read(link.context, bytes_.data(), 3), "") << "more than was asked for";
  link.ops->close(link.context);
  EXPECT_EQ(platform_.closed, 1u);
}

TEST_F(DevicePort, HandsOnStorageStepsAndLines) {
  (void)port_use(&port_);
  platform_.answer = 1;
  EXPECT_EQ(port_storage_write(&piece_, 1), Status::kOk);
  EXPECT_EQ(platform_.stored, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(port_step_write(7, &piece_, 1), Status::kOk);
  EXPECT_EQ(platform_.step, 7u);
  platform_.answer = 5;
  EXPECT_EQ(port_storage_read(bytes_.data(), 3).value(), 5u);
  EXPECT_EQ(port_step_read(9, bytes_.data(), 3).value(), 5u);
  EXPECT_EQ(platform_.step, 9u);
  platform_.answer = GS_PORT_FAILED;
  EXPECT_EQ(port_storage_write(&piece_, 1), Status::kDataCorrupt);
  EXPECT_EQ(port_storage_read(bytes_.data(), 3).status(), Status::kDataCorrupt);
  port_log_line("event=x");
  EXPECT_EQ(platform_.line, "event=x");
}

TEST_F(DevicePort, WhatIsNullHasItsDefault) {
  port_.link_can_dial = false;
  port_.link_open = nullptr;
  port_.link_close = nullptr;
  port_.storage_write = nullptr;
  port_.storage_read = nullptr;
  port_.step_write = nullptr;
  port_.step_read = nullptr;
  port_.log = nullptr;
  (void)port_use(&port_);
  const Transport link = port_transport();
  EXPECT_FALSE(link.ops->can_dial);
  EXPECT_EQ(link.ops->open(link.context), Status::kOk);
  link.ops->close(link.context);
  EXPECT_EQ(port_storage_write(&piece_, 1), Status::kUnimplemented);
  EXPECT_EQ(port_storage_read(bytes_.data(), 3).status(), Status::kUnimplemented);
  EXPECT_EQ(port_step_write(0, &piece_, 1), Status::kUnimplemented);
  EXPECT_EQ(port_step_read(0, bytes_.data(), 3).status(), Status::kUnimplemented);
  EXPECT_FALSE(device_log_line("event=x"));
  EXPECT_EQ(platform_.line, "");
}

TEST_F(DevicePort, WithoutADeviceTheProcessAnswers) {
  platform_.answer = 1;
  const Transport link = port_transport();
  EXPECT_EQ(link.peer, nullptr);
  EXPECT_EQ(port_storage_write(&piece_, 1), Status::kUnimplemented);
  EXPECT_FALSE(device_log_line("event=x"));
  EXPECT_TRUE(platform_.stored.empty());
}

}  // namespace
}  // namespace gradstream

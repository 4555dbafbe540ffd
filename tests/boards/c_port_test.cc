// The port of applications in C: what this file defines is used, and what it leaves out has its default.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "include/gradstream/port.h"
#include "runtime/link/port.h"

namespace {

struct Platform {
  int32_t link_answer = GS_PORT_WOULD_BLOCK;
  int32_t storage_answer = GS_PORT_FAILED;
  int32_t write_answer = 1;
  bool has_random = true;
  std::vector<uint8_t> stored;
} platform;

}  // namespace

extern "C" {

uint64_t gs_port_now_ms(void) { return 12345678901; }

bool gs_port_random(uint8_t* out, size_t size) {
  std::fill_n(out, size, uint8_t{7});
  return platform.has_random;
}

int32_t gs_port_link_read(uint8_t*, size_t) { return platform.link_answer; }
int32_t gs_port_link_write(const uint8_t*, size_t) { return platform.link_answer; }

int32_t gs_port_storage_write(const gs_port_piece* pieces, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    platform.stored.insert(platform.stored.end(), pieces[i].bytes, pieces[i].bytes + pieces[i].size);
  }
  return platform.write_answer;
}

int32_t gs_port_storage_read(uint8_t*, size_t) { return platform.storage_answer; }

}  // extern "C"

namespace gradstream {
namespace {

TEST(CPort, HandsOnWhatTheApplicationDefines) {
  platform = {};
  EXPECT_EQ(port_now_ms(), 12345678901u);
  std::array<uint8_t, 3> bytes = {};
  EXPECT_EQ(port_random_bytes(bytes.data(), bytes.size()), Status::kOk);
  EXPECT_EQ(bytes[2], 7);
  platform.has_random = false;
  EXPECT_EQ(port_random_bytes(bytes.data(), bytes.size()), Status::kClosed);

  const std::array<uint8_t, 3> more = {1, 2, 3};
  const std::array<StoragePiece, 2> pieces = {StoragePiece{more.data(), 3}, StoragePiece{more.data(), 1}};
  EXPECT_EQ(port_storage_write(pieces.data(), pieces.size()), Status::kOk);
  EXPECT_EQ(platform.stored, (std::vector<uint8_t>{1, 2, 3, 1}));
  using Row = std::pair<int32_t, Status>;
  for (const auto& [answer, status] : {Row{0, Status::kDataCorrupt}, Row{GS_PORT_FAILED, Status::kDataCorrupt},
                                       Row{GS_PORT_ABSENT, Status::kUnimplemented}}) {
    platform.write_answer = answer;
    EXPECT_EQ(port_storage_write(pieces.data(), pieces.size()), status) << answer;
  }
  EXPECT_EQ(port_storage_read(bytes.data(), 3).status(), Status::kDataCorrupt);
  platform.storage_answer = 0;
  EXPECT_EQ(port_storage_read(bytes.data(), 3).value(), 0u);
  platform.storage_answer = 9;
  EXPECT_EQ(port_storage_read(bytes.data(), 3).value(), 9u);
}

TEST(CPort, ReadsAnswersOfTheLink) {
  platform = {};
  std::array<uint8_t, 3> bytes = {};
  const Transport link = port_transport();
  EXPECT_EQ(link.ops->read(link.context, bytes.data(), 3).status(), Status::kWouldBlock);
  platform.link_answer = GS_PORT_CLOSED;
  EXPECT_EQ(link.ops->read(link.context, bytes.data(), 3).status(), Status::kClosed);
  EXPECT_EQ(link.ops->write(link.context, bytes.data(), 3).status(), Status::kClosed);
  platform.link_answer = 3;
  EXPECT_EQ(link.ops->write(link.context, bytes.data(), 3).value(), 3u);
  EXPECT_DEATH(std::ignore = link.ops->read(link.context, bytes.data(), 2), "port.cc");
}

TEST(CPort, HasDefaultsForTheRest) {
  const Transport link = port_transport();
  EXPECT_FALSE(link.ops->can_dial);
  EXPECT_EQ(link.ops->open(link.context), Status::kOk);
  link.ops->close(link.context);
  EXPECT_EQ(port_step_write(0, nullptr, 0), Status::kUnimplemented);
  EXPECT_EQ(port_step_read(0, nullptr, 0).status(), Status::kUnimplemented);
  port_log_line("event=nobody_listens");
}

}  // namespace
}  // namespace gradstream

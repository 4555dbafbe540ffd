#include "server/rules/payload_reader.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(PayloadReader, ReadsWhatWasWrittenAndNoByteBeyond) {
  std::vector<uint8_t> bytes;
  put_u32(0x01020304, &bytes);
  bytes.push_back(7);
  PayloadReader reader{bytes};
  EXPECT_EQ(reader.take_u32(), 0x01020304U);
  EXPECT_EQ(reader.take_u8(), 7);
  EXPECT_TRUE(reader.ok && reader.rest.empty());
  EXPECT_EQ(reader.take_u8(), 0);
  EXPECT_FALSE(reader.ok);
  reader = {bytes};
  EXPECT_TRUE(reader.take(6).empty());
  EXPECT_FALSE(reader.ok);
  EXPECT_EQ(u32_of(std::span(bytes).first(2)), 0x0304U);
}

}  // namespace
}  // namespace gradstream

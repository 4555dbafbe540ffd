// A stall's cause in the journal.
#include "server/coordinator/stall.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Stall, AnyCauseGoesThroughTheJournal) {
  const StallCause cause = {"out_of_range", "2 of 2 devices (a,b) are refused", "lower fold_scale_log2"};
  EXPECT_EQ(decode_stall(encode_stall(cause)), cause);
  EXPECT_TRUE(encode_stall({}).empty());
}

TEST(Stall, AnotherPayloadIsNoCause) {
  for (const std::string text : {"", "one line", "two\nlines", "\nempty\nword", "a\nb\nc\nd"}) {
    const std::vector<uint8_t> payload(text.begin(), text.end());
    EXPECT_TRUE(decode_stall(payload).empty()) << text;
  }
}

TEST(Stall, NumbersHaveSixDigits) {
  EXPECT_EQ(number_text(127345.6), "127346");
  EXPECT_EQ(number_text(0.05), "0.05");
}

}  // namespace
}  // namespace gradstream

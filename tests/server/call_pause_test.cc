// The pause before a call is made again.
#include "server/engine/call_pause.h"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(CallPause, DoublesToItsLongest) {
  CallPause pause;
  uint64_t expected = kCallPauseFirstMs;
  for (int call = 0; call < 10; ++call) {
    EXPECT_EQ(pause.take(), expected) << call;
    expected = std::min(2 * expected, kCallPauseLastMs);
  }
  EXPECT_EQ(pause.take(), kCallPauseLastMs);
}

TEST(CallPause, BeginsAnewBehindAnAnswer) {
  CallPause pause;
  pause.take();
  pause.take();
  pause.reset();
  EXPECT_EQ(pause.take(), kCallPauseFirstMs);
}

TEST(CallPause, IsOverOnce) {
  CallPause pause;
  EXPECT_EQ(pause.due_ms(), UINT64_MAX);
  EXPECT_FALSE(pause.end(1)) << "none has begun";
  pause.begin(1000);
  EXPECT_EQ(pause.due_ms(), 1000 + kCallPauseFirstMs);
  EXPECT_FALSE(pause.end(pause.due_ms() - 1));
  EXPECT_TRUE(pause.end(pause.due_ms()));
  EXPECT_FALSE(pause.end(UINT64_MAX - 1)) << "it is over";
}

}  // namespace
}  // namespace gradstream

// What a session knows of a message that it is to send. How frames wait and leave: session_pool_test.cc.
#include "server/link/out_frame.h"

#include <gtest/gtest.h>

#include "runtime/wire/frame.h"
#include "server/link/session.h"

namespace gradstream {
namespace {

TEST(OutFrame, AWaitIsARestAndAnAckIsOneWithoutHold) {
  FramePool pool;
  QueueGauge gauge = 0;
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  message.body.wait.has_retry = true;
  message.body.wait.retry = {100, 900};
  OutFrame wait;
  ASSERT_EQ(make_frame(message, SessionLimits(), &gauge, pool, &wait), Status::kOk);
  EXPECT_TRUE(wait.is_rest);
  EXPECT_FALSE(wait.is_ack || wait.is_aside);
  EXPECT_EQ(wait.patience_ms, SessionLimits().answer_deadline_ms + 900U);
  for (const bool hold : {false, true}) {
    message = {};
    message.which_body = gs_ServerMessage_ack_tag;
    message.body.ack.hold = hold;
    OutFrame ack;
    ASSERT_EQ(make_frame(message, SessionLimits(), &gauge, pool, &ack), Status::kOk);
    EXPECT_TRUE(ack.is_ack);
    EXPECT_EQ(ack.is_rest, !hold);
  }
}

TEST(OutFrame, AKeyChangeStandsAsideAndCountsAsAllDo) {
  FramePool pool;
  QueueGauge gauge = 0;
  KeyChange change;
  change.generation = 1;
  OutFrame frame;
  ASSERT_EQ(make_key_frame(change, SessionLimits(), &gauge, pool, &frame), Status::kOk);
  EXPECT_TRUE(frame.is_aside);
  EXPECT_FALSE(frame.is_rest || frame.is_ack);
  EXPECT_EQ(gauge, cost_of(frame.frame.front()));
  KeyChange arrived;
  const std::vector<uint8_t>& bytes = frame.frame.front();
  EXPECT_EQ(decode_key_change_of_server({bytes.data() + kFramePrefixSize, bytes.size() - kFramePrefixSize}, &arrived),
            Status::kOk);
  SessionLimits small;
  small.queue_size_max = static_cast<uint32_t>(gauge);
  OutFrame more;
  EXPECT_EQ(make_key_frame(change, small, &gauge, pool, &more), Status::kOutOfMemory);
  change.generation = 0;
  EXPECT_EQ(make_key_frame(change, SessionLimits(), &gauge, pool, &more), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream

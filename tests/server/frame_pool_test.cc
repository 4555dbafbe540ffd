// Frames keep their memory from one peer to the next.
#include "server/link/frame_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::ElementsAre;

TEST(FramePool, AFrameGetsTheMemoryOfTheOneThatCameBackLast) {
  FramePool pool;
  const uint8_t longer[] = {1, 2, 3, 4};
  const uint8_t shorter[] = {5, 6};
  FrameList queue = pool.make(longer);
  queue.splice(queue.end(), pool.make(shorter));
  const uint8_t* const memory = queue.front().data();
  pool.take_back(queue);
  EXPECT_EQ(pool.spare_count(), 1U);
  ASSERT_EQ(queue.size(), 1U);
  EXPECT_THAT(queue.front(), ElementsAre(5, 6));
  const FrameList again = pool.make(shorter);
  EXPECT_EQ(pool.spare_count(), 0U);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_THAT(again.front(), ElementsAre(5, 6));
  EXPECT_EQ(again.front().data(), memory);
}

TEST(FramePool, AnotherPoolGetsWhatIsSpare) {
  FramePool home;
  FramePool away;
  const uint8_t bytes[] = {1, 2, 3};
  FrameList frame = home.make(bytes);
  const uint8_t* const memory = frame.front().data();
  away.take_back(frame);
  FrameList spare = away.release();
  EXPECT_EQ(away.spare_count(), 0U);
  home.take_back_all(spare);
  EXPECT_TRUE(spare.empty());
  EXPECT_EQ(home.make(bytes).front().data(), memory);
}

TEST(FramePool, KeepsNoMoreThanItsLimit) {
  FramePool pool;
  FrameList queue;
  const uint8_t bytes[] = {7};
  for (size_t i = 0; i < kSpareFrameCountMax + 3; ++i) {
    queue.splice(queue.end(), pool.make(bytes));
  }
  while (!queue.empty()) {
    pool.take_back(queue);
  }
  EXPECT_EQ(pool.spare_count(), kSpareFrameCountMax);
}

}  // namespace
}  // namespace gradstream

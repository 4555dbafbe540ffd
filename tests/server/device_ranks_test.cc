#include "server/coordinator/device_ranks.h"

#include <gtest/gtest.h>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

// Against a plain list of flags, of every size up to a hundred.
TEST(DeviceRanks, TellEachMemberByItsRank) {
  RandomStream draw(RandomKey{});
  DeviceRanks ranks;
  std::vector<bool> flags;
  for (uint32_t size = 1; size <= 100; ++size) {
    flags.push_back(draw.next() % 2 == 0);
    ranks.append(flags.back());
    for (int i = 0; i < 5; ++i) {
      const uint32_t index = draw.next() % size;
      flags[index] = draw.next() % 3 != 0;
      ranks.set(index, flags[index]);
    }
    uint32_t rank = 0;
    for (uint32_t index = 0; index < size; ++index) {
      ASSERT_EQ(ranks.contains(index), flags[index]);
      if (flags[index]) {
        ASSERT_EQ(ranks.at(rank++), index) << "of " << size;
      }
    }
    ASSERT_EQ(ranks.count(), rank);
  }
}

TEST(DeviceRanks, SetTwiceCountsOnce) {
  DeviceRanks ranks;
  for (int i = 0; i < 3; ++i) {
    ranks.append(true);
  }
  ranks.set(1, false);
  ranks.set(1, false);
  EXPECT_EQ(ranks.count(), 2U);
  EXPECT_EQ(ranks.at(1), 2U);
  ranks.set(1, true);
  ranks.set(1, true);
  EXPECT_EQ(ranks.count(), 3U);
}

}  // namespace
}  // namespace gradstream

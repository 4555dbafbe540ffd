#include "runtime/base/arena.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

class ArenaTest : public ::testing::Test {
 protected:
  ArenaTest() { std::memset(memory_, 0xA5, sizeof(memory_)); }
  alignas(kArenaAlignment) uint8_t memory_[128];
};

TEST_F(ArenaTest, BothEndsAreAlignedZeroedAndDisjoint) {
  Arena arena(memory_, sizeof(memory_));
  uint8_t* const low = arena.persistent<uint8_t>(3).value();
  uint64_t* const next = arena.persistent<uint64_t>(1).value();
  ScratchScope scope(arena);
  uint16_t* const high = arena.scratch<uint16_t>(5).value();
  EXPECT_EQ(static_cast<void*>(low), memory_);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(next), memory_ + 8);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(high), memory_ + 128 - 16);
  EXPECT_EQ(low[0] | low[1] | low[2], 0);
  EXPECT_EQ(*next, 0u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(high[i], 0);
  }
  EXPECT_EQ(arena.free_size(), 128u - 16 - 16);
}

TEST_F(ArenaTest, ScopesNestAndGiveBack) {
  Arena arena(memory_, sizeof(memory_));
  {
    ScratchScope outer(arena);
    ASSERT_TRUE(arena.scratch<uint64_t>(2).ok());
    {
      ScratchScope inner(arena);
      ASSERT_TRUE(arena.scratch<uint64_t>(4).ok());
      EXPECT_EQ(arena.free_size(), 128u - 48);
    }
    EXPECT_EQ(arena.free_size(), 128u - 16);
  }
  EXPECT_EQ(arena.free_size(), 128u);
  EXPECT_EQ(arena.high_water_size(), 48u);
}

TEST_F(ArenaTest, FullIsAStatusAndTakesNothing) {
  Arena arena(memory_, sizeof(memory_));
  EXPECT_EQ(arena.persistent<uint8_t>(129).status(), Status::kOutOfMemory);
  EXPECT_EQ(arena.persistent<uint64_t>(std::numeric_limits<size_t>::max() / 4).status(), Status::kOutOfMemory);
  ASSERT_TRUE(arena.persistent<uint8_t>(120).ok());
  ScratchScope scope(arena);
  EXPECT_EQ(arena.scratch<uint8_t>(9).status(), Status::kOutOfMemory);
  EXPECT_TRUE(arena.scratch<uint8_t>(8).ok());
  EXPECT_EQ(arena.persistent<uint8_t>(1).status(), Status::kOutOfMemory);
  EXPECT_EQ(arena.free_size(), 0u);
  EXPECT_EQ(arena.high_water_size(), 128u);
}

TEST_F(ArenaTest, ReleaseGivesBackThePersistentEnd) {
  Arena arena(memory_, sizeof(memory_));
  ASSERT_TRUE(arena.persistent<uint32_t>(1).ok());
  const size_t mark = arena.mark();
  uint32_t* const first = arena.persistent<uint32_t>(4).value();
  first[0] = 17;
  arena.release(mark);
  uint32_t* const second = arena.persistent<uint32_t>(4).value();
  EXPECT_EQ(first, second);
  EXPECT_EQ(second[0], 0u);
  arena.reset();
  EXPECT_EQ(arena.free_size(), arena.size());
  EXPECT_EQ(arena.high_water_size(), 24u);
}

TEST_F(ArenaTest, MisalignedBuffersLoseTheirEdges) {
  Arena arena(memory_ + 1, 30);
  EXPECT_EQ(arena.size(), 16u);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(arena.persistent<uint64_t>(2).value()), memory_ + 8);
  EXPECT_EQ(Arena(memory_ + 1, 3).size(), 0u);
  EXPECT_EQ(Arena(nullptr, 0).size(), 0u);
}

TEST_F(ArenaTest, TakenSizeIsWhatIsTaken) {
  Arena arena(memory_, sizeof(memory_));
  const size_t before = arena.free_size();
  ASSERT_TRUE(arena.persistent<uint16_t>(5).ok());
  EXPECT_EQ(before - arena.free_size(), Arena::taken_size<uint16_t>(5));
  EXPECT_EQ(Arena::taken_size<uint16_t>(5), 16u);
}

TEST_F(ArenaTest, ReleaseBeyondTheMarkIsABreach) {
  Arena arena(memory_, sizeof(memory_));
  EXPECT_DEATH(arena.release(8), "assertion failed");
}

}  // namespace
}  // namespace gradstream

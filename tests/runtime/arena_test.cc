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

// ---- Scratch that is held between calls ----

// Two pieces, of which a call that ends early holds both.
void take_and_hold(Arena& arena, uint8_t expected, uint8_t written) {
  ScratchScope outer(arena);
  const Result<uint8_t*> first = arena.scratch<uint8_t>(16);
  ScratchScope inner(arena);
  const Result<uint8_t*> second = arena.scratch<uint8_t>(24);
  ASSERT_TRUE(first.ok() && second.ok());
  for (uint8_t* const bytes : {first.value(), second.value()}) {
    EXPECT_EQ(bytes[0], expected);
    EXPECT_EQ(bytes[15], expected);
    std::memset(bytes, written, 16);
  }
  arena.hold_scratch();
}

TEST(Arena, HeldScratchIsFoundAgainAsItWas) {
  alignas(8) uint8_t buffer[128];
  Arena arena(buffer, sizeof(buffer));
  take_and_hold(arena, 0, 7);
  arena.suspend_scratch();
  EXPECT_EQ(arena.free_size(), 128u - 40) << "it counts as taken";
  {
    ScratchScope scope(arena);
    const Result<uint8_t*> other = arena.scratch<uint8_t>(88);
    ASSERT_TRUE(other.ok());
    std::memset(other.value(), 0xa5, 88);
    EXPECT_EQ(arena.scratch<uint8_t>(1).status(), Status::kOutOfMemory);
  }
  arena.resume_scratch();
  take_and_hold(arena, 7, 9);
  arena.suspend_scratch();
  arena.resume_scratch();
  take_and_hold(arena, 9, 9);
  arena.drop_scratch();
  EXPECT_EQ(arena.free_size(), 128u);
  take_and_hold(arena, 0, 1);
  arena.drop_scratch();
}

TEST(Arena, ScratchBeyondWhatWasHeldIsZeroed) {
  alignas(8) uint8_t buffer[64];
  std::memset(buffer, 0xa5, sizeof(buffer));
  Arena arena(buffer, sizeof(buffer));
  {
    ScratchScope scope(arena);
    std::memset(arena.scratch<uint8_t>(8).value(), 1, 8);
    arena.hold_scratch();
    std::memset(arena.scratch<uint8_t>(8).value(), 2, 8);
  }
  arena.suspend_scratch();
  arena.resume_scratch();
  for (int i = 0; i < 2; ++i) {  // the second time nothing is held any more
    ScratchScope scope(arena);
    EXPECT_EQ(arena.scratch<uint8_t>(8).value()[0], i == 0 ? 1 : 0);
    EXPECT_EQ(arena.scratch<uint8_t>(8).value()[0], 0);
  }
  arena.drop_scratch();
  EXPECT_EQ(arena.free_size(), 64u);
}

}  // namespace
}  // namespace gradstream

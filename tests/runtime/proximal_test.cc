#include "runtime/training/proximal.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

// In the plane: g - mu (centre - x) = g + mu (x - centre).
TEST(Proximal, PullsTowardsTheCentre) {
  TestArena memory;
  const Real x[] = {3, 1};
  const Real centre[] = {1, 2};
  Real g[] = {10, 20};
  ASSERT_EQ(add_proximal(kEuclideanOps, {2, 1}, 2, x, centre, g, memory.arena), Status::kOk);
  EXPECT_EQ(g[0], 14);
  EXPECT_EQ(g[1], 18);
  EXPECT_EQ(memory.arena.high_water_size(), proximal_scratch_size(kEuclideanOps, {2, 1}, 2));
}

TEST(Proximal, NothingForMuZeroAndUnchangedWhereItIsUndefined) {
  TestArena memory;
  const Real x[] = {1, 0};
  const Real far[] = {-1, 0};
  Real g[] = {0, 5};
  EXPECT_EQ(add_proximal(kSphereOps, {2, 1}, 0, x, far, g, memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.high_water_size(), 0U);
  EXPECT_EQ(proximal_scratch_size(kSphereOps, {2, 1}, 0), 0U);
  EXPECT_EQ(add_proximal(kSphereOps, {2, 1}, 1, x, far, g, memory.arena), Status::kSingular);
  EXPECT_EQ(g[1], 5);
}

}  // namespace
}  // namespace gradstream

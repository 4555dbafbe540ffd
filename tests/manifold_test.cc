#include "runtime/manifold/manifold.h"

#include <gtest/gtest.h>

#include "tests/kernel_hash.h"

namespace gradstream {
namespace {

TEST(Manifold, FindManifoldLooksOnlyAtWhatIsLinked) {
  const ManifoldOps* const linked[] = {&kSphereOps, &kStiefelOps};
  EXPECT_EQ(find_manifold(linked, ManifoldId::kSphere), &kSphereOps);
  EXPECT_EQ(find_manifold(linked, ManifoldId::kStiefel), &kStiefelOps);
  EXPECT_EQ(find_manifold(linked, ManifoldId::kEuclidean), nullptr);
  EXPECT_EQ(find_manifold(linked, ManifoldId::kNone), nullptr);
  EXPECT_EQ(find_manifold({}, ManifoldId::kSphere), nullptr);
}

TEST(Manifold, IdsAreTheWiresValues) {
  EXPECT_EQ(static_cast<int>(kEuclideanOps.id), 1);
  EXPECT_EQ(static_cast<int>(kSphereOps.id), 2);
  EXPECT_EQ(static_cast<int>(kStiefelOps.id), 3);
}

TEST(Manifold, KernelsComputeTheSameBitsEverywhere) {
  EXPECT_EQ(testing::kernel_hash(), testing::kKernelHash)
      << std::hex << "the arithmetic of the replicas changed: 0x" << testing::kernel_hash();
}

}  // namespace
}  // namespace gradstream

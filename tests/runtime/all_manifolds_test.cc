#include <gtest/gtest.h>

#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

TEST(AllManifolds, EveryTableIsFoundByItsKinds) {
  for (const ManifoldOps* ops : all_manifolds()) {
    EXPECT_EQ(find_manifold(all_manifolds(), ops->id, ops->retraction_kind, ops->transport_kind), ops) << ops->name;
  }
}

TEST(AllManifolds, EveryManifoldHasItsDefault) {
  for (const ManifoldOps* ops : all_manifolds()) {
    const ManifoldOps* found = find_manifold(all_manifolds(), ops->id);
    ASSERT_NE(found, nullptr) << ops->name;
    EXPECT_TRUE(found->is_default_retraction && found->is_default_transport) << ops->name;
  }
}

}  // namespace
}  // namespace gradstream

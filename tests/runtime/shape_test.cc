#include "runtime/base/shape.h"

#include <gtest/gtest.h>

#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

TEST(Shape, CountsMoreNumbersThan32BitsHold) {
  EXPECT_EQ((Shape{3, 4}).size(), 12u);
  EXPECT_EQ(Shape{}.size(), 0u);
  if constexpr (sizeof(size_t) > sizeof(uint32_t)) {
    EXPECT_EQ((Shape{1u << 20, 1u << 20}).size(), uint64_t{1} << 40);
  }
}

TEST(Shape, IsEqualOnlyWithTheSameList) {
  const Parts parts{}, same{};
  EXPECT_EQ((Shape{3, 4}), (Shape{3, 4}));
  EXPECT_NE((Shape{3, 4}), (Shape{4, 3}));
  EXPECT_EQ((Shape{3, 4, &parts}), (Shape{3, 4, &parts}));
  EXPECT_NE((Shape{3, 4, &parts}), (Shape{3, 4, &same}));
  EXPECT_NE((Shape{3, 4, &parts}), (Shape{3, 4}));
}

}  // namespace
}  // namespace gradstream

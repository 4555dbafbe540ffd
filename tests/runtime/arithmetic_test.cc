#include "runtime/base/arithmetic.h"

#include <gtest/gtest.h>

#include "tests/support/float_mode.h"

namespace gradstream {
namespace {

TEST(Arithmetic, KeepsSubnormalsAsAProcessStarts) { EXPECT_TRUE(keeps_subnormals()); }

TEST(Arithmetic, NoticesEveryWayToFlushThem) {
  for (const FloatMode mode : kFlushingModes) {
    {
      const FloatModeScope scope(mode);
      EXPECT_FALSE(keeps_subnormals()) << mode;
    }
    EXPECT_TRUE(keeps_subnormals());
  }
}

}  // namespace
}  // namespace gradstream

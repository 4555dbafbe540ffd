#include "runtime/base/fusing.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Fusing, ThisBuildRoundsTwice) { EXPECT_FALSE(fuses_products()); }

}  // namespace
}  // namespace gradstream

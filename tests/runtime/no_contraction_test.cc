// The header forbids a fused operation where the flags ask for one.
#include "runtime/base/no_contraction.h"

#include <gtest/gtest.h>

float contracted(float a, float b, float c);
float uncontracted(float a, float b, float c);

namespace {

// The square has 25 bits: rounded by itself it loses its last one, 2^-24.
constexpr float kFactor = 1 + 0x1p-12F;
constexpr float kSummand = -(1 + 0x1p-11F);

TEST(NoContraction, TwoOperationsRoundTwice) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma")) {
    GTEST_SKIP() << "this processor has no fused operation";
  }
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  EXPECT_EQ(contracted(kFactor, kFactor, kSummand), 0x1p-24F) << "without the header the compiler does not fuse";
#endif
  EXPECT_EQ(uncontracted(kFactor, kFactor, kSummand), 0);
}

TEST(NoContraction, TargetsSayThatTheirFlagsForbidIt) {
#if !defined(GS_CONTRACTION_OFF)
  FAIL() << "gs_layout() of cmake/gradstream.cmake did not reach this file";
#endif
}

}  // namespace

// A build that fuses is refused: this program has runtime/base/fusing.cc as a build compiles it that fuses and has lost
// what forbids it (tests/firmware/CMakeLists.txt).
#include <cstring>

#include <gtest/gtest.h>

#include "include/gradstream/device.h"
#include "runtime/base/fusing.h"

namespace gradstream {
namespace {

TEST(FusingBuild, IsRefusedAtTheStart) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma")) {
    GTEST_SKIP() << "this processor cannot fuse";
  }
  ASSERT_TRUE(fuses_products());
  uint8_t memory[64] = {};
  gs_sample_source samples = {};
  samples.count = 1;
  samples.dimension = 1;
  samples.read = [](const void*, uint32_t, float* out) {
    *out = 1;
    return 0;
  };
  gs_config config = {};
  config.size = sizeof config;
  config.firmware_version = "test";
  config.identity_text = "identity = x\n";
  config.identity_size = std::strlen(config.identity_text);
  config.samples = &samples;
  config.arena = memory;
  config.arena_size = sizeof memory;
  EXPECT_EQ(gs_init(&config), GS_FUSES);
#else
  GTEST_SKIP() << "the flags of this build are x86-64's";
#endif
}

}  // namespace
}  // namespace gradstream

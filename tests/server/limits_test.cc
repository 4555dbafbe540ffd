// The limits that the exact fold sets to a run, and that parameters are held to them.
#include "server/run/limits.h"

#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(Limits, AFullVersionOfTheLargestValuesFitsASlot) {
  const int64_t value_max = (int64_t{1} << kFoldValueBits) - 1;
  const int64_t weight_max = (int64_t{1} << kFoldWeightBits) - 1;
  EXPECT_LE(value_max * weight_max, std::numeric_limits<int64_t>::max() / kFoldUpdateCountMax);
  EXPECT_LE(uint64_t{weight_max} * kFoldUpdateCountMax, std::numeric_limits<uint32_t>::max());
}

TEST(Limits, ParametersAreHeldToThem) {
  RunParameters p = tangent_parameters();
  p.fold->fold_scale_log2 = kFoldScaleLog2Max + 1;
  EXPECT_THAT(check_parameters(p).sentence,
              HasSubstr("fold_scale_log2: needs 0 to " + std::to_string(kFoldScaleLog2Max)));
  p = tangent_parameters();
  p.trigger->device_count = kFoldUpdateCountMax + 1;
  EXPECT_THAT(check_parameters(p).sentence,
              HasSubstr("device_count: needs 1 to " + std::to_string(kFoldUpdateCountMax)));
}

}  // namespace
}  // namespace gradstream

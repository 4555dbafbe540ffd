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
  EXPECT_LE(value_max, std::numeric_limits<int64_t>::max() / weight_max);  // a term
  EXPECT_LE(weight_max, std::numeric_limits<int64_t>::max() / kFoldUpdateCountMax);
  EXPECT_EQ(kFoldUpdateCountMax, 2147483648U);
  EXPECT_EQ(kFoldSumBits, 78U);
  // Where updates are kept, 64 and 32 bits are enough.
  EXPECT_LE(value_max * weight_max, std::numeric_limits<int64_t>::max() / kKeptUpdateCountMax);
  EXPECT_LE(uint64_t{weight_max} * kKeptUpdateCountMax, std::numeric_limits<uint32_t>::max());
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

// Rules that add updates up take any fleet; those that keep them name their own limit.
TEST(Limits, OnlyWhatIsKeptIsLimitedToFewerUpdates) {
  constexpr uint32_t kMany = 100000;
  RunParameters p = tangent_parameters();
  p.trigger->device_count = kFoldUpdateCountMax;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.trigger->device_count = kMany;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.fold->weight_share_max = 0.5F;
  EXPECT_EQ(check_parameters(p).sentence,
            "update_goal, weight_share_max: the server keeps each update of a version, 32768 at most, and "
            "a version wants 100000; lower update_goal, or set weight_share_max to 1");
  p.trigger->update_goal = kKeptUpdateCountMax;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.trigger->update_goal = 0;
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = kKeptUpdateCountMax + 1;
  EXPECT_THAT(check_parameters(p).sentence, HasSubstr("lower cohort_size, or set weight_share_max to 1"));
  p.trigger->update_goal = kKeptUpdateCountMax + 1;  // no cohort may be smaller than that
  EXPECT_THAT(check_parameters(p).sentence, HasSubstr("lower update_goal, or set weight_share_max to 1"));
  p.trigger->update_goal = 0;
  p.cohort->cohort_size = kKeptUpdateCountMax;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p = scalar_parameters();
  p.trigger->device_count = kMany;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.local->correction_form = CorrectionForm::kMemory;
  EXPECT_EQ(check_parameters(p).sentence,
            "device_count, correction_form: a memory holds the last update of each device, of 32768 at most, and "
            "device_count is 100000; lower device_count, or set correction_form to local");
  p.trigger->device_count = kKeptUpdateCountMax;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p = asynchronous_parameters();
  p.trigger->device_count = kMany;
  EXPECT_EQ(check_parameters(p).sentence, "");
  p.trigger->buffer_size = kKeptUpdateCountMax + 1;
  p.delay->delay_rule = DelayRule::kAsgd;
  EXPECT_EQ(check_parameters(p).sentence,
            "buffer_size, delay_rule: the server keeps each update of a version, 32768 at most, and a "
            "version wants 32769; lower buffer_size");
}

}  // namespace
}  // namespace gradstream

// The fold: every bad choice is refused with a sentence that begins with its keys.
#include "server/run/fold_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(FoldKeys, EveryBadFoldIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"fold_scale_log2:", [](RunParameters* p) { p->fold->fold_scale_log2 = 49; }},
      {"fold_weight_max:", [](RunParameters* p) { p->fold->fold_weight_max = 0; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(FoldKeys, EveryBadShareIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"weight_share_max: needs a number above 0 to 1; it is 0",
       [](RunParameters* p) { p->fold->weight_share_max = 0; }},
      {"weight_share_max, update_goal, buffer_size: 4 updates",
       [](RunParameters* p) { p->fold->weight_share_max = 0.2F; }},
      {"weight_share_max, fold_weight, solver",
       [](RunParameters* p) {
         p->fold->weight_share_max = 0.5F;
         p->fold->fold_weight = FoldWeight::kUniform;
       }},
  };
  expect_refused(tangent_parameters(), cases);
}

TEST(FoldKeys, EveryBadClipIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"clip_factor: needs a number from 0.25 to", [](RunParameters* p) { p->fold.keys().clip_factor = 0.2F; }},
      {"clip_factor:", [](RunParameters* p) { p->fold.keys().clip_factor = 256; }},
      {"clip_window:", [](RunParameters* p) { p->fold.keys().clip_window = 0; }},
      {"clip_norm_value:", [](RunParameters* p) { p->fold.keys().clip_norm_value = -1; }},
      {"clip_norm_value, clip_norm: the radius of clip_norm fixed is missing",
       [](RunParameters* p) { p->fold.keys().clip_norm = ClipNorm::kFixed; }},
      {"clip_norm_value, fold_scale_log2: the fold counts in units of 2^-24, in which this radius is 0",
       [](RunParameters* p) {
         p->fold.keys().clip_norm = ClipNorm::kFixed;
         p->fold.keys().clip_norm_value = 1e-8F;
       }},
      {"clip_norm: median keeps a version's updates until it closes, and does not go with correction_form memory, "
       "whose "
       "devices are told at once what is left of their updates; set clip_norm to trailing",
       [](RunParameters* p) {
         p->fold.keys().clip_norm = ClipNorm::kMedian;
         p->local->correction_form = CorrectionForm::kMemory;
       }},
      {"clip_norm: median keeps a version's updates until it closes, and does not go with versions of 2049 updates, of "
       "which 2048 could be kept; set clip_norm to trailing",
       [](RunParameters* p) {
         p->fold.keys().clip_norm = ClipNorm::kMedian;
         p->trigger->device_count = 2049;
       }},
      {"update_goal, clip_norm: the server keeps how long each update of a version is, of 4194304 at most, and a "
       "version "
       "wants 4194305; lower update_goal, or set clip_norm to none",
       [](RunParameters* p) {
         p->fold.keys().clip_norm = ClipNorm::kTrailing;
         p->trigger->device_count = kClipNormCountMax + 1;
       }},
  };
  expect_refused(scalar_parameters(), cases);
  const RefusedCase tangent_cases[] = {
      {"clip_norm, solver: the two phases of svrg",
       [](RunParameters* p) {
         p->local->solver = SolverId::kSvrg;
         p->local->batch_mode = BatchMode::kAll;
         p->fold.keys().clip_norm = ClipNorm::kTrailing;
       }},
  };
  expect_refused(tangent_parameters(), tangent_cases);
  RunParameters asynchronous = asynchronous_parameters();
  asynchronous.fold.keys().clip_norm = ClipNorm::kTrailing;
  EXPECT_THAT(check_parameters(asynchronous).sentence, testing::HasSubstr("clip_norm, delay_rule: a delay rule steps"));
}

TEST(FoldKeys, AFactorAndARadiusAreWholeNumbers) {
  FoldKeys keys;
  EXPECT_EQ(clip_factor256(keys), 1024U);
  keys.clip_factor = 0.25F;
  EXPECT_EQ(clip_factor256(keys), 64U);
  keys.clip_factor = 255.99609375F;
  EXPECT_EQ(clip_factor256(keys), 65535U);
  keys.fold_scale_log2 = 4;
  keys.clip_norm_value = 0.4F;
  EXPECT_EQ(fixed_clip_radius(keys), 6U);
  keys.clip_norm_value = 1e30F;
  EXPECT_EQ(fixed_clip_radius(keys), UINT64_MAX);
}

// What a version may keep is bounded by updates, and by the bytes of their values.
TEST(FoldKeys, AMedianKeepsABoundedNumberOfUpdates) {
  RunParameters p = scalar_parameters();
  EXPECT_EQ(clip_update_count_max(p), kFoldUpdateCountMax);
  p.fold.keys().clip_norm = ClipNorm::kTrailing;
  EXPECT_EQ(clip_update_count_max(p), kClipNormCountMax);
  p.fold.keys().clip_norm = ClipNorm::kMedian;
  EXPECT_EQ(clip_update_count_max(p), kClipKeptUpdateCountMax);
  p = tangent_parameters();
  p.fold.keys().clip_norm = ClipNorm::kMedian;
  p.model->shape = {1U << 15, 32};
  EXPECT_EQ(clip_update_count_max(p), kClipKeptBytesMax / (sizeof(Real) << 20));
}

}  // namespace
}  // namespace gradstream

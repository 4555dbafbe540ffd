#include "server/rules/norm_clip.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "server/run/limits.h"
#include "tests/golden/clip_vectors.h"

namespace gradstream {
namespace {

std::vector<int64_t> clip_all(std::vector<int64_t> values, uint32_t scale) {
  for (int64_t& value : values) {
    value = clip_value(value, scale);
  }
  return values;
}

TEST(NormClip, ClipsLikeTheReference) {
  for (const golden::clip::Clipped& known : golden::clip::kClipped) {
    EXPECT_EQ(update_norm(known.values, known.steps_done), known.norm);
    EXPECT_EQ(clip_scale(known.norm, known.radius), known.scale);
    EXPECT_EQ(clip_all(known.values, known.scale), known.clipped);
  }
}

TEST(NormClip, TakesTheRadiusOfTheReferenceFromNormsInAnyOrder) {
  for (const golden::clip::Window& known : golden::clip::kWindows) {
    std::vector<uint64_t> norms = known.norms;
    EXPECT_EQ(clip_radius(lower_median(norms), known.factor256), known.radius);
    std::sort(norms.begin(), norms.end());
    EXPECT_EQ(clip_radius(lower_median(norms), known.factor256), known.radius);
    std::reverse(norms.begin(), norms.end());
    EXPECT_EQ(clip_radius(lower_median(norms), known.factor256), known.radius);
  }
}

TEST(NormClip, AMedianOfZeroClipsNothing) {
  EXPECT_EQ(clip_radius(0, 4 * 256), kNoClipRadius);
  EXPECT_EQ(clip_radius(1, 4 * 256), 4U);
}

TEST(NormClip, TheMedianOfAnEvenCountIsTheLowerOne) {
  std::vector<uint64_t> norms = {7, 1, 9, 4};
  EXPECT_EQ(lower_median(norms), 4U);
  norms = {3};
  EXPECT_EQ(lower_median(norms), 3U);
}

// What is left has at most the radius, whatever the values: the property that the clip is for.
TEST(NormClip, WhatIsLeftIsNeverLongerThanTheRadius) {
  uint64_t state = 1;
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<int64_t> values(1 + static_cast<size_t>(turn) % 40);
    for (int64_t& value : values) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      value = static_cast<int64_t>(state >> 33) - (int64_t{1} << 30);
    }
    const uint32_t steps = 1 + static_cast<uint32_t>(turn) % 7;
    const uint64_t norm = update_norm(values, steps);
    const uint64_t radius = norm / (1 + static_cast<uint64_t>(turn) % 11);
    const uint32_t scale = clip_scale(norm, radius);
    EXPECT_EQ(scale == kClipScaleOne, norm <= radius);
    EXPECT_LE(update_norm(clip_all(values, scale), steps), radius);
  }
}

TEST(NormClip, HoldsAtTheEndsOfItsRanges) {
  const int64_t most = (int64_t{1} << kFoldValueBits) - 1;
  const std::vector<int64_t> one = {-most};
  EXPECT_EQ(update_norm(one, 1), static_cast<uint64_t>(most));
  EXPECT_EQ(update_norm(one, 2), 3037000499U);  // ceil(sqrt(2) (2^31 - 1))
  const std::vector<int64_t> nothing(5);
  EXPECT_EQ(update_norm(nothing, 3), 0U);
  // 2^16 values and as many steps: 2^32 of the largest square.
  const std::vector<int64_t> many(1U << 16, most);
  EXPECT_EQ(update_norm(many, 1U << 16), static_cast<uint64_t>(most) << 16);
  const uint64_t longest = (uint64_t{1} << 63) - 1;
  EXPECT_EQ(clip_scale(longest, longest), kClipScaleOne);
  EXPECT_EQ(clip_scale(longest, longest - 1), kClipScaleOne - 1);
  EXPECT_EQ(clip_scale(longest, 0), 0U);
  EXPECT_EQ(clip_scale(0, 0), kClipScaleOne);
  EXPECT_EQ(clip_value(-most, kClipScaleOne), -most);
  EXPECT_EQ(clip_value(-most, 0), 0);
  EXPECT_EQ(clip_value(-3, kClipScaleOne / 2), -1);  // toward zero
}

TEST(NormClip, ARadiusBeyond64BitsClipsNothing) {
  EXPECT_EQ(clip_radius(uint64_t{1} << 56, 65535), (uint64_t{65535} << 48));
  EXPECT_EQ(clip_radius(uint64_t{1} << 62, 65535), kNoClipRadius);
  EXPECT_EQ(clip_radius(5, 64), 1U);
  EXPECT_EQ(clip_scale(std::numeric_limits<int64_t>::max(), kNoClipRadius), kClipScaleOne);
}

}  // namespace
}  // namespace gradstream

#include "runtime/training/clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/encoding.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

TEST(Clip, RoundsHalfAwayFromZero) {
  const std::pair<double, int64_t> known[] = {{0, 0},    {0.5, 1},    {-0.5, -1},         {1.5, 2},
                                              {2.25, 2}, {-2.75, -3}, {8388607, 8388607}, {-2147483520, -2147483520}};
  for (const auto& [scaled, wanted] : known) {
    int64_t fixed = 7;
    EXPECT_EQ(round_fixed(static_cast<Real>(scaled), &fixed), Status::kOk) << scaled;
    EXPECT_EQ(fixed, wanted) << scaled;
  }
}

TEST(Clip, RefusesWhatTheFoldDoesNotTake) {
  const Real limit = static_cast<Real>(std::ldexp(1.0, kFoldValueBits));
  int64_t fixed = 7;
  for (const Real scaled :
       {limit, -limit, 2 * limit, std::numeric_limits<Real>::infinity(), std::numeric_limits<Real>::quiet_NaN()}) {
    EXPECT_EQ(round_fixed(scaled, &fixed), Status::kOutOfRange) << scaled;
    Real values[] = {scaled / 16};
    EXPECT_EQ((OwnClip{4, kClipScaleOne - 1}.apply(1, values)), Status::kOutOfRange);
  }
  EXPECT_EQ(fixed, 7);
}

TEST(Clip, AllIsLeftInTheSameBits) {
  const std::vector<Real> values = {static_cast<Real>(0.1), -7, static_cast<Real>(1e-30)};
  for (const uint32_t scale : {0U, kClipScaleOne}) {
    std::vector<Real> left = values;
    ASSERT_EQ((OwnClip{24, scale}.apply(left.size(), left.data())), Status::kOk);
    EXPECT_EQ(left, values);
  }
}

// By the definition, in whole numbers: what the server puts into h.
TEST(Clip, WhatIsLeftIsTheServersWholeNumber) {
  for (const uint32_t scale_log2 : {0U, 8U, 24U}) {
    const double one = std::ldexp(1.0, static_cast<int>(scale_log2));
    for (const uint32_t scale : {1U, 1U << 30, 0x55555555U, kClipScaleOne - 1}) {
      std::vector<Real> values;
      for (int i = -40; i <= 40; ++i) {
        values.push_back(static_cast<Real>(0.37 * i));
      }
      std::vector<Real> left = values;
      ASSERT_EQ((OwnClip{scale_log2, scale}.apply(left.size(), left.data())), Status::kOk);
      for (size_t q = 0; q < values.size(); ++q) {
        const int64_t fixed = std::llround(static_cast<double>(values[q]) * one);
        const int64_t magnitude = std::abs(fixed) * scale >> kClipScaleBits;
        const int64_t kept = fixed < 0 ? -magnitude : magnitude;
        EXPECT_EQ(left[q], static_cast<Real>(static_cast<double>(static_cast<Real>(kept)) / one)) << values[q];
        EXPECT_EQ(clip_value(fixed, scale), kept);
      }
    }
  }
}

TEST(Clip, ACorrectionTakesAwayWhatIsLeft) {
  const std::vector<Real> values = {1, -2, static_cast<Real>(0.75), 8};
  std::vector<uint8_t> bytes(encoded_size(kRealEncoding, values.size()));
  ASSERT_EQ(encode_values(kRealEncoding, values.size(), values.data(), bytes.data()), Status::kOk);
  std::vector<Real> rest = {10, 10, 10, 10};
  ASSERT_EQ(subtract_values(kRealEncoding, rest.size(), bytes.data(), bytes.size(), rest.data(),
                            OwnClip{24, kClipScaleOne / 4}),
            Status::kOk);
  EXPECT_EQ(rest, (std::vector<Real>{static_cast<Real>(9.75), static_cast<Real>(10.5), static_cast<Real>(9.8125), 8}));
}

// c = (pr/m) (sum - (1/k) sum_q left(s[q] / k) u[q]), against the plain correction of shorter scalars.
TEST(Clip, ACorrectionOfScalarsTakesAwayWhatIsLeft) {
  constexpr Shape kShape = {6, 2};
  constexpr uint32_t kSteps = 2;
  constexpr uint32_t kDirections = 3;
  TestArena memory;
  DirectionSpec spec;
  spec.kind = DirectionKind::kSign;
  spec.seed = 5;
  spec.direction_count = kDirections;
  std::vector<Real> scalars = {2, -4, 1, 6, -1, 3};
  const OwnClip half = {24, kClipScaleOne / 2};
  const auto correction = [&](OwnClip clip) {
    std::vector<uint8_t> bytes(encoded_size(kRealEncoding, scalars.size()));
    EXPECT_EQ(encode_values(kRealEncoding, scalars.size(), scalars.data(), bytes.data()), Status::kOk);
    std::vector<Real> out(kShape.size(), 1);
    EXPECT_EQ(fill_correction(spec, kShape, out.data(), kSteps, kRealEncoding, bytes.data(), bytes.size(), out.data(),
                              memory.arena, clip),
              Status::kOk);
    return out;
  };
  const std::vector<Real> clipped = correction(half);
  EXPECT_NE(clipped, correction({}));
  for (Real& scalar : scalars) {
    scalar /= 2;  // exact, as half of each whole number is
  }
  EXPECT_EQ(clipped, correction({}));
}

}  // namespace
}  // namespace gradstream

#include "server/rules/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"
#include "tests/support/fold_add.h"

namespace gradstream {
namespace {

struct Update {
  std::vector<Real> values;
  uint16_t weight;
};

std::vector<Update> random_updates(size_t update_count, size_t value_count) {
  std::vector<Update> updates(update_count);
  for (uint32_t i = 0; i < update_count; ++i) {
    RandomKey key;
    key.owner = i;
    updates[i].values.resize(value_count);
    fill_normal(key, 0, value_count, updates[i].values.data());
    updates[i].weight = static_cast<uint16_t>(1 + 97 * i);
  }
  return updates;
}

Status add(Fold* fold, unsigned scale_log2, std::span<const Real> values, uint16_t weight) {
  std::vector<FoldTerm> terms(values.size());
  return add_update(fold, scale_log2, values, weight, 0, terms.data());
}

TEST(Fold, MeanIsTheWeightedMeanToTheScale) {
  const std::vector<Update> updates = random_updates(9, 40);
  std::vector<FoldSlot> slots(40);
  Fold fold(slots, 24);
  uint32_t total = 0;
  std::vector<double> expected(40);
  for (const Update& update : updates) {
    ASSERT_EQ(add(&fold, 24, update.values, update.weight), Status::kOk);
    total += update.weight;
    for (size_t i = 0; i < 40; ++i) {
      expected[i] += static_cast<double>(update.values[i]) * update.weight;
    }
  }
  std::vector<Real> mean(40);
  ASSERT_EQ(fold.finish(total, mean.data()), Status::kOk);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_NEAR(mean[i], expected[i] / total, std::ldexp(1.0, -24) + 2e-7 * std::fabs(expected[i] / total));
  }
}

TEST(Fold, OrderAndSplitDoNotMatter) {
  std::vector<Update> updates = random_updates(17, 33);
  std::vector<FoldSlot> reference(33);
  Fold first(reference, 20);
  for (const Update& update : updates) {
    ASSERT_EQ(add(&first, 20, update.values, update.weight), Status::kOk);
  }
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(updates.begin(), updates.end(), random);
    std::vector<FoldSlot> slots(33, 99);  // the constructor clears
    Fold fold(slots, 20);
    for (const Update& update : updates) {
      const size_t cut = random() % 34;
      std::vector<Real> rest = update.values;
      std::fill_n(rest.begin(), cut, Real{0});
      ASSERT_EQ(add(&fold, 20, rest, update.weight), Status::kOk);
      ASSERT_EQ(add(&fold, 20, std::span(update.values).first(cut), update.weight), Status::kOk);
    }
    EXPECT_EQ(slots, reference);
  }
}

TEST(Fold, OneUpdateComesBackRoundedToTheScale) {
  std::vector<FoldSlot> slots(4);
  Fold fold(slots, 4);
  const std::vector<Real> values = {1.5, -0.25, 0.03125, -0.03125};  // the last two are half of a unit
  ASSERT_EQ(add(&fold, 4, values, 65535), Status::kOk);
  std::vector<Real> mean(4);
  ASSERT_EQ(fold.finish(65535, mean.data()), Status::kOk);
  EXPECT_EQ(mean, (std::vector<Real>{1.5, -0.25, 0.0625, -0.0625}));
}

TEST(Fold, DivisionRoundsHalfAwayFromZero) {
  std::vector<FoldSlot> slots(6);
  Fold fold(slots, 0);
  const std::vector<Real> values = {1, -1, 3, -3, 5, -5};
  ASSERT_EQ(add(&fold, 0, values, 1), Status::kOk);
  std::vector<Real> mean(6);
  ASSERT_EQ(fold.finish(2, mean.data()), Status::kOk);
  EXPECT_EQ(mean, (std::vector<Real>{1, -1, 2, -2, 3, -3}));
  ASSERT_EQ(fold.finish(3, mean.data()), Status::kOk);
  EXPECT_EQ(mean, (std::vector<Real>{0, 0, 1, -1, 2, -2}));
}

TEST(Fold, RefusesAValueOutOfRangeAndAddsNothing) {
  std::vector<FoldSlot> slots(3);
  Fold fold(slots, 20);
  const Real limit = 2048;  // 2^31 / 2^20
  const std::vector<Real> good = {1, 2, 3};
  ASSERT_EQ(add(&fold, 20, good, 5), Status::kOk);
  const std::vector<FoldSlot> before = slots;
  for (const Real bad : {limit, -limit, static_cast<Real>(1e30)}) {
    const std::vector<Real> values = {1, 2, bad};
    EXPECT_EQ(add(&fold, 20, values, 1), Status::kOutOfRange);
    EXPECT_EQ(slots, before);
  }
  for (const Real bad : {std::numeric_limits<Real>::infinity(), std::numeric_limits<Real>::quiet_NaN()}) {
    const std::vector<Real> values = {1, 2, bad};
    EXPECT_EQ(add(&fold, 20, values, 1), Status::kNotFinite);
    EXPECT_EQ(slots, before);
  }
  const std::vector<Real> largest(3, std::nextafter(limit, Real{0}) - static_cast<Real>(1e-3));
  EXPECT_EQ(add(&fold, 20, largest, 1), Status::kOk);
}

TEST(Fold, TermsAreThoseOfTheQuotients) {
  for (const Update& update : random_updates(9, 20)) {
    std::vector<Real> quotients = update.values;
    for (Real& value : quotients) {
      value /= 3;
    }
    std::vector<FoldTerm> of_quotients(20);
    ASSERT_EQ(make_terms(quotients, 1, update.weight, 20, of_quotients.data()), Status::kOk);
    std::vector<FoldTerm> terms(20);
    ASSERT_EQ(make_terms(update.values, 3, update.weight, 20, terms.data()), Status::kOk);
    EXPECT_EQ(terms, of_quotients);
  }
}

// A clip scales whole numbers before the weight does, and the radius decides by the norm of the quotients.
TEST(Fold, AClipScalesTheTerms) {
  const std::vector<Real> values = {3, -4};
  UpdateClip clip;
  ASSERT_EQ(measure_clip(values, 2, 4, 8, {}, &clip), Status::kOk);
  EXPECT_EQ(clip, UpdateClip()) << "nothing is measured without a radius";
  ASSERT_EQ(measure_clip(values, 2, 4, 8, kNoClipRadius, &clip), Status::kOk);
  EXPECT_EQ(clip.norm, 5U << 8) << "2.5 times the root of 4 steps";
  EXPECT_EQ(clip.scale, kClipScaleOne);
  ASSERT_EQ(measure_clip(values, 2, 4, 8, 5U << 7, &clip), Status::kOk);
  EXPECT_EQ(clip.scale, kClipScaleOne / 2);
  std::vector<FoldTerm> terms(2);
  ASSERT_EQ(make_terms(values, 2, 3, 8, terms.data(), clip.scale), Status::kOk);
  const FoldTerm unit = sizeof(Real) == sizeof(float) ? 256 : 1;
  EXPECT_EQ(terms[0] * 4, 9 * unit);
  EXPECT_EQ(terms[1], -3 * unit);
  const std::vector<Real> wrong = {std::numeric_limits<Real>::infinity()};
  EXPECT_EQ(measure_clip(wrong, 1, 1, 8, 1, &clip), Status::kNotFinite);
}

TEST(Fold, TermsThatDoNotFitAreRefused) {
  std::vector<FoldTerm> terms(3);
  const Real limit = 2048;  // 2^31 / 2^20
  EXPECT_EQ(make_terms(std::vector<Real>{1, 2, limit}, 1, 1, 20, terms.data()), Status::kOutOfRange);
  EXPECT_EQ(make_terms(std::vector<Real>{1, 2, limit}, 2, 1, 20, terms.data()), Status::kOk);
  EXPECT_EQ(make_terms(std::vector<Real>{1, std::numeric_limits<Real>::quiet_NaN(), limit}, 1, 1, 20, terms.data()),
            Status::kNotFinite);
  EXPECT_EQ(make_terms(std::vector<Real>{1, 2, 3}, 1, 0, 20, terms.data()), Status::kInvalidArgument);
  std::vector<FoldSlot> slots(2);
  Fold fold(slots, 20);
  EXPECT_EQ(fold.check_terms(terms), Status::kInvalidArgument);  // three terms, two slots
  const std::vector<FoldTerm> one(2, 1);
  const std::vector<FoldSlot> largest(2, WideInt::of_words(UINT64_MAX, (int64_t{1} << (kFoldSumBits - 64)) - 1));
  ASSERT_EQ(fold.check_sums(largest), Status::kOk);
  fold.add_sums(largest);
  EXPECT_EQ(fold.check_terms(one), Status::kOutOfRange);  // 2^78
  EXPECT_EQ(fold.check_sums(largest), Status::kOutOfRange);
  EXPECT_EQ(fold.check_sums(std::vector<FoldSlot>(3)), Status::kInvalidArgument);
  EXPECT_EQ(slots, largest);
}

TEST(Fold, RefusesSlotsThatAreNotThere) {
  std::vector<FoldSlot> slots(4);
  Fold fold(slots, 8);
  const std::vector<Real> values(8, 1);
  EXPECT_EQ(add(&fold, 8, std::span(values).first(5), 1), Status::kInvalidArgument);
  EXPECT_EQ(add(&fold, 8, std::span(values).first(4), 0), Status::kInvalidArgument);
  EXPECT_EQ(slots, std::vector<FoldSlot>(4));
  std::vector<Real> out(4);
  EXPECT_EQ(fold.finish(0, out.data()), Status::kInvalidArgument);
  EXPECT_EQ(fold.finish_part(1, 2, 3, out.data()), Status::kInvalidArgument);
}

// The sum of `count` updates with these terms, added as powers of two.
void add_many(Fold* fold, std::span<const FoldTerm> terms, uint32_t count) {
  std::vector<FoldSlot> power(terms.begin(), terms.end());
  for (; count > 0; count >>= 1) {
    if ((count & 1) != 0) {
      ASSERT_EQ(fold->check_sums(power), Status::kOk);
      fold->add_sums(power);
    }
    for (FoldSlot& slot : power) {
      slot += FoldSlot(slot);
    }
  }
}

// A version full of the largest values and weights fits; beyond it the sum is refused instead of overflowing.
TEST(Fold, FullVersionOfExtremesFits) {
  std::vector<FoldSlot> slots(2);
  Fold fold(slots, 0);
  const std::vector<Real> extremes = {static_cast<Real>(2147483520), static_cast<Real>(-2147483520)};
  std::vector<FoldTerm> terms(2);
  ASSERT_EQ(make_terms(extremes, 1, 65535, 0, terms.data()), Status::kOk);
  for (uint32_t count : {uint32_t{32767}, kFoldUpdateCountMax - 1}) {
    fold.clear();
    add_many(&fold, terms, count);
    ASSERT_EQ(fold.check_terms(terms), Status::kOk);
    fold.add_terms(terms);
    std::vector<Real> mean(2);
    ASSERT_EQ(fold.finish((uint64_t{count} + 1) * 65535, mean.data()), Status::kOk);
    EXPECT_EQ(mean, extremes);
  }
  // The largest values and weights leave room for about 33,000 more below 2^78.
  add_many(&fold, terms, 30000);
  const WideInt more = WideInt::shifted(static_cast<uint64_t>(terms[0]), 13);
  EXPECT_EQ(fold.check_sums(std::vector<FoldSlot>{more, 0}), Status::kOutOfRange);
  EXPECT_EQ(fold.check_sums(std::vector<FoldSlot>{0, -more}), Status::kOutOfRange);
}

// What 64 bits hold has the bits that it had in 64 bits: sums, quotients and rounding.
TEST(Fold, NarrowSumsHaveTheBitsOfSixtyFour) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<FoldSlot> slots(1);
    Fold fold(slots, 24);
    int64_t narrow = 0;
    for (int i = 0; i < 8; ++i) {
      const FoldTerm term = static_cast<int64_t>(random()) >> (4 + random() % 60);
      ASSERT_EQ(fold.check_terms(std::span(&term, 1)), Status::kOk);
      fold.add_terms(std::span(&term, 1));
      narrow += term;
    }
    const uint64_t divisor = 1 + (random() >> (17 + random() % 46));
    EXPECT_EQ(slots[0], WideInt(narrow));
    EXPECT_EQ(divide_rounded(slots[0], divisor), divide_rounded(narrow, divisor));
    Real mean = 0;
    ASSERT_EQ(fold.finish(divisor, &mean), Status::kOk);
    EXPECT_EQ(mean, static_cast<Real>(divide_rounded(narrow, divisor)) * static_cast<Real>(0x1p-24));
  }
}

TEST(Fold, PartsOfTheResultAreTheWhole) {
  const std::vector<Update> updates = random_updates(3, 20);
  std::vector<FoldSlot> slots(20);
  Fold fold(slots, 24);
  for (const Update& update : updates) {
    ASSERT_EQ(add(&fold, 24, update.values, update.weight), Status::kOk);
  }
  std::vector<Real> whole(20);
  std::vector<Real> parts(20);
  ASSERT_EQ(fold.finish(300, whole.data()), Status::kOk);
  ASSERT_EQ(fold.finish_part(300, 0, 7, parts.data()), Status::kOk);
  ASSERT_EQ(fold.finish_part(300, 7, 13, parts.data() + 7), Status::kOk);
  EXPECT_EQ(parts, whole);
  fold.clear();
  EXPECT_EQ(slots, std::vector<FoldSlot>(20));
}

TEST(Fold, FixedPointRoundsHalfAwayFromZero) {
  int64_t fixed = 0;
  for (int i = -40; i <= 40; ++i) {
    const Real value = static_cast<Real>(i) / 4;
    ASSERT_EQ(to_fixed(value, 0, &fixed), Status::kOk);
    EXPECT_EQ(fixed, std::llround(static_cast<double>(value)));
  }
  ASSERT_EQ(to_fixed(static_cast<Real>(0.49999997f), 0, &fixed), Status::kOk);
  EXPECT_EQ(fixed, 0);
  ASSERT_EQ(to_fixed(std::numeric_limits<Real>::denorm_min(), kFoldScaleLog2Max, &fixed), Status::kOk);
  EXPECT_EQ(fixed, 0);
}

}  // namespace
}  // namespace gradstream

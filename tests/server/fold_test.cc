#include "server/rules/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/random.h"

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

// As a rule adds an update: the terms first, then the sums. On an error nothing has been added.
Status add(Fold* fold, unsigned scale_log2, std::span<const Real> values, uint16_t weight) {
  std::vector<FoldSlot> terms(values.size());
  GS_TRY(make_terms(values, 1, weight, scale_log2, terms.data()));
  GS_TRY(fold->check_terms(terms));
  fold->add_terms(terms);
  return Status::kOk;
}

TEST(Fold, MeanIsTheWeightedMeanToTheScale) {
  const std::vector<Update> updates = random_updates(9, 40);
  std::vector<int64_t> slots(40);
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
  std::vector<int64_t> reference(33);
  Fold first(reference, 20);
  for (const Update& update : updates) {
    ASSERT_EQ(add(&first, 20, update.values, update.weight), Status::kOk);
  }
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(updates.begin(), updates.end(), random);
    std::vector<int64_t> slots(33, 99);  // the constructor clears
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
  std::vector<int64_t> slots(4);
  Fold fold(slots, 4);
  const std::vector<Real> values = {1.5, -0.25, 0.03125, -0.03125};  // the last two are half of a unit
  ASSERT_EQ(add(&fold, 4, values, 65535), Status::kOk);
  std::vector<Real> mean(4);
  ASSERT_EQ(fold.finish(65535, mean.data()), Status::kOk);
  EXPECT_EQ(mean, (std::vector<Real>{1.5, -0.25, 0.0625, -0.0625}));
}

TEST(Fold, DivisionRoundsHalfAwayFromZero) {
  std::vector<int64_t> slots(6);
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
  std::vector<int64_t> slots(3);
  Fold fold(slots, 20);
  const Real limit = 2048;  // 2^31 / 2^20
  const std::vector<Real> good = {1, 2, 3};
  ASSERT_EQ(add(&fold, 20, good, 5), Status::kOk);
  const std::vector<int64_t> before = slots;
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
    std::vector<FoldSlot> of_quotients(20);
    ASSERT_EQ(make_terms(quotients, 1, update.weight, 20, of_quotients.data()), Status::kOk);
    std::vector<FoldSlot> terms(20);
    ASSERT_EQ(make_terms(update.values, 3, update.weight, 20, terms.data()), Status::kOk);
    EXPECT_EQ(terms, of_quotients);
  }
}

TEST(Fold, TermsThatDoNotFitAreRefused) {
  std::vector<FoldSlot> terms(3);
  const Real limit = 2048;  // 2^31 / 2^20
  EXPECT_EQ(make_terms(std::vector<Real>{1, 2, limit}, 1, 1, 20, terms.data()), Status::kOutOfRange);
  EXPECT_EQ(make_terms(std::vector<Real>{1, 2, limit}, 2, 1, 20, terms.data()), Status::kOk);
  EXPECT_EQ(make_terms(std::vector<Real>{1, std::numeric_limits<Real>::quiet_NaN(), limit}, 1, 1, 20, terms.data()),
            Status::kNotFinite);
  EXPECT_EQ(make_terms(std::vector<Real>{1, 2, 3}, 1, 0, 20, terms.data()), Status::kInvalidArgument);
  std::vector<int64_t> slots(2);
  Fold fold(slots, 20);
  EXPECT_EQ(fold.check_terms(terms), Status::kInvalidArgument);  // three terms, two slots
  const std::vector<FoldSlot> largest(2, int64_t{1} << 61);
  ASSERT_EQ(fold.check_terms(largest), Status::kOk);
  fold.add_terms(largest);
  EXPECT_EQ(fold.check_terms(largest), Status::kOutOfRange);  // 2^62
  EXPECT_EQ(slots, largest);
}

TEST(Fold, RefusesSlotsThatAreNotThere) {
  std::vector<int64_t> slots(4);
  Fold fold(slots, 8);
  const std::vector<Real> values(8, 1);
  EXPECT_EQ(add(&fold, 8, std::span(values).first(5), 1), Status::kInvalidArgument);
  EXPECT_EQ(add(&fold, 8, std::span(values).first(4), 0), Status::kInvalidArgument);
  EXPECT_EQ(slots, std::vector<int64_t>(4));
  std::vector<Real> out(4);
  EXPECT_EQ(fold.finish(0, out.data()), Status::kInvalidArgument);
  EXPECT_EQ(fold.finish_part(1, 2, 3, out.data()), Status::kInvalidArgument);
}

// A version full of the largest values and weights fits; far beyond it the sum is refused instead of overflowing.
TEST(Fold, FullVersionOfExtremesFits) {
  std::vector<int64_t> slots(2);
  Fold fold(slots, 0);
  const std::vector<Real> extremes = {static_cast<Real>(2147483520), static_cast<Real>(-2147483520)};
  std::vector<FoldSlot> terms(2);
  ASSERT_EQ(make_terms(extremes, 1, 65535, 0, terms.data()), Status::kOk);
  for (uint32_t i = 0; i < kFoldUpdateCountMax; ++i) {
    ASSERT_EQ(fold.check_terms(terms), Status::kOk);
    fold.add_terms(terms);
  }
  std::vector<Real> mean(2);
  ASSERT_EQ(fold.finish(kFoldUpdateCountMax * 65535U, mean.data()), Status::kOk);
  EXPECT_EQ(mean, extremes);
  Status status = Status::kOk;
  for (uint32_t i = 0; i < 4 && status == Status::kOk; ++i) {
    status = add(&fold, 0, extremes, 65535);
  }
  EXPECT_EQ(status, Status::kOutOfRange);
}

TEST(Fold, PartsOfTheResultAreTheWhole) {
  const std::vector<Update> updates = random_updates(3, 20);
  std::vector<int64_t> slots(20);
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
  EXPECT_EQ(slots, std::vector<int64_t>(20));
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

#include "server/coordinator/norm_book.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

ClipTally tally_of(uint64_t radius, std::vector<ClipTally::Norm> norms) {
  ClipTally tally;
  tally.median = 100;
  tally.radius = radius;
  tally.norms = std::move(norms);
  return tally;
}

TEST(NormBook, KnowsTheRatioAndTheShareOfEachDevice) {
  NormBook book;
  EXPECT_EQ(book.find(0), nullptr);
  book.take({});
  EXPECT_EQ(book.radius(), kNoClipRadius);
  book.take(tally_of(400, {{0, 100}, {2, 900}}));
  book.take(tally_of(400, {{2, 150}, {ClipTally::kNobody, 7}}));
  EXPECT_EQ(book.find(0)->ratio(), 1);
  EXPECT_EQ(book.find(0)->clipped_share(), 0);
  EXPECT_EQ(book.find(1), nullptr);
  EXPECT_EQ(book.find(2)->ratio(), 1.5);
  EXPECT_EQ(book.find(2)->clipped_share(), 0.5);
  EXPECT_EQ(book.find(3), nullptr);
  EXPECT_EQ(book.clipped_count(), 1U);
  EXPECT_EQ(book.radius(), 400U);
}

TEST(NormBook, AnOutlierIsLongInHalfOfItsLastUpdates) {
  NormBook book;
  for (uint32_t i = 0; i + 1 < kOutlierCount; ++i) {
    book.take(tally_of(400, {{0, 201}, {1, 200}}));
  }
  EXPECT_FALSE(book.find(0)->is_outlier());
  book.take(tally_of(400, {{0, 201}, {1, 200}}));
  EXPECT_TRUE(book.find(0)->is_outlier());
  EXPECT_FALSE(book.find(1)->is_outlier()) << "two medians are not above two medians";
  for (uint32_t i = 0; i < kNormMemory - kOutlierCount; ++i) {
    book.take(tally_of(400, {{0, 100}}));
  }
  EXPECT_TRUE(book.find(0)->is_outlier());
  book.take(tally_of(400, {{0, 100}}));
  EXPECT_FALSE(book.find(0)->is_outlier());
}

TEST(NormBook, AStateIsReadBack) {
  NormBook book;
  book.take(tally_of(400, {{0, 100}, {2, 900}}));
  StateArchive out;
  book.exchange(out);
  const std::vector<uint8_t> bytes = out.take_bytes();
  NormBook other;
  StateArchive in(bytes);
  other.exchange(in);
  EXPECT_TRUE(in.is_sound() && in.is_at_end());
  EXPECT_EQ(other.find(2)->clipped_share(), 1);
  EXPECT_EQ(other.find(1), nullptr);
  EXPECT_EQ(other.clipped_count(), 1U);
  EXPECT_EQ(other.radius(), 400U);
}

TEST(NormBook, KnowsTheLastCosineOfEachDeviceAndTheLeastOfAVersion) {
  NormBook book;
  book.take(tally_of(400, {{0, 100, 0.9}, {1, 100, -0.5}, {2, 100, 0.25}, {3, 100}}));
  EXPECT_EQ(book.find(0)->cosine(), 0.9);
  EXPECT_EQ(book.find(1)->cosine(), -0.5);
  EXPECT_EQ(book.find(3)->cosine(), 0) << "none is known";
  EXPECT_EQ(book.least_cosine(), -0.5);
  book.take(tally_of(400, {{0, 100}, {2, 100, 0.75}}));
  EXPECT_EQ(book.find(0)->cosine(), 0.9) << "of its last update that has one";
  EXPECT_EQ(book.least_cosine(), 0.75);
  book.take(tally_of(400, {{0, 100}}));
  EXPECT_EQ(book.least_cosine(), 0);
}

TEST(NormBook, AForgottenDeviceHasNoFigures) {
  NormBook book;
  book.take(tally_of(400, {{0, 100, 0.5}, {2, 900, -0.5}}));
  book.forget(2);
  book.forget(7);
  EXPECT_EQ(book.find(2), nullptr);
  EXPECT_EQ(book.find(0)->ratio(), 1);
  EXPECT_EQ(book.clipped_count(), 1U);
}

TEST(NormBook, AMedianOfZeroHasNoRatio) {
  NormBook book;
  ClipTally tally = tally_of(0, {{0, 5}});
  tally.median = 0;
  book.take(tally);
  EXPECT_EQ(book.find(0)->ratio(), 0);
  EXPECT_EQ(book.find(0)->clipped_share(), 1);
}

}  // namespace
}  // namespace gradstream

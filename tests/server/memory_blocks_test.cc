// Whole numbers of a memory: factors of shares, and sums in blocks.
#include "server/rules/memory_blocks.h"

#include <cmath>

#include <gtest/gtest.h>

#include "server/rules/fold.h"

namespace gradstream {
namespace {

TEST(MemoryBlocks, AFactorIsExactInItsLowestTerms) {
  EXPECT_EQ(shortened(6, 9), (Fraction{2, 3}));
  EXPECT_EQ(shortened(1, 1), (Fraction{1, 1}));
  EXPECT_EQ(shortened(uint64_t{3} << 40, uint64_t{1} << 40), (Fraction{3, 1}));
}

// Its numerator times a share stays below 2^62.
TEST(MemoryBlocks, AFactorOfLargeTermsKeepsThirtyBits) {
  const uint64_t numerator = (uint64_t{1} << 50) + 1;
  const uint64_t denominator = (uint64_t{1} << 49) + 3;
  const Fraction factor = shortened(numerator, denominator);
  EXPECT_LT(factor.numerator, uint64_t{1} << kFoldValueBits);
  const double exact = static_cast<double>(numerator) / static_cast<double>(denominator);
  EXPECT_NEAR(static_cast<double>(factor.numerator) / static_cast<double>(factor.denominator), exact,
              std::ldexp(exact, -28));
}

TEST(MemoryBlocks, ANumberBecomesAFactor) {
  EXPECT_EQ(fraction_of(0.75), (Fraction{3, 4}));
  EXPECT_EQ(fraction_of(kInverseParticipationMax), (Fraction{uint64_t{1} << kStalenessBits, 1}));
  const Fraction third = fraction_of(1.0 / 3);
  EXPECT_NEAR(static_cast<double>(third.numerator) / static_cast<double>(third.denominator), 1.0 / 3,
              std::ldexp(1, -30));
}

// What is taken out is the number that was put in, whatever was added between: h has no drift.
TEST(MemoryBlocks, WhatIsTakenOutIsWhatWasPutIn) {
  const MemoryEntry first = {4, 1, 1, kClipScaleOne, {10, -7, 3}};
  const MemoryEntry second = {4, 1, 1, kClipScaleOne, {5, 5}};
  const MemoryEntry elsewhere = {5, 2, 1, kClipScaleOne, {1}};
  MemoryBlocks blocks;
  add_to_block(blocks, false, first, 1, {1, 3});
  EXPECT_EQ(blocks, (MemoryBlocks{{{false, 4, 1}, {3, -2, 1}}}));
  add_to_block(blocks, false, second, 1, {1, 3});
  add_to_block(blocks, true, elsewhere, 1, {7, 1});
  EXPECT_EQ(blocks, (MemoryBlocks{{{false, 4, 1}, {5, 0, 1}}, {{true, 5, 2}, {7}}}));
  EXPECT_EQ(coefficient_count(blocks), 4U);
  add_to_block(blocks, false, first, -1, {1, 3});
  add_to_block(blocks, true, elsewhere, -1, {7, 1});
  drop_zero_blocks(blocks);
  EXPECT_EQ(blocks, (MemoryBlocks{{{false, 4, 1}, {2, 2, 0}}}));
}

}  // namespace
}  // namespace gradstream

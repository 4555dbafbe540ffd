#include "runtime/base/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/golden/random_vectors.h"

namespace gradstream {
namespace {

constexpr RandomKey kMinibatchKey{7, RandomDomain::kMinibatch, 1, 2, 3};
constexpr RandomKey kDataKey{7, RandomDomain::kData, 1, 2, 3};

TEST(Random, PhiloxKnownAnswers) {
  const uint32_t zero_counter[4] = {}, zero_key[2] = {};
  uint32_t out[4];
  philox4x32(zero_counter, zero_key, out);
  EXPECT_TRUE(std::equal(out, out + 4, golden::random::kZeroOut));
  philox4x32(golden::random::kPiCounter, golden::random::kPiKey, out);
  EXPECT_TRUE(std::equal(out, out + 4, golden::random::kPiOut));
}

TEST(Random, StreamFollowsTheKeyLayout) {
  RandomStream stream(kMinibatchKey);
  for (const uint32_t word : golden::random::kMinibatchWords) {
    EXPECT_EQ(stream.next(), word);
  }
}

TEST(Random, StreamStartsAnywhere) {
  for (uint64_t first = 0; first < 8; ++first) {
    RandomStream stream(kMinibatchKey, first);
    for (uint64_t i = first; i < 8; ++i) {
      EXPECT_EQ(stream.next(), golden::random::kMinibatchWords[i]) << first;
    }
  }
}

TEST(Random, BlocksBeyondTheThirtySecondBitOfAWordIndex) {
  uint32_t block[4];
  philox_block(kMinibatchKey, 0xFFFFFFFF, block);
  RandomStream stream(kMinibatchKey, (uint64_t{1} << 34) - 1);
  EXPECT_EQ(stream.next(), block[3]);
}

TEST(Random, EveryPartOfTheKeyMatters) {
  const RandomKey keys[] = {{7, RandomDomain::kMinibatch, 1, 2, 3}, {8, RandomDomain::kMinibatch, 1, 2, 3},
                            {7, RandomDomain::kData, 1, 2, 3},      {7, RandomDomain::kMinibatch, 0, 2, 3},
                            {7, RandomDomain::kMinibatch, 1, 0, 3}, {7, RandomDomain::kMinibatch, 1, 2, 0}};
  std::vector<uint32_t> words;
  for (const RandomKey& key : keys) {
    words.push_back(RandomStream(key).next());
  }
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::unique(words.begin(), words.end()), words.end());
}

TEST(Random, UniformsAreInsideTheOpenInterval) {
  RandomStream stream(kMinibatchKey);
  EXPECT_EQ(stream.next_uniform(), (golden::random::kMinibatchWords[0] + 0.5) / 4294967296.0);
  for (int i = 0; i < 1000; ++i) {
    const double u = stream.next_uniform();
    EXPECT_GT(u, 0);
    EXPECT_LT(u, 1);
  }
}

TEST(Random, NormalsEqualTheReference) {
  Real out[8];
  fill_normal(kDataKey, 0, 8, out);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(static_cast<double>(out[i]), golden::random::kDataNormals[i], sizeof(Real) == 8 ? 1e-14 : 2e-6) << i;
  }
}

TEST(Random, NormalsStartAndEndAnywhere) {
  Real all[9];
  fill_normal(kDataKey, 0, 9, all);
  for (size_t first = 0; first < 9; ++first) {
    for (size_t count = 0; first + count <= 9; ++count) {
      Real part[10];
      part[count] = 42;
      fill_normal(kDataKey, first, count, part);
      EXPECT_TRUE(std::equal(part, part + count, all + first)) << first << " " << count;
      EXPECT_EQ(part[count], 42);
    }
  }
}

TEST(Random, NormalsHaveTheirMoments) {
  constexpr size_t kCount = 100000;
  std::vector<Real> out(kCount);
  fill_normal({.seed = 3}, 0, kCount, out.data());
  double sum = 0, square = 0, fourth = 0;
  for (const Real value : out) {
    const double v = static_cast<double>(value);
    sum += v;
    square += v * v;
    fourth += v * v * v * v;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(square / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
}

TEST(Random, ChoiceEqualsTheReference) {
  uint16_t work[10];
  choose(kMinibatchKey, 10, 4, work);
  EXPECT_TRUE(std::equal(work, work + 4, golden::random::kChoice4Of10));
}

TEST(Random, ChoosingAllIsAPermutation) {
  std::vector<uint16_t> work(kSampleCountMax);
  choose(kMinibatchKey, kSampleCountMax, kSampleCountMax, work.data());
  EXPECT_FALSE(std::is_sorted(work.begin(), work.end()));
  std::sort(work.begin(), work.end());
  for (uint32_t i = 0; i < kSampleCountMax; ++i) {
    ASSERT_EQ(work[i], i);
  }
}

TEST(RandomDeathTest, ChoosingMoreThanThereAreIsABreach) {
  uint16_t work[4];
  EXPECT_DEATH(choose(kMinibatchKey, 3, 4, work), "assertion failed");
}

}  // namespace
}  // namespace gradstream

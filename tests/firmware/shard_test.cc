#include "firmware/shard.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

template <typename T>
void append(std::vector<uint8_t>& bytes, T value) {
  uint8_t raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.insert(bytes.end(), raw, raw + sizeof(T));
}

std::vector<uint8_t> make_shard(uint32_t count, uint32_t dimension, float scale, float mean) {
  std::vector<uint8_t> bytes = {'G', 'S', 'D', '1'};
  append(bytes, count);
  append(bytes, dimension);
  append(bytes, scale);
  for (uint32_t i = 0; i < dimension; ++i) append(bytes, mean + static_cast<float>(i));
  for (uint32_t i = 0; i < count * dimension; ++i) bytes.push_back(static_cast<uint8_t>(i));
  return bytes;
}

TEST(Shard, ReadsItsSamples) {
  std::vector<uint8_t> bytes = make_shard(5, 3, 0.0625f, 0.5f);
  bytes.resize(bytes.size() + 1000, 0xff);  // the rest of a flash page
  bytes.insert(bytes.begin(), 0);           // and no alignment
  Shard shard;
  ASSERT_EQ(parse_shard(std::span(bytes).subspan(1), &shard), Status::kOk);
  EXPECT_EQ(shard.count, 5u);
  EXPECT_EQ(shard.dimension, 3u);
  float sample[3];
  read_shard(shard, 4, sample);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sample[i], static_cast<float>(12 + i) * 0.0625f - (0.5f + static_cast<float>(i)));
  }
}

TEST(Shard, RefusesWhatItIsNot) {
  const std::vector<uint8_t> good = make_shard(5, 3, 0.0625f, 0.5f);
  Shard shard;
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(parse_shard(std::span(good).first(size), &shard), Status::kDataCorrupt) << size;
  }
  std::vector<uint8_t> bad = good;
  bad[3] = '2';
  EXPECT_EQ(parse_shard(bad, &shard), Status::kDataCorrupt);
  EXPECT_EQ(parse_shard(std::vector<uint8_t>(5000, 0xff), &shard), Status::kDataCorrupt) << "an erased page";
  EXPECT_EQ(parse_shard(make_shard(0, 3, 1, 0), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_shard(make_shard(5, 0, 1, 0), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_shard(make_shard(65536, 1, 1, 0), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_shard(make_shard(1, 32769, 1, 0), &shard), Status::kOutOfRange);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {infinity, -infinity, std::nanf("")}) {
    EXPECT_EQ(parse_shard(make_shard(5, 3, wrong, 0), &shard), Status::kNotFinite);
    EXPECT_EQ(parse_shard(make_shard(5, 3, 1, wrong), &shard), Status::kNotFinite);
  }
  EXPECT_EQ(parse_shard(make_shard(5, 3, 0, 0), &shard), Status::kNotFinite);
  // What byte 255 stands for is finite too, whichever bytes the shard has.
  EXPECT_EQ(parse_shard(make_shard(5, 3, 3e38f, 0), &shard), Status::kNotFinite);
  EXPECT_EQ(parse_shard(make_shard(5, 3, 3e38f, 3e38f), &shard), Status::kNotFinite) << "the product overflows first";
  EXPECT_EQ(parse_shard(make_shard(5, 3, -1e36f, 2e38f), &shard), Status::kNotFinite);
  EXPECT_EQ(shard.count, 0u) << "set although refused";
  EXPECT_EQ(parse_shard(make_shard(5, 3, 1e36f, -5e37f), &shard), Status::kOk) << "large, and finite for every byte";
}

}  // namespace
}  // namespace gradstream

#include "firmware/float_shard.h"

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

std::vector<uint8_t> make_shard(uint32_t count, uint32_t dimension, const std::vector<uint32_t>& ends,
                                float first = 0.5F) {
  std::vector<uint8_t> bytes = {'G', 'S', 'D', '2'};
  append(bytes, count);
  append(bytes, dimension);
  append(bytes, static_cast<uint32_t>(ends.size()));
  for (const uint32_t end : ends) append(bytes, end);
  for (uint32_t i = 0; i < count * dimension; ++i) append(bytes, first + static_cast<float>(i));
  return bytes;
}

TEST(FloatShard, ReadsItsSamplesAndGroups) {
  std::vector<uint8_t> bytes = make_shard(5, 3, {2, 5});
  bytes.resize(bytes.size() + 1000, 0xff);  // the rest of a flash page
  bytes.insert(bytes.begin(), 0);           // and no alignment
  FloatShard shard;
  ASSERT_EQ(parse_float_shard(std::span(bytes).subspan(1), &shard), Status::kOk);
  EXPECT_EQ(shard.count, 5u);
  EXPECT_EQ(shard.dimension, 3u);
  ASSERT_EQ(shard.group_count, 2u);
  EXPECT_EQ(float_shard_group_end(shard, 0), 2u);
  EXPECT_EQ(float_shard_group_end(shard, 1), 5u);
  float sample[3];
  read_float_shard(shard, 4, sample);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sample[i], 12.5F + static_cast<float>(i));
}

TEST(FloatShard, RefusesWhatItIsNot) {
  const std::vector<uint8_t> good = make_shard(5, 3, {2, 5});
  FloatShard shard;
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(parse_float_shard(std::span(good).first(size), &shard), Status::kDataCorrupt) << size;
  }
  std::vector<uint8_t> bad = good;
  bad[3] = '1';
  EXPECT_FALSE(is_float_shard(bad));
  EXPECT_EQ(parse_float_shard(bad, &shard), Status::kDataCorrupt);
  for (const std::vector<uint32_t>& ends : {std::vector<uint32_t>{2, 4}, {5, 2}, {0, 5}, {2, 2, 5}, {2, 6}}) {
    EXPECT_EQ(parse_float_shard(make_shard(5, 3, ends), &shard), Status::kDataCorrupt);
  }
  EXPECT_EQ(parse_float_shard(make_shard(0, 3, {}), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_shard(5, 0, {}), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_shard(65536, 1, {}), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_shard(1, 32769, {}), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_shard(2, 1, {1, 2, 3}), &shard), Status::kOutOfRange);
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_EQ(parse_float_shard(make_shard(5, 3, {}, wrong), &shard), Status::kNotFinite);
  }
  EXPECT_EQ(shard.count, 0u) << "set although refused";
}

}  // namespace
}  // namespace gradstream

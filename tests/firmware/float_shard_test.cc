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

std::vector<uint8_t> make_labelled(uint32_t count, uint32_t dimension, uint32_t class_count, float scale = 0.5F,
                                   float offset = -1) {
  std::vector<uint8_t> bytes = {'G', 'S', 'D', '3'};
  append(bytes, count);
  append(bytes, dimension);
  append(bytes, class_count);
  append(bytes, scale);
  append(bytes, offset);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = 0; j + 1 < dimension; ++j) bytes.push_back(static_cast<uint8_t>(3 * i + j));
    bytes.push_back(static_cast<uint8_t>(i % class_count));
  }
  return bytes;
}

// What stands behind a shard is found by its size, whatever follows.
TEST(FloatShard, KnowsWhereItEnds) {
  std::vector<std::vector<uint8_t>> all = {make_shard(5, 3, {2, 5}), make_shard(2, 7, {}), make_labelled(5, 3, 4)};
  for (std::vector<uint8_t>& bytes : all) {
    const size_t size = bytes.size();
    bytes.resize(size + 1000, 0xff);
    FloatShard shard;
    ASSERT_EQ(parse_float_shard(bytes, &shard), Status::kOk);
    EXPECT_EQ(float_shard_size(shard, bytes), size);
  }
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

TEST(FloatShard, ReadsBytesWithLabels) {
  std::vector<uint8_t> bytes = make_labelled(5, 3, 4);
  bytes.resize(bytes.size() + 1000, 0xff);  // the rest of a flash page
  bytes.insert(bytes.begin(), 0);           // and no alignment
  FloatShard shard;
  ASSERT_TRUE(is_float_shard(std::span(bytes).subspan(1)));
  ASSERT_EQ(parse_float_shard(std::span(bytes).subspan(1), &shard), Status::kOk);
  EXPECT_EQ(shard.count, 5u);
  EXPECT_EQ(shard.dimension, 3u);
  EXPECT_EQ(shard.group_count, 0u);
  for (uint32_t index = 0; index < 5; ++index) {
    float sample[3];
    read_float_shard(shard, index, sample);
    EXPECT_EQ(sample[0], static_cast<float>(3 * index) * 0.5F - 1);
    EXPECT_EQ(sample[1], static_cast<float>(3 * index + 1) * 0.5F - 1);
    EXPECT_EQ(sample[2], static_cast<float>(index % 4)) << "a label has no scale";
  }
}

// What a board with 256 KB of flash for samples holds of images of 14 x 14.
TEST(FloatShard, HoldsThirteenHundredSmallImages) {
  const std::vector<uint8_t> bytes = make_labelled(1300, 14 * 14 + 1, 10, 1.0F / 255, 0);
  EXPECT_LE(bytes.size(), 252u * 1024);  // the region of the emulated boards
  FloatShard shard;
  ASSERT_EQ(parse_float_shard(bytes, &shard), Status::kOk);
  float sample[14 * 14 + 1];
  read_float_shard(shard, 1299, sample);
  EXPECT_EQ(sample[196], 9.0F);
}

TEST(FloatShard, RefusesBadBytesWithLabels) {
  const std::vector<uint8_t> good = make_labelled(5, 3, 4);
  FloatShard shard;
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(parse_float_shard(std::span(good).first(size), &shard), Status::kDataCorrupt) << size;
  }
  for (uint32_t sample = 0; sample < 5; ++sample) {
    std::vector<uint8_t> bad = good;
    bad[24 + 3 * sample + 2] = 4;
    EXPECT_EQ(parse_float_shard(bad, &shard), Status::kOutOfRange) << "the label of sample " << sample;
  }
  EXPECT_EQ(parse_float_shard(make_labelled(0, 3, 4), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_labelled(65536, 2, 4), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_labelled(5, 1, 4), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_labelled(1, 32769, 4), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_labelled(5, 3, 1), &shard), Status::kOutOfRange);
  EXPECT_EQ(parse_float_shard(make_labelled(5, 3, 257), &shard), Status::kOutOfRange);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {infinity, -infinity, std::nanf("")}) {
    EXPECT_EQ(parse_float_shard(make_labelled(5, 3, 4, wrong), &shard), Status::kNotFinite);
    EXPECT_EQ(parse_float_shard(make_labelled(5, 3, 4, 1, wrong), &shard), Status::kNotFinite);
  }
  EXPECT_EQ(parse_float_shard(make_labelled(5, 3, 4, 0), &shard), Status::kNotFinite);
  EXPECT_EQ(parse_float_shard(make_labelled(5, 3, 4, 3e38F, 0), &shard), Status::kNotFinite) << "byte 255 overflows";
  EXPECT_EQ(shard.count, 0u) << "set although refused";
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

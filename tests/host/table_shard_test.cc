#include "host/table_shard.h"

#include <gtest/gtest.h>

#include "firmware/float_shard.h"
#include "firmware/shard.h"

namespace gradstream {
namespace {

SampleTable table_of(uint32_t dimension, std::vector<float> values) {
  SampleTable table;
  table.dimension = dimension;
  table.sample_count = static_cast<uint32_t>(values.size()) / dimension;
  table.values = std::move(values);
  return table;
}

TEST(TableShard, DevicesReadTheSameFloats) {
  const SampleTable table = table_of(3, {1, -2.5F, 3e38F, 1e-40F, 0, -6});
  const std::vector<uint8_t> bytes = float_shard_bytes(table);
  FloatShard shard;
  ASSERT_EQ(parse_float_shard(bytes, &shard), Status::kOk);
  EXPECT_EQ(float_shard_size(shard, bytes), bytes.size());
  std::vector<float> read(6);
  read_float_shard(shard, 0, read.data());
  read_float_shard(shard, 1, &read[3]);
  EXPECT_EQ(read, table.values);
}

TEST(TableShard, BytesAreAsFarFromTheValuesAsIsSaid) {
  const SampleTable table = table_of(2, {-1, 100, 0.26F, 101});
  const std::vector<float> mean = {1, -100};
  double error = -1;
  const std::vector<uint8_t> bytes = byte_shard_bytes(table, 0.5F, mean, &error);
  EXPECT_NEAR(error, 0.24, 1e-6);
  Shard shard;
  ASSERT_EQ(parse_shard(bytes, &shard), Status::kOk);
  std::vector<float> read(4);
  read_shard(shard, 0, read.data());
  read_shard(shard, 1, &read[2]);
  EXPECT_EQ(read, (std::vector<float>{-1, 100, 0.5F, 101}));
  EXPECT_EQ(bytes.size(), 16U + 8 + 4);
}

TEST(TableShard, LabelsAreBytesOfTheirOwn) {
  const SampleTable table = table_of(3, {0, 127.5F, 1, 255, 51, 0});
  double error = -1;
  const std::vector<uint8_t> bytes = labelled_shard_bytes(table, 1, 0, 2, &error);
  EXPECT_EQ(error, 0.5);
  FloatShard shard;
  ASSERT_EQ(parse_float_shard(bytes, &shard), Status::kOk);
  EXPECT_EQ(float_shard_size(shard, bytes), bytes.size());
  std::vector<float> read(3);
  read_float_shard(shard, 1, read.data());
  EXPECT_EQ(read, (std::vector<float>{255, 51, 0}));
  EXPECT_EQ(std::vector<uint8_t>(bytes.end() - 6, bytes.end()), (std::vector<uint8_t>{0, 128, 1, 255, 51, 0}));
}

}  // namespace
}  // namespace gradstream

#include "server/program/data_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/table_shard.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

SampleTable table_of(uint32_t dimension, std::vector<float> values) {
  SampleTable table;
  table.dimension = dimension;
  table.sample_count = static_cast<uint32_t>(values.size()) / dimension;
  table.values = std::move(values);
  return table;
}

TEST(DataSummary, ColumnsHaveRangeMeanAndDeviation) {
  const std::vector<ColumnSummary> columns = summarise_columns(table_of(2, {1, 7, 3, 7, 5, 7}));
  EXPECT_EQ(columns[0].least, 1);
  EXPECT_EQ(columns[0].greatest, 5);
  EXPECT_DOUBLE_EQ(columns[0].mean, 3);
  EXPECT_DOUBLE_EQ(columns[0].deviation, std::sqrt(8.0 / 3));
  EXPECT_FALSE(columns[0].is_constant());
  EXPECT_TRUE(columns[1].is_constant());
  EXPECT_EQ(columns[1].deviation, 0);
}

TEST(DataSummary, SpectraAreThoseOfBothMoments) {
  const SampleTable centred = table_of(2, {4, 4, -4, -4, 2, -2, -2, 2});  // the moment is [[10, 6], [6, 10]]
  Spectrum spectrum = find_spectrum(centred, 2, 8);
  ASSERT_EQ(spectrum.centred.size(), 2U);
  EXPECT_NEAR(spectrum.centred[0], 16, 1e-12);
  EXPECT_NEAR(spectrum.centred[1], 4, 1e-12);
  EXPECT_EQ(spectrum.raw, spectrum.centred);
  SampleTable moved = centred;
  for (float& value : moved.values) value += 100;
  spectrum = find_spectrum(moved, 2, 1);
  ASSERT_EQ(spectrum.centred.size(), 1U);
  EXPECT_NEAR(spectrum.centred[0], 16, 1e-9);
  EXPECT_NEAR(spectrum.raw[0], 20016, 1e-6);  // 2 * 100^2 along the mean
}

TEST(DataSummary, FewSamplesOfManyValuesHaveTheSameSpectrum) {
  const SampleTable wide = table_of(4, {1, 2, 3, 9, -1, 0, 5, 9});  // the last value is no part of it
  const Spectrum spectrum = find_spectrum(wide, 3, 8);
  ASSERT_EQ(spectrum.raw.size(), 2U);
  EXPECT_NEAR(spectrum.raw[0] + spectrum.raw[1], (1 + 4 + 9 + 1 + 0 + 25) / 2.0, 1e-12);
  EXPECT_NEAR(spectrum.centred[0], 3, 1e-12);  // a quarter of the square distance of the samples, 12
  EXPECT_NEAR(spectrum.centred[1], 0, 1e-12);
}

TEST(DataSummary, AnEigenvalueOfNothingIsZeroWithoutASign) {
  const Spectrum spectrum = find_spectrum(table_of(2, {0, 0, -0.0F, 0}), 2, 8);
  for (const double value : spectrum.centred) EXPECT_FALSE(std::signbit(value));
  for (const double value : spectrum.raw) EXPECT_FALSE(std::signbit(value));
}

TEST(DataSummary, ReadsShardsOfEveryForm) {
  const SampleTable table = table_of(3, {0, 2, 1, 4, 6, 0});
  const std::vector<float> mean = {0, 0, 0};
  double error = 0;
  const struct {
    std::vector<uint8_t> bytes;
    const char* format;
  } shards[] = {{float_shard_bytes(table), "GSD2"},
                {byte_shard_bytes(table, 1, mean, &error), "GSD1"},
                {labelled_shard_bytes(table, 2, 0, 2, &error), "GSD3"}};
  for (const auto& [bytes, wanted] : shards) {
    SampleTable read;
    std::string format;
    ASSERT_EQ(read_shard_table(bytes, &read, &format).sentence, "");
    EXPECT_EQ(format, wanted);
    EXPECT_EQ(read.values, table.values) << format;
    EXPECT_EQ(read.sample_count, 2U);
    EXPECT_EQ(read.dimension, 3U);
    EXPECT_EQ(read.has_label, format == "GSD3");
    EXPECT_THAT(read_shard_table(std::span(bytes).first(bytes.size() - 1), &read, &format).sentence,
                HasSubstr("truncated"));
  }
}

}  // namespace
}  // namespace gradstream

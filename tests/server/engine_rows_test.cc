#include "server/postgresql/engine_rows.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

DeviceRow full_row() {
  DeviceRow row;
  row.task = {
      .sequence = 1, .version = 2, .record_sequence = 3, .issued_ms = 4, .steps = 5, .samples = 6, .is_open = true};
  row.judged = {7, gs_Verdict_VERDICT_FOLDED, gs_Reason_REASON_NONE, 8, 0.5F, 9};
  row.accepted = {10, gs_Verdict_VERDICT_LATE, gs_Reason_REASON_NONE, 11, 0.25F, 12};
  row.step_time_us = 13;
  row.answered_version = 14;
  row.refusals = {15, 16};
  row.tally = {17, 18, 19, 20, 21, 22, 23, 24, 25};
  row.refuses_units = true;
  return row;
}

TEST(EngineRows, ComeBackAsTheyWere) {
  const std::vector<uint8_t> bytes = encode_engine_row(full_row());
  DeviceRow row;
  ASSERT_TRUE(decode_engine_row(bytes, &row));
  EXPECT_EQ(encode_engine_row(row), bytes);
  EXPECT_EQ(row.task.samples, 6U);
  EXPECT_EQ(row.judged, full_row().judged);
  EXPECT_EQ(row.accepted, full_row().accepted);
  EXPECT_EQ(row.tally.judged_version, 25U);
  EXPECT_TRUE(row.refuses_units);
}

// Another release reads these bytes while a cluster is upgraded. Whoever lists one more field in DeviceRow::exchange()
// gives it a form of its own, raises kEngineRowForm, and keeps these numbers for form 1.
TEST(EngineRows, AreThoseOfForm1) {
  const std::vector<uint8_t> bytes = encode_engine_row(full_row());
  EXPECT_EQ(bytes[0], 1U);
  EXPECT_EQ(bytes.size(), 158U);
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 3843842658U);
}

// Runs whose rule has no memory keep the first form.
TEST(EngineRows, HaveAMemoryInForm2) {
  DeviceRow row = full_row();
  row.memory = {{25, 26}, {23, 24}};
  const std::vector<uint8_t> bytes = encode_engine_row(row);
  EXPECT_EQ(bytes[0], 2U);
  const std::vector<uint8_t> first = encode_engine_row(full_row());
  ASSERT_EQ(bytes.size(), first.size() + 16);
  EXPECT_TRUE(std::equal(first.begin() + 1, first.end(), bytes.begin() + 1));
  EXPECT_EQ(std::vector<uint8_t>(bytes.end() - 16, bytes.end()),
            (std::vector<uint8_t>{25, 0, 0, 0, 26, 0, 0, 0, 23, 0, 0, 0, 24, 0, 0, 0}));
  DeviceRow read;
  ASSERT_TRUE(decode_engine_row(bytes, &read));
  EXPECT_EQ(read.memory, row.memory);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_engine_row(std::span(bytes).first(size), &read)) << size;
  }
  ASSERT_TRUE(decode_engine_row(first, &read));
  EXPECT_EQ(read.memory, RowMemory());
}

TEST(EngineRows, ReadsNoOtherBytes) {
  const std::vector<uint8_t> bytes = encode_engine_row(full_row());
  DeviceRow row;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_engine_row(std::span(bytes).first(size), &row)) << size;
  }
  std::vector<uint8_t> other = bytes;
  other.push_back(0);
  EXPECT_FALSE(decode_engine_row(other, &row));
  for (const uint8_t form : {0, 2, kEngineMemoryRowForm + 1, 255}) {
    other = bytes;
    other[0] = form;
    EXPECT_FALSE(decode_engine_row(other, &row)) << "form " << int{form};
  }
}

}  // namespace
}  // namespace gradstream

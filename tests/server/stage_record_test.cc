#include "server/rules/stage_record.h"

#include <limits>

#include <gtest/gtest.h>

#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters staged_parameters() {
  RunParameters p = scalar_parameters();
  p.units.keys().centre = Centre::kFederated;
  p.steps->step_size = 0;
  return p;
}

StageRecord some_record() {
  StageRecord record;
  record.is_known = record.keeps_model = true;
  record.opens = {TaskStage::kTrials, 1};
  record.decision = {1, 2, 3};
  record.units = encode_units(std::vector<UnitsColumn>{{-126, -1.5F, 0}, {128, 0, 2}});
  record.direction.resize(32 * sizeof(Real));
  record.left_out = {1, 5};
  return record;
}

Status take(const RunParameters& p, std::span<const uint8_t> bytes, StageRecord* record) {
  PayloadReader reader{bytes};
  return take_stage(p, reader, record);
}

TEST(StageRecord, SaysWhatWasPut) {
  const RunParameters p = staged_parameters();
  const StageRecord record = some_record();
  std::vector<uint8_t> bytes;
  put_stage(record, &bytes);
  StageRecord read;
  ASSERT_EQ(take(p, bytes, &read), Status::kOk);
  EXPECT_EQ(read, record);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(take(p, std::span(bytes).first(size), &read), Status::kDataCorrupt) << size;
  }
}

TEST(StageRecord, WhatNoServerMakesIsRefused) {
  const RunParameters p = staged_parameters();
  const auto is_refused = [&](void (*spoil)(StageRecord&)) {
    StageRecord record = some_record();
    spoil(record);
    std::vector<uint8_t> bytes;
    put_stage(record, &bytes);
    StageRecord read;
    return take(p, bytes, &read) == Status::kDataCorrupt;
  };
  EXPECT_FALSE(is_refused([](StageRecord&) {}));
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.opens = {TaskStage::kTrials, 2}; }));
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.opens = {TaskStage::kSquares, 0}; }));  // not of this run
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.opens = {static_cast<TaskStage>(77), 0}; }));
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.opens = {TaskStage::kTrain, 0}; }));  // it has a direction
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.keeps_model = false; }));
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.direction.pop_back(); }));
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.units.pop_back(); }));
  EXPECT_TRUE(is_refused([](StageRecord& r) { r.left_out = {5, 5}; }));
}

TEST(StageRecord, UnitsAreFiniteAndInRange) {
  const auto is_good = [](UnitsColumn column) {
    std::vector<UnitsColumn> read;
    return decode_units(encode_units(std::span(&column, 1)), &read) == Status::kOk;
  };
  EXPECT_TRUE(is_good({5, -2, 1}));
  EXPECT_FALSE(is_good({129, 0, 1}));
  EXPECT_FALSE(is_good({-127, 0, 1}));
  EXPECT_FALSE(is_good({5, std::numeric_limits<float>::infinity(), 1}));
  EXPECT_FALSE(is_good({5, 0, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_FALSE(is_good({5, 0, -1}));
}

// docs/wire.md, section 14: the bytes of the table behind those of the replica.
TEST(StageRecord, TheDigestGoesOnOverTheTable) {
  EXPECT_EQ(digest_with_units(kDigestStart, {}), kDigestStart);
  const std::vector<uint8_t> table = encode_units(std::vector<UnitsColumn>{{1, 2, 3}});
  uint64_t digest = 42;
  for (const uint8_t byte : {1, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40}) {
    digest = digest_byte(digest, byte);
  }
  EXPECT_EQ(digest_with_units(42, table), digest);
}

// The payload of a version that a stage made, and of one that trains in such a run.
TEST(StageRecord, StandsInFrontOfThePayload) {
  const RunParameters p = staged_parameters();
  VersionRecord record;
  record.version = 3;
  record.stage = some_record();
  VersionRecord read;
  read.version = 3;
  ASSERT_EQ(decode_payload(p, encode_payload(record), &read), Status::kOk);
  EXPECT_EQ(read, record);
  read.version = 0;
  EXPECT_EQ(decode_payload(p, encode_payload(record), &read), Status::kDataCorrupt);
  record.stage = StageRecord();
  record.stage.is_known = true;
  record.blocks.push_back({1, 0, 4, Encoding::kF32, false, std::vector<uint8_t>(16)});
  read = VersionRecord();
  read.version = 3;
  ASSERT_EQ(decode_payload(p, encode_payload(record), &read), Status::kOk);
  EXPECT_EQ(read, record);
}

}  // namespace
}  // namespace gradstream

#include "server/rules/record.h"

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters parameters() {
  RunParameters p = scalar_parameters();
  p.local->direction_count = 128;
  p.local->local_step_count = 5;
  p.local->group_count = 2;
  return p;
}

RecordBlock block(const RunParameters& p, uint32_t base_version, uint32_t owner, uint32_t steps) {
  RecordBlock out;
  out.base_version = base_version;
  out.owner = owner;
  out.value_count = steps * p.local->direction_count;
  out.encoding = p.wire->record_encoding;
  out.bytes.resize(encoded_size(out.encoding, out.value_count));
  const std::vector<Real> values = draw_values(out.value_count, owner + 10 * base_version, 0.1F);
  EXPECT_EQ(encode_values(out.encoding, out.value_count, values.data(), out.bytes.data()), Status::kOk);
  return out;
}

VersionRecord record(const RunParameters& p) {
  VersionRecord out;
  out.version = 1;
  out.step_scale = 0.25F;
  out.blocks = {block(p, 0, 0, 5), block(p, 0, 1, 2)};
  return out;
}

VersionRecord first_record(const RunParameters& p) {
  std::vector<Real> point(p.model->shape.size());
  for (uint32_t i = 0; i < p.model->shape.cols; ++i) {
    point[i * p.model->shape.cols + i] = 1;
  }
  VersionRecord out;
  out.model = model_bytes(p.model->shape, point.data());
  return out;
}

TEST(Record, PayloadComesBack) {
  const RunParameters p = parameters();
  const VersionRecord written = record(p);
  VersionRecord read = written;
  read.blocks.clear();
  EXPECT_EQ(decode_payload(p, encode_payload(written), &read), Status::kOk);
  EXPECT_EQ(read, written);
  const VersionRecord model = first_record(p);
  VersionRecord read_model;
  EXPECT_EQ(decode_payload(p, encode_payload(model), &read_model), Status::kOk);
  EXPECT_EQ(read_model, model);
}

TEST(Record, EveryTruncationAndSpoiltHeadIsNoticed) {
  const RunParameters p = parameters();
  const std::vector<uint8_t> good = encode_payload(record(p));
  VersionRecord read;
  read.version = 1;
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(decode_payload(p, std::span(good).first(size), &read), Status::kDataCorrupt);
  }
  std::vector<uint8_t> bad = good;
  bad.push_back(0);
  EXPECT_EQ(decode_payload(p, bad, &read), Status::kDataCorrupt);
  for (const size_t place : {0U, 3U, 12U, 13U, 15U, 16U}) {  // block_count, value_count, encoding
    bad = good;
    bad[place] ^= 0x40;
    EXPECT_EQ(decode_payload(p, bad, &read), Status::kDataCorrupt) << place;
  }
  VersionRecord twice = record(p);
  twice.blocks[1] = twice.blocks[0];
  EXPECT_EQ(decode_payload(p, encode_payload(twice), &read), Status::kDataCorrupt);
  read.version = 0;
  EXPECT_EQ(decode_payload(p, good, &read), Status::kDataCorrupt);
}

TEST(Record, ASwitchOfTheDelayRuleComesBackAndIsHeldToItsForm) {
  RunParameters p = tangent_parameters();
  p.delay->delay_switch_by = DelaySwitchBy::kCosine;
  VersionRecord written = first_record(p);
  written.version = 3;
  written.delay_switch = DelaySwitch{true, 41, 0.125F};
  const std::vector<uint8_t> good = encode_payload(written);
  VersionRecord read;
  read.version = 3;
  EXPECT_EQ(decode_payload(p, good, &read), Status::kOk);
  EXPECT_EQ(read, written);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(decode_payload(p, std::span(good).first(size), &read), Status::kOk) << size;
  }
  std::vector<uint8_t> bad = good;
  bad[p.model->shape.size() * sizeof(Real)] = 2;
  EXPECT_EQ(decode_payload(p, bad, &read), Status::kDataCorrupt);
  bad = good;
  std::fill(bad.end() - 4, bad.end(), uint8_t{0xff});  // not a number
  EXPECT_NE(decode_payload(p, bad, &read), Status::kOk);
  p.delay->delay_switch_by = DelaySwitchBy::kVersion;
  EXPECT_EQ(decode_payload(p, good, &read), Status::kDataCorrupt);
}

TEST(Record, ChunksLeadADeviceToTheSameModel) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    RunParameters p = parameters();
    p.wire->record_encoding = encoding;
    TestReplica server(p);
    ASSERT_EQ(apply_record(p, first_record(p), server.replica, server.arena), Status::kOk);
    TestReplica device(p);
    for (const ServerMessage& message : snapshot_chunks(0, server.replica.digest(), first_record(p).model)) {
      EXPECT_TRUE(device.take(message.body.snapshot_chunk));
    }
    VersionRecord next = record(p);
    ASSERT_EQ(apply_record(p, next, server.replica, server.arena), Status::kOk);
    next.digest = server.replica.digest();
    size_t frames = 0;
    std::vector<uint8_t> frame(kFrameSizeMax);
    for (const ServerMessage& message : log_chunks(next)) {
      EXPECT_TRUE(device.take(message.body.log_chunk));
      const Result<size_t> size = encode_frame(message, frame.data());
      ASSERT_TRUE(size.ok());
      frames += size.value();
    }
    EXPECT_EQ(device.replica.digest(), server.replica.digest());
    EXPECT_EQ(device.records, 1U);
    EXPECT_GE(log_size(next), frames);
    EXPECT_LE(log_size(next), frames + 24 * log_chunks(next).size());
  }
}

TEST(Record, SnapshotSizeIsThatOfItsFrames) {
  const Shape shape{64, 8};
  const std::vector<Real> model(shape.size(), 1);
  size_t frames = 0;
  std::vector<uint8_t> frame(kFrameSizeMax);
  for (const ServerMessage& message : snapshot_chunks(300, 1, model_bytes(shape, model.data()))) {
    frames += encode_frame(message, frame.data()).value();
  }
  EXPECT_GE(snapshot_size(shape), frames);
  EXPECT_LE(snapshot_size(shape), frames + 8 * 3);
}

TEST(Record, DoesNotApplyElsewhere) {
  const RunParameters p = parameters();
  TestReplica replica(p);
  EXPECT_EQ(apply_record(p, record(p), replica.replica, replica.arena), Status::kProtocolError);
  ASSERT_EQ(apply_record(p, first_record(p), replica.replica, replica.arena), Status::kOk);
  VersionRecord later = record(p);
  later.version = 2;
  EXPECT_EQ(apply_record(p, later, replica.replica, replica.arena), Status::kProtocolError);
  EXPECT_EQ(replica.replica.version(), 0U);
}

}  // namespace
}  // namespace gradstream

// The uploads that a device keeps: each one's bytes are its own, whatever role it goes to, and memory bounds them all.
#include "runtime/link/client_slots.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr SlotRole kRoles[] = {SlotRole::kPending, SlotRole::kAccepted, SlotRole::kHeld};

StoredUpload some_upload(uint32_t sequence, std::span<const uint8_t> bytes) {
  StoredUpload upload;
  upload.task_sequence = sequence;
  upload.size = static_cast<uint32_t>(bytes.size());
  upload.crc = crc32c(0, bytes.data(), bytes.size());
  return upload;
}

// Encodes an upload whose bytes all are its sequence number.
void put(UploadSlots& slots, uint32_t sequence, size_t size) {
  std::fill_n(slots.next_bytes(), size, static_cast<uint8_t>(sequence));
  slots.put(some_upload(sequence, {slots.next_bytes(), size}));
}

void expect_upload(const UploadSlots& slots, SlotRole role, uint32_t sequence, size_t size) {
  SCOPED_TRACE(static_cast<int>(role));
  ASSERT_TRUE(slots.has(role));
  EXPECT_EQ(slots.upload(role).task_sequence, sequence);
  const std::span<const uint8_t> bytes = slots.bytes(role);
  EXPECT_EQ(bytes.size(), size);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return byte == sequence; }));
}

TEST(ClientSlots, AreEmptyAtFirst) {
  const UploadSlots slots;
  for (const SlotRole role : kRoles) {
    EXPECT_FALSE(slots.has(role));
    EXPECT_TRUE(slots.bytes(role).empty());
  }
  EXPECT_EQ(slots.count(), 0U);
  EXPECT_FALSE(slots.fits(1, 1));
}

TEST(ClientSlots, BytesStayWithTheirUploadThroughAllRoles) {
  TestArena memory(1024);
  UploadSlots slots;
  ASSERT_EQ(slots.prepare(40, 3, 0, memory.arena), Status::kOk);
  put(slots, 1, 40);
  slots.accept(7);
  EXPECT_FALSE(slots.has(SlotRole::kPending));
  EXPECT_EQ(slots.accepted_record(), 7U);
  put(slots, 2, 33);
  expect_upload(slots, SlotRole::kAccepted, 1, 40);
  slots.hold();
  EXPECT_FALSE(slots.has(SlotRole::kAccepted));
  slots.accept(8);
  put(slots, 3, 20);
  expect_upload(slots, SlotRole::kPending, 3, 20);
  expect_upload(slots, SlotRole::kAccepted, 2, 33);
  expect_upload(slots, SlotRole::kHeld, 1, 40);
  slots.hold();  // in place of the one held
  slots.accept(9);
  put(slots, 4, 40);
  expect_upload(slots, SlotRole::kPending, 4, 40);
  expect_upload(slots, SlotRole::kAccepted, 3, 20);
  expect_upload(slots, SlotRole::kHeld, 2, 33);
  slots.drop(SlotRole::kAccepted);
  EXPECT_FALSE(slots.has(SlotRole::kAccepted));
  expect_upload(slots, SlotRole::kHeld, 2, 33);
}

TEST(ClientSlots, RoomIsTakenOnceAndFromTheMark) {
  TestArena memory(1024);
  ASSERT_TRUE(memory.arena.persistent<uint8_t>(64).ok());
  const size_t mark = memory.arena.mark();
  UploadSlots slots;
  ASSERT_EQ(slots.prepare(40, 2, mark, memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.mark(), mark + 2 * Arena::taken_size<uint8_t>(40));
  EXPECT_TRUE(slots.fits(40, 2) && slots.fits(1, 1));
  EXPECT_FALSE(slots.fits(41, 1) || slots.fits(1, 3));
  put(slots, 1, 40);
  slots.accept(3);
  // More room: what was there is gone.
  ASSERT_EQ(slots.prepare(80, 3, mark, memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.mark(), mark + 3 * Arena::taken_size<uint8_t>(80));
  EXPECT_FALSE(slots.has(SlotRole::kAccepted));
  EXPECT_EQ(slots.room_size(), 80U);
}

TEST(ClientSlots, WhatDoesNotFitChangesNothing) {
  TestArena memory(256);
  UploadSlots slots;
  ASSERT_EQ(slots.prepare(40, 2, 0, memory.arena), Status::kOk);
  put(slots, 1, 40);
  const size_t mark = memory.arena.mark();
  EXPECT_EQ(slots.prepare(200, 2, 0, memory.arena), Status::kOutOfMemory);
  EXPECT_EQ(slots.prepare(1, kSlotCountMax + 1, 0, memory.arena), Status::kInvalidArgument);
  EXPECT_EQ(memory.arena.mark(), mark);
  EXPECT_EQ(slots.count(), 2U);
  expect_upload(slots, SlotRole::kPending, 1, 40);
}

TEST(ClientSlots, TakeAnArenaToItsLastByte) {
  const size_t size = 2 * Arena::taken_size<uint8_t>(40);
  TestArena memory(size);
  UploadSlots slots;
  EXPECT_EQ(slots.prepare(40, 2, 0, memory.arena), Status::kOk);
  TestArena small(size - kArenaAlignment);
  EXPECT_EQ(slots.prepare(40, 2, 0, small.arena), Status::kOutOfMemory);
}

TEST(ClientSlots, WhatWasSavedIsTakenOverOnlyWhole) {
  TestArena memory(1024);
  UploadSlots slots;
  const std::vector<uint8_t> bytes(40, 5);
  const StoredUpload upload = some_upload(5, bytes);
  EXPECT_FALSE(slots.restore(SlotRole::kPending, upload, bytes, 0)) << "there is no room";
  ASSERT_EQ(slots.prepare(40, 2, 0, memory.arena), Status::kOk);
  StoredUpload wrong = upload;
  wrong.crc ^= 1;
  EXPECT_FALSE(slots.restore(SlotRole::kPending, wrong, bytes, 0));
  wrong = upload;
  wrong.size = 41;
  EXPECT_FALSE(slots.restore(SlotRole::kPending, wrong, bytes, 0));
  EXPECT_FALSE(slots.restore(SlotRole::kPending, upload, std::span(bytes).first(39), 0));
  EXPECT_FALSE(slots.restore(SlotRole::kPending, StoredUpload{}, {}, 0));
  EXPECT_FALSE(slots.restore(SlotRole::kHeld, upload, bytes, 0)) << "room for two";
  for (const SlotRole role : kRoles) {
    EXPECT_FALSE(slots.has(role));
  }
  EXPECT_TRUE(slots.restore(SlotRole::kPending, upload, bytes, 4));
  EXPECT_EQ(slots.accepted_record(), 0U) << "of another upload";
  EXPECT_TRUE(slots.restore(SlotRole::kAccepted, upload, bytes, 4));
  EXPECT_EQ(slots.accepted_record(), 4U);
  expect_upload(slots, SlotRole::kPending, 5, 40);
  expect_upload(slots, SlotRole::kAccepted, 5, 40);
}

TEST(ClientSlots, AnAcceptedUploadKeepsTheScaleOfItsAck) {
  TestArena memory(1024);
  UploadSlots slots;
  ASSERT_EQ(slots.prepare(40, 3, 0, memory.arena), Status::kOk);
  put(slots, 1, 40);
  slots.accept(7, 99);
  EXPECT_EQ(slots.upload(SlotRole::kAccepted).clip_scale, 99U);
  slots.hold();
  EXPECT_EQ(slots.upload(SlotRole::kHeld).clip_scale, 99U);
  put(slots, 2, 40);
  slots.accept(8);
  EXPECT_EQ(slots.upload(SlotRole::kAccepted).clip_scale, 0U);
}

TEST(ClientSlots, TheListNamesEveryFieldOfAnUpload) {
  StoredUpload upload;
  auto& [sequence, base, steps, directions, values, size, crc, time, before, after, encoding, kind, correction, stage,
         has_line, slope, curvature, held_out, held_out_loss, metric, clip_scale] = upload;
  sequence = 1, base = 2, steps = 3, directions = 4, values = 5, size = 6, crc = 7, time = 8;
  before = 0.5F, after = -2, encoding = Encoding::kInt8, kind = StreamKind::kTangentBlock, correction = true;
  stage = TaskStage::kStart, has_line = true, slope = -0.5F, curvature = 1;
  held_out = 9, held_out_loss = 2, metric = 0.5F, clip_scale = 10;
  uint32_t words[kUploadWordCount] = {};
  store_fields(kUploadFields, &upload, words);
  const std::vector<uint32_t> wanted = {1, 2, 3, 4, 5,          6,          7, 8,          0x3f000000, 0xc0000000, 3,
                                        2, 1, 4, 1, 0xbf000000, 0x3f800000, 9, 0x40000000, 0x3f000000, 10};
  EXPECT_EQ(std::vector<uint32_t>(std::begin(words), std::end(words)), wanted);
  StoredUpload back;
  load_fields(kUploadFields, words, &back);
  EXPECT_TRUE(are_fields_equal(kUploadFields, &upload, &back));
  EXPECT_EQ(std::size(kUploadFields), kUploadWordCount);
}

}  // namespace
}  // namespace gradstream

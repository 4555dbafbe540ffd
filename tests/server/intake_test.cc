#include "server/coordinator/intake.h"

#include <gtest/gtest.h>

#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TestUpload upload_of(size_t count, Encoding encoding) {
  TestUpload upload;
  upload.task_sequence = 1;
  upload.steps_done = 1;
  upload.direction_count = static_cast<uint32_t>(count);
  upload.encoding = encoding;
  upload.values = draw_values(count, 1, 1);
  return upload;
}

TEST(Intake, PutsPiecesTogetherInEveryEncoding) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    for (const size_t count : {1U, 31U, 33U, 224U, 900U, 2000U}) {
      const TestUpload upload = upload_of(count, encoding);
      const std::vector<DeviceMessage> messages = upload_messages(upload);
      Intake intake(2000);
      for (size_t i = 0; i < messages.size(); ++i) {
        EXPECT_EQ(intake.take(messages[i].body.update_scalars),
                  i + 1 == messages.size() ? IntakeResult::kComplete : IntakeResult::kMore);
      }
      std::vector<uint8_t> bytes(encoded_size(encoding, count));
      ASSERT_EQ(encode_values(encoding, count, upload.values.data(), bytes.data()), Status::kOk);
      EXPECT_EQ(intake.upload().bytes, bytes);
      EXPECT_EQ(intake.upload().crc32c, crc32c(0, bytes.data(), bytes.size()));
      EXPECT_FALSE(intake.upload().is_oversize);
    }
  }
}

TEST(Intake, NotesComeWithTheFirstPiece) {
  for (const StreamKind kind : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    TestUpload upload = upload_of(600, Encoding::kF32);
    upload.kind = kind;
    for (const UpdateNotes& notes :
         {UpdateNotes{}, UpdateNotes{UpdateLine{1, 2}, {}}, UpdateNotes{{}, UpdateEvaluation{3, 4, 5}},
          UpdateNotes{UpdateLine{1, 2}, UpdateEvaluation{3, 4, 5}}}) {
      upload.notes = notes;
      Intake intake(2000);
      for (const DeviceMessage& message : upload_messages(upload)) {
        const IntakeResult result = kind == StreamKind::kScalarStream ? intake.take(message.body.update_scalars)
                                                                      : intake.take(message.body.update_tangent);
        EXPECT_NE(result, IntakeResult::kBroken);
      }
      EXPECT_EQ(intake.upload().notes, notes);
    }
  }
}

TEST(Intake, KeepsNoBytesOfAnOversizeUpload) {
  Intake intake(100);
  const std::vector<DeviceMessage> messages = upload_messages(upload_of(2000, Encoding::kF32));
  for (size_t i = 0; i + 1 < messages.size(); ++i) {
    EXPECT_EQ(intake.take(messages[i].body.update_scalars), IntakeResult::kMore);
    EXPECT_TRUE(intake.upload().bytes.empty());
  }
  EXPECT_EQ(intake.take(messages.back().body.update_scalars), IntakeResult::kComplete);
  EXPECT_TRUE(intake.upload().is_oversize);
}

TEST(Intake, APieceSeenBeforeIsPassedOverAndANewBeginningBegins) {
  Intake intake(2000);
  const std::vector<DeviceMessage> messages = upload_messages(upload_of(600, Encoding::kF32));
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(intake.take(messages[0].body.update_scalars), IntakeResult::kMore);
  EXPECT_EQ(intake.take(messages[1].body.update_scalars), IntakeResult::kMore);
  EXPECT_EQ(intake.take(messages[1].body.update_scalars), IntakeResult::kMore);
  EXPECT_EQ(intake.take(messages[0].body.update_scalars), IntakeResult::kMore);
  EXPECT_EQ(intake.take(messages[1].body.update_scalars), IntakeResult::kMore);
  EXPECT_EQ(intake.take(messages[2].body.update_scalars), IntakeResult::kComplete);
  EXPECT_EQ(intake.upload().bytes.size(), 2400U);
}

TEST(Intake, GapsAndContradictionsBreak) {
  const std::vector<DeviceMessage> messages = upload_messages(upload_of(600, Encoding::kF32));
  Intake gap(2000);
  EXPECT_EQ(gap.take(messages[0].body.update_scalars), IntakeResult::kMore);
  EXPECT_EQ(gap.take(messages[2].body.update_scalars), IntakeResult::kBroken);
  Intake start(2000);
  EXPECT_EQ(start.take(messages[1].body.update_scalars), IntakeResult::kBroken);
  Intake other(2000);
  EXPECT_EQ(other.take(messages[0].body.update_scalars), IntakeResult::kMore);
  gs_UpdateScalars piece = messages[1].body.update_scalars;
  piece.crc32c ^= 1;
  EXPECT_EQ(other.take(piece), IntakeResult::kBroken);
  Intake beyond(2000);
  piece = messages[0].body.update_scalars;
  piece.value_count = 10;
  EXPECT_EQ(beyond.take(piece), IntakeResult::kBroken);
  Intake odd(2000);
  piece = messages[0].body.update_scalars;
  piece.values.size = 33;
  EXPECT_EQ(odd.take(piece), IntakeResult::kBroken);
  piece.values.size = 0;
  EXPECT_EQ(odd.take(piece), IntakeResult::kBroken);
  piece = messages[0].body.update_scalars;
  piece.first_value = UINT32_MAX;
  EXPECT_EQ(odd.take(piece), IntakeResult::kBroken);
}

TEST(Intake, TangentsTravelLikewise) {
  TestUpload upload = upload_of(512, Encoding::kF32);
  upload.kind = StreamKind::kTangentBlock;
  Intake intake(512);
  IntakeResult last = IntakeResult::kBroken;
  for (const DeviceMessage& message : upload_messages(upload)) {
    last = intake.take(message.body.update_tangent);
  }
  EXPECT_EQ(last, IntakeResult::kComplete);
  EXPECT_EQ(intake.upload().kind, StreamKind::kTangentBlock);
  EXPECT_EQ(intake.upload().bytes.size(), 2048U);
}

}  // namespace
}  // namespace gradstream

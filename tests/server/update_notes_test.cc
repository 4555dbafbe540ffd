#include "server/journal/update_notes.h"

#include <cmath>
#include <iterator>

#include <gtest/gtest.h>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

TEST(UpdateNotes, EachPartComesBack) {
  const UpdateLine line{-1.5F, 0x1p-140F};
  const UpdateEvaluation evaluation{kSampleCountMax, -3.25F, 0.942F};
  const UpdateNotes all[] = {
      {}, {line, {}}, {{}, evaluation}, {line, evaluation}, {{}, {}, true}, {line, {}, true}, {{}, evaluation, true}};
  const size_t sizes[] = {0, 9, 13, 21, 1, 9, 13};
  for (size_t i = 0; i < std::size(all); ++i) {
    const std::vector<uint8_t> bytes = encode_notes(all[i]);
    EXPECT_EQ(bytes.size(), sizes[i]);
    UpdateNotes back;
    EXPECT_EQ(decode_notes(bytes, &back), Status::kOk);
    EXPECT_EQ(back, all[i]);
  }
}

// The bytes are the format of databases: they never change.
TEST(UpdateNotes, TheBytesStandFixed) {
  const std::vector<uint8_t> bytes = encode_notes({UpdateLine{1, -2}, UpdateEvaluation{258, 0.5F, 4}});
  const std::vector<uint8_t> expected = {3, 0, 0, 0x80, 0x3f, 0,    0, 0, 0xc0, 2,   1,
                                         0, 0, 0, 0,    0,    0x3f, 0, 0, 0x80, 0x40};
  EXPECT_EQ(bytes, expected);
}

TEST(UpdateNotes, OtherBytesAreCorrupt) {
  const std::vector<uint8_t> good = encode_notes({UpdateLine{1, 2}, UpdateEvaluation{3, 4, 5}});
  UpdateNotes out;
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_EQ(decode_notes({good.data(), size}, &out), Status::kDataCorrupt) << size;
    EXPECT_EQ(out, UpdateNotes());
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_EQ(decode_notes(longer, &out), Status::kDataCorrupt);
  for (const uint8_t parts : {0, 1, 2, 4, 5, 6, 8, 11, 255}) {
    std::vector<uint8_t> other = good;
    other[0] = parts;
    EXPECT_EQ(decode_notes(other, &out), Status::kDataCorrupt) << int{parts};
  }
  std::vector<uint8_t> nan = good;
  nan[3] = nan[4] = 0xff;  // of the slope
  EXPECT_EQ(decode_notes(nan, &out), Status::kDataCorrupt);
  std::vector<uint8_t> nobody = good;
  nobody[9] = 0;  // samples
  EXPECT_EQ(decode_notes(nobody, &out), Status::kDataCorrupt);
}

TEST(UpdateNotes, SoundnessNeedsFiniteNumbersAndSamples) {
  EXPECT_TRUE(is_sound(UpdateLine{-1e38F, 1e38F}));
  EXPECT_FALSE(is_sound(UpdateLine{NAN, 0}));
  EXPECT_FALSE(is_sound(UpdateLine{0, INFINITY}));
  EXPECT_TRUE(is_sound(UpdateEvaluation{1, 0, 0}));
  EXPECT_FALSE(is_sound(UpdateEvaluation{0, 0, 0}));
  EXPECT_FALSE(is_sound(UpdateEvaluation{kSampleCountMax + 1, 0, 0}));
  EXPECT_FALSE(is_sound(UpdateEvaluation{1, -INFINITY, 0}));
  EXPECT_FALSE(is_sound(UpdateEvaluation{1, 0, NAN}));
}

}  // namespace
}  // namespace gradstream

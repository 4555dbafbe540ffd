// Bytes of an update as an engine stores it: what is refused of them.
#include "server/rules/kept_update.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "server/run/weights.h"

namespace gradstream {
namespace {

KeptUpdate an_update() {
  KeptUpdate update;
  update.device = 70'000;
  update.base_version = 9;
  update.owner = 3;
  update.steps_done = 5;
  update.weight = kStalenessOne;
  update.samples = 40;
  update.clip_scale = kClipScaleOne / 2;
  update.shares = {1, -2, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  return update;
}

TEST(KeptUpdate, ComesBackFromItsBytes) {
  KeptUpdate back;
  ASSERT_EQ(decode_kept(encode_kept(an_update()), &back), Status::kOk);
  EXPECT_EQ(back, an_update());
}

// Rows that nodes of this release have written must read for good: the header says the bytes.
TEST(KeptUpdate, HasTheBytesOfItsHeader) {
  KeptUpdate update;
  update.device = 0x01020304;
  update.base_version = 5;
  update.owner = 6;
  update.steps_done = 7;
  update.weight = 0x0809;
  update.samples = 0x0a0b;
  update.clip_scale = 0x0c;
  update.shares = {-2};
  EXPECT_EQ(encode_kept(update),
            (std::vector<uint8_t>{1, 4, 3,    2,    1,    5, 0, 0, 0, 6, 0, 0, 0,    7,    0,    0,   0,
                                  9, 8, 0x0b, 0x0a, 0x0c, 0, 0, 0, 1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff}));
}

TEST(KeptUpdate, RefusesBytesThatAreCutOrTooLong) {
  const std::vector<uint8_t> bytes = encode_kept(an_update());
  KeptUpdate back;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_kept(std::span(bytes).first(size), &back), Status::kDataCorrupt) << size;
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(decode_kept(longer, &back), Status::kDataCorrupt);
  std::vector<uint8_t> of_another_form = bytes;
  of_another_form.front() = 2;
  EXPECT_EQ(decode_kept(of_another_form, &back), Status::kDataCorrupt);
}

TEST(KeptUpdate, RefusesWhatNoFrontTakesIn) {
  const std::function<void(KeptUpdate*)> spoils[] = {
      [](KeptUpdate* update) { update->steps_done = 0; },
      [](KeptUpdate* update) { update->weight = 0; },
      [](KeptUpdate* update) { update->weight = kStalenessOne + 1; },
      [](KeptUpdate* update) { update->samples = 0; },
      [](KeptUpdate* update) { update->clip_scale = kClipScaleOne + 1; },
      [](KeptUpdate* update) { update->shares.clear(); },
  };
  for (size_t i = 0; i < std::size(spoils); ++i) {
    KeptUpdate update = an_update();
    spoils[i](&update);
    KeptUpdate back;
    EXPECT_EQ(decode_kept(encode_kept(update), &back), Status::kDataCorrupt) << i;
  }
}

}  // namespace
}  // namespace gradstream

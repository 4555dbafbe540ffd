#include "firmware/shard_fault_posix.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "firmware/float_shard.h"
#include "firmware/shard.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

template <typename T>
Bytes& append(Bytes& bytes, T value) {
  uint8_t raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.insert(bytes.end(), raw, raw + sizeof(T));
  return bytes;
}

Bytes of_text(std::string_view text) { return {text.begin(), text.end()}; }

Bytes byte_shard(uint32_t count, uint32_t dimension, float scale = 0.5F, std::vector<float> mean = {0, 0}) {
  Bytes bytes = of_text("GSD1");
  append(append(append(bytes, count), dimension), scale);
  for (const float value : mean) append(bytes, value);
  bytes.resize(bytes.size() + 8, 1);
  return bytes;
}

Bytes float_shard(uint32_t count, uint32_t dimension, std::vector<float> values, std::vector<uint32_t> ends = {}) {
  Bytes bytes = of_text("GSD2");
  append(append(append(bytes, count), dimension), static_cast<uint32_t>(ends.size()));
  for (const uint32_t end : ends) append(bytes, end);
  for (const float value : values) append(bytes, value);
  return bytes;
}

Bytes labelled_shard(uint32_t count, uint32_t dimension, uint32_t class_count, Bytes values, float scale = 0.5F,
                     float offset = -1) {
  Bytes bytes = of_text("GSD3");
  append(append(append(append(append(bytes, count), dimension), class_count), scale), offset);
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

TEST(ShardFault, NoneWhereTheShardParses) {
  EXPECT_EQ(find_shard_fault(byte_shard(4, 2)), "");
  EXPECT_EQ(find_shard_fault(float_shard(2, 3, {1, 2, 3, 4, 5, 6})), "");
  EXPECT_EQ(find_shard_fault(float_shard(2, 3, {1, 2, 3, 4, 5, 6}, {1, 2})), "");
  EXPECT_EQ(find_shard_fault(labelled_shard(2, 3, 4, {255, 0, 3, 7, 8, 0})), "");
}

TEST(ShardFault, AgreesWithTheParsers) {  // every byte of a good one changed, and every length
  for (const Bytes& good : {byte_shard(4, 2), float_shard(2, 3, {1, 2, 3, 4, 5, 6}, {1, 2}),
                            labelled_shard(2, 3, 4, {255, 0, 3, 7, 8, 0})}) {
    const auto parses = [](const Bytes& bytes) {
      Shard shard;
      FloatShard floats;
      return parse_shard(bytes, &shard) == Status::kOk || parse_float_shard(bytes, &floats) == Status::kOk;
    };
    for (size_t size = 0; size <= good.size(); ++size) {
      const Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_EQ(find_shard_fault(cut).empty(), parses(cut)) << size;
    }
    for (size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        Bytes bad = good;
        bad[at] = static_cast<uint8_t>(value);
        EXPECT_EQ(find_shard_fault(bad).empty(), parses(bad)) << at << " " << value;
      }
    }
  }
}

TEST(ShardFault, SaysNumberLimitAndRemedy) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const struct {
    Bytes bytes;
    std::vector<const char*> words;
  } cases[] = {
      {byte_shard(0, 2), {"0 samples", "65535", "anew"}},
      {byte_shard(70000, 2), {"70000 samples", "65535", "fewer"}},
      {float_shard(70000, 1, {}), {"70000 samples", "65535", "more devices"}},
      {float_shard(1, 40000, {}), {"40000 values a sample", "32768", "fewer"}},
      {float_shard(1, 0, {}), {"0 values a sample", "32768"}},
      {float_shard(0x02000000, 3, {}), {"33554432 samples", "little-endian"}},
      {float_shard(2, 3, {1, 2, 3, 4, 5}), {"truncated", "36 bytes", "40"}},
      {float_shard(2, 3, {1, 2, 3, 4, nan, 6}), {"NaN", "sample 2", "value 2"}},
      {float_shard(2, 3, {1, 2, 3, -infinity, 5, 6}), {"-Inf", "sample 2", "value 1"}},
      {float_shard(2, 3, {1, infinity, 3, 4, 5, 6}), {"+Inf", "sample 1", "value 2"}},
      {float_shard(2, 1, {1, 2}, {1, 2, 3}), {"3 groups", "2 samples"}},
      {float_shard(3, 1, {1, 2, 3}, {2, 1}), {"group 2", "sample 1", "3 to 3"}},
      {float_shard(3, 1, {1, 2, 3}, {1, 2}), {"last group", "sample 2", "3 samples"}},
      {byte_shard(4, 2, 0), {"scale 0"}},
      {byte_shard(4, 2, nan), {"scale NaN"}},
      {byte_shard(4, 2, 1, {0, infinity}), {"+Inf", "value 2 of its mean"}},
      {byte_shard(4, 2, 3e38F), {"scale 3e+38", "byte 255", "smaller"}},
      {byte_shard(4, 2, -1e36F, {0, 2e38F}), {"scale -1e+36", "2e+38 as value 2 of its mean", "byte 255"}},
      {of_text(""), {"empty", "docs/data.md"}},
      {of_text("GSD1"), {"truncated", "4 bytes", "16"}},
      {of_text("GSD4............"), {"GSD1, GSD2 and GSD3", "update"}},
      {of_text("GSD3............"), {"truncated", "16 bytes", "24"}},
      {labelled_shard(0, 3, 4, {}), {"0 samples", "65535"}},
      {labelled_shard(2, 1, 4, {1, 1}), {"1 value a sample", "2 at least", "the label"}},
      {labelled_shard(2, 40000, 4, {}), {"40000 values a sample", "32768"}},
      {labelled_shard(2, 3, 1, {1, 2, 0, 1, 2, 0}), {"1 classes", "2 to 256", "GSD2"}},
      {labelled_shard(2, 3, 257, {1, 2, 0, 1, 2, 0}), {"257 classes", "2 to 256"}},
      {labelled_shard(2, 3, 4, {1, 2, 0, 1, 2}), {"truncated", "29 bytes", "30"}},
      {labelled_shard(2, 3, 4, {1, 2, 0, 1, 2, 4}), {"label 4", "sample 2", "4 classes", "relabel"}},
      {labelled_shard(2, 3, 4, {1, 2, 0, 1, 2, 0}, 0), {"scale 0"}},
      {labelled_shard(2, 3, 4, {1, 2, 0, 1, 2, 0}, nan), {"scale NaN"}},
      {labelled_shard(2, 3, 4, {1, 2, 0, 1, 2, 0}, 1, infinity), {"offset +Inf"}},
      {labelled_shard(2, 3, 4, {1, 2, 0, 1, 2, 0}, 3e38F), {"byte 255", "smaller"}},
      {of_text("a,b\n1,2\n3,4\n5,6\n"), {"text, such as CSV", "docs/data.md"}},
      {of_text("1,2\r\n"), {"text, such as CSV"}},
      {of_text("\x93NUMPY\x01\x00v..................."), {"NumPy array", "docs/data.md"}},
      {of_text("PK\x03\x04...................."), {"zip", ".npz"}},
      {of_text("\x1F\x8B\x08....................."), {"gzip"}},
      {of_text("\xFF\xFE"
               "1.,.2..............."),
       {"UTF-16"}},
      {Bytes(5000, 0), {"no shard", "GSD1"}},
  };
  for (const auto& [bytes, words] : cases) {
    const std::string fault = find_shard_fault(bytes);
    for (const char* word : words) {
      EXPECT_THAT(fault, HasSubstr(word));
    }
  }
}

}  // namespace
}  // namespace gradstream

#include "server/base/state_archive.h"

#include <deque>
#include <map>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

enum class Colour : uint8_t { kRed = 1, kBlue = 2 };

// A field of each kind.
struct Everything {
  uint64_t number = 0;
  float real = 0;
  double long_real = 0;
  bool is_set = false;
  Colour colour = Colour::kRed;
  std::string word;
  std::vector<int64_t> numbers;
  std::vector<bool> flags;
  std::deque<double> queue;
  std::map<uint32_t, uint32_t> counts;
  std::optional<double> perhaps;
  std::optional<double> never;

  void exchange(StateArchive& io) {
    io.values(number, real, long_real, is_set, colour);
    io.text(word);
    io.numbers(numbers);
    io.flags(flags);
    io.list(queue, [&io](double& one) { io.values(one); });
    io.map(counts, [&io](uint32_t& count) { io.values(count); });
    io.optional(perhaps, [&io](double& one) { io.values(one); });
    io.optional(never, [&io](double& one) { io.values(one); });
  }
  friend bool operator==(const Everything&, const Everything&) = default;
};

Everything some() {
  return {1ULL << 63,
          -0.5F,
          1e300,
          true,
          Colour::kBlue,
          "a \"word\"",
          {-1, 2, INT64_MIN},
          {true, false, true},
          {1, 2},
          {{3, 4}, {5, 6}},
          7.5,
          {}};
}

std::vector<uint8_t> written(Everything state) {
  StateArchive io;
  state.exchange(io);
  return io.take_bytes();
}

TEST(StateArchive, WhatWasWrittenReadsBack) {
  const std::vector<uint8_t> bytes = written(some());
  StateArchive io(bytes);
  Everything read;
  read.numbers = {9};
  read.counts = {{1, 1}};
  read.never = 1;
  read.exchange(io);
  EXPECT_TRUE(io.is_sound());
  EXPECT_TRUE(io.is_at_end());
  EXPECT_EQ(read, some());
}

// Wherever it ends, and whatever a size says, the reader stops and takes no memory for what is not there.
TEST(StateArchive, ATornOrForgedTextIsNotSound) {
  const std::vector<uint8_t> bytes = written(some());
  for (size_t size = 0; size < bytes.size(); ++size) {
    StateArchive io(std::span<const uint8_t>(bytes).first(size));
    Everything read;
    read.exchange(io);
    EXPECT_FALSE(io.is_sound()) << size;
  }
  const std::vector<uint8_t> huge(64, 0xff);
  StateArchive io(huge);
  std::vector<int64_t> numbers;
  io.numbers(numbers);
  EXPECT_FALSE(io.is_sound());
  EXPECT_TRUE(numbers.empty());
  StateArchive flag(huge);
  bool is_set = false;
  flag.values(is_set);
  EXPECT_FALSE(flag.is_sound()) << "255 is no bool";
}

TEST(StateArchive, AListOfAKnownSizeTakesNoOther) {
  StateArchive out;
  std::vector<float> three = {1, 2, 3};
  out.numbers(std::span<float>(three));
  const std::vector<uint8_t> bytes = out.take_bytes();
  for (const size_t size : {2, 3, 4}) {
    StateArchive io(bytes);
    std::vector<float> read(size);
    io.numbers(std::span<float>(read));
    EXPECT_EQ(io.is_sound() && io.is_at_end(), size == 3) << size;
  }
}

}  // namespace
}  // namespace gradstream

// Frames come whole out of any byte stream: every split, every length, noise before and between them.
#include "runtime/wire/frame.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes make_frame(const Bytes& payload) {
  Bytes frame(kFramePrefixSize);
  write_frame_prefix(payload.size(), frame.data());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

Bytes make_payload(size_t size, uint8_t start) {
  Bytes payload(size);
  for (size_t i = 0; i < size; ++i) {
    payload[i] = static_cast<uint8_t>(start + i);
  }
  return payload;
}

// Feeds one piece and collects the frames that it completes.
void feed_all(FrameReader& reader, std::span<const uint8_t> piece, std::vector<Bytes>& frames) {
  while (!piece.empty()) {
    const size_t taken = reader.feed(piece);
    ASSERT_GE(taken, 1U);
    ASSERT_LE(taken, piece.size());
    piece = piece.subspan(taken);
    if (reader.has_frame()) {
      EXPECT_EQ(reader.feed(piece), 0U);  // nothing more before pop()
      frames.emplace_back(reader.payload().begin(), reader.payload().end());
      reader.pop();
    }
  }
}

void append(Bytes& to, const Bytes& from) { to.insert(to.end(), from.begin(), from.end()); }

TEST(Frame, PrefixIsMagicAndLength) {
  uint8_t prefix[kFramePrefixSize];
  write_frame_prefix(0x0123, prefix);
  EXPECT_EQ(Bytes(prefix, prefix + 4), (Bytes{'G', 'S', 0x23, 0x01}));
  EXPECT_DEATH(write_frame_prefix(0, prefix), "");
  EXPECT_DEATH(write_frame_prefix(kMessageSizeMax + 1, prefix), "");
}

TEST(FrameReader, EverySplitPosition) {
  Bytes stream;
  const std::vector<Bytes> payloads = {make_payload(1, 'G'), make_payload(70, 'G'), {'G', 'S', 2, 0}, {0, 1, 2}};
  for (const Bytes& payload : payloads) {
    append(stream, make_frame(payload));
  }
  for (size_t first = 0; first <= stream.size(); ++first) {
    for (size_t second = first; second <= stream.size(); ++second) {
      FrameReader reader;
      std::vector<Bytes> frames;
      const std::span<const uint8_t> all = stream;
      feed_all(reader, all.first(first), frames);
      feed_all(reader, all.subspan(first, second - first), frames);
      feed_all(reader, all.subspan(second), frames);
      ASSERT_EQ(frames, payloads) << first << " " << second;
      ASSERT_EQ(reader.discarded_size(), 0U);
      ASSERT_FALSE(reader.in_frame());
    }
  }
}

TEST(FrameReader, EveryLength) {
  FrameReader reader;
  for (size_t size = 1; size <= kMessageSizeMax; ++size) {
    const Bytes payload = make_payload(size, static_cast<uint8_t>(size));
    std::vector<Bytes> frames;
    feed_all(reader, make_frame(payload), frames);
    ASSERT_EQ(frames, std::vector<Bytes>{payload});
  }
}

TEST(FrameReader, LengthOutOfBoundsIsNoPrefix) {
  for (const size_t size : {size_t{0}, kMessageSizeMax + 1, size_t{0xffff}}) {
    FrameReader reader;
    std::vector<Bytes> frames;
    feed_all(reader, Bytes{'G', 'S', static_cast<uint8_t>(size & 0xff), static_cast<uint8_t>(size >> 8)}, frames);
    EXPECT_EQ(reader.discarded_size(), 4U);
    feed_all(reader, make_frame({1, 2, 3}), frames);
    EXPECT_EQ(frames, std::vector<Bytes>{(Bytes{1, 2, 3})});
  }
}

TEST(FrameReader, FindsTheTrueMagicBehindAFalseOne) {
  const std::vector<Bytes> noises = {{'G'},      {'G', 'G'},       {'G', 'S', 'G'},      {'G', 'S', 0},
                                     {'S', 'G'}, {'G', 'S', 0, 0}, {'G', 'S', 'G', 'S'}, {0x16, 3, 1}};
  for (const Bytes& noise : noises) {
    FrameReader reader;
    std::vector<Bytes> frames;
    Bytes stream = noise;
    append(stream, make_frame({9, 8, 7}));
    for (const uint8_t byte : stream) {
      feed_all(reader, {&byte, 1}, frames);
    }
    // "GS" + "G" reads as a prefix of length 'G' + 'S' * 256: too long, so it is dropped.
    EXPECT_EQ(frames, std::vector<Bytes>{(Bytes{9, 8, 7})}) << noise.size();
    EXPECT_EQ(reader.discarded_size(), noise.size());
  }
}

TEST(FrameReader, NoiseWithoutMagicNeverHidesAFrame) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    FrameReader reader;
    std::vector<Bytes> frames;
    std::vector<Bytes> expected;
    Bytes stream;
    size_t noise_size = 0;
    for (int i = 0; i < 5; ++i) {
      const size_t count = random() % 40;
      for (size_t k = 0; k < count; ++k) {
        const uint8_t byte = static_cast<uint8_t>(random());
        stream.push_back(byte == 'G' ? uint8_t{'S'} : byte);
      }
      noise_size += count;
      expected.push_back(make_payload(1 + random() % kMessageSizeMax, static_cast<uint8_t>(random())));
      append(stream, make_frame(expected.back()));
    }
    std::span<const uint8_t> rest = stream;
    while (!rest.empty()) {
      const size_t size = std::min<size_t>(rest.size(), 1 + random() % 300);
      feed_all(reader, rest.first(size), frames);
      rest = rest.subspan(size);
    }
    ASSERT_EQ(frames, expected);
    ASSERT_EQ(reader.discarded_size(), noise_size);
  }
}

TEST(FrameReader, AnyNoiseIsSurvived) {
  std::mt19937 random(2);
  FrameReader reader;
  for (int round = 0; round < 20000; ++round) {
    uint8_t bytes[64];
    for (uint8_t& byte : bytes) {
      const uint32_t draw = random();
      byte = draw % 4 == 0 ? 'G' : draw % 4 == 1 ? 'S' : static_cast<uint8_t>(draw >> 8);
    }
    std::vector<Bytes> frames;
    feed_all(reader, bytes, frames);
  }
  reader.reset();
  EXPECT_FALSE(reader.in_frame());
}

TEST(FrameReader, InFrameFromTheFirstByteToTheLast) {
  FrameReader reader;
  const Bytes frame = make_frame({1, 2, 3});
  for (size_t i = 0; i < frame.size(); ++i) {
    EXPECT_EQ(reader.in_frame(), i > 0);
    EXPECT_EQ(reader.feed({&frame[i], 1}), 1U);
  }
  EXPECT_FALSE(reader.in_frame());
  ASSERT_TRUE(reader.has_frame());
  reader.pop();
  EXPECT_FALSE(reader.has_frame());
  EXPECT_EQ(reader.feed({}), 0U);
  EXPECT_DEATH(reader.pop(), "");
  EXPECT_DEATH(static_cast<void>(reader.payload()), "");
}

TEST(FrameReader, ResetForgetsHalfAFrame) {
  FrameReader reader;
  const Bytes frame = make_frame({1, 2, 3});
  std::vector<Bytes> frames;
  feed_all(reader, std::span(frame).first(5), frames);
  reader.reset();
  EXPECT_FALSE(reader.in_frame());
  feed_all(reader, frame, frames);
  EXPECT_EQ(frames, std::vector<Bytes>{(Bytes{1, 2, 3})});
}

}  // namespace
}  // namespace gradstream

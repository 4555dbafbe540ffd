#include "runtime/wire/key_change.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"

namespace gradstream {
namespace {

std::span<const uint8_t> payload_of(const uint8_t* frame, size_t size) {
  return {frame + kFramePrefixSize, size - kFramePrefixSize};
}

KeyChange change_of(bool has_public, bool has_confirm) {
  KeyChange change;
  change.generation = 3;
  change.has_public = has_public;
  change.has_confirm = has_confirm;
  std::memset(change.public_key, has_public ? 0x5a : 0, sizeof(change.public_key));
  std::memset(change.confirm, has_confirm ? 0x43 : 0, sizeof(change.confirm));
  return change;
}

void expect_same(const KeyChange& a, const KeyChange& b) {
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.has_public, b.has_public);
  EXPECT_EQ(a.has_confirm, b.has_confirm);
  EXPECT_EQ(std::memcmp(a.public_key, b.public_key, sizeof(a.public_key)), 0);
  EXPECT_EQ(std::memcmp(a.confirm, b.confirm, sizeof(a.confirm)), 0);
}

TEST(KeyChange, WhatEachEndSaysArrivesAsItWasSent) {
  uint8_t frame[kFrameSizeMax];
  KeyChange arrived;
  const KeyChange offer = change_of(true, true);
  const Result<size_t> size = encode_key_change_of_device(offer, frame);
  ASSERT_TRUE(size.ok());
  ASSERT_EQ(decode_key_change_of_device(payload_of(frame, size.value()), &arrived), Status::kOk);
  expect_same(arrived, offer);
  for (const auto& [has_public, has_confirm] : {std::pair(true, false), {false, true}, {false, false}}) {
    const KeyChange said = change_of(has_public, has_confirm);
    const Result<size_t> said_size = encode_key_change_of_server(said, frame);
    ASSERT_TRUE(said_size.ok());
    ASSERT_EQ(decode_key_change_of_server(payload_of(frame, said_size.value()), &arrived), Status::kOk);
    expect_same(arrived, said);
  }
}

TEST(KeyChange, NeitherEndSaysWhatIsTheOthers) {
  uint8_t frame[kFrameSizeMax];
  KeyChange change = change_of(true, true);
  EXPECT_EQ(encode_key_change_of_server(change, frame).status(), Status::kInvalidArgument);
  const Result<size_t> size = encode_key_change_of_device(change, frame);
  KeyChange arrived;
  EXPECT_EQ(decode_key_change_of_server(payload_of(frame, size.value()), &arrived), Status::kDataCorrupt);
  for (const bool has_public : {false, true}) {
    EXPECT_EQ(encode_key_change_of_device(change_of(has_public, !has_public), frame).status(),
              Status::kInvalidArgument);
    const Result<size_t> said = encode_key_change_of_server(change_of(has_public, !has_public), frame);
    EXPECT_EQ(decode_key_change_of_device(payload_of(frame, said.value()), &arrived), Status::kDataCorrupt);
  }
  change.generation = 0;
  EXPECT_EQ(encode_key_change_of_device(change, frame).status(), Status::kInvalidArgument);
}

// Released clients and servers take it for a message without a body, and never get it.
TEST(KeyChange, ItIsNoneOfTheOtherMessages) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_key_change_of_device(change_of(true, true), frame);
  DeviceMessage of_device = {};
  EXPECT_EQ(decode_message(payload_of(frame, size.value()), &of_device), Status::kDataCorrupt);
  const Result<size_t> said = encode_key_change_of_server(change_of(true, false), frame);
  ServerMessage of_server = {};
  EXPECT_EQ(decode_message(payload_of(frame, said.value()), &of_server), Status::kDataCorrupt);
  of_device.which_body = gs_DeviceMessage_pull_tag;
  of_device.body.pull = {};
  const Result<size_t> pull = encode_frame(of_device, frame);
  ASSERT_TRUE(pull.ok());
  KeyChange arrived;
  EXPECT_EQ(decode_key_change_of_device(payload_of(frame, pull.value()), &arrived), Status::kDataCorrupt);
}

// Golden packets: of this form for ever.
TEST(KeyChange, PacketsOfThisReleaseAreRead) {
  for (const std::string name :
       {"v1_key_change_asked", "v1_key_change_offered", "v1_key_change_done", "v1_key_change_refused"}) {
    std::ifstream file(GS_SOURCE_DIR "/tests/golden/packets/" + name + ".hex");
    std::string text;
    std::getline(file, text);  // what the next line says
    file >> text;
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    }
    ASSERT_FALSE(bytes.empty()) << name;
    const bool is_offer = name == "v1_key_change_offered";
    const bool is_asked = name == "v1_key_change_asked";
    KeyChange arrived;
    ASSERT_EQ(is_offer ? decode_key_change_of_device(bytes, &arrived) : decode_key_change_of_server(bytes, &arrived),
              Status::kOk)
        << name;
    expect_same(arrived, change_of(is_offer || is_asked, is_offer || name == "v1_key_change_done"));
  }
}

TEST(KeyChange, WhatIsCutOffOrOfAnotherSizeIsRefused) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_key_change_of_device(change_of(true, true), frame);
  const std::span<const uint8_t> payload = payload_of(frame, size.value());
  KeyChange arrived;
  for (size_t length = 0; length < payload.size(); ++length) {
    EXPECT_EQ(decode_key_change_of_device(payload.first(length), &arrived), Status::kDataCorrupt) << length;
    EXPECT_EQ(arrived.generation, 0U);
  }
  for (const uint8_t byte : {0, 255}) {  // a key that nobody has drawn
    KeyChange change = change_of(true, true);
    std::memset(change.public_key, byte, sizeof(change.public_key));
    const Result<size_t> undrawn = encode_key_change_of_device(change, frame);
    EXPECT_EQ(decode_key_change_of_device(payload_of(frame, undrawn.value()), &arrived), Status::kDataCorrupt);
  }
}

}  // namespace
}  // namespace gradstream

#include "runtime/wire/claim.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"
#include "runtime/wire/frame.h"

namespace gradstream {
namespace {

std::span<const uint8_t> payload_of(const uint8_t* frame, size_t size) {
  return {frame + kFramePrefixSize, size - kFramePrefixSize};
}

Identity identity_of(const std::string& name) {
  Identity identity;
  std::strncpy(identity.name, name.c_str(), Identity::kNameSizeMax);
  std::memset(identity.key, 0x5a, sizeof(identity.key));
  return identity;
}

TEST(Claim, ARequestArrivesAsItWasSent) {
  for (const std::string& name : {std::string("k"), std::string(kClaimNameSizeMax, 'x')}) {
    const Identity identity = identity_of(name);
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_claim_request(identity, frame);
    ASSERT_TRUE(size.ok());
    Identity arrived;
    ASSERT_EQ(decode_claim_request(payload_of(frame, size.value()), &arrived), Status::kOk);
    EXPECT_STREQ(arrived.name, name.c_str());
    EXPECT_EQ(std::memcmp(arrived.key, identity.key, sizeof(identity.key)), 0);
  }
}

TEST(Claim, AnAnswerArrivesAsItWasSent) {
  for (const gs_Reason reason : {gs_Reason_REASON_NONE, gs_Reason_REASON_CLAIM_USED}) {
    for (const uint32_t max_ms : {0U, 900U}) {
      gs_ClaimAnswer answer = {};
      answer.reason = reason;
      answer.has_retry = max_ms > 0;
      answer.retry.max_ms = max_ms;
      uint8_t frame[kFrameSizeMax];
      const Result<size_t> size = encode_claim_answer(answer, frame);
      ASSERT_TRUE(size.ok());
      EXPECT_GT(size.value(), kFramePrefixSize) << "no frame is empty";
      gs_ClaimAnswer arrived = {};
      ASSERT_EQ(decode_claim_answer(payload_of(frame, size.value()), &arrived), Status::kOk);
      EXPECT_EQ(arrived.reason, reason);
      EXPECT_EQ(arrived.retry.max_ms, max_ms);
    }
  }
}

// Made by protoc from proto/gradstream.proto, not by our encoder.
TEST(Claim, GoldenPacketsAreReadAndWritten) {
  const auto hex_of = [](const std::string& name) {
    std::ifstream file(std::string(GS_SOURCE_DIR "/tests/golden/packets/") + name + ".hex");
    std::string line;
    while (std::getline(file, line) && line[0] == '#') {
    }
    return line;
  };
  const auto text_of = [](std::span<const uint8_t> bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
    return text;
  };
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> request = encode_claim_request(identity_of("kitchen"), frame);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(text_of(payload_of(frame, request.value())), hex_of("v1_claim_request"));
  const Result<size_t> answer = encode_claim_answer({gs_Reason_REASON_CLAIM_USED, true, {1000, 10000}}, frame);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(text_of(payload_of(frame, answer.value())), hex_of("v1_claim_answer"));
}

TEST(Claim, NamesThatNoDeviceHasAreRefused) {
  uint8_t frame[kFrameSizeMax];
  const std::string long_name(kClaimNameSizeMax + 1, 'x');
  for (const std::string name :
       {"", long_name.c_str(), "a b", "~a", "a~1", "a,b", "a/b", "#a", "name", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(is_claimable_name(name)) << name;
    EXPECT_EQ(encode_claim_request(identity_of(name), frame).status(), Status::kInvalidArgument) << name;
  }
  EXPECT_TRUE(is_claimable_name("kitchen-7.north_wing"));
}

TEST(Claim, AKeyThatNobodyHasDrawnIsRefused) {
  for (const int byte : {0, 0xff}) {
    Identity identity = identity_of("kitchen");
    std::memset(identity.key, byte, sizeof(identity.key));
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_claim_request(identity, frame);
    ASSERT_TRUE(size.ok());
    Identity out;
    EXPECT_EQ(decode_claim_request(payload_of(frame, size.value()), &out), Status::kDataCorrupt) << byte;
    identity.key[31] = 7;
    ASSERT_TRUE(encode_claim_request(identity, frame).ok());
    EXPECT_EQ(decode_claim_request(payload_of(frame, size.value()), &out), Status::kOk) << byte;
  }
}

// Every cut and every flipped bit of a request is refused or reads as some good request; none is half taken.
TEST(Claim, DamagedRequestsAreRefusedOrWhole) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_claim_request(identity_of("kitchen"), frame);
  ASSERT_TRUE(size.ok());
  const std::span<const uint8_t> good = payload_of(frame, size.value());
  const Identity nothing;
  Identity out;
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_EQ(decode_claim_request(good.subspan(0, cut), &out), Status::kDataCorrupt) << cut;
    EXPECT_EQ(std::memcmp(out.key, nothing.key, sizeof(out.key)), 0);
  }
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::vector<uint8_t> bytes(good.begin(), good.end());
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    if (decode_claim_request(bytes, &out) == Status::kOk) {
      EXPECT_TRUE(is_claimable_name(out.name)) << bit;
    } else {
      EXPECT_EQ(std::memcmp(out.key, nothing.key, sizeof(out.key)), 0);
    }
  }
  gs_ClaimAnswer answer = {};
  EXPECT_EQ(decode_claim_answer(std::vector<uint8_t>{0x08, 0x63}, &answer), Status::kDataCorrupt) << "no such reason";
  EXPECT_EQ(decode_claim_answer(std::vector<uint8_t>{0x12, 0x02, 0x08, 0x05}, &answer), Status::kDataCorrupt)
      << "a window that ends before it begins";
  EXPECT_EQ(decode_claim_answer(std::vector<uint8_t>{0x12, 0x09}, &answer), Status::kDataCorrupt);
}

}  // namespace
}  // namespace gradstream

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

ClaimRequest request_of(const std::string& name, bool is_proven = false) {
  ClaimRequest request;
  std::strncpy(request.device.name, name.c_str(), Identity::kNameSizeMax);
  std::memset(request.device.key, 0x5a, sizeof(request.device.key));
  request.is_proven = is_proven;
  if (is_proven) {
    std::memset(request.confirm, 0x43, sizeof(request.confirm));
  }
  return request;
}

TEST(Claim, ARequestArrivesAsItWasSent) {
  for (const bool is_proven : {false, true}) {
    for (const std::string& name : {std::string("k"), std::string(kClaimNameSizeMax, 'x')}) {
      const ClaimRequest request = request_of(name, is_proven);
      uint8_t frame[kFrameSizeMax];
      const Result<size_t> size = encode_claim_request(request, frame);
      ASSERT_TRUE(size.ok());
      ClaimRequest arrived;
      ASSERT_EQ(decode_claim_request(payload_of(frame, size.value()), &arrived), Status::kOk);
      EXPECT_STREQ(arrived.device.name, name.c_str());
      EXPECT_EQ(arrived.is_proven, is_proven);
      EXPECT_EQ(std::memcmp(arrived.device.key, request.device.key, sizeof(request.device.key)), 0);
      EXPECT_EQ(std::memcmp(arrived.confirm, request.confirm, sizeof(request.confirm)), 0);
    }
  }
}

TEST(Claim, AnAnswerArrivesAsItWasSent) {
  for (const gs_Reason reason : {gs_Reason_REASON_NONE, gs_Reason_REASON_CLAIM_USED}) {
    for (const bool is_confirmed : {false, true}) {
      ClaimVerdict verdict = {reason, is_confirmed};
      std::memset(verdict.confirm, is_confirmed ? 0x43 : 0, sizeof(verdict.confirm));
      uint8_t frame[kFrameSizeMax];
      const Result<size_t> size = encode_claim_answer(verdict, {0, is_confirmed ? 900U : 0U}, frame);
      ASSERT_TRUE(size.ok());
      EXPECT_GT(size.value(), kFramePrefixSize) << "no frame is empty";
      ClaimVerdict arrived;
      ASSERT_EQ(decode_claim_answer(payload_of(frame, size.value()), &arrived), Status::kOk);
      EXPECT_EQ(arrived.reason, reason);
      EXPECT_EQ(arrived.is_confirmed, is_confirmed);
      EXPECT_EQ(std::memcmp(arrived.confirm, verdict.confirm, sizeof(verdict.confirm)), 0);
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
  for (const bool is_proven : {false, true}) {
    const std::string end = is_proven ? "_proven" : "";
    const Result<size_t> request = encode_claim_request(request_of("kitchen", is_proven), frame);
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(text_of(payload_of(frame, request.value())), hex_of("v1_claim_request" + end));
    ClaimVerdict verdict = {gs_Reason_REASON_CLAIM_USED, is_proven};
    std::memset(verdict.confirm, 0x43, sizeof(verdict.confirm));
    const Result<size_t> answer = encode_claim_answer(verdict, {1000, 10000}, frame);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(text_of(payload_of(frame, answer.value())), hex_of("v1_claim_answer" + end));
  }
}

TEST(Claim, NamesThatNoDeviceHasAreRefused) {
  uint8_t frame[kFrameSizeMax];
  const std::string long_name(kClaimNameSizeMax + 1, 'x');
  for (const std::string name :
       {"", long_name.c_str(), "a b", "~a", "a~1", "a,b", "a/b", "#a", "name", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(is_claimable_name(name)) << name;
    EXPECT_EQ(encode_claim_request(request_of(name), frame).status(), Status::kInvalidArgument) << name;
  }
  EXPECT_TRUE(is_claimable_name("kitchen-7.north_wing"));
}

TEST(Claim, AKeyThatNobodyHasDrawnIsRefused) {
  for (const bool is_proven : {false, true}) {
    for (const int byte : {0, 0xff}) {
      ClaimRequest request = request_of("kitchen", is_proven);
      std::memset(request.device.key, byte, sizeof(request.device.key));
      uint8_t frame[kFrameSizeMax];
      const Result<size_t> size = encode_claim_request(request, frame);
      ASSERT_TRUE(size.ok());
      ClaimRequest out;
      EXPECT_EQ(decode_claim_request(payload_of(frame, size.value()), &out), Status::kDataCorrupt) << byte;
      request.device.key[31] = 7;
      ASSERT_TRUE(encode_claim_request(request, frame).ok());
      EXPECT_EQ(decode_claim_request(payload_of(frame, size.value()), &out), Status::kOk) << byte;
    }
  }
}

// Fields by hand: a name, then what follows.
Status decode_with(std::vector<uint8_t> fields, ClaimRequest* out) {
  const std::vector<uint8_t> name = {0x0a, 0x01, 'k'};
  fields.insert(fields.begin(), name.begin(), name.end());
  return decode_claim_request(fields, out);
}

std::vector<uint8_t> field_of(uint8_t number, size_t size) {
  std::vector<uint8_t> bytes(2 + size, 0x5a);
  bytes[0] = static_cast<uint8_t>(number << 3 | 2);
  bytes[1] = static_cast<uint8_t>(size);
  return bytes;
}

TEST(Claim, ARequestIsOfOneKind) {
  const auto joined = [](std::vector<uint8_t> a, const std::vector<uint8_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  ClaimRequest out;
  EXPECT_EQ(decode_with(field_of(2, 32), &out), Status::kOk);
  EXPECT_FALSE(out.is_proven);
  EXPECT_EQ(decode_with(joined(field_of(3, 32), field_of(4, 16)), &out), Status::kOk);
  EXPECT_TRUE(out.is_proven);
  const std::vector<uint8_t> wrong[] = {field_of(3, 32),
                                        field_of(4, 16),
                                        joined(field_of(2, 32), field_of(4, 16)),
                                        joined(field_of(3, 31), field_of(4, 16)),
                                        joined(field_of(3, 32), field_of(4, 15)),
                                        joined(field_of(2, 32), joined(field_of(3, 32), field_of(4, 16)))};
  for (const std::vector<uint8_t>& fields : wrong) {
    EXPECT_EQ(decode_with(fields, &out), Status::kDataCorrupt) << fields.size();
    EXPECT_FALSE(out.is_proven);
  }
}

// Every cut and every flipped bit of a request is refused or reads as some good request; none is half taken.
TEST(Claim, DamagedRequestsAreRefusedOrWhole) {
  for (const bool is_proven : {false, true}) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_claim_request(request_of("kitchen", is_proven), frame);
    ASSERT_TRUE(size.ok());
    const std::span<const uint8_t> good = payload_of(frame, size.value());
    const Identity nothing;
    ClaimRequest out;
    for (size_t cut = 0; cut < good.size(); ++cut) {
      EXPECT_EQ(decode_claim_request(good.subspan(0, cut), &out), Status::kDataCorrupt) << cut;
      EXPECT_EQ(std::memcmp(out.device.key, nothing.key, sizeof(nothing.key)), 0);
    }
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::vector<uint8_t> bytes(good.begin(), good.end());
      bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
      if (decode_claim_request(bytes, &out) == Status::kOk) {
        EXPECT_TRUE(is_claimable_name(out.device.name)) << bit;
      } else {
        EXPECT_EQ(std::memcmp(out.device.key, nothing.key, sizeof(nothing.key)), 0);
      }
    }
  }
}

TEST(Claim, DamagedAnswersAreRefused) {
  ClaimVerdict answer;
  EXPECT_EQ(decode_claim_answer(std::vector<uint8_t>{0x08, 0x63}, &answer), Status::kDataCorrupt) << "no such reason";
  EXPECT_EQ(decode_claim_answer(std::vector<uint8_t>{0x12, 0x02, 0x08, 0x05}, &answer), Status::kDataCorrupt)
      << "a window that ends before it begins";
  EXPECT_EQ(decode_claim_answer(std::vector<uint8_t>{0x12, 0x09}, &answer), Status::kDataCorrupt);
  EXPECT_EQ(decode_claim_answer(field_of(3, 15), &answer), Status::kDataCorrupt) << "a confirm that is cut";
  EXPECT_FALSE(answer.is_confirmed);
  EXPECT_EQ(decode_claim_answer(field_of(3, 16), &answer), Status::kOk);
  EXPECT_TRUE(answer.is_confirmed);
}

}  // namespace
}  // namespace gradstream

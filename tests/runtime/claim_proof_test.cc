// Both ends of a claim find one key, and whoever lacks the secret of one of them finds another.
#include "runtime/link/claim_proof.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

using Key = std::array<uint8_t, kClaimKeySize>;
using Vector = std::map<std::string, std::string>;

std::vector<Vector> read_vectors() {
  std::ifstream file(GS_SOURCE_DIR "/tests/golden/claim_vectors.txt");
  std::vector<Vector> vectors;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string field;
    std::string value;
    if (line.starts_with('#') || !(words >> field >> value)) {
      continue;
    }
    if (field == "claim") {
      vectors.emplace_back();
    }
    vectors.back()[field] = value;
  }
  return vectors;
}

Key key_of(const std::string& hex) {
  Key key = {};
  EXPECT_EQ(hex.size(), 2 * key.size());
  for (size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return key;
}

std::string hex_of(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// A claim as both ends have it.
struct Case {
  explicit Case(const Vector& vector)
      : claim(vector.at("claim")),
        name(vector.at("name")),
        key(key_of(vector.at("claim_key"))),
        server_secret(key_of(vector.at("server_secret"))),
        server_public(key_of(vector.at("server_public"))),
        device_secret(key_of(vector.at("device_secret"))),
        device_public(key_of(vector.at("device_public"))) {}
  Status device(ClaimProof* out) const {
    return prove_as_device({claim, name, key}, device_secret, server_public, out);
  }
  Status server(ClaimProof* out) const {
    return prove_as_server({claim, name, key}, server_secret, device_public, out);
  }

  std::string claim;
  std::string name;
  Key key;
  Key server_secret;
  Key server_public;
  Key device_secret;
  Key device_public;
};

// Nothing of the two is the same.
void expect_apart(const ClaimProof& a, const ClaimProof& b) {
  EXPECT_NE(hex_of(a.device_key), hex_of(b.device_key));
  EXPECT_FALSE(is_same_confirm(a.confirm_device, b.confirm_device));
  EXPECT_FALSE(is_same_confirm(a.confirm_server, b.confirm_server));
  EXPECT_FALSE(is_same_confirm(a.confirm_refused, b.confirm_refused));
}

TEST(ClaimProof, BothEndsFindWhatThePageSays) {
  const std::vector<Vector> vectors = read_vectors();
  ASSERT_GE(vectors.size(), 4U);
  for (const Vector& vector : vectors) {
    const Case both(vector);
    Key found = {};
    ASSERT_EQ(find_claim_public(both.server_secret, found), Status::kOk);
    EXPECT_EQ(hex_of(found), vector.at("server_public"));
    ASSERT_EQ(find_claim_public(both.device_secret, found), Status::kOk);
    EXPECT_EQ(hex_of(found), vector.at("device_public"));
    ClaimProof of_device;
    ClaimProof of_server;
    ASSERT_EQ(both.device(&of_device), Status::kOk);
    ASSERT_EQ(both.server(&of_server), Status::kOk);
    for (const ClaimProof* const proof : {&of_device, &of_server}) {
      EXPECT_EQ(hex_of(proof->device_public), vector.at("device_public"));
      EXPECT_EQ(hex_of(proof->device_key), vector.at("device_key"));
      EXPECT_EQ(hex_of(proof->confirm_device), vector.at("confirm_device"));
      EXPECT_EQ(hex_of(proof->confirm_server), vector.at("confirm_server"));
    }
    EXPECT_TRUE(is_same_confirm(of_device.confirm_refused, of_server.confirm_refused));
    EXPECT_FALSE(is_same_confirm(of_device.confirm_refused, of_device.confirm_server)) << "no refusal is a grant";
    EXPECT_FALSE(is_same_confirm(of_device.confirm_device, of_device.confirm_server)) << "none can be sent back";
  }
}

// Who holds the claim's file answers with a secret of its own.
TEST(ClaimProof, AnotherServerWithTheClaimsKeyFindsAnotherKey) {
  const std::vector<Vector> vectors = read_vectors();
  const Case own(vectors[0]);
  Case other = own;
  other.server_secret = key_of(vectors[1].at("server_secret"));
  ClaimProof of_device;
  ClaimProof of_other;
  ASSERT_EQ(own.device(&of_device), Status::kOk);
  ASSERT_EQ(other.server(&of_other), Status::kOk);
  expect_apart(of_device, of_other);
}

// Each bit of what the two ends have to agree on. The last bit of a public key stands for nothing in x25519 (RFC 7748),
// and counts here all the same.
TEST(ClaimProof, OneFlippedBitLeavesTheEndsApart) {
  const Case own(read_vectors()[0]);
  ClaimProof of_device;
  ASSERT_EQ(own.device(&of_device), Status::kOk);
  const auto flip_each = [&](auto&& field) {
    Case changed = own;
    const size_t bit_count = 8 * field(changed).size();
    for (size_t bit = 0; bit < bit_count; ++bit) {
      changed = own;
      auto& byte = field(changed)[bit / 8];
      byte = static_cast<std::remove_reference_t<decltype(byte)>>(byte ^ (1U << bit % 8));
      ClaimProof of_server;
      ASSERT_EQ(changed.server(&of_server), Status::kOk) << bit;
      expect_apart(of_device, of_server);
    }
  };
  flip_each([](Case & changed) -> auto& { return changed.name; });
  flip_each([](Case & changed) -> auto& { return changed.claim; });
  flip_each([](Case & changed) -> auto& { return changed.key; });
  flip_each([](Case & changed) -> auto& { return changed.device_public; });
  // The server's key in the device's file.
  for (size_t bit = 0; bit < 8 * kClaimKeySize; ++bit) {
    Case changed = own;
    changed.server_public[bit / 8] = static_cast<uint8_t>(changed.server_public[bit / 8] ^ (1U << bit % 8));
    ClaimProof other;
    ASSERT_EQ(changed.device(&other), Status::kOk) << bit;
    expect_apart(of_device, other);
  }
}

// Two names that look the same when they are written one behind the other.
TEST(ClaimProof, WhereANameEndsCounts) {
  Case first(read_vectors()[0]);
  Case second = first;
  first.claim = "~ab";
  first.name = "c";
  second.claim = "~a";
  second.name = "bc";
  ClaimProof a;
  ClaimProof b;
  ASSERT_EQ(first.server(&a), Status::kOk);
  ASSERT_EQ(second.server(&b), Status::kOk);
  expect_apart(a, b);
}

// Points of small order, in both of their forms: whoever sends one knows the shared secret, which is zero.
TEST(ClaimProof, ASharedSecretOfZeroIsRefused) {
  const Case own(read_vectors()[0]);
  for (const char* const hex : {"0000000000000000000000000000000000000000000000000000000000000000",
                                "0100000000000000000000000000000000000000000000000000000000000000",
                                "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                                "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
                                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {
    for (const uint8_t high_bit : {0, 0x80}) {
      Case changed = own;
      changed.device_public = key_of(hex);
      changed.device_public[31] = static_cast<uint8_t>(changed.device_public[31] | high_bit);
      changed.server_public = changed.device_public;
      ClaimProof proof;
      EXPECT_EQ(changed.server(&proof), Status::kUnauthenticated) << hex;
      EXPECT_EQ(changed.device(&proof), Status::kUnauthenticated) << hex;
      EXPECT_EQ(hex_of(proof.device_key), std::string(2 * kClaimKeySize, '0'));
    }
  }
}

TEST(ClaimProof, NamesOfAnyLengthThatAnIdentityHas) {
  Case both(read_vectors()[0]);
  both.claim = std::string(Identity::kNameSizeMax, 'c');
  both.name = std::string(Identity::kNameSizeMax, 'n');
  ClaimProof proof;
  EXPECT_EQ(both.server(&proof), Status::kOk);
  both.name += 'n';
  ClaimProof none;
  EXPECT_EQ(both.server(&none), Status::kInvalidArgument);
  EXPECT_EQ(hex_of(none.device_key), std::string(2 * kClaimKeySize, '0'));
}

}  // namespace
}  // namespace gradstream

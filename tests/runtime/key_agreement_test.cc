// Both ends find one key, and whoever lacks the secret of one of them finds another.
#include "runtime/link/key_agreement.h"

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

using Key = std::array<uint8_t, kAgreedKeySize>;
using Vector = std::map<std::string, std::string>;

// Of a file of tests/golden/, in which each begins with the field `first`.
std::vector<Vector> read_vectors(const std::string& name = "claim_vectors", const std::string& first = "claim") {
  std::ifstream file(GS_SOURCE_DIR "/tests/golden/" + name + ".txt");
  std::vector<Vector> vectors;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string field;
    std::string value;
    if (line.starts_with('#') || !(words >> field >> value)) {
      continue;
    }
    if (field == first) {
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
  Status device(KeyProof* out) const {
    return prove_as_device(ClaimTerms{claim, name, key}, device_secret, server_public, out);
  }
  Status server(KeyProof* out) const {
    return prove_as_server(ClaimTerms{claim, name, key}, server_secret, device_public, out);
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
void expect_apart(const KeyProof& a, const KeyProof& b) {
  EXPECT_NE(hex_of(a.device_key), hex_of(b.device_key));
  EXPECT_FALSE(is_same_confirm(a.confirm_device, b.confirm_device));
  EXPECT_FALSE(is_same_confirm(a.confirm_server, b.confirm_server));
  EXPECT_FALSE(is_same_confirm(a.confirm_refused, b.confirm_refused));
}

TEST(KeyProof, BothEndsFindWhatThePageSays) {
  const std::vector<Vector> vectors = read_vectors();
  ASSERT_GE(vectors.size(), 4U);
  for (const Vector& vector : vectors) {
    const Case both(vector);
    Key found = {};
    ASSERT_EQ(find_public_key(both.server_secret, found), Status::kOk);
    EXPECT_EQ(hex_of(found), vector.at("server_public"));
    ASSERT_EQ(find_public_key(both.device_secret, found), Status::kOk);
    EXPECT_EQ(hex_of(found), vector.at("device_public"));
    KeyProof of_device;
    KeyProof of_server;
    ASSERT_EQ(both.device(&of_device), Status::kOk);
    ASSERT_EQ(both.server(&of_server), Status::kOk);
    for (const KeyProof* const proof : {&of_device, &of_server}) {
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
TEST(KeyProof, AnotherServerWithTheClaimsKeyFindsAnotherKey) {
  const std::vector<Vector> vectors = read_vectors();
  const Case own(vectors[0]);
  Case other = own;
  other.server_secret = key_of(vectors[1].at("server_secret"));
  KeyProof of_device;
  KeyProof of_other;
  ASSERT_EQ(own.device(&of_device), Status::kOk);
  ASSERT_EQ(other.server(&of_other), Status::kOk);
  expect_apart(of_device, of_other);
}

// Each bit of what the two ends have to agree on. The last bit of a public key stands for nothing in x25519 (RFC 7748),
// and counts here all the same.
TEST(KeyProof, OneFlippedBitLeavesTheEndsApart) {
  const Case own(read_vectors()[0]);
  KeyProof of_device;
  ASSERT_EQ(own.device(&of_device), Status::kOk);
  const auto flip_each = [&](auto&& field) {
    Case changed = own;
    const size_t bit_count = 8 * field(changed).size();
    for (size_t bit = 0; bit < bit_count; ++bit) {
      changed = own;
      auto& byte = field(changed)[bit / 8];
      byte = static_cast<std::remove_reference_t<decltype(byte)>>(byte ^ (1U << bit % 8));
      KeyProof of_server;
      ASSERT_EQ(changed.server(&of_server), Status::kOk) << bit;
      expect_apart(of_device, of_server);
    }
  };
  flip_each([](Case & changed) -> auto& { return changed.name; });
  flip_each([](Case & changed) -> auto& { return changed.claim; });
  flip_each([](Case & changed) -> auto& { return changed.key; });
  flip_each([](Case & changed) -> auto& { return changed.device_public; });
  // The server's key in the device's file.
  for (size_t bit = 0; bit < 8 * kAgreedKeySize; ++bit) {
    Case changed = own;
    changed.server_public[bit / 8] = static_cast<uint8_t>(changed.server_public[bit / 8] ^ (1U << bit % 8));
    KeyProof other;
    ASSERT_EQ(changed.device(&other), Status::kOk) << bit;
    expect_apart(of_device, other);
  }
}

// Two names that look the same when they are written one behind the other.
TEST(KeyProof, WhereANameEndsCounts) {
  Case first(read_vectors()[0]);
  Case second = first;
  first.claim = "~ab";
  first.name = "c";
  second.claim = "~a";
  second.name = "bc";
  KeyProof a;
  KeyProof b;
  ASSERT_EQ(first.server(&a), Status::kOk);
  ASSERT_EQ(second.server(&b), Status::kOk);
  expect_apart(a, b);
}

// Points of small order, in both of their forms: whoever sends one knows the shared secret, which is zero.
TEST(KeyProof, ASharedSecretOfZeroIsRefused) {
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
      KeyProof proof;
      EXPECT_EQ(changed.server(&proof), Status::kUnauthenticated) << hex;
      EXPECT_EQ(changed.device(&proof), Status::kUnauthenticated) << hex;
      EXPECT_EQ(hex_of(proof.device_key), std::string(2 * kAgreedKeySize, '0'));
    }
  }
}

TEST(KeyProof, NamesOfAnyLengthThatAnIdentityHas) {
  Case both(read_vectors()[0]);
  both.claim = std::string(Identity::kNameSizeMax, 'c');
  both.name = std::string(Identity::kNameSizeMax, 'n');
  KeyProof proof;
  EXPECT_EQ(both.server(&proof), Status::kOk);
  both.name += 'n';
  KeyProof none;
  EXPECT_EQ(both.server(&none), Status::kInvalidArgument);
  EXPECT_EQ(hex_of(none.device_key), std::string(2 * kAgreedKeySize, '0'));
}

// ---- A key that the device draws ----

struct Change {
  explicit Change(const Vector& vector)
      : name(vector.at("name")),
        generation(static_cast<uint32_t>(std::stoul(vector.at("generation")))),
        key(key_of(vector.at("old_key"))),
        server_secret(key_of(vector.at("server_secret"))),
        server_public(key_of(vector.at("server_public"))),
        device_secret(key_of(vector.at("device_secret"))),
        device_public(key_of(vector.at("device_public"))) {}
  Status device(KeyProof* out) const {
    return prove_as_device(KeyChangeTerms{name, generation, key}, device_secret, server_public, out);
  }
  Status server(KeyProof* out) const {
    return prove_as_server(KeyChangeTerms{name, generation, key}, server_secret, device_public, out);
  }

  std::string name;
  uint32_t generation;
  Key key;
  Key server_secret;
  Key server_public;
  Key device_secret;
  Key device_public;
};

std::vector<Vector> change_vectors() { return read_vectors("key_change_vectors", "name"); }

TEST(KeyChangeAgreement, BothEndsFindWhatThePageSays) {
  const std::vector<Vector> vectors = change_vectors();
  ASSERT_EQ(vectors.size(), 4U);
  for (const Vector& vector : vectors) {
    const Change both(vector);
    KeyProof of_device;
    KeyProof of_server;
    ASSERT_EQ(both.device(&of_device), Status::kOk);
    ASSERT_EQ(both.server(&of_server), Status::kOk);
    for (const KeyProof* const proof : {&of_device, &of_server}) {
      EXPECT_EQ(hex_of(proof->device_public), vector.at("device_public"));
      EXPECT_EQ(hex_of(proof->device_key), vector.at("device_key"));
      EXPECT_EQ(hex_of(proof->confirm_device), vector.at("confirm_device"));
      EXPECT_EQ(hex_of(proof->confirm_server), vector.at("confirm_server"));
    }
  }
}

TEST(KeyChangeAgreement, OneFlippedBitLeavesTheEndsApart) {
  const Change own(change_vectors()[0]);
  KeyProof of_device;
  ASSERT_EQ(own.device(&of_device), Status::kOk);
  const auto expect_other = [&](const Change& changed, size_t bit) {
    KeyProof of_server;
    ASSERT_EQ(changed.server(&of_server), Status::kOk) << bit;
    expect_apart(of_device, of_server);
  };
  const auto flip_each = [&](auto&& field) {
    for (size_t bit = 0; bit < 8 * field(own).size(); ++bit) {
      Change changed = own;
      auto& byte = field(changed)[bit / 8];
      byte = static_cast<std::remove_cvref_t<decltype(byte)>>(byte ^ (1U << bit % 8));
      expect_other(changed, bit);
    }
  };
  flip_each([](auto& change) -> auto& { return change.name; });
  flip_each([](auto& change) -> auto& { return change.key; });
  flip_each([](auto& change) -> auto& { return change.device_public; });
  for (uint32_t bit = 0; bit < 32; ++bit) {
    Change changed = own;
    changed.generation ^= 1U << bit;
    expect_other(changed, bit);
  }
  for (size_t bit = 0; bit < 8 * kAgreedKeySize; ++bit) {  // of S, as the device got it
    Change changed = own;
    changed.server_public[bit / 8] = static_cast<uint8_t>(changed.server_public[bit / 8] ^ (1U << bit % 8));
    KeyProof other;
    ASSERT_EQ(changed.device(&other), Status::kOk) << bit;
    expect_apart(of_device, other);
  }
}

// The two uses never find one key, whatever the names are.
TEST(KeyChangeAgreement, AClaimIsNoKeyChange) {
  const Change change(change_vectors()[0]);
  KeyProof as_change;
  KeyProof as_claim;
  ASSERT_EQ(change.server(&as_change), Status::kOk);
  ASSERT_EQ(prove_as_server(ClaimTerms{"~" + change.name, change.name, change.key}, change.server_secret,
                            change.device_public, &as_claim),
            Status::kOk);
  expect_apart(as_change, as_claim);
}

TEST(KeyChangeAgreement, ASharedSecretOfZeroAndANameTooLongAreRefused) {
  Change change(change_vectors()[0]);
  KeyProof none;
  change.name = std::string(Identity::kNameSizeMax + 1, 'n');
  EXPECT_EQ(change.device(&none), Status::kInvalidArgument);
  change.name.pop_back();
  EXPECT_EQ(change.device(&none), Status::kOk);
  change.server_public = change.device_public = {1};
  KeyProof proof;
  EXPECT_EQ(change.device(&proof), Status::kUnauthenticated);
  EXPECT_EQ(change.server(&proof), Status::kUnauthenticated);
  EXPECT_EQ(hex_of(proof.device_key), std::string(2 * kAgreedKeySize, '0'));
}

}  // namespace
}  // namespace gradstream

// Secrets leave zeros behind: looked at in the storage that they lived in, after their lives.
#include "server/base/secret.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr uint8_t kByte = 0xA5;

// Storage that outlives what is made in it. It is read as volatile, because for a compiler an object's bytes have no
// value after its life.
template <typename Type>
class Storage {
 public:
  Storage() { std::memset(bytes_, 0x5A, sizeof bytes_); }
  template <typename... Arguments>
  Type* make(Arguments&&... arguments) {
    return new (bytes_) Type(std::forward<Arguments>(arguments)...);
  }
  size_t count(uint8_t byte) const {
    const volatile unsigned char* const bytes = bytes_;
    size_t count = 0;
    for (size_t i = 0; i < sizeof bytes_; ++i) {
      count += bytes[i] == byte ? 1 : 0;
    }
    return count;
  }
  // The longest row of that byte.
  size_t longest(uint8_t byte) const {
    const volatile unsigned char* const bytes = bytes_;
    size_t longest = 0;
    for (size_t i = 0, row = 0; i < sizeof bytes_; ++i) {
      row = bytes[i] == byte ? row + 1 : 0;
      longest = std::max(longest, row);
    }
    return longest;
  }

 private:
  alignas(Type) unsigned char bytes_[sizeof(Type)];
};

Secret<32> secret_of(uint8_t byte) {
  Secret<32> secret;
  secret.fill(byte);
  return secret;
}

TEST(Secret, BeginsAsZerosAndHoldsWhatItWasGiven) {
  EXPECT_EQ(Secret<32>(), secret_of(0));
  std::array<uint8_t, 32> bytes = {};
  bytes[0] = 1;
  bytes[31] = 2;
  const Secret<32> secret{std::span<const uint8_t, 32>(bytes)};
  EXPECT_EQ(secret[0], 1U);
  EXPECT_EQ(secret[31], 2U);
  const std::span<const uint8_t, 32> view = secret;
  EXPECT_TRUE(std::equal(view.begin(), view.end(), bytes.begin()));
  for (const size_t at : {0, 15, 31}) {
    Secret<32> other = secret;
    EXPECT_EQ(other, secret);
    other[at] ^= 0x80;
    EXPECT_NE(other, secret) << at;
  }
}

TEST(Secret, IsZeroAfterItsLife) {
  Storage<Secret<32>> storage;
  Secret<32>* const secret = storage.make();
  secret->fill(kByte);
  ASSERT_EQ(storage.count(kByte), 32U);
  secret->~Secret();
  EXPECT_EQ(storage.count(0), 32U);
}

TEST(Secret, ACopyIsWipedAndLeavesTheOriginal) {
  const Secret<32> original = secret_of(kByte);
  Storage<Secret<32>> storage;
  Secret<32>* const copy = storage.make(original);
  ASSERT_EQ(storage.count(kByte), 32U);
  copy->~Secret();
  EXPECT_EQ(storage.count(0), 32U);
  EXPECT_EQ(original, secret_of(kByte));
}

TEST(Secret, AMoveLeavesZerosBehind) {
  Storage<Secret<32>> storage;
  Secret<32>* const from = storage.make(secret_of(kByte));
  ASSERT_EQ(storage.count(kByte), 32U);
  Secret<32> to = std::move(*from);
  EXPECT_EQ(storage.count(0), 32U);
  EXPECT_EQ(to, secret_of(kByte));
  *from = std::move(to);
  EXPECT_EQ(storage.count(kByte), 32U);
  EXPECT_EQ(to, Secret<32>());  // NOLINT: what a move leaves is what is tested
  Secret<32>& same = *from;
  *from = std::move(same);
  EXPECT_EQ(storage.count(kByte), 32U) << "a move to itself changes nothing";
  from->~Secret();
  EXPECT_EQ(storage.count(0), 32U);
}

TEST(Secret, AnAssignmentLeavesNothingOfTheOldKey) {
  Storage<Secret<32>> storage;
  Secret<32>* const secret = storage.make(secret_of(kByte));
  ASSERT_EQ(storage.count(kByte), 32U);
  const Secret<32> next = secret_of(7);
  *secret = next;
  EXPECT_EQ(storage.count(kByte), 0U);
  EXPECT_EQ(storage.count(7), 32U);
  *secret = {};
  EXPECT_EQ(storage.count(0), 32U);
  secret->fill(kByte);
  secret->wipe();
  EXPECT_EQ(storage.count(0), 32U);
  secret->~Secret();
}

TEST(Secret, AValueWithAKeyIsZeroAfterItsLife) {
  struct Named {
    char name[8] = {};
    uint8_t key[32] = {};
  };
  Storage<SecretValue<Named>> storage;
  SecretValue<Named>* const value = storage.make();
  std::memset((*value)->key, kByte, sizeof(*value)->key);
  std::memset((**value).name, kByte, sizeof(**value).name);
  ASSERT_EQ(storage.count(kByte), sizeof(Named));
  value->~SecretValue();
  EXPECT_EQ(storage.count(0), sizeof(Named));
}

// A short text stands in the object itself, where it can be looked at.
TEST(Secret, ATextIsZeroAfterItsLifeAlsoWhereALongerOneStood) {
  constexpr std::string_view kLonger = "\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5";
  Storage<SecretText> storage;
  SecretText* const text = storage.make();
  **text = kLonger;
  (*text)->resize(1);
  ASSERT_GE(storage.longest(kByte), kLonger.size() - 2);  // resize() has ended the text behind its first byte
  text->~SecretText();
  EXPECT_LT(storage.longest(kByte), sizeof(void*));  // the text's address stays, and one of its bytes may be the same
}

}  // namespace
}  // namespace gradstream

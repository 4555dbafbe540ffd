#include "server/base/sha256.h"

#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mbedtls/sha256.h>

namespace gradstream {
namespace {

std::string hex_of(const Sha256Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// FIPS 180-4's own examples, and the one of no bytes.
TEST(Sha256, GivesThePublishedDigests) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, digest] : cases) {
    EXPECT_EQ(hex_of(sha256(bytes_of(text))), digest) << text.size();
  }
}

// Of each length up to some blocks, with another library.
TEST(Sha256, IsThatOfMbedTls) {
  std::vector<uint8_t> bytes;
  for (size_t size = 0; size <= 300; ++size) {
    Sha256Digest digest = {};
    ASSERT_EQ(mbedtls_sha256(bytes.data(), bytes.size(), digest.data(), 0), 0);
    EXPECT_EQ(sha256(bytes), digest) << size;
    bytes.push_back(static_cast<uint8_t>(7 * size + 1));
  }
}

}  // namespace
}  // namespace gradstream

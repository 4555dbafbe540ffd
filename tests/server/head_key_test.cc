// Keys of heads: made, read, and what they sign.
#include "server/program/head_key.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/journal/journal_head.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// The key of RFC 6979, A.2.5, in PEM as openssl writes it.
constexpr const char* kKeyOfRfc6979 =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MHcCAQEEIMmvqdhFunUWa1whV2ex1pNOUMPbNuibEnuKYisSD2choAoGCCqGSM49\n"
    "AwEHoUQDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7Yfps5mliLmDyn7Z5A/4QCLi8\n"
    "maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==\n"
    "-----END EC PRIVATE KEY-----\n";

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

class HeadKeys : public testing::Test {
 protected:
  HeadKeys() { EXPECT_EQ(make_head_key(path_).sentence, ""); }
  const Folder folder_;
  const std::string path_ = folder_.file("head.key");
};

TEST_F(HeadKeys, WhatOneHalfSignsTheOtherProves) {
  HeadKey signer;
  HeadKey prover;
  ASSERT_EQ(signer.read_private(path_).sentence, "");
  ASSERT_EQ(prover.read_public(path_ + ".pub").sentence, "");
  const std::string text = head_text({});
  const std::vector<uint8_t> signature = signer.sign(text);
  ASSERT_FALSE(signature.empty());
  ASSERT_LE(signature.size(), kHeadSignatureSizeMax);
  EXPECT_TRUE(prover.verify(text, signature));
  EXPECT_TRUE(signer.verify(text, signature));
  EXPECT_EQ(signer.sign(text), signature) << "no chance is in it";
  for (size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_FALSE(prover.verify(other, signature)) << at;
  }
  for (size_t at = 0; at < signature.size(); ++at) {
    std::vector<uint8_t> other = signature;
    other[at] ^= 1;
    EXPECT_FALSE(prover.verify(text, other)) << at;
  }
  EXPECT_FALSE(prover.verify(text, {}));
}

TEST_F(HeadKeys, AnotherKeyProvesNothing) {
  const std::string other_path = folder_.file("other.key");
  ASSERT_EQ(make_head_key(other_path).sentence, "");
  HeadKey signer;
  HeadKey other;
  ASSERT_EQ(signer.read_private(path_).sentence, "");
  ASSERT_EQ(other.read_public(other_path + ".pub").sentence, "");
  EXPECT_FALSE(other.verify("text", signer.sign("text")));
}

TEST_F(HeadKeys, TheFilesAreTheOwnersAndStay) {
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_THAT(make_head_key(path_).sentence, HasSubstr("exists"));
  std::ofstream(folder_.file("taken.key.pub")) << "\n";
  EXPECT_THAT(make_head_key(folder_.file("taken.key")).sentence, HasSubstr("taken.key.pub cannot be made"));
  EXPECT_NE(::stat(folder_.file("taken.key").c_str(), &info), 0) << "no half of a pair is left";
}

TEST_F(HeadKeys, WhatIsNoKeyIsNamed) {
  HeadKey key;
  EXPECT_THAT(key.read_private(folder_.file("none.key")).sentence, HasSubstr("none.key "));
  EXPECT_THAT(key.read_private(path_ + ".pub").sentence, HasSubstr("holds a public key"));
  const std::string other = folder_.file("other.key");
  write_file(other, kKeyOfRfc6979, 0644);
  EXPECT_THAT(key.read_private(other).sentence, HasSubstr("can be read by others"));
  write_file(other, "no key", 0600);
  EXPECT_THAT(key.read_private(other).sentence, HasSubstr("holds no private key"));
  EXPECT_THAT(key.read_public(path_).sentence, HasSubstr("holds no public key"));
  EXPECT_FALSE(key.is_set());
  const std::string large = folder_.file("large.key");
  write_file(large, std::string(9000, 'x'), 0600);
  EXPECT_THAT(key.read_private(large).sentence, HasSubstr("large.key "));
}

TEST_F(HeadKeys, SignsAsRfc6979Says) {
  const std::string path = folder_.file("rfc.key");
  write_file(path, kKeyOfRfc6979, 0600);
  HeadKey key;
  ASSERT_EQ(key.read_private(path).sentence, "");
  const std::vector<uint8_t> wanted = {
      // r and s of the same page, for SHA-256 and "sample"
      0x30, 0x46, 0x02, 0x21, 0x00, 0xef, 0xd4, 0x8b, 0x2a, 0xac, 0xb6, 0xa8, 0xfd, 0x11, 0x40, 0xdd, 0x9c, 0xd4,
      0x5e, 0x81, 0xd6, 0x9d, 0x2c, 0x87, 0x7b, 0x56, 0xaa, 0xf9, 0x91, 0xc3, 0x4d, 0x0e, 0xa8, 0x4e, 0xaf, 0x37,
      0x16, 0x02, 0x21, 0x00, 0xf7, 0xcb, 0x1c, 0x94, 0x2d, 0x65, 0x7c, 0x41, 0xd4, 0x36, 0xc7, 0xa1, 0xb6, 0xe2,
      0x9f, 0x65, 0xf3, 0xe9, 0x00, 0xdb, 0xb9, 0xaf, 0xf4, 0x06, 0x4d, 0xc4, 0xab, 0x2f, 0x84, 0x3a, 0xcd, 0xa8};
  EXPECT_EQ(key.sign("sample"), wanted);
}

}  // namespace
}  // namespace gradstream

#include "runtime/wire/identity.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

const std::string kKey = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

struct Parsed {
  Status status;
  Identity identity;
  uint32_t line;
};

Parsed parse(const std::string& text) {
  Parsed parsed{Status::kOk, {}, 99};
  parsed.status = parse_identity(text, &parsed.identity, &parsed.line);
  return parsed;
}

TEST(Identity, ReadsNameAndKey) {
  for (const std::string& text : {"identity = board-7\nkey = " + kKey + "\n", "key=" + kKey + "\nidentity=board-7",
                                  "# made by hand\r\n\r\n identity\t= board-7 \r\n\n  # and\nkey = " + kKey + "\r\n"}) {
    const Parsed parsed = parse(text);
    ASSERT_EQ(parsed.status, Status::kOk) << text;
    EXPECT_STREQ(parsed.identity.name, "board-7");
    for (size_t i = 0; i < Identity::kKeySize; ++i) {
      EXPECT_EQ(parsed.identity.key[i], i);
    }
    EXPECT_EQ(parsed.line, 0u);
  }
}

TEST(Identity, ReadsWhatEditorsWrite) {
  for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
    for (const std::string end : {"\n", "\r\n", "\r"}) {
      for (const std::string blank : {"", " ", "\t "}) {
        std::string text =
            mark + blank + "identity = board-7" + blank + end + blank + end + blank + "key =" + blank + kKey;
        for (int i = 0; i < 2; ++i, text += blank + end) {
          const Parsed parsed = parse(text);
          ASSERT_EQ(parsed.status, Status::kOk) << text;
          EXPECT_STREQ(parsed.identity.name, "board-7");
          EXPECT_EQ(parsed.identity.key[31], 31);
        }
      }
    }
  }
}

TEST(Identity, TheServerOfAClaimIsReadOrDropped) {
  const std::string claim = "identity = ~batch\nkey = " + kKey + "\n";
  Identity identity;
  ServerKey server;
  uint32_t line = 0;
  ASSERT_EQ(parse_identity(claim, &identity, &line, &server), Status::kOk);
  EXPECT_FALSE(server.is_there);
  for (const std::string& text : {claim + "server = " + kKey + "\n", "server=" + kKey + "\n" + claim}) {
    ASSERT_EQ(parse_identity(text, &identity, &line, &server), Status::kOk);
    EXPECT_TRUE(server.is_there);
    EXPECT_EQ(server.bytes[31], 31);
    EXPECT_EQ(parse(text).status, Status::kOk) << "a board that is given a claim";
  }
  EXPECT_EQ(parse(claim + "server = " + kKey.substr(1)).line, 3U);
  EXPECT_EQ(parse(claim + "server = " + kKey + "\nserver = " + kKey).line, 4U);
  EXPECT_EQ(parse("identity = ~batch\nserver = " + kKey).status, Status::kDataCorrupt) << "it is no key";
}

TEST(Identity, EndsAtAnErasedByte) {
  for (const char fill : {'\xff', '\0'}) {
    EXPECT_EQ(parse("identity = a\nkey = " + kKey + "\n" + std::string(3000, fill)).status, Status::kOk);
  }
}

TEST(Identity, NamesTheLineAtFault) {
  const struct {
    std::string text;
    uint32_t line;
  } cases[] = {
      {"", 0},
      {std::string(2000, '\xff'), 0},
      {std::string(2000, '\n'), 0},
      {"identity = a\n", 0},
      {"key = " + kKey + "\n", 0},
      {"identity = a\nkey = " + kKey.substr(1) + "\n", 2},
      {"identity = a\nkey = " + kKey + "0\n", 2},
      {"identity = a\n\nkey = g" + kKey.substr(1) + "\n", 3},
      {"identity = a\nidentity = a\nkey = " + kKey, 2},
      {"identity = a\nkey = " + kKey + "\nkey = " + kKey, 3},
      {"identity =\nkey = " + kKey, 1},
      {"identity = two words\nkey = " + kKey, 1},
      {"identity = " + std::string(64, 'x') + "\nkey = " + kKey, 1},
      {"identity = \x01\nkey = " + kKey, 1},
      {"identity a\n", 1},
      {"name = a\n", 1},
      {"GSD1", 1},
  };
  for (const auto& bad : cases) {
    const Parsed parsed = parse(bad.text);
    EXPECT_EQ(parsed.status, Status::kDataCorrupt) << bad.text;
    EXPECT_EQ(parsed.line, bad.line) << bad.text;
    for (const uint8_t byte : parsed.identity.key) {
      EXPECT_EQ(byte, 0) << "a key was left behind";
    }
  }
}

TEST(Identity, DigestTellsNamesAndKeysApart) {
  const Identity identity = parse("identity = a\nkey = " + kKey + "\n").identity;
  EXPECT_EQ(identity_digest(identity), identity_digest(parse("# \nkey=" + kKey + "\nidentity=a\n").identity));
  Identity other = identity;
  other.name[0] = 'b';
  EXPECT_NE(identity_digest(other), identity_digest(identity));
  for (size_t bit = 0; bit < 8 * Identity::kKeySize; ++bit) {
    other = identity;
    other.key[bit / 8] = static_cast<uint8_t>(other.key[bit / 8] ^ (1U << bit % 8));
    EXPECT_NE(identity_digest(other), identity_digest(identity));
  }
}

TEST(Identity, TellsKeysThatNobodyHasDrawn) {
  for (const uint8_t byte : {0, 0xff}) {
    std::vector<uint8_t> key(Identity::kKeySize, byte);
    EXPECT_TRUE(is_undrawn_key(key));
    key[5] ^= 1;
    EXPECT_FALSE(is_undrawn_key(key));
  }
  EXPECT_FALSE(is_undrawn_key(std::vector<uint8_t>(Identity::kKeySize, 0x55)));
}

TEST(Identity, TakesTheLongestName) {
  EXPECT_EQ(parse("identity = " + std::string(63, 'x') + "\nkey = " + kKey).status, Status::kOk);
}

}  // namespace
}  // namespace gradstream

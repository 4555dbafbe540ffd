#include "firmware/name_posix.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include "runtime/wire/identity.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(NamePosix, ABoardHasAName) { EXPECT_NE(board_name(), ""); }

TEST(NamePosix, TakesANameAsItIs) {
  std::string name;
  EXPECT_EQ(expand_name("kitchen-2", &name), "");
  EXPECT_EQ(name, "kitchen-2");
  EXPECT_EQ(expand_name("a{b", &name), "") << "a brace alone is a character like others";
  EXPECT_EQ(name, "a{b");
}

TEST(NamePosix, PutsTheHostNameIn) {
  utsname system = {};
  ASSERT_EQ(uname(&system), 0);
  std::string name;
  const std::string problem = expand_name("p-{hostname}", &name);
  if (problem.empty()) {  // a host's name may be longer than a device's
    EXPECT_EQ(name, std::string("p-") + system.nodename);
  } else {
    EXPECT_THAT(problem, HasSubstr(system.nodename));
  }
}

TEST(NamePosix, NamesWhatIsWrong) {
  std::string name = "untouched";
  EXPECT_THAT(expand_name("k\xC3\xBC"
                          "che",
                          &name),
              HasSubstr("ASCII"));
  EXPECT_THAT(expand_name("", &name), HasSubstr("1 to 56"));
  EXPECT_THAT(expand_name("a b", &name), HasSubstr("spaces"));
  EXPECT_THAT(expand_name("{machine_id}", &name), HasSubstr("{machine_id} is no placeholder"));
  EXPECT_THAT(expand_name("x{}", &name), HasSubstr("{} is no placeholder"));
  EXPECT_THAT(expand_name(std::string(50, 'x') + "{hostname}{hostname}{hostname}{hostname}{hostname}", &name),
              HasSubstr("stands for"));
  EXPECT_EQ(name, "untouched");
}

// systemd-id128 machine-id --app-specific=5f0f2a9e83b94a4c9d0c6b1d7e2f4a61 on a machine of this id, computed with
// Python.
TEST(NamePosix, DerivesAnIdThatDoesNotGiveTheMachinesAway) {
  std::string id;
  ASSERT_TRUE(derive_machine_id("0123456789abcdef0123456789abcdef", &id));
  EXPECT_EQ(id, "2f6a659f36254e4b8e79b09531c499e6");
  std::string other;
  EXPECT_TRUE(derive_machine_id("10101010101010101010101010101010", &other)) << "no digit is too small";
  ASSERT_TRUE(derive_machine_id("0123456789abcdef0123456789abcdee", &other));
  EXPECT_NE(other, id);
  for (const char* wrong : {"", "uninitialized", "0123", "0123456789abcdef0123456789abcdeg",
                            "00000000000000000000000000000000", "0123456789abcdef0123456789abcdef0"}) {
    EXPECT_FALSE(derive_machine_id(wrong, &other)) << wrong;
  }
}

TEST(NamePosix, ALineOfALogHoldsNoCommandOfATerminal) {
  EXPECT_EQ(failed_line("--name \x1b[31mx\xC3\xBC: no"), "event=failed reason=\"--name \\x1b[31mx\\xc3\\xbc: no\"");
}

TEST(NamePosix, SaysWhatIsWrongWithAnIdentity) {
  const std::string key(64, 'a');
  const struct {
    std::string text, words;
  } cases[] = {
      {"", " is empty"},
      {std::string("identity = a\nkey\0 = ", 20), " line 2: holds a byte 0"},
      {"\xFF\xFEi", " is text in UTF-16; save it as UTF-8"},
      {std::string("i\0d\0", 4), " line 1: holds a byte 0"},
      {"identity = a\n", " lacks `identity = NAME`"},
      {std::string(2000, '\n'), " is too long: expected at most 1024 bytes, and it has 2000"},
      {"\xEF\xBB\xBF# x\r\nidentity = a\r\nkey = " + key.substr(1),
       " line 3: key: expected 64 hexadecimal digits, and it has 63"},
      {"identity = a\rkey = " + key.substr(1) + "g", " line 2: key: expected hexadecimal digits alone"},
      {"identity = k\xC3\xBC"
       "che\nkey = " +
           key,
       " line 1: identity: expected printable ASCII"},
      {"identity = " + std::string(64, 'x') + "\nkey = " + key,
       " line 1: identity: expected a name of 1 to 63 characters, and it has 64"},
      {"identity = " + std::string(62, 'x') + "\x01\nkey = " + key, " line 1: identity: expected printable ASCII"},
      {"", " is empty"},
      {"identity = a\nidentity = b\n", " line 2: the field stands here twice"},
      {"name = a\n", " line 1: no field of this name"},
      {"a,b\n", " line 1: expected `identity = NAME`"},
  };
  for (const auto& [text, words] : cases) {
    Identity identity;
    uint32_t line = 0;
    ASSERT_NE(parse_identity(text, &identity, &line), Status::kOk) << text;
    const std::string said = identity_fault_text(text, line);
    EXPECT_EQ(said.substr(0, words.size()), words);
    EXPECT_EQ(said.find("aaaa"), std::string::npos) << "a key was told";
    std::array<char, 8> cut = {};
    write_identity_fault(text, line, cut);
    EXPECT_EQ(cut.data(), said.substr(0, cut.size() - 1));
  }
}

}  // namespace
}  // namespace gradstream

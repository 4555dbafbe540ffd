// Any text is a tree or one error with its line: nothing that toml++ asserts, throws or recurses into comes out.
#include "server/program/toml_document.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/text_edits.h"

namespace gradstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kEditCount = 100000;

constexpr const char* kGood =
    "# a comment\n[server]\nlisten = \"127.0.0.1:0\"\nallow_psk_ke = true\n[server.limits]\nstore_delay_ms = 5\n"
    "[run]\nname = 'test'\nrows = 8\nstep_size = 1.5e-3\nparts = [\"stiefel 16x2\", \"\"\"a\nb\"\"\"]\n"
    "[demo]\nwhen = 2020-01-01 12:00:00\npoint.x = 1\ninline = {a = 1, b.c = [1, 2.5]}\n[[demo.list]]\n";

// "LINE: ERROR", or "" for a tree; the tree of an error is empty.
std::string error_of(std::string_view text) {
  TomlNode root;
  uint32_t line = 0;
  const std::string error = parse_toml(text, &root, &line).sentence;
  EXPECT_TRUE(root.is_table());
  EXPECT_TRUE(error.empty() || root.entries.empty());
  EXPECT_EQ(printable(error), error) << "fit for one line";
  EXPECT_GE(line, 1U);
  EXPECT_LE(line, 1 + std::count(text.begin(), text.end(), '\n'));
  return error.empty() ? error : std::to_string(line) + ": " + error;
}

TomlNode tree_of(std::string_view text) {
  TomlNode root;
  uint32_t line = 0;
  EXPECT_EQ(parse_toml(text, &root, &line).sentence, "");
  return root;
}

std::string repeated(size_t count, const std::string& piece) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    out += piece;
  }
  return out;
}

TEST(TomlDocument, EachKindOfValueKeepsItsContentAndItsLine) {
  const TomlNode root = tree_of(
      "a = \"x\\u00e4\"\nb = true\nc = -7\nd = 2.5\ne = [1, 'two']\nf.g = inf\n[h]\nt = 2020-01-01\nu = 12:00:00\n"
      "[[l]]\nx = 1\n[[l]]\n");
  EXPECT_EQ(root.find("a")->text, "x\u00e4");
  EXPECT_TRUE(root.find("b")->flag);
  EXPECT_EQ(root.find("c")->whole, -7);
  EXPECT_EQ(root.find("d")->number, 2.5);
  ASSERT_EQ(root.find("e")->items.size(), 2U);
  EXPECT_EQ(root.find("e")->items[1].text, "two");
  EXPECT_TRUE(std::isinf(root.find("f")->find("g")->number));
  EXPECT_EQ(root.find("h")->find("t")->kind, TomlKind::kTime);
  EXPECT_EQ(root.find("h")->find("u")->kind, TomlKind::kTime);
  EXPECT_EQ(root.find("h")->find("u")->line, 9U);
  ASSERT_EQ(root.find("l")->items.size(), 2U);
  EXPECT_EQ(root.find("l")->items[0].find("x")->whole, 1);
  EXPECT_EQ(root.find("none"), nullptr);
  EXPECT_EQ(root.find("a")->find("none"), nullptr);
  EXPECT_EQ(tree_of("\xef\xbb\xbf"
                    "a = 1\r\nb = 2\r\n")
                .find("b")
                ->line,
            2U)
      << "a byte order mark and the ends of lines of Windows";
  EXPECT_EQ(tree_of("z = 1\na = 2\n").entries[0].name, "z") << "in the order of the text";
  EXPECT_EQ(tree_of("").entries.size(), 0U);
}

TEST(TomlDocument, TextsThatBreakAnAssumptionOfTheLibraryAreErrors) {
  for (const char* const text :
       {"[.server]", "[@x]", "[{x}]", "[\u00e4]", "[\n]", "[[.a]]", "[a.]", "[=", "[#", "[,"}) {
    EXPECT_THAT(error_of(text), HasSubstr("1: ")) << text;
    EXPECT_THAT(error_of(std::string("[run]\n\n") + text + "\nx = 1\n"), HasSubstr("3: ")) << text;
  }
  // Later releases of the library say it themselves, in other words.
  EXPECT_THAT(error_of("[run]\n[@x]\n"), AllOf(HasSubstr("2: "), HasSubstr("'@'")));
  EXPECT_THAT(error_of("[run]\n[\u00e4]\n"), AllOf(HasSubstr("2: "), HasSubstr("'\u00e4'")));
  for (const char* const text :
       {"x = [}]", "x = 2020-01-01 1\n", "x = 2020-01-01 1]", "x = [\xe2\x80\xa8]", "x = [\xc2\x85]"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

// To ask whether a letter is a space was undefined, also where the text is good.
TEST(TomlDocument, LettersOutsideAsciiAreReadWhereTheyMayStand) {
  for (const char* const letter :
       {"\u00e4", "\u00a0", "\u1680", "\u1681", "\u2003", "\u2100", "\u3000", "\ufeff", "\uff21", "\U0001f600"}) {
    const std::string text = letter;
    EXPECT_EQ(tree_of("x = \"" + text + "\"").find("x")->text, text);
    EXPECT_EQ(tree_of("\"" + text + "\" = 1 # " + text).find(text)->whole, 1);
    EXPECT_EQ(tree_of("x = '" + text + "'").find("x")->text, text);
    EXPECT_NE(tree_of("x = \"\"\"a\\\n" + text + "\"\"\"").find("x")->text, "");
    for (const char* const begin :
         {" ", "x", "x ", "x = ", "x = 1", "x = 1 ", "x = [", "x = [1", "x = {", "x = \"\"\"\\", "[", "[a.", "[a]",
          "[a] ", "x = true", "x = 2020-01-01 ", "x = 2020-01-01 1", "x = \"a\""}) {
      EXPECT_NE(error_of(begin + text + "\n"), "") << begin << text;
    }
  }
}

TEST(TomlDocument, EveryByteBehindABracketIsATreeOrAnError) {
  const std::string begins[] = {"[",     "[[",    "[a.",     "[a.\"", "[a.'", "[\"a\".",
                                "x = [", "x = {", "x = {a.", "x = ",  "x."};
  const std::string ends[] = {"", "]\n", "x]\n", "}\n", " = 1\n"};
  size_t wrong = 0;
  for (const std::string& begin : begins) {
    for (int byte = 0; byte < 256; ++byte) {
      for (const std::string& end : ends) {
        wrong += error_of(begin + static_cast<char>(byte) + end).empty() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(wrong, 10000U);
}

TEST(TomlDocument, EveryPairOfBytesBehindABracketIsATreeOrAnError) {
  const std::string marks = "[]{}.,=#\"'\\ \t\r\n_-+0ax:\x7f\x01\xc3\xff";
  for (const char a : marks) {
    for (const char b : marks) {
      for (const char c : marks) {
        const std::string text = {a, b, c};
        error_of("[" + text);
        error_of("x = " + text + "\n");
        error_of("x = [1, " + text);
      }
    }
  }
}

TEST(TomlDocument, RandomEditsOfAGoodTextAreTreesOrErrors) {
  ASSERT_EQ(error_of(kGood), "");
  TextEdits edits(20261125);
  size_t wrong = 0;
  for (size_t i = 0; i < kEditCount; ++i) {
    wrong += error_of(edits.spoil(kGood)).empty() ? 0 : 1;
    ASSERT_FALSE(HasFailure()) << "edit " << i;
  }
  EXPECT_GT(wrong, kEditCount / 2);
  EXPECT_LT(wrong, kEditCount);
}

TEST(TomlDocument, WhatIsNoUtf8IsNamedWithItsLine) {
  EXPECT_THAT(error_of(std::string("a = 1\nb = \0 2\n", 13)), HasSubstr("2: a byte 0"));
  EXPECT_THAT(error_of("\xff\xfe[\0"), HasSubstr("1: the text is UTF-16"));
  EXPECT_THAT(error_of("\xfe\xff\0["), HasSubstr("1: the text is UTF-16"));
  EXPECT_THAT(error_of(std::string("[\0r\0u\0n\0]\0\n\0", 12)), HasSubstr("1: a byte 0"));
  EXPECT_EQ(error_of("a = 1\n# k\xfc"
                     "che\n"),
            "2: the byte 0xfc is no UTF-8; save the text as UTF-8");
  for (const char* const bytes : {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                                  "\xf4\x90\x80\x80", "\xf5", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(is_utf8(bytes)) << printable(bytes);
    EXPECT_THAT(error_of(std::string("# ") + bytes), HasSubstr("no UTF-8"));
  }
  for (const char* const text : {"", "a", "\u00e4", "\u20ac", "\U0001f600", "\ud7ff", "\ue000", "\U0010ffff"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(TomlDocument, WhatWouldFillTheStackOrTheMemoryIsRefused) {
  EXPECT_THAT(error_of("[" + repeated(400000, "a.") + "a]"), HasSubstr("more than 16 names"));
  EXPECT_THAT(error_of(repeated(400000, "a.") + "a = 1"), HasSubstr("more than 16 names"));
  EXPECT_THAT(error_of(repeated(400000, "a . ") + "a = 1").substr(0, 3), "1: ");
  EXPECT_THAT(error_of("\n" + repeated(17, "\"a.b\".") + "a = 1"), HasSubstr("2: a key or header of more than 16"));
  EXPECT_EQ(error_of(repeated(15, "a.") + "a = \"" + repeated(99, ".") + "\" # " + repeated(99, ".")), "");
  EXPECT_EQ(error_of("x = [" + repeated(500, "1.5, ") + "]"), "") << "points of numbers are none of a key";
  EXPECT_EQ(error_of("x = '''\n" + repeated(50, "a.") + "'''''\ny.z = 1"), "");
  for (const char* const bracket : {"[", "{a = "}) {
    EXPECT_THAT(error_of("x = " + repeated(150000, bracket)), testing::EndsWith("depth of 16"));
  }
  EXPECT_EQ(error_of("x = " + repeated(15, "[") + repeated(15, "]")), "");
  EXPECT_THAT(error_of(std::string(kTomlSizeMax + 1, '#')), HasSubstr("1048577 bytes; at most 1048576"));
  EXPECT_EQ(error_of(std::string(kTomlSizeMax, '#')), "");
  EXPECT_THAT(error_of("\n" + std::string(129, 'x') + " = 1"), HasSubstr("2: a name of more than 128 bytes"));
  EXPECT_EQ(error_of(std::string(128, 'x') + " = 1"), "");
}

// toml++ would step back further than it remembers, inside a function that may not throw.
TEST(TomlDocument, ManyUnderscoresBeforeATimeAreRefused) {
  for (size_t count = 90; count < 130; ++count) {
    for (const char* const behind : {"1 12", "1 12:00:00\n", "1 1", "1 \"", "1 1_1_1_1", "=1 12"}) {
      const std::string error = error_of("x = 2020-01-0" + std::string(count, '_') + behind);
      EXPECT_NE(error, "");
      EXPECT_EQ(error.find("underscores; shorten") != std::string::npos, count > 100) << error;
    }
  }
  EXPECT_NE(error_of("x = 2020\"" + std::string(116, '_') + "\"12 12\n"), "") << "no quote hides them";
  EXPECT_EQ(error_of("# " + std::string(500, '_') + "\nx = 1\n"), "") << "a ruled line";
}

TEST(TomlDocument, NumbersBeyondAnyTypeAreErrors) {
  for (const char* const value : {"9223372036854775808",
                                  "-9223372036854775809",
                                  "1e999",
                                  "-1e999",
                                  "0xfffffffffffffffff",
                                  "0o7777777777777777777777",
                                  "1__0",
                                  "1_",
                                  "00",
                                  "+",
                                  "-",
                                  "0x",
                                  "0b2",
                                  "1e",
                                  "1.e1",
                                  ".5",
                                  "5.",
                                  "1e5.5",
                                  "--1",
                                  "2020-13-01",
                                  "2020-02-30",
                                  "25:00:00",
                                  "2020-01-01T",
                                  "12:00:00.",
                                  "\"\\ud800\"",
                                  "\"\\x41\"",
                                  "\"a",
                                  "'a",
                                  "\"\"\"a",
                                  "'''a",
                                  "tru",
                                  "nul"}) {
    EXPECT_NE(error_of(std::string("x = ") + value + "\n"), "") << value;
    EXPECT_NE(error_of(std::string("x = ") + value), "") << value;
  }
  EXPECT_NE(error_of("x = " + std::string(100000, '9')), "");
  EXPECT_NE(error_of("x = 1." + std::string(100000, '9')), "");
  EXPECT_EQ(tree_of("x = 9223372036854775807").find("x")->whole, INT64_MAX);
  EXPECT_EQ(tree_of("x = -9223372036854775808").find("x")->whole, INT64_MIN);
}

TEST(TomlDocument, MessagesAreOneLine) {
  EXPECT_EQ(printable(std::string("a\nb\0\x7f\xff\u00e4", 8)), "a\\x0ab\\x00\\x7f\\xff\u00e4");
  EXPECT_EQ(printable("\xc2\x9b[1m\xc2\xa0"), "\\xc2\\x9b[1m\xc2\xa0") << "CSI in eight bits";
  EXPECT_THAT(error_of("x = tr\x01"), HasSubstr("1: "));
}

}  // namespace
}  // namespace gradstream

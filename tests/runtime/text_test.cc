#include "runtime/base/text.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Text, TrimsBlanksAndKeepsWhatIsWithin) {
  EXPECT_EQ(trim(" \t a b\r"), "a b");
  EXPECT_EQ(trim("ab"), "ab");
  EXPECT_EQ(trim(" \t\r"), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("a\n"), "a\n") << "a line's end is no blank";
}

TEST(Text, SlicesUpToBothEnds) {
  EXPECT_EQ(slice("abc", 0, 3), "abc");
  EXPECT_EQ(slice("abc", 1, 2), "b");
  EXPECT_EQ(slice("abc", 3, 3), "");
}

std::vector<std::string> lines_of(std::string_view text) {
  LineReader reader(text);
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(&line);) {
    lines.push_back(std::to_string(reader.number()) + ":" + std::string(line));
  }
  return lines;
}

TEST(LineReader, EndsALineInThreeWaysAndTheLastPerhapsInNone) {
  const std::vector<std::string> both = {"1:a", "2:b"};
  for (const char* text : {"a\nb\n", "a\nb", "a\r\nb\r\n", "a\r\nb", "a\rb\r", "a\rb", "a\nb\r", "a\r\nb\r"}) {
    EXPECT_EQ(lines_of(text), both) << text;
  }
  EXPECT_EQ(lines_of("a\n\rb"), (std::vector<std::string>{"1:a", "3:b"})) << "two ends";
}

TEST(LineReader, PassesOverWhatSaysNothing) {
  EXPECT_EQ(lines_of("\xEF\xBB\xBF# head\r\n\r\n \t a b \t\r\n  # no\n\nb"),
            (std::vector<std::string>{"3:a b", "6:b"}));
  for (const char* text : {"", "\n", "\r\n", " ", "#", "\xEF\xBB\xBF", "\xEF\xBB\xBF\n \n"}) {
    EXPECT_TRUE(lines_of(text).empty()) << text;
  }
  EXPECT_EQ(lines_of("\xEF\xBB"), (std::vector<std::string>{"1:\xEF\xBB"})) << "half a mark is text";
  EXPECT_EQ(lines_of("\xEF\xBB\xBF\xEF\xBB\xBF"), (std::vector<std::string>{"1:\xEF\xBB\xBF"})) << "one mark";
}

TEST(LineReader, CountsLinesAtTheEnd) {
  for (const auto& [text, count] : {std::pair("", 0U), {"a", 1U}, {"a\n", 1U}, {"a\n\n", 2U}, {"a\r\n\r\n", 2U}}) {
    LineReader reader(text);
    std::string_view line;
    while (reader.next(&line)) {
    }
    EXPECT_EQ(reader.number(), count) << text;
    EXPECT_FALSE(reader.next(&line)) << "again";
  }
}

TEST(Text, NamesWhatIsNoTextOfLines) {
  const auto fault = [](std::string_view text) {
    const TextFault found = find_text_fault(text);
    return found.text == nullptr ? "" : std::to_string(found.line) + ":" + found.text;
  };
  EXPECT_EQ(fault(""), "");
  EXPECT_EQ(fault("\xEF\xBB\xBF"
                  "a\r\n"),
            "");
  EXPECT_EQ(fault("\xFF\xFE"
                  "a")
                .substr(0, 20),
            "0:is text in UTF-16;");
  EXPECT_EQ(fault("\xFE\xFF").substr(0, 20), "0:is text in UTF-16;");
  EXPECT_EQ(fault(std::string_view("a\r\nb\rc\0", 7)).substr(0, 16), "3:holds a byte 0");
  EXPECT_EQ(fault(std::string_view("\0a", 2)).substr(0, 16), "1:holds a byte 0");
}

TEST(Text, KnowsHexDigits) {
  for (int value = 0; value < 16; ++value) {
    EXPECT_EQ(hex_digit("0123456789abcdef"[value]), value);
    EXPECT_EQ(hex_digit("0123456789ABCDEF"[value]), value);
  }
  for (const char c : {'g', 'G', '/', ':', '@', '`', ' ', '\0', '\x10', '\x19'}) {  // the last two: digits less 0x20
    EXPECT_EQ(hex_digit(c), -1) << static_cast<int>(c);
  }
}

}  // namespace
}  // namespace gradstream

// The string functions of a board's image against those of the host.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

// Under names of their own, since the host has the others.
#define strlen board_strlen
#define strncmp board_strncmp
#define memcmp board_memcmp
#define memchr board_memchr
#include "boards/bare/strings.cc"
#undef strlen
#undef strncmp
#undef memcmp
#undef memchr

namespace gradstream {
namespace {

int sign(int value) { return (value > 0) - (value < 0); }

const std::vector<std::string> kTexts = {"", "a", "b", "ab", "abc", "abd", "\x80", "\xFF", "a\x80", "kpca", "kpca2"};

TEST(Strings, AnswerAsThoseOfTheHost) {
  for (const std::string& a : kTexts) {
    EXPECT_EQ(board_strlen(a.c_str()), a.size());
    for (const std::string& b : kTexts) {
      for (size_t size = 0; size <= 6; ++size) {
        EXPECT_EQ(sign(board_strncmp(a.c_str(), b.c_str(), size)), sign(std::strncmp(a.c_str(), b.c_str(), size)))
            << a << ", " << b << ", " << size;
        const size_t shorter = std::min(size, std::min(a.size(), b.size()) + 1);  // memory goes to the terminator
        EXPECT_EQ(sign(board_memcmp(a.c_str(), b.c_str(), shorter)), sign(std::memcmp(a.c_str(), b.c_str(), shorter)))
            << a << ", " << b << ", " << shorter;
      }
    }
  }
}

TEST(Strings, MemchrFindsTheFirstByte) {
  const char text[] = "a=b=\xE9=c";
  EXPECT_EQ(board_memchr(text, '=', sizeof(text)), text + 1);
  EXPECT_EQ(board_memchr(text, '=', 1), nullptr);
  EXPECT_EQ(board_memchr(text, 0xE9, sizeof(text)), text + 4);
  EXPECT_EQ(board_memchr(text, 'x', sizeof(text)), nullptr);
  EXPECT_EQ(board_memchr(text, 'a', 0), nullptr);
}

}  // namespace
}  // namespace gradstream

#include "server/base/text_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(TextFile, ReadsOrdinaryFilesUpToALimit) {
  std::string folder = testing::TempDir() + "text_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a";
  const std::string content("a\r\n\0b", 5);
  std::ofstream(path, std::ios::binary) << content;
  std::string text = "of before";
  EXPECT_EQ(read_text_file(path, 5, &text), "");
  EXPECT_EQ(text, content);
  EXPECT_EQ(read_text_file(path, 4, &text), "has 5 bytes, and at most 4 are read");
  EXPECT_THAT(read_text_file(folder, 5, &text), HasSubstr("is a folder"));
  EXPECT_THAT(read_text_file("/dev/null", 5, &text), HasSubstr("no ordinary file"));
  EXPECT_THAT(read_text_file(folder + "/none", 5, &text), HasSubstr("cannot be read: No such file"));
  const std::string pipe = folder + "/pipe";  // that nobody writes to
  ASSERT_EQ(mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_THAT(read_text_file(pipe, 5, &text), HasSubstr("no ordinary file"));
  std::ofstream(path, std::ios::trunc);
  EXPECT_EQ(read_text_file(path, 0, &text), "");
  EXPECT_EQ(text, "");
  std::filesystem::remove_all(folder);
}

TEST(TextFile, ShowsWhatStandsThere) {
  EXPECT_EQ(shown("a b"), "`a b`");
  EXPECT_EQ(shown(""), "``");
  EXPECT_EQ(shown(std::string_view("\x1b[1m\0", 5)), "`\\x1B[1m\\x00`");
  EXPECT_EQ(shown("\xC3\xBC"), "`\\xC3\\xBC`");
  EXPECT_EQ(shown(std::string(40, 'x')), "`" + std::string(40, 'x') + "`");
  EXPECT_EQ(shown(std::string(41, 'x')), "`" + std::string(40, 'x') + "...`");
}

}  // namespace
}  // namespace gradstream

#include "host/read_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace gradstream {
namespace {

class ReadFile : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_ = testing::TempDir() + "read_file_XXXXXX";
};

TEST_F(ReadFile, ReadsUpToItsLimit) {
  const std::string content("a\0b\n", 4);
  std::ofstream(path("a"), std::ios::binary) << content;
  std::string text = "of before, and longer";
  EXPECT_EQ(read_file(path("a").c_str(), 4, &text), 0);
  EXPECT_EQ(text, content);
  std::vector<char> bytes;
  EXPECT_EQ(read_file(path("a").c_str(), 100, &bytes), 0);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), content);
  EXPECT_EQ(read_file(path("a").c_str(), 3, &text), EFBIG);
  std::ofstream(path("a"), std::ios::trunc);
  EXPECT_EQ(read_file(path("a").c_str(), 0, &text), 0);
  EXPECT_EQ(text, "");
  std::filesystem::resize_file(path("a"), uintmax_t{5} << 30);  // a hole: it takes no disk
  EXPECT_EQ(read_file(path("a").c_str(), 1000, &text), EFBIG);
}

// The kernel makes such a file as it is read, and calls it empty before.
TEST_F(ReadFile, ReadsOnWhereAFileHasMoreThanItsInodeSays) {
  std::string text;
  EXPECT_EQ(read_file("/proc/self/status", 1 << 20, &text), 0);
  EXPECT_NE(text.find("\nPid:"), std::string::npos);
  EXPECT_EQ(read_file("/proc/self/status", 10, &text), EFBIG);
}

TEST_F(ReadFile, WhatIsNoOrdinaryFileIsRefusedAtOnce) {
  std::string text;
  EXPECT_EQ(read_file(path("none").c_str(), 10, &text), ENOENT);
  EXPECT_EQ(read_file(path("").c_str(), 10, &text), EISDIR);
  EXPECT_EQ(read_file("/dev/zero", 10, &text), ESPIPE);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_EQ(read_file(path("pipe").c_str(), 10, &text), ESPIPE);
}

}  // namespace
}  // namespace gradstream

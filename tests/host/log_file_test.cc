#include "host/log_file.h"

#include <csignal>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradstream {
namespace {

class Pipe : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    ASSERT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    ASSERT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
    ASSERT_GT(::fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  void TearDown() override {
    close_reader();
    ::close(ends_[1]);
  }
  void close_reader() {
    if (ends_[0] >= 0) {
      ::close(ends_[0]);
    }
    ends_[0] = -1;
  }
  std::string take() const {
    std::string all;
    char bytes[1000];
    for (ssize_t count = 0; (count = ::read(ends_[0], bytes, sizeof bytes)) > 0;) {
      all.append(bytes, static_cast<size_t>(count));
    }
    return all;
  }
  int ends_[2] = {-1, -1};
};

TEST_F(Pipe, LinesPass) {
  LogFile log(ends_[1]);
  EXPECT_TRUE(log.write("one"));
  EXPECT_TRUE(log.write(""));
  EXPECT_TRUE(log.write("three"));
  EXPECT_EQ(take(), "one\n\nthree\n");
  EXPECT_EQ(::fcntl(ends_[1], F_GETFL) & O_NONBLOCK, 0) << "others share the file";
}

TEST_F(Pipe, AReaderThatStandsStillCostsCountedLines) {
  LogFile log(ends_[1]);
  const std::string line(1000, 'x');
  int written = 0;
  while (log.write(line)) {
    ++written;
  }
  EXPECT_GT(written, 0);
  for (int i = 0; i < 99; ++i) {
    EXPECT_FALSE(log.write(line));
  }
  EXPECT_FALSE(log.write_count(line));
  EXPECT_EQ(log.lost_count(), 100U);
  take();
  EXPECT_TRUE(log.write_count("count"));
  EXPECT_EQ(log.lost_count(), 0U);
  EXPECT_EQ(take(), "count\n");
}

// A line of more than a page may get half in; the next one begins at the left margin.
TEST_F(Pipe, ATornLineIsLostAndEnded) {
  LogFile log(ends_[1]);
  EXPECT_FALSE(log.write(std::string(10000, 'x')));
  EXPECT_EQ(log.lost_count(), 1U);
  const std::string torn = take();
  EXPECT_EQ(torn, std::string(torn.size(), 'x'));
  EXPECT_FALSE(torn.empty());
  EXPECT_TRUE(log.write("next"));
  EXPECT_EQ(take(), "\nnext\n");
}

TEST_F(Pipe, WithoutAReaderLinesAreCounted) {
  close_reader();
  LogFile log(ends_[1]);
  EXPECT_FALSE(log.write("one"));
  EXPECT_FALSE(log.write("two"));
  EXPECT_EQ(log.lost_count(), 2U);
}

TEST(LogFile, AReaderThatComesBackGetsTheLines) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string path = testing::TempDir() + "log_file_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  const int writer = ::open(path.c_str(), O_WRONLY);
  LogFile log(writer);
  EXPECT_TRUE(log.write("one"));
  char bytes[100] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 4);
  ::close(reader);
  EXPECT_FALSE(log.write("two"));
  reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(log.write("three"));
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 6);
  EXPECT_STREQ(bytes, "three\n");
  ::close(reader);
  ::close(writer);
  ::unlink(path.c_str());
}

// As journald's.
TEST(LogFile, AFullSocketBlocksNothing) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  LogFile log(ends[0]);
  while (log.write(std::string(1000, 'x'))) {
  }
  EXPECT_FALSE(log.write("more"));
  EXPECT_EQ(log.lost_count(), 2U);
  ::close(ends[1]);
  EXPECT_FALSE(log.write("nobody"));
  ::close(ends[0]);
}

TEST(LogFile, AFileIsAppendedTo) {
  const std::string path = testing::TempDir() + "log_file_plain_" + std::to_string(::getpid());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND, 0600);
  ASSERT_EQ(::write(file, "zero\n", 5), 5);
  LogFile log(file);
  EXPECT_TRUE(log.write("one"));
  char bytes[100] = {};
  EXPECT_EQ(::pread(file, bytes, sizeof bytes, 0), 9);
  EXPECT_STREQ(bytes, "zero\none\n");
  ::close(file);
  ::unlink(path.c_str());
}

TEST(LogFile, ADescriptorThatTakesNothingIsNoFault) {
  const int nothing = ::open("/", O_PATH);
  LogFile log(nothing);
  EXPECT_FALSE(log.write("one"));
  EXPECT_EQ(log.lost_count(), 1U);
  ::close(nothing);
}

TEST(LogFile, LastWordsAreWritten) {
  EXPECT_EXIT(
      {
        write_last_line("the end\n");
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^the end\n$");
}

}  // namespace
}  // namespace gradstream

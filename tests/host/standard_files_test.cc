#include "host/standard_files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gradstream {
namespace {

bool is_null_device(int file) {
  struct stat info = {};
  struct stat null = {};
  return ::fstat(file, &info) == 0 && ::stat("/dev/null", &null) == 0 && info.st_rdev == null.st_rdev;
}

// Bits 0, 1 and 2 of `closed`: these descriptors are closed first. The exit status is 0 if the others are as before,
// and if the next file gets none of the three numbers.
void open_and_exit(unsigned closed, int other) {
  for (int file = 0; file < 3; ++file) {
    if ((closed >> file & 1U) != 0) {
      ::close(file);
    } else {
      ::dup2(other, file);
    }
  }
  ::close(other);
  open_standard_files();
  int faults = 0;
  for (int file = 0; file < 3; ++file) {
    faults += is_null_device(file) == ((closed >> file & 1U) != 0) ? 0 : 1;
  }
  const int next = ::open("/", O_RDONLY | O_CLOEXEC);
  std::_Exit(faults == 0 && next == 3 ? 0 : 1);
}

TEST(StandardFiles, EachCombinationOfClosedDescriptors) {
  for (unsigned closed = 0; closed < 8; ++closed) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::closefrom(3);
      open_and_exit(closed, ::open("/", O_RDONLY));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << closed;
  }
}

// In a child whose standard output is this file: what flush_output() says after two lines; -1: the child failed.
int write_and_exit(int output) {
  (void)std::fflush(stdout);  // or the child would write that too
  const pid_t child = ::fork();
  if (child == 0) {
    if (output >= 0) {
      ::dup2(output, STDOUT_FILENO);
    } else {
      ::close(STDOUT_FILENO);
    }
    open_standard_files();
    print_output("one\n");
    const int first = flush_output();
    print_output("two\n");
    std::_Exit(flush_output() == first ? first : 255);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// In a child: what flush_output() says after a write by other means, which stdio has tried at once and dropped.
TEST(StandardFiles, AWriteByOtherMeansThatFailsIsToldToo) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0);
    (void)std::fputs("lost", stdout);
    std::_Exit(flush_output() == 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// In a child whose standard output is written at once: the cause of the first of two lines.
TEST(StandardFiles, AFormattedWriteThatFailsInTheMiddleKeepsItsCause) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0);
    print_format("%d lost\n", 1);
    errno = 0;
    print_format("%s\n", "lost too");
    std::_Exit(flush_output() == ENOSPC ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(StandardFiles, AWriteThatFailsIsToldOnceAndForGood) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EXPECT_EQ(write_and_exit(full), ENOSPC);
  ::close(full);
  EXPECT_EQ(write_and_exit(-1), EBADF) << "closed by whoever started the process";
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(write_and_exit(ends[1]), 0);
  char text[16] = {};
  EXPECT_EQ(::read(ends[0], text, sizeof text), 8);
  EXPECT_STREQ(text, "one\ntwo\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace gradstream

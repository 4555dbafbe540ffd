// Whoever reads the exit code learns of output that is lost.
#include "host/output_end.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/standard_files.h"

namespace gradstream {
namespace {

struct End {
  int code = -1;
  std::string said;  // on standard error
};

// In a child with this standard output, -1 for a closed one: a line by printf(), then the end with `code`.
End end_with(int output, int code) {
  int ends[2] = {};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  (void)std::fflush(stdout);  // or the child would write that too
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    if (output >= 0) {
      ::dup2(output, STDOUT_FILENO);
    } else {
      ::close(STDOUT_FILENO);
    }
    open_standard_files();
    std::printf("result: 1\n");
    std::_Exit(finish_output("gradstream-test", code));
  }
  ::close(ends[1]);
  End end;
  char text[512];
  for (ssize_t size = ::read(ends[0], text, sizeof text); size > 0; size = ::read(ends[0], text, sizeof text)) {
    end.said.append(text, static_cast<size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return end;
}

TEST(OutputEnd, OutputThatIsLostIsAnErrorOfAProgramThatWasGood) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const End lost = end_with(full, 0);
  EXPECT_EQ(lost.code, kExitOutputTemporary);
  EXPECT_EQ(lost.said,
            "gradstream-test: error: standard output cannot be written: the disk is full; free space on it; the "
            "command has done its work, and its output is incomplete\n");
  const End closed = end_with(-1, 0);
  EXPECT_EQ(closed.code, kExitOutputLost);
  EXPECT_NE(closed.said.find("cannot be written: it is closed; give it a file"), std::string::npos) << closed.said;
  const End failed = end_with(full, 3);
  EXPECT_EQ(failed.code, 3) << "what was wrong before says more";
  EXPECT_EQ(failed.said, "");
  ::close(full);
}

TEST(OutputEnd, OutputThatIsWrittenChangesNothing) {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(null, 0);
  for (const int code : {0, 1}) {
    const End end = end_with(null, code);
    EXPECT_EQ(end.code, code);
    EXPECT_EQ(end.said, "");
  }
  ::close(null);
}

}  // namespace
}  // namespace gradstream

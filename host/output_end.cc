#include "host/output_end.h"

#include <cerrno>
#include <cstdio>

#include <unistd.h>

#include "host/file_cause.h"
#include "host/log_file.h"
#include "host/standard_files.h"

namespace gradstream {

int finish_output(const char* program, int code) {
  const int cause = flush_output();
  if (cause == 0 || code != 0) {
    return code;
  }
  constexpr size_t kSentenceSizeMax = 512;  // bytes; the longest cause and remedy take half of it
  char text[kSentenceSizeMax];
  (void)std::snprintf(text, sizeof text,
                      "%s: error: standard output cannot be written: %s; %s; the command has done its work, and its "
                      "output is incomplete",
                      program, cause == EBADF ? "it is closed" : cause_text(cause),
                      remedy_text(cause, "give it a file, or a program that reads to the end"));
  (void)LogFile(STDERR_FILENO).write(text);
  return is_temporary(cause) ? kExitOutputTemporary : kExitOutputLost;
}

}  // namespace gradstream

// The console of a process on Linux: standard error.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "boards/device_port.h"
#include "boards/posix/posix.h"
#include "host/end_signals.h"
#include "host/log_file.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// Of a time before a log line, with its end. Reason: 25 characters, and a year may have more than four digits.
constexpr size_t kTimeTextSizeMax = 40;
bool has_log_time = false;

// "2026-11-25T15:07:20.123Z ", the form of the server's log.
void write_time(char* out) {
  timespec now = {};
  tm date = {};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  (void)::gmtime_r(&now.tv_sec, &date);
  const size_t size = ::strftime(out, kTimeTextSizeMax, "%Y-%m-%dT%H:%M:%S", &date);
  const auto milliseconds = static_cast<unsigned>(now.tv_nsec / 1000000);
  (void)std::snprintf(out + size, kTimeTextSizeMax - size, ".%03uZ ", milliseconds);
}

}  // namespace

void posix_set_log_time(bool is_on) { has_log_time = is_on; }

bool posix_is_journald() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat info = {};
  const bool is_file = ::fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode);
  return stream != nullptr && *stream != '\0' && !is_file && ::isatty(STDERR_FILENO) == 0;
}

void port_log_line(const char* text) {
  if (device_log_line(text)) {
    return;
  }
  static LogFile log(STDERR_FILENO);
  char time[kTimeTextSizeMax] = "";
  if (has_log_time) {
    write_time(time);
  }
  if (log.lost_count() > 0) {
    char line[64];
    (void)std::snprintf(line, sizeof(line), "event=log_lines_lost count=%" PRIu64, log.lost_count());
    (void)log.write_count(line, time);
  }
  (void)log.write(text, time);
}

void assert_failed(const char* file, int line) {
  char text[256];
  (void)std::snprintf(text, sizeof(text), "event=assert_failed file=%s line=%d\n", file, line);
  write_last_line(text);
  port_reboot();
}

}  // namespace gradstream

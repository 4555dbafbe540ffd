// The port for Linux, Raspberry Pi among them: TCP, getrandom, a state file, stderr as the console.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "boards/device_port.h"
#include "boards/posix/posix.h"
#include "boards/posix/state_file.h"
#include "boards/posix/tcp_link.h"
#include "host/end_signals.h"
#include "host/log_file.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// Of HOST:PORT in log lines: the longest DNS name, brackets, colon and port.
constexpr size_t kServerTextSizeMax = 253 + 2 + 1 + 5;
// Longest single wait: a clock that stands still during a system's sleep is read again.
constexpr uint64_t kSleepMaxMs = 60000;

char server_text[kServerTextSizeMax + 1] = {};
char state_path[kStatePathSizeMax + 1] = {};
// Of a time before a log line, with its end. Reason: 25 characters, and a year may have more than four digits.
constexpr size_t kTimeTextSizeMax = 40;
bool has_log_time = false;

// The one connection.
TcpLink tcp;

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

void posix_set_server(const char* host, const char* port) {
  tcp.host = host;
  tcp.port = port;
  const bool is_v6 = std::strchr(host, ':') != nullptr;
  (void)std::snprintf(server_text, sizeof(server_text), is_v6 ? "[%s]:%s" : "%s:%s", host, port);
}

Status posix_set_state_file(const char* path) {
  state_path[0] = '\0';
  if (path == nullptr) {
    return Status::kOk;
  }
  if (std::strlen(path) > kStatePathSizeMax) {
    return Status::kInvalidArgument;
  }
  static_cast<void>(std::snprintf(state_path, sizeof(state_path), "%s", path));
  return Status::kOk;
}

void port_sleep_until_ms(uint64_t when_ms) {
  const uint64_t now_ms = port_now_ms();
  if (when_ms <= now_ms) {
    return;
  }
  const int timeout = static_cast<int>(std::min(when_ms - now_ms, kSleepMaxMs));
  // poll() passes over a file of -1. A signal that asks for the process's end wakes it for good.
  pollfd wait[] = {wait_for(tcp), {signal_file(), POLLIN, 0}};
  (void)::poll(wait, sizeof(wait) / sizeof(wait[0]), timeout);
}

Transport port_transport() {
  return device_port != nullptr ? device_transport() : Transport{&kTcpOps, &tcp, server_text};
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

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  if (device_port != nullptr) {
    return device_storage_write(pieces, count);
  }
  return state_path[0] == '\0' ? Status::kUnimplemented : write_state_file(state_path, pieces, count);
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  if (device_port != nullptr) {
    return device_storage_read(out, capacity);
  }
  return state_path[0] == '\0' ? Result<size_t>(Status::kUnimplemented) : read_state_file(state_path, out, capacity);
}

void assert_failed(const char* file, int line) {
  char text[256];
  (void)std::snprintf(text, sizeof(text), "event=assert_failed file=%s line=%d\n", file, line);
  write_last_line(text);
  port_reboot();
}

}  // namespace gradstream

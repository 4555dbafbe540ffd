#include "host/log_file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace gradstream {
namespace {

// A pipe that poll() calls writable takes so many bytes at once.
constexpr size_t kSafeWriteSize = PIPE_BUF;
constexpr char kNewline[] = "\n";

uint64_t monotonic_ms() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

iovec part_of(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

// Cuts size bytes off the front.
void advance(iovec* parts, int count, size_t size) {
  for (int i = 0; i < count; ++i) {
    const size_t taken = std::min(size, parts[i].iov_len);
    parts[i].iov_base = static_cast<char*>(parts[i].iov_base) + taken;
    parts[i].iov_len -= taken;
    size -= taken;
  }
}

size_t size_of(const iovec* parts, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) {
    size += parts[i].iov_len;
  }
  return size;
}

bool has_room(int file, int wait_ms) {
  pollfd room = {file, POLLOUT, 0};
  return ::poll(&room, 1, wait_ms) > 0;  // an error is news too: the write tells which one
}

}  // namespace

LogFile::~LogFile() {
  if (own_file_ >= 0) {
    ::close(own_file_);
  }
}

void LogFile::find_kind() {
  struct stat info = {};
  const mode_t mode = ::fstat(file_, &info) == 0 ? info.st_mode : S_IFREG;
  kind_ = S_ISSOCK(mode) ? Kind::kSocket : S_ISFIFO(mode) ? Kind::kPipe : S_ISCHR(mode) ? Kind::kTerminal : Kind::kFile;
}

// -1 with errno. EAGAIN: there is no room now.
ssize_t LogFile::put(const iovec* parts, int count) {
  if (kind_ == Kind::kFile) {
    return ::writev(file_, parts, count);
  }
  if (kind_ == Kind::kSocket) {
    msghdr message = {};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = static_cast<size_t>(count);
    return ::sendmsg(file_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (own_file_ < 0) {  // a pipe without a reader cannot be opened yet
    char path[32];
    (void)std::snprintf(path, sizeof path, "/proc/self/fd/%d", file_);
    own_file_ = ::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  if (own_file_ >= 0) {
    return ::writev(own_file_, parts, count);
  }
  // Another user's pipe, or no /proc.
  if (!has_room(file_, 0)) {
    errno = EAGAIN;
    return -1;
  }
  while (count > 1 && parts->iov_len == 0) {
    ++parts;
    --count;
  }
  return ::write(file_, parts->iov_base, std::min(parts->iov_len, kSafeWriteSize));
}

bool LogFile::wait_for_room() {
  const uint64_t begin_ms = monotonic_ms();
  if (begin_ms - period_begin_ms_ >= kLogWaitPeriodMs) {
    period_begin_ms_ = begin_ms;
    waited_ms_ = 0;
  }
  if (waited_ms_ >= kLogWaitMaxMs) {
    return false;
  }
  const bool has_found_room =
      has_room(own_file_ >= 0 ? own_file_ : file_, static_cast<int>(kLogWaitMaxMs - waited_ms_));
  waited_ms_ += std::max<uint64_t>(monotonic_ms() - begin_ms, 1);
  return has_found_room;
}

bool LogFile::put_line(std::string_view text, std::string_view prefix) {
  if (kind_ == Kind::kUnknown) {
    find_kind();
  }
  iovec parts[] = {part_of(is_torn_ ? kNewline : ""), part_of(prefix), part_of(text), part_of(kNewline)};
  constexpr int kPartCount = 4;
  const size_t whole = size_of(parts, kPartCount);
  size_t left = whole;
  while (left > 0) {
    const ssize_t count = put(parts, kPartCount);
    if (count > 0) {
      advance(parts, kPartCount, static_cast<size_t>(count));
      left -= static_cast<size_t>(count);
    } else if (count == 0 || (errno == EAGAIN && !wait_for_room()) || (errno != EAGAIN && errno != EINTR)) {
      break;
    }
  }
  is_torn_ = left > 0 && (is_torn_ || left < whole);
  return left == 0;
}

bool LogFile::write(std::string_view text, std::string_view prefix) {
  const bool is_written = put_line(text, prefix);
  lost_count_ += is_written ? 0 : 1;
  return is_written;
}

bool LogFile::write_count(std::string_view text, std::string_view prefix) {
  const bool is_written = put_line(text, prefix);
  lost_count_ = is_written ? 0 : lost_count_;
  return is_written;
}

void write_last_line(const char* text) {
  if (has_room(STDERR_FILENO, static_cast<int>(kLogWaitMaxMs))) {
    const ssize_t ignored = ::write(STDERR_FILENO, text, std::min(std::strlen(text), kSafeWriteSize));
    static_cast<void>(ignored);
  }
}

}  // namespace gradstream

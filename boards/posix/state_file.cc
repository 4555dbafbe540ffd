#include "boards/posix/state_file.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "host/durable_file.h"

namespace gradstream {
namespace {

bool write_all(int file, const uint8_t* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(file, bytes, size);
    if (count < 0 && errno != EINTR) {
      return false;
    }
    if (count > 0) {
      bytes += count;
      size -= static_cast<size_t>(count);
    }
  }
  return true;
}

bool write_new(const char* path, const StoragePiece* pieces, size_t count) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    return false;
  }
  bool written = true;
  for (size_t i = 0; i < count && written; ++i) {
    written = write_all(file, pieces[i].bytes, pieces[i].size);
  }
  written = written && ::fsync(file) == 0;
  return ::close(file) == 0 && written;
}

}  // namespace

Status write_state_file(const char* path, const StoragePiece* pieces, size_t count) {
  char temporary[kStatePathSizeMax + 8];
  (void)std::snprintf(temporary, sizeof(temporary), "%s.new", path);
  const bool stored = write_new(temporary, pieces, count) && rename_durably(temporary, path) == 0;
  return stored ? Status::kOk : Status::kClosed;
}

Result<size_t> read_state_file(const char* path, uint8_t* out, size_t capacity) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? Result<size_t>(size_t{0}) : Result<size_t>(Status::kClosed);
  }
  size_t size = 0;
  uint8_t rest[512];
  for (;;) {
    const bool fits = size < capacity;
    const ssize_t count = fits ? ::read(file, out + size, capacity - size) : ::read(file, rest, sizeof(rest));
    if (count > 0) {
      size += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      ::close(file);
      return count == 0 ? Result<size_t>(size) : Result<size_t>(Status::kClosed);
    }
  }
}

}  // namespace gradstream

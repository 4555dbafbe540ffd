#include "host/durable_file.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace gradstream {

int write_durably(int file, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(file, bytes, size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return count < 0 ? errno : ENOSPC;
    }
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

int sync_folder_of(const char* path) {
  char folder[PATH_MAX] = ".";
  if (const char* const slash = std::strrchr(path, '/'); slash != nullptr) {
    const auto size = static_cast<size_t>(slash == path ? 1 : slash - path);
    if (size >= sizeof folder) {
      return ENAMETOOLONG;
    }
    std::memcpy(folder, path, size);
    folder[size] = '\0';
  }
  const int file = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) {
    return errno;
  }
  // Some file systems cannot sync a folder, and say so: nothing can be done about it.
  const int cause = ::fsync(file) == 0 || errno == EINVAL ? 0 : errno;
  ::close(file);
  return cause;
}

int rename_durably(const char* from, const char* to) { return std::rename(from, to) == 0 ? sync_folder_of(to) : errno; }

}  // namespace gradstream

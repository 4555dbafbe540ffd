// A whole file in memory, of those that people name: configurations, identities, certificates, data.
#ifndef GRADSTREAM_HOST_READ_FILE_H_
#define GRADSTREAM_HOST_READ_FILE_H_

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <unistd.h>

#include "host/file_cause.h"

namespace gradstream {

// Bytes of an open file, by its inode; 0 where that is unknown.
size_t size_of_file(int file);

// Reads an ordinary file of at most size_max bytes, and never waits: a pipe or a device might not answer. *out is a
// std::string or a std::vector of bytes, and what it held is gone. Its memory is taken once, unless the file grows
// meanwhile: a secret leaves no copy in blocks that it outgrew. 0, or the cause (errno): those of open_to_read() and
// read(), and EFBIG where the file has more bytes. *out is then unspecified.
template <typename Bytes>
int read_file(const char* path, size_t size_max, Bytes* out) {
  const int file = open_to_read(path);
  if (file < 0) {
    return errno;
  }
  out->resize(std::min(size_of_file(file), size_max) + 1);  // one more tells the end
  size_t filled = 0;
  int cause = 0;
  ssize_t count = 1;
  while (count != 0 && cause == 0) {
    if (filled == out->size()) {
      out->resize(std::min(2 * filled, size_max + 1));
    }
    count = ::read(file, reinterpret_cast<char*>(out->data()) + filled, out->size() - filled);
    filled += static_cast<size_t>(std::max<ssize_t>(count, 0));
    cause = filled > size_max ? EFBIG : count < 0 && errno != EINTR ? errno : 0;
  }
  ::close(file);
  out->resize(filled);
  return cause;
}

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_READ_FILE_H_

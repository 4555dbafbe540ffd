#include "server/base/text_file.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "host/read_file.h"

namespace gradstream {

Objection read_text_file(const std::string& path, uint64_t size_max, std::string* out) {
  const int cause = read_file(path.c_str(), size_max, out);
  struct stat info = {};
  switch (cause) {
    case 0:
      return {};
    case EISDIR:
      return "is a folder; name a file";
    case ESPIPE:
      return "is no ordinary file; name one";
    case EFBIG:
      return "has " + (::stat(path.c_str(), &info) == 0 ? std::to_string(info.st_size) : "more") +
             " bytes, and at most " + std::to_string(size_max) + " are read";
    default:
      return std::string("cannot be read: ") + std::strerror(cause);
  }
}

}  // namespace gradstream

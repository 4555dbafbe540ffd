#include "host/read_file.h"

#include <sys/stat.h>

namespace gradstream {

size_t size_of_file(int file) {
  struct stat info = {};
  return ::fstat(file, &info) == 0 && info.st_size > 0 ? static_cast<size_t>(info.st_size) : 0;
}

}  // namespace gradstream

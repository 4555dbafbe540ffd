#include "server/base/private_file.h"

#include <sys/stat.h>

namespace gradstream {

bool is_read_by_others(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

}  // namespace gradstream

#include "server/base/durable_file.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace gradstream {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

int sync_folder_of(const std::string& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return errno;
  }
  // Some file systems cannot sync a folder, and say so: they have no names that could be lost, or no remedy.
  const int cause = ::fsync(folder) == 0 || errno == EINVAL ? 0 : errno;
  ::close(folder);
  return cause;
}

int rename_durably(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? sync_folder_of(to) : errno;
}

}  // namespace gradstream

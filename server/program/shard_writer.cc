#include "server/program/shard_writer.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/durable_file.h"

namespace gradstream {
namespace {

// Names that are tried. Reason: a killed process of this number may have left some.
constexpr int kPartNameMax = 1000;

}  // namespace

ShardWriter::ShardWriter(std::string folder, bool force) : folder_(std::move(folder)), force_(force) {}

ShardWriter::~ShardWriter() {
  for (const Part& part : parts_) {
    ::unlink(part.name.c_str());
  }
  for (const std::string& path : made_) {
    ::unlink(path.c_str());
  }
  if (is_new_folder_) {
    ::rmdir(folder_.c_str());
  }
}

int ShardWriter::open_folder() {
  is_new_folder_ = ::mkdir(folder_.c_str(), 0777) == 0;
  struct stat info = {};
  return is_new_folder_                        ? 0
         : errno != EEXIST                     ? errno
         : ::stat(folder_.c_str(), &info) != 0 ? errno
         : S_ISDIR(info.st_mode)               ? 0
                                               : ENOTDIR;
}

int ShardWriter::write(const std::string& path, std::span<const uint8_t> bytes) {
  const std::string stem = path.substr(0, path.rfind('/') + 1) + ".gradstream-" + std::to_string(::getpid()) + "-";
  std::string name;
  int file = -1;
  for (int i = 0; file < 0 && i < kPartNameMax; ++i) {
    name = stem + std::to_string(part_count_++) + ".part";
    file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0 && errno != EEXIST) {
      return errno;
    }
  }
  if (file < 0) {
    return EEXIST;
  }
  parts_.push_back({name, path});
  const int cause = write_durably(file, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return ::close(file) != 0 && cause == 0 ? errno : cause;
}

int ShardWriter::finish(std::string* path) {
  while (!parts_.empty()) {
    *path = parts_.back().path;
    if (const int cause = put(parts_.back()); cause != 0) {
      return cause;
    }
    parts_.pop_back();
  }
  const int cause = sync_folder_of(path->c_str());
  if (cause == 0) {
    made_.clear();
    is_new_folder_ = false;
  }
  return cause;
}

int ShardWriter::put(const Part& part) {
  const char* const name = part.name.c_str();
  const char* const path = part.path.c_str();
  struct stat info = {};
  const bool is_there = ::lstat(path, &info) == 0;
  if (force_) {
    if (std::rename(name, path) != 0) {
      return errno;
    }
  } else if (::renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) {
      return errno;
    }
    if (is_there || std::rename(name, path) != 0) {  // a file system without that promise
      return is_there ? EEXIST : errno;
    }
  }
  if (!is_there) {
    made_.push_back(part.path);
  }
  has_replaced_ = has_replaced_ || is_there;
  return 0;
}

}  // namespace gradstream

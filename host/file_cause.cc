#include "host/file_cause.h"

#include <cerrno>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace gradstream {
namespace {

struct Cause {
  int number;
  const char* text;    // null: as strerror() has it
  const char* remedy;  // null: the caller's
};

// Of each cause that may go away by itself.
constexpr Cause kTemporary[] = {
    {EROFS, "the file system is read-only", "mount it for writing; if an error made it read-only, check it first"},
    {ENOSPC, "the disk is full", "free space on it"},
    {EDQUOT, "the disk quota is used up", "free space, or raise the quota"},
    {EIO, "the disk failed", "look at the kernel's log, and replace the disk or its cable"},
    {EMFILE, "the process has too many open files", "raise its limit of open files (LimitNOFILE)"},
    {ENFILE, "the system has too many open files", "end what opens them, or raise fs.file-max"},
    {ENOMEM, "the system has no memory left", "end what takes it"},
    {ENODEV, "the device of the disk is gone", "plug it in"},
    {ENXIO, "the device of the disk is gone", "plug it in"},
    {ENOMEDIUM, "the drive is empty", "put the card or disk in"},
    {ESTALE, "the file server has forgotten the file", "mount its file system again"},
    {ETIMEDOUT, "the file server does not answer", "look at the file server"},
    {EHOSTDOWN, "the file server does not answer", "look at the file server"},
    {EHOSTUNREACH, "the file server cannot be reached", "look at the network"},
    {ENETDOWN, "the network is down", "look at the network"},
    {ENETUNREACH, "the file server cannot be reached", "look at the network"},
    {ENOTCONN, "the file system is no longer connected", "mount it again"},
    {EREMOTEIO, "the device of the disk failed", "look at the kernel's log"},
    {ENOLCK, "the file system gives no locks now", "look at the file server"},
    {EAGAIN, nullptr, nullptr},
    {EBUSY, nullptr, nullptr},
    {EINTR, nullptr, nullptr},
};

const Cause* find_cause(int number) {
  for (const Cause& cause : kTemporary) {
    if (cause.number == number) {
      return &cause;
    }
  }
  return nullptr;
}

// Whether the folder of the path is missing or holds nothing.
bool is_folder_bare(const char* path) {
  char folder[PATH_MAX] = ".";
  const char* const slash = std::strrchr(path, '/');
  if (slash != nullptr) {
    const size_t size = slash == path ? 1 : static_cast<size_t>(slash - path);
    if (size >= sizeof folder) {
      return false;
    }
    std::memcpy(folder, path, size);
    folder[size] = '\0';
  }
  DIR* const entries = ::opendir(folder);
  if (entries == nullptr) {
    return errno == ENOENT;
  }
  bool is_bare = true;
  for (const dirent* entry = ::readdir(entries); entry != nullptr && is_bare; entry = ::readdir(entries)) {
    is_bare = std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0;
  }
  ::closedir(entries);
  return is_bare;
}

}  // namespace

bool is_temporary(int cause) { return find_cause(cause) != nullptr; }

bool is_temporary_at(int cause, const char* path) {
  return is_temporary(cause) || (cause == ENOENT && is_folder_bare(path));
}

int find_path_fault(const char* path, bool wants_write) {
  if (wants_write) {
    if (::access(path, W_OK | X_OK) != 0) {
      return errno;
    }
    struct statvfs space = {};
    if (::statvfs(path, &space) != 0) {
      return errno;
    }
    return space.f_bavail == 0 || (space.f_files != 0 && space.f_favail == 0) ? ENOSPC : 0;
  }
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return errno;
  }
  char byte = 0;
  const int cause = ::read(file, &byte, 1) < 0 && errno != EAGAIN ? errno : 0;
  ::close(file);
  return cause;
}

int open_to_read(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info = {};
  if (file < 0 || (::fstat(file, &info) == 0 && S_ISREG(info.st_mode))) {
    return file;
  }
  ::close(file);
  errno = S_ISDIR(info.st_mode) ? EISDIR : ESPIPE;
  return -1;
}

const char* cause_text(int cause) {
  if (cause == ESPIPE) {
    return "it is a pipe, a socket or a device, and no ordinary file";
  }
  const Cause* const found = find_cause(cause);
  return found != nullptr && found->text != nullptr ? found->text : std::strerror(cause);
}

const char* remedy_text(int cause, const char* otherwise) {
  const Cause* const found = find_cause(cause);
  return found != nullptr && found->remedy != nullptr ? found->remedy : otherwise;
}

}  // namespace gradstream

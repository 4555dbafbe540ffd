#include "server/store/database_lock.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradstream {

namespace {

constexpr uint32_t kLockRetryMs = 20;

// The line "PROCESS RUN" of a lock's file; zeros for what is not there yet.
DatabaseOwner read_owner(int file) {
  char text[32] = {};
  DatabaseOwner owner;
  const ssize_t size = ::pread(file, text, sizeof text - 1, 0);
  if (size > 0) {
    char* rest = nullptr;
    owner.process = static_cast<uint32_t>(std::strtoul(text, &rest, 10));
    owner.run = static_cast<uint32_t>(std::strtoul(rest, nullptr, 10));
  }
  return owner;
}

}  // namespace

DatabaseLock::~DatabaseLock() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

std::string DatabaseLock::probe(const std::string& database_path, DatabaseOwner* out) {
  *out = DatabaseOwner();
  const std::string path = database_path + ".lock";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? std::string()
                           : "cannot read " + path + ": " + std::strerror(errno) + "; check its permissions";
  }
  const int cause = ::flock(file, LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
  if (cause == EWOULDBLOCK) {
    *out = read_owner(file);
    out->is_held = true;
  }
  ::close(file);
  return cause == 0 || out->is_held ? std::string()
                                    : "cannot lock " + path + ": " + std::strerror(cause) + "; check its file system";
}

std::string DatabaseLock::take(const std::string& database_path, uint32_t patience_ms) {
  path_ = database_path + ".lock";
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file_ < 0) {
    return "cannot create " + path_ + ": " + std::strerror(errno) + "; check the folder of server.database";
  }
  int cause = ::flock(file_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  for (uint32_t waited = 0; cause == EWOULDBLOCK && waited < patience_ms; waited += kLockRetryMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kLockRetryMs));
    cause = ::flock(file_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  }
  if (cause == 0) {
    return write_owner(0);
  }
  const DatabaseOwner owner = read_owner(file_);
  ::close(file_);
  file_ = -1;
  if (cause != EWOULDBLOCK) {
    return "cannot lock " + path_ + ": " + std::strerror(cause) + "; set server.database to a path on a local disk";
  }
  const std::string process = owner.process == 0 ? "unknown" : std::to_string(owner.process);
  return "database " + database_path + " is served by another server, process " + process +
         "; stop that one, or set server.database to another path";
}

std::string DatabaseLock::name_run(uint32_t run) { return write_owner(run); }

// The new line is never shorter than the old one of the same process, so that a probe reads no mixture of two.
std::string DatabaseLock::write_owner(uint32_t run) {
  const std::string line = std::to_string(::getpid()) + " " + std::to_string(run) + "\n";
  if ((run == 0 && ::ftruncate(file_, 0) != 0) || ::pwrite(file_, line.data(), line.size(), 0) < 0) {
    return "cannot write " + path_ + ": " + std::strerror(errno) + "; free space on that disk";
  }
  return {};
}

}  // namespace gradstream

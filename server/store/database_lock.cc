#include "server/store/database_lock.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/file_cause.h"

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

// The lock's file stands beside the database itself and not beside a symbolic link to it.
std::string lock_path_of(const std::string& database_path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(database_path, error);
  return (error ? database_path : real.string()) + ".lock";
}

// 0, or errno. Tries for patience_ms: a program that looks whether it is locked holds it for a moment.
int lock_patiently(int file, uint32_t patience_ms) {
  int cause = ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  for (uint32_t waited = 0; cause == EWOULDBLOCK && waited < patience_ms; waited += kLockRetryMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kLockRetryMs));
    cause = ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  }
  return cause;
}

// The process that holds a flock() on the file, as text. "unknown": the kernel does not show it here, as it does not
// across containers.
std::string holder_of(int file) {
  struct stat info = {};
  std::ifstream locks("/proc/locks");
  if (::fstat(file, &info) != 0) {
    return "unknown";
  }
  char wanted[64];
  (void)std::snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(info.st_dev), minor(info.st_dev),
                      static_cast<unsigned long long>(info.st_ino));
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream words(line);
    std::string number, kind, strictness, access, process, place;
    words >> number >> kind >> strictness >> access >> process >> place;
    if (kind == "FLOCK" && access == "WRITE" && place == wanted) {
      return process;
    }
  }
  return "unknown";
}

// What this process has locked, or is about to make. A look at such a file must open nothing: the close would take away
// the locks that SQLite has on it.
struct Holding {
  const DatabaseLock* lock;
  std::string lock_path;
  struct stat file;  // st_ino is 0 as long as there is no file
};
std::mutex holdings_mutex;
std::vector<Holding> holdings;

void forget_holding(const DatabaseLock* lock) {
  const std::lock_guard guard(holdings_mutex);
  std::erase_if(holdings, [lock](const Holding& holding) { return holding.lock == lock; });
}

// file: the database; -1: it is not there yet.
void note_holding(const DatabaseLock* lock, const std::string& lock_path, int file) {
  struct stat info = {};
  if (file >= 0 && ::fstat(file, &info) != 0) {
    info = {};
  }
  forget_holding(lock);
  const std::lock_guard guard(holdings_mutex);
  holdings.push_back({lock, lock_path, info});
}

// Whether this process has the file locked; *lock_path: beside which name.
bool is_held_here(const std::string& path, std::string* lock_path) {
  const std::string wanted = lock_path_of(path);
  struct stat info = {};
  const bool is_there = ::stat(path.c_str(), &info) == 0;
  const std::lock_guard guard(holdings_mutex);
  for (const Holding& holding : holdings) {
    const bool is_same = is_there && holding.file.st_ino == info.st_ino && holding.file.st_dev == info.st_dev;
    if (is_same || holding.lock_path == wanted) {
      *lock_path = holding.lock_path;
      return true;
    }
  }
  return false;
}

std::string cannot_lock(const std::string& path, int cause) {
  return "cannot lock " + path + ": " + std::strerror(cause) + "; set server.database to a path on a local disk";
}

std::string served_elsewhere(const std::string& path, const std::string& process) {
  return "database " + path + " is served under another name, by process " + process +
         "; stop that server, or set server.database to the name that it uses";
}

// An objection: what has become of the file that a server serves by this name. A server that has not chosen its run yet
// may not have made it.
Objection find_lost_file(const std::string& path, bool is_there) {
  DatabaseOwner owner;
  if (DatabaseLock::probe(path, &owner) || !owner.is_held || owner.run == 0) {
    return {};
  }
  return "the server of database " + path + ", process " + std::to_string(owner.process) +
         ", has another file open: " + (is_there ? "this one has taken its place" : "it was removed or moved away") +
         "; put that file back, or stop the server and restore a copy";
}

}  // namespace

DatabaseLock::~DatabaseLock() {
  forget_holding(this);
  for (const int file : {file_, owner_file_}) {
    if (file >= 0) {
      ::close(file);
    }
  }
}

Objection DatabaseLock::probe(const std::string& database_path, DatabaseOwner* out) {
  *out = DatabaseOwner();
  const std::string path = lock_path_of(database_path);
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

Objection DatabaseLock::check_name(const std::string& database_path) {
  std::string lock_path;
  if (is_held_here(database_path, &lock_path)) {
    return lock_path == lock_path_of(database_path) ? "" : served_elsewhere(database_path, std::to_string(::getpid()));
  }
  const int file = ::open(database_path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {  // whoever opens the database names another cause
    return errno == ENOENT ? find_lost_file(database_path, false) : std::string();
  }
  DatabaseOwner owner;
  const bool is_locked = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  Objection problem = is_locked ? probe(database_path, &owner) : std::string();
  if (is_locked && !problem && !owner.is_held) {
    problem = served_elsewhere(database_path, holder_of(file));
  }
  ::close(file);
  return is_locked ? problem : find_lost_file(database_path, true);
}

Objection DatabaseLock::take(const std::string& database_path, uint32_t patience_ms) {
  is_failure_temporary_ = false;
  database_path_ = database_path;
  path_ = lock_path_of(database_path);
  owner_file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (owner_file_ < 0) {
    return fail("cannot create " + path_, errno, "check the folder of server.database");
  }
  const int cause = lock_patiently(owner_file_, patience_ms);
  if (cause == 0) {
    note_holding(this, path_, -1);
    const bool is_there = ::access(database_path.c_str(), F_OK) == 0;
    Objection problem = is_there ? hold_file(patience_ms) : std::string();
    return problem ? problem : write_owner(0);
  }
  const DatabaseOwner owner = read_owner(owner_file_);
  ::close(owner_file_);
  owner_file_ = -1;
  if (cause != EWOULDBLOCK) {
    return cannot_lock(path_, cause);
  }
  const std::string process = owner.process == 0 ? "unknown" : std::to_string(owner.process);
  return "database " + database_path + " is served by another server, process " + process +
         "; stop that one, or set server.database to another path";
}

Objection DatabaseLock::hold_file(uint32_t patience_ms) {
  struct stat named = {};
  struct stat held = {};
  if (file_ >= 0) {
    const bool is_same = ::stat(database_path_.c_str(), &named) == 0 && ::fstat(file_, &held) == 0 &&
                         named.st_ino == held.st_ino && named.st_dev == held.st_dev;
    return is_same ? std::string()
                   : "another file has taken the place of database " + database_path_ + " meanwhile; start again";
  }
  file_ = ::open(database_path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) {
    return fail("database " + database_path_ + " cannot be read", errno, "check its permissions");
  }
  const int cause = lock_patiently(file_, patience_ms);
  if (cause == 0) {
    note_holding(this, path_, file_);
    return {};
  }
  std::string lock_path;
  const bool is_ours = is_held_here(database_path_, &lock_path);
  const std::string process = is_ours ? std::to_string(::getpid()) : holder_of(file_);
  Objection problem =
      cause == EWOULDBLOCK ? served_elsewhere(database_path_, process) : cannot_lock(database_path_, cause);
  ::close(file_);
  file_ = -1;
  return problem;
}

Objection DatabaseLock::name_run(uint32_t run) { return write_owner(run); }

// The new line is never shorter than the old one of the same process, so that a probe reads no mixture of two.
Objection DatabaseLock::write_owner(uint32_t run) {
  const std::string line = std::to_string(::getpid()) + " " + std::to_string(run) + "\n";
  if ((run == 0 && ::ftruncate(owner_file_, 0) != 0) || ::pwrite(owner_file_, line.data(), line.size(), 0) < 0) {
    return fail("cannot write " + path_, errno, "free space on that disk");
  }
  return {};
}

// cause: errno.
Objection DatabaseLock::fail(const std::string& what, int cause, const char* remedy) {
  is_failure_temporary_ = is_temporary(cause);
  return what + ": " + cause_text(cause) + "; " + remedy_text(cause, remedy);
}

}  // namespace gradstream

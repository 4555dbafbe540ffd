#include "server/store/database_copy.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/file_cause.h"
#include "server/store/database_lock.h"
#include "server/store/statement.h"
#include "server/store/wal_check.h"

namespace gradstream {

namespace {

struct CloseConnection {
  void operator()(sqlite3* connection) const { sqlite3_close(connection); }
};
using Connection = std::unique_ptr<sqlite3, CloseConnection>;

std::string cause_of(int sqlite_code) {
  const bool is_corrupt = status_of(sqlite_code) == StoreStatus::kCorrupt;
  return std::string(sqlite3_errstr(sqlite_code)) + "; " + (is_corrupt ? kUseAnotherCopy : "check both disks");
}

// The name of a file that nobody writes to, so that SQLite needs no lock and no -shm file beside it.
std::string immutable_uri(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    uri += c == '%' ? "%25" : c == '?' ? "%3f" : c == '#' ? "%23" : std::string(1, c);
  }
  return uri + "?immutable=1";
}

// Opens and reads: SQLite looks into a file no earlier.
int open_reading(const std::string& name, int flags, Connection* out) {
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(name.c_str(), &raw, SQLITE_OPEN_READONLY | flags, nullptr);
  out->reset(raw);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(raw, kBusyTimeoutMs);
    code = sqlite3_exec(raw, "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
  }
  return code;
}

// A database in WAL mode takes a -shm file beside it, which cannot be made in a folder that its reader may not write.
// Where there is no log nobody is at work on it, and it is read as it stands.
int open_source(const std::string& path, Connection* out, std::string* cause) {
  int code = open_reading(path, 0, out);
  if ((code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_READONLY) {  // by the file's own permissions
    for (const char* const log : {"-wal", "-journal"}) {
      if (::access((path + log).c_str(), F_OK) == 0) {
        *cause = path + log +
                 " belongs to it, and needs a folder that can be written: copy both files into one, and "
                 "name the copy";
        return code;
      }
    }
    code = open_reading(immutable_uri(path), SQLITE_OPEN_URI, out);
  }
  if (code != SQLITE_OK) {
    *cause = cause_of(code);
  }
  return code;
}

// An objection says why not. A copy that keeps the source's write-ahead log could not be read in a folder where its
// reader may not write. SQLite goes on in the mode that it has, without an error, where it cannot change it.
Objection end_wal(sqlite3* target) {
  std::string mode = "unknown";
  const auto note = [](void* out, int, char** values, char**) {
    *static_cast<std::string*>(out) = values[0];
    return 0;
  };
  const int code = sqlite3_exec(target, "PRAGMA journal_mode=DELETE", note, &mode, nullptr);
  if (code != SQLITE_OK) {
    return cause_of(code);
  }
  return mode == "delete" ? "" : "the copy's journal_mode stays " + mode + "; name a file on a local disk";
}

// Of a call that failed at the copy; *number: errno, or 0.
std::string cause_at_copy(int sqlite_code, sqlite3* target, int* number) {
  const int kind = sqlite_code & 0xff;
  *number = kind == SQLITE_FULL                                                          ? ENOSPC
            : kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY ? sqlite3_system_errno(target)
                                                                                         : 0;
  return is_temporary(*number) ? std::string(cause_text(*number)) + "; " + remedy_text(*number, "check both disks")
                               : cause_of(sqlite_code);
}

// SQLITE_OK, or the code and *cause, with its remedy. What is no database or damaged can only be the source: the target
// is new. *number: errno, where it is known.
int copy_pages(const std::string& from, const std::string& to, std::string* cause, int* number) {
  Connection source;
  int code = open_source(from, &source, cause);
  if (code != SQLITE_OK) {
    return code;
  }
  sqlite3* raw = nullptr;
  code = sqlite3_open_v2(to.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
  const Connection target(raw);
  if (code != SQLITE_OK) {
    *cause = cause_at_copy(code, raw, number);
    return code;
  }
  sqlite3_backup* const backup = sqlite3_backup_init(target.get(), "main", source.get(), "main");
  if (backup == nullptr) {
    code = sqlite3_errcode(target.get());
    *cause = cause_at_copy(code, raw, number);
    return code;
  }
  // In one step: with a write-ahead log a reader stops no writer, and nobody's commit makes it begin anew.
  code = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  code = code == SQLITE_DONE ? finished : code;
  *cause = code == SQLITE_OK ? end_wal(target.get()).sentence : cause_at_copy(code, raw, number);
  return code == SQLITE_OK && !cause->empty() ? SQLITE_ERROR : code;
}

}  // namespace

StoreStatus copy_database(const std::string& from, const std::string& to, std::string* error, bool* is_temporary) {
  bool ignored = false;
  bool& may_mend = is_temporary != nullptr ? *is_temporary : ignored;
  may_mend = false;
  struct stat info = {};
  if (stat(from.c_str(), &info) != 0 || ::access(from.c_str(), R_OK) != 0) {
    *error = "database " + from + " cannot be read: " + std::strerror(errno) + "; check the path and its permissions";
    return StoreStatus::kFailed;
  }
  if (!S_ISREG(info.st_mode)) {
    *error = "database " + from + " is no regular file; give the path of a file";
    return StoreStatus::kFailed;
  }
  // By this name SQLite would not find what the server has in its write-ahead log.
  if (const Objection objection = DatabaseLock::check_name(from)) {
    *error = objection.sentence;
    return StoreStatus::kBusy;
  }
  DatabaseOwner owner;
  if (const Objection objection = DatabaseLock::probe(from, &owner)) {
    *error = objection.sentence;
    return StoreStatus::kFailed;
  }
  if (const Objection damage = owner.is_held ? "" : find_wal_damage(from)) {
    *error = "the write-ahead log " + from + "-wal is damaged: " + damage.sentence + "; " + kUseAnotherCopy;
    return StoreStatus::kCorrupt;
  }
  const int file = ::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    const int number = errno;
    may_mend = gradstream::is_temporary(number);
    *error = to + " cannot be created: " + cause_text(number) + "; " +
             remedy_text(number, number == EEXIST ? "remove it or give another name" : "check its folder");
    return StoreStatus::kFailed;
  }
  std::string cause;
  int number = 0;
  StoreStatus status = status_of(copy_pages(from, to, &cause, &number));
  if (status == StoreStatus::kOk && ::fsync(file) != 0) {
    number = errno;
    cause = std::string(cause_text(number)) + "; " + remedy_text(number, "check both disks");
    status = StoreStatus::kFailed;
  }
  may_mend = status != StoreStatus::kOk && gradstream::is_temporary(number);
  ::close(file);
  if (status != StoreStatus::kOk) {
    ::unlink(to.c_str());
    *error = (status == StoreStatus::kCorrupt ? from + " is no database, or damaged: "
                                              : "cannot copy " + from + " to " + to + ": ") +
             cause;
  }
  return status;
}

}  // namespace gradstream

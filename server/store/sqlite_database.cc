#include "server/store/sqlite_database.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <pwd.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "server/base/private_file.h"
#include "server/store/database_copy.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/store/row_checks.h"
#include "server/store/statement.h"
#include "server/store/wal_check.h"

namespace gradstream {

namespace {

constexpr int kModePauseMs = 5;  // between two attempts to change the mode of a new database
constexpr int kPageSize = 4096;  // SQLite's default

// Behind the database's own name, SQLite calls the write-ahead log and the index so that all processes share.
constexpr const char* kLogEnd = "-wal";
constexpr const char* kIndexEnd = "-shm";

constexpr const char* kMemory = ":memory:";  // SQLite's name for no file

constexpr const char* kInUse = " while it was in use; ";
constexpr const char* kPutLogBack = "put that very file back, as no copy does, or stop the server and start it again";
constexpr const char* kStartAgain = "stop the server and start it again: nothing else mends that";
constexpr const char* kMakeDatabase =
    "if there was one, check server.database and that its disk is mounted; a new one is made by "
    "`gradstream device add`, `claim add`, `run start` or `serve --create`";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

// After an attempt of this user at what belongs to `owner`.
std::string unreadable(const std::string& name, int cause, uid_t owner) {
  if (cause != EACCES && cause != EPERM) {
    return "database " + name + " cannot be read: " + cause_text(cause) + "; " +
           remedy_text(cause, "set server.database to the path of a file");
  }
  passwd entry = {};
  passwd* user = nullptr;
  char text[1024];
  getpwuid_r(owner, &entry, text, sizeof text, &user);
  const std::string who = user != nullptr ? user->pw_name : "#" + std::to_string(owner);
  return "database " + name + " cannot be read: " + std::strerror(cause) + "; it is user " + who +
         "'s: run this as that user (sudo -u " + who + ") or as root";
}

// errno behind a code of SQLite; 0: it is none of the system's.
int find_system_cause(int sqlite_code, sqlite3* connection, const std::string& path) {
  const int kind = sqlite_code & 0xff;
  if (kind != SQLITE_READONLY && kind != SQLITE_CANTOPEN && kind != SQLITE_IOERR) {
    return 0;
  }
  // SQLite opens a file that it cannot write, and fails later for a cause of its own.
  if (::access(path.c_str(), W_OK) != 0) {
    return errno;
  }
  return kind == SQLITE_READONLY || connection == nullptr ? 0 : sqlite3_system_errno(connection);
}

// An objection: why no database can be at this path: its folder, its kind or its owner.
Objection check_place(const std::string& path, const std::string& name, bool* is_there) {
  *is_there = false;
  struct stat folder_info = {};
  const std::string folder = folder_of(path);
  if (stat(folder.c_str(), &folder_info) != 0) {
    return "database " + name + ": folder " + folder +
           (errno == ENOENT
                ? " does not exist; create it (mkdir -p " + folder + ") or set server.database to another path"
                : " cannot be looked into: " + std::string(std::strerror(errno)) +
                      "; run this as the user of the server, or as root");
  }
  if (!S_ISDIR(folder_info.st_mode)) {
    return "database " + name + ": " + folder + " is no folder; set server.database to a file in a folder";
  }
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? "" : unreadable(name, errno, folder_info.st_uid);
  }
  if (!S_ISREG(info.st_mode)) {
    return "database " + name + " is no regular file; set server.database to a file";
  }
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) {
    return unreadable(name, errno, info.st_uid);
  }
  // By each of its names SQLite would keep another write-ahead log.
  if (info.st_nlink > 1) {
    return "database " + name + " has " + std::to_string(info.st_nlink) +
           " names (hard links), and can have one only; find them with `find FOLDER -samefile " + path +
           "` and remove the others, or put a copy of it and of its -wal file in its place";
  }
  *is_there = true;
  return {};
}

// An objection: there is none, and none may be made.
Objection check_presence(const std::string& path, const std::string& name, bool may_create, bool is_there) {
  return may_create || is_database_there(path)
             ? ""
             : "database " + name + (is_there ? " is an empty file; " : " does not exist; ") + kMakeDatabase;
}

Objection check_mode(const std::string& path, const std::string& name) {
  return is_read_by_others(path) ? "database " + name + " can be read by others, and holds keys; chmod 600 " + path +
                                       ", and rotate the keys if somebody may have"
                                 : "";
}

}  // namespace

Objection check_database_file(const std::string& path, bool may_create) {
  bool is_there = false;
  Objection problem = check_place(path, path, &is_there);
  problem = problem ? problem : DatabaseLock::check_name(path);
  return problem ? problem : check_presence(path, path, may_create, is_there);
}

bool is_database_there(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

// ---- Opening -------------------------------------------------------------------------------------------------------

SqliteDatabase::~SqliteDatabase() {
  if (made_file_.number != 0 && !keeps_unused_) {
    remove_unused();
  }
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(connection_);
}

// Under the write lock: whoever waits for it with a change finds in change() that the file is gone. The file itself
// goes last, or a log of the next file of this name could go with it.
void SqliteDatabase::remove_unused() {
  Transaction transaction(*this);
  if (connection_ != nullptr) {
    const StoreStatus begun = transaction.begin();
    const bool is_unused =
        begun == StoreStatus::kOk ? has_no_change() : begun != StoreStatus::kBusy && !is_database_there(path_);
    if (!is_unused) {
      return;
    }
  }
  if (id_of(path_) != made_file_) {
    return;  // another file has taken its place
  }
  for (const char* const end : {kLogEnd, kIndexEnd, ""}) {
    ::unlink((path_ + end).c_str());
  }
}

bool SqliteDatabase::has_no_change() {
  const Expected<int64_t> object_count = query_number("SELECT count(*) FROM sqlite_schema");
  if (!object_count.is_ok() || *object_count == 0) {
    return object_count.is_ok();
  }
  const Expected<uint64_t> changes = change_count();
  return changes.is_ok() && *changes == 0;
}

const char* SqliteDatabase::remedy_of(StoreStatus status) const {
  switch (status) {
    case StoreStatus::kOk:
      return "";
    case StoreStatus::kFull:
      return "free space on that disk; the server goes on by itself";
    case StoreStatus::kBusy:
      return "another program holds the database: end it, or try again";
    case StoreStatus::kCorrupt:
      return is_copy_ ? kUseAnotherCopy
                      : "restore the file (and its -wal file) from a copy, or begin with another path";
    case StoreStatus::kFailed:
      return "check the disk, the path and its permissions";
    case StoreStatus::kMoved:
      return "put the file back in its place, with the -wal file that belongs to it, or stop the server and restore a "
             "copy";
  }
  return "";
}

// cause: errno of a call that failed; 0: none did.
StoreStatus SqliteDatabase::fail_with(StoreStatus status, std::string sentence, int cause) {
  error_ = std::move(sentence);
  is_failure_temporary_ = status == StoreStatus::kFull || is_temporary(cause);
  return status;
}

StoreStatus SqliteDatabase::fail(int sqlite_code, const char* what) {
  // A row too few or too many is no error of SQLite's: the tables do not hold what they must.
  const StoreStatus known = status_of(sqlite_code);
  const StoreStatus status = known == StoreStatus::kOk ? StoreStatus::kCorrupt : known;
  const char* const cause = connection_ == nullptr ? sqlite3_errstr(sqlite_code) : sqlite3_errmsg(connection_);
  const int system_cause = find_system_cause(sqlite_code, connection_, path_);
  const bool is_told = is_temporary(system_cause);
  return fail_with(status,
                   "database " + name_ + ": cannot " + what + ": " + (is_told ? cause_text(system_cause) : cause) +
                       "; " + (is_told ? remedy_text(system_cause, remedy_of(status)) : remedy_of(status)),
                   system_cause);
}

StoreStatus SqliteDatabase::execute(const char* sql) {
  const int code = sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? StoreStatus::kOk : fail(code, sql);
}

Expected<int64_t> SqliteDatabase::query_number(const char* sql) {
  Use use(*this, sql);
  const int code = use.step();
  if (code != SQLITE_ROW) {
    return fail(code, sql);
  }
  return static_cast<int64_t>(use.number(0));
}

// SQLite would create the file readable by everybody.
StoreStatus SqliteDatabase::prepare_file(const SqliteOptions& options) {
  if (!options.has_files()) {
    return StoreStatus::kOk;
  }
  bool is_there = false;
  Objection problem = check_place(path_, name_, &is_there);
  if (problem) {
    return fail_with(StoreStatus::kFailed, problem.sentence);
  }
  // A file that a server has lost must not be made anew.
  problem = DatabaseLock::check_name(path_);
  if (problem) {
    return fail_with(StoreStatus::kBusy, problem.sentence);
  }
  problem = check_presence(path_, name_, options.may_create, is_there);
  if (problem) {
    return fail_with(StoreStatus::kFailed, problem.sentence);
  }
  if (is_there) {
    return StoreStatus::kOk;
  }
  const std::string folder = folder_of(path_);
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    const int cause = errno;
    if (cause == EEXIST) {  // another process was first
      return StoreStatus::kOk;
    }
    const std::string permissions = "check the permissions of " + folder;
    return fail_with(StoreStatus::kFailed,
                     "database " + name_ + " cannot be created: " + cause_text(cause) + "; " +
                         remedy_text(cause, permissions.c_str()),
                     cause);
  }
  struct stat info = {};
  if (::fstat(file, &info) == 0) {
    made_file_ = {info.st_dev, info.st_ino};
  }
  ::close(file);
  const int cause = sync_folder_of(path_.c_str());
  return cause == 0
             ? StoreStatus::kOk
             : fail_with(StoreStatus::kFailed,
                         "database " + name_ + ": folder " + folder + " cannot be written: " + cause_text(cause) +
                             "; " + remedy_text(cause, "check that disk"),
                         cause);
}

// The numbers of the database itself, which each use of it believes. The format is one of them: so before it is read.
StoreStatus SqliteDatabase::check_meta() {
  const Expected<int64_t> has_checksums =
      query_number("SELECT count(*) FROM pragma_table_info('meta') WHERE name='crc32c'");
  GS_TRY_STORE(has_checksums);
  if (*has_checksums == 0) {
    return StoreStatus::kOk;  // of an older format, or no table of ours, which check_schema() tells
  }
  Use use(*this, "SELECT key FROM meta WHERE crc32c<>gs_row_crc(key,value) LIMIT 1");
  const int code = use.step();
  return code == SQLITE_DONE  ? StoreStatus::kOk
         : code == SQLITE_ROW ? fail_damaged("meta", use.text(0))
                              : fail(code, "read its numbers");
}

// If SQLite cannot use a write-ahead log, it goes on in another mode without an error, and readers would then stop the
// server's commits. If two processes switch a new database to WAL together, SQLite fails one with SQLITE_BUSY at once,
// and ignores the busy timeout because waiting would deadlock. We retry.
StoreStatus SqliteDatabase::use_wal() {
  int code = SQLITE_BUSY;
  std::string mode;
  for (int waited_ms = 0; (code & 0xff) == SQLITE_BUSY && waited_ms < kBusyTimeoutMs; waited_ms += kModePauseMs) {
    if (waited_ms > 0) {
      sqlite3_sleep(kModePauseMs);
    }
    Use use(*this, "PRAGMA journal_mode=WAL");
    code = use.step();
    mode = code == SQLITE_ROW ? use.text(0) : "";
  }
  if (code != SQLITE_ROW) {
    return fail(code, "use a write-ahead log");
  }
  if (mode == "wal") {
    return StoreStatus::kOk;
  }
  return fail_with(StoreStatus::kFailed, "database " + name_ + " has no write-ahead log, journal_mode is " + mode +
                                             "; set server.database to a path on a local disk");
}

// SQLite must not see a damaged log: it would read its beginning, and remove the rest when the last connection closes.
StoreStatus SqliteDatabase::check_wal(const SqliteOptions& options) {
  if (!options.has_files()) {
    return StoreStatus::kOk;
  }
  DatabaseOwner owner;
  if (!options.is_owner && !options.is_locked_here) {
    GS_TRY_STORE(check_served_log());
    GS_TRY_STORE(find_owner(&owner));
  }
  const Objection damage = owner.is_held ? "" : find_wal_damage(path_);
  return !damage
             ? StoreStatus::kOk
             : fail_with(StoreStatus::kCorrupt, "the write-ahead log " + name_ + "-wal is damaged: " + damage.sentence +
                                                    "; " + remedy_of(StoreStatus::kCorrupt));
}

// Where a server has the database open, log and index are there. SQLite would make new ones, and the server would
// remove at its end what is acknowledged there. A server that ends has removed them itself: for its lock we wait.
StoreStatus SqliteDatabase::check_served_log() {
  std::error_code ignored;
  const std::string real_path = std::filesystem::weakly_canonical(path_, ignored).string();
  for (int waited_ms = 0;; waited_ms += kModePauseMs) {
    DatabaseOwner owner;
    GS_TRY_STORE(find_owner(&owner));
    const bool has_all = id_of(real_path + kLogEnd).number != 0 && id_of(real_path + kIndexEnd).number != 0;
    if (has_all || !owner.is_held || owner.run == 0) {
      return StoreStatus::kOk;
    }
    if (waited_ms >= kBusyTimeoutMs) {
      return fail_with(StoreStatus::kMoved,
                       "the -wal or the -shm file of database " + name_ + " was removed while its server, process " +
                           std::to_string(owner.process) + ", uses them; stop that server and start it again");
    }
    sqlite3_sleep(kModePauseMs);
  }
}

// Where nobody can tell whether a server is at work on the file, it is left alone.
StoreStatus SqliteDatabase::find_owner(DatabaseOwner* out) {
  const Objection problem = DatabaseLock::probe(path_, out);
  return problem ? fail_with(StoreStatus::kFailed, problem.sentence) : StoreStatus::kOk;
}

// What a torn transaction has left in the log would look like damage behind the next torn one.
void SqliteDatabase::empty_wal() {
  sqlite3_wal_checkpoint_v2(connection_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
}

StoreStatus SqliteDatabase::connect(const SqliteOptions& options) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (options.has_files() ? 0 : SQLITE_OPEN_CREATE);
  const char* const file = options.is_in_memory ? kMemory : path_.c_str();
  const int code = sqlite3_open_v2(file, &connection_, flags, options.vfs);
  if (code != SQLITE_OK) {
    return fail(code, "open it");
  }
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_busy_timeout(connection_, kBusyTimeoutMs);
  if (const int registered = register_row_crc(connection_); registered != SQLITE_OK) {
    return fail(registered, "add a function");
  }
  const Expected<bool> is_new = check_format();
  GS_TRY_STORE(is_new);
  if (*is_new) {
    GS_TRY_STORE(execute("PRAGMA auto_vacuum=INCREMENTAL"));  // what a cut frees goes back; before the first page
  }
  if (!options.is_in_memory) {  // which has no log
    GS_TRY_STORE(use_wal());
  }
  GS_TRY_STORE(execute(options.synchronous_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF"));
  GS_TRY_STORE(execute("PRAGMA foreign_keys=ON"));
  sqlite3_wal_autocheckpoint(connection_, options.checkpoint_pages);
  const std::string limit = "PRAGMA journal_size_limit=" + std::to_string(options.checkpoint_pages * kPageSize);
  GS_TRY_STORE(execute(limit.c_str()));  // the WAL gives back what one large burst took
  if (*is_new && !options.may_create) {
    return fail_with(StoreStatus::kFailed, "database " + name_ + " is empty; " + kMakeDatabase);
  }
  if (*is_new) {
    GS_TRY_STORE(make_schema());
  }
  GS_TRY_STORE(check_meta());
  GS_TRY_STORE(check_schema(options));
  if (options.is_owner) {
    use_incremental_vacuum();
  }
  GS_TRY_STORE(execute(row_check_statements().c_str()));
  if (!options.is_in_memory) {
    note_log();
  }
  return StoreStatus::kOk;
}

StoreStatus SqliteDatabase::open(const SqliteOptions& options) {
  path_ = options.path;
  keeps_unused_ = options.keeps_unused;
  is_copy_ = !options.copy_of.empty();
  name_ = is_copy_ ? options.copy_of : path_;
  GS_TRY_STORE(prepare_file(options));
  GS_TRY_STORE(check_wal(options));
  GS_TRY_STORE(connect(options));
  // After connect(), which says of another program's file that it is one.
  const Objection problem = options.has_files() ? check_mode(path_, name_) : "";
  if (problem) {
    return fail_with(StoreStatus::kFailed, problem.sentence);
  }
  if (!options.check_integrity) {
    return StoreStatus::kOk;
  }
  GS_TRY_STORE(check_pages());
  GS_TRY_STORE(check_rows("SELECT table_name,id FROM damaged_rows LIMIT 1"));
  if (options.is_owner) {
    empty_wal();
  }
  return StoreStatus::kOk;
}

// Not quick_check, which does not compare an index with its table: a device is found by the index of names.
StoreStatus SqliteDatabase::check_pages() {
  Use use(*this, "PRAGMA integrity_check(1)");
  const int code = use.step();
  if (code != SQLITE_ROW) {
    return fail(code, "check it");
  }
  const std::string said = use.text(0);
  const std::string verdict = said.substr(said.find('\n') + 1);  // the first line, where there are two, names the file
  if (verdict != "ok") {
    return fail_with(StoreStatus::kCorrupt,
                     "database " + name_ + " is damaged: " + verdict + "; " + remedy_of(StoreStatus::kCorrupt));
  }
  return StoreStatus::kOk;
}

StoreStatus SqliteDatabase::check_rows(const char* damaged_rows) {
  Use use(*this, damaged_rows);
  const int code = use.step();
  return code == SQLITE_DONE  ? StoreStatus::kOk
         : code == SQLITE_ROW ? fail_damaged(use.text(0), use.text(1))
                              : fail(code, "check its rows");
}

StoreStatus SqliteDatabase::fail_damaged(const std::string& table, const std::string& id) {
  return fail_with(StoreStatus::kCorrupt, "database " + name_ + " is damaged: row " + id + " of table " + table +
                                              " does not fit its checksum; " + remedy_of(StoreStatus::kCorrupt));
}

// ---- Changes -------------------------------------------------------------------------------------------------------

// The last of a change before its commit: a change of a file that is gone is none.
StoreStatus SqliteDatabase::count_change() {
  GS_TRY_STORE(
      execute("INSERT INTO meta (key,value) VALUES ('change_count',1) ON CONFLICT(key) DO UPDATE SET value=value+1"));
  return check_in_place();
}

SqliteDatabase::FileId SqliteDatabase::id_of(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? FileId{info.st_dev, info.st_ino} : FileId();
}

// After a first transaction, which has opened both. They stand beside the file itself and not beside a link to it.
void SqliteDatabase::note_log() {
  real_path_ = sqlite3_db_filename(connection_, "main");
  log_ = id_of(real_path_ + kLogEnd);
  index_ = id_of(real_path_ + kIndexEnd);
}

// A file of the right name is not enough: a command makes a new log where there is none.
Objection SqliteDatabase::find_lost_log() {
  std::string removed;
  for (const auto& [what, end, id] : {std::tuple("the write-ahead log ", kLogEnd, log_),
                                      std::tuple("the index of the write-ahead log, ", kIndexEnd, index_)}) {
    const std::string path = real_path_ + end;
    errno = 0;
    const FileId found = id_of(path);
    const bool is_unknown = found.number == 0 && errno != ENOENT;  // nobody can say that it is gone
    if (found == id || is_unknown) {
      continue;
    }
    if (found.number == 0) {
      removed = what + path + " was removed" + kInUse + kPutLogBack;
    } else if (lost_log_.empty()) {
      lost_log_ = what + path + " was replaced by another file" + kInUse + kStartAgain;
    }
  }
  return lost_log_.empty() ? removed : lost_log_;
}

StoreStatus SqliteDatabase::check_in_place() {
  int has_moved = 0;
  const int code = sqlite3_file_control(connection_, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  if (code != SQLITE_OK) {
    return StoreStatus::kOk;  // not a file of the operating system
  }
  if (has_moved == 0) {
    const Objection lost = find_lost_log();
    return lost ? fail_with(StoreStatus::kMoved, lost.sentence) : StoreStatus::kOk;
  }
  const std::string what =
      "database " + name_ +
      (::access(path_.c_str(), F_OK) == 0 ? " was replaced by another file" : " was removed or moved away");
  return fail_with(StoreStatus::kMoved, what + kInUse + remedy_of(StoreStatus::kMoved));
}

// One of the database's own numbers; 0 where there is none.
Expected<uint64_t> SqliteDatabase::read_meta(const char* key) {
  Use use(*this, "SELECT value,is_whole FROM checked_meta WHERE key=?1");
  use.bind_text(1, key);
  const int code = use.step();
  if (code == SQLITE_DONE) {
    return uint64_t{0};
  }
  if (code != SQLITE_ROW) {
    return fail(code, "read its numbers");
  }
  if (use.number(1) == 0) {
    return fail_damaged("meta", key);
  }
  return use.number(0);
}

StoreStatus SqliteDatabase::hold_snapshot() { return execute("BEGIN"); }

Expected<uint64_t> SqliteDatabase::change_count() { return read_meta("change_count"); }

}  // namespace gradstream

#include "server/store/store_sqlite.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <mbedtls/platform_util.h>
#include <pwd.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/training/encoding.h"
#include "server/base/private_file.h"

namespace gradstream {

namespace {

// "GSdb": tells our files from any other program's.
constexpr int64_t kApplicationId = 0x47536462;
constexpr int64_t kSchemaVersion = 4;
// How long a command waits for the server's transaction, or the server for a command's. Each lasts milliseconds.
constexpr int kBusyTimeoutMs = 5000;
constexpr int kModePauseMs = 5;  // between two attempts to change the mode of a new database
constexpr uint32_t kLockRetryMs = 20;
constexpr int kPageSize = 4096;  // SQLite's default
constexpr const char* kUseAnotherCopy = "use another copy, one that `gradstream backup` wrote";

constexpr const char* kSchema[] = {
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
    "CREATE TABLE devices (device_index INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,"
    " created_ms INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 2, generation INTEGER NOT NULL DEFAULT 0,"
    " previous_key BLOB, previous_until_ms INTEGER NOT NULL DEFAULT 0, claim INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE TABLE claims (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,"
    " count_max INTEGER NOT NULL, count_used INTEGER NOT NULL DEFAULT 0, expires_ms INTEGER NOT NULL,"
    " device_state INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT",
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL, source TEXT NOT NULL,"
    " digest INTEGER NOT NULL, state INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT",
    "CREATE TABLE journal (run INTEGER NOT NULL REFERENCES runs(id), sequence INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " device INTEGER NOT NULL, task_sequence INTEGER NOT NULL, version INTEGER NOT NULL, base_version INTEGER NOT NULL,"
    " steps_done INTEGER NOT NULL, weight INTEGER NOT NULL, verdict INTEGER NOT NULL, reason INTEGER NOT NULL,"
    " detail INTEGER NOT NULL, step_scale REAL NOT NULL, loss_before REAL NOT NULL, loss_after REAL NOT NULL,"
    " digest INTEGER NOT NULL, time_ms INTEGER NOT NULL, payload BLOB NOT NULL, crc32c INTEGER NOT NULL,"
    " PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID",
};

// From each format to the next. Formats: 1 had `revoked` alone; 2 had no claims; in 3 and before, runs of the first
// release say `use_correction`.
constexpr const char* kMigrations[] = {
    "ALTER TABLE devices ADD COLUMN state INTEGER NOT NULL DEFAULT 2;"
    "UPDATE devices SET state=4 WHERE revoked<>0;"
    "ALTER TABLE devices DROP COLUMN revoked;"
    "ALTER TABLE devices ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE devices ADD COLUMN previous_key BLOB;"
    "ALTER TABLE devices ADD COLUMN previous_until_ms INTEGER NOT NULL DEFAULT 0;"
    "UPDATE meta SET value=2 WHERE key='schema_version'",
    "ALTER TABLE devices ADD COLUMN claim INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE claims (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,"
    " count_max INTEGER NOT NULL, count_used INTEGER NOT NULL DEFAULT 0, expires_ms INTEGER NOT NULL,"
    " device_state INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT;"
    "UPDATE meta SET value=3 WHERE key='schema_version'",
    "UPDATE runs SET"
    " parameters=replace(parameters,'\nuse_correction = true\n','\ncorrection_form = local\n'),"
    " source=replace(source,'\nuse_correction = true\n','\ncorrection_form = \"local\"\n');"
    "UPDATE runs SET"
    " parameters=replace(parameters,'\nuse_correction = false\n','\ncorrection_form = none\n'),"
    " source=replace(source,'\nuse_correction = false\n','\ncorrection_form = \"none\"\n');"
    "UPDATE meta SET value=4 WHERE key='schema_version'",
};
static_assert(std::size(kMigrations) == kSchemaVersion - 1);

constexpr const char* kInsertRecord =
    "INSERT INTO journal VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)";
constexpr const char* kSelectRecords =
    "SELECT sequence,kind,device,task_sequence,version,base_version,steps_done,weight,verdict,reason,detail,step_scale,"
    "loss_before,loss_after,digest,time_ms,payload,crc32c FROM journal WHERE run=?1 ORDER BY sequence";
constexpr const char* kInsertDevice =
    "INSERT INTO devices (device_index,name,key,created_ms,state) SELECT ?1,?2,?3,?4,?5"
    " WHERE NOT EXISTS (SELECT 1 FROM devices WHERE name=?2)";
constexpr const char* kSelectDevice =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms,key,previous_key FROM devices"
    " WHERE name=?1";
constexpr const char* kSelectDevices =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms FROM devices ORDER BY 1";
constexpr const char* kRotateKey =
    "UPDATE devices SET previous_key=key, previous_until_ms=?3, key=?2, generation=generation+1 WHERE name=?1"
    " RETURNING generation";
constexpr const char* kSelectRun = "SELECT id,name,parameters,source,digest,state,created_ms FROM runs WHERE id=?1";
constexpr const char* kSelectRuns = "SELECT id,name,parameters,source,digest,state,created_ms FROM runs ORDER BY id";

void append_bytes(uint64_t value, std::vector<uint8_t>* out) {
  for (int shift = 0; shift < 64; shift += 8) {
    out->push_back(static_cast<uint8_t>(value >> shift));
  }
}

uint64_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Of a whole row, so that a bit that rots anywhere in it is found.
uint32_t checksum_of(uint32_t run, const JournalRecord& r) {
  std::vector<uint8_t> bytes;
  bytes.reserve(17 * 8);
  for (const uint64_t value :
       {uint64_t{run}, r.sequence, static_cast<uint64_t>(r.kind), uint64_t{r.device}, uint64_t{r.task_sequence},
        uint64_t{r.version}, uint64_t{r.base_version}, uint64_t{r.steps_done}, uint64_t{r.weight}, uint64_t{r.verdict},
        uint64_t{r.reason}, uint64_t{r.detail}, bits_of(r.step_scale), bits_of(r.loss_before), bits_of(r.loss_after),
        r.digest, r.time_ms}) {
    append_bytes(value, &bytes);
  }
  const uint32_t head = crc32c(0, bytes.data(), bytes.size());
  return crc32c(head, r.payload.data(), r.payload.size());
}

StoreStatus status_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return StoreStatus::kOk;
    case SQLITE_FULL:
      return StoreStatus::kFull;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return StoreStatus::kBusy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return StoreStatus::kCorrupt;
    default:
      return StoreStatus::kFailed;
  }
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

// After an attempt of this user at what belongs to `owner`.
std::string unreadable(const std::string& name, int cause, uid_t owner) {
  passwd entry = {};
  passwd* user = nullptr;
  char text[1024];
  getpwuid_r(owner, &entry, text, sizeof text, &user);
  const std::string who = user != nullptr ? user->pw_name : "#" + std::to_string(owner);
  return "database " + name + " cannot be read: " + std::strerror(cause) + "; it is user " + who +
         "'s: run this as that user (sudo -u " + who + ") or as root";
}

// Empty, or why no database can be at this path: its folder, its kind or its owner.
std::string check_place(const std::string& path, const std::string& name, bool* is_there) {
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
  *is_there = true;
  return {};
}

std::string check_mode(const std::string& path, const std::string& name) {
  return is_read_by_others(path) ? "database " + name + " can be read by others, and holds keys; chmod 600 " + path +
                                       ", and rotate the keys if somebody may have"
                                 : "";
}

}  // namespace

std::string check_database_file(const std::string& path) {
  bool is_there = false;
  const std::string problem = check_place(path, path, &is_there);
  return problem.empty() ? check_mode(path, path) : problem;
}

const char* stored_run_state_text(StoredRunState state) {
  switch (state) {
    case StoredRunState::kActive:
      return "active";
    case StoredRunState::kStopRequested:
      return "stop requested";
    case StoredRunState::kFinished:
      return "finished";
    case StoredRunState::kStopped:
      return "stopped";
    case StoredRunState::kPauseRequested:
      return "pause requested";
    case StoredRunState::kPaused:
      return "paused";
    case StoredRunState::kResumeRequested:
      return "resume requested";
  }
  return "unknown";
}

const char* device_state_text(DeviceState state) {
  switch (state) {
    case DeviceState::kPending:
      return "pending";
    case DeviceState::kActive:
      return "active";
    case DeviceState::kDisabled:
      return "disabled";
    case DeviceState::kRevoked:
      return "revoked";
  }
  return "unknown";
}

std::string identity_of_generation(const std::string& name, uint32_t generation) {
  return generation == 0 ? name : name + "~" + std::to_string(generation);
}

bool split_identity(std::string_view identity, std::string* name, uint32_t* generation) {
  const size_t tilde = identity.rfind('~');
  if (tilde == std::string_view::npos || tilde == 0 || identity[std::min(tilde + 1, identity.size() - 1)] == '0') {
    return false;
  }
  const char* const end = identity.data() + identity.size();
  const auto parsed = std::from_chars(identity.data() + tilde + 1, end, *generation);
  *name = identity.substr(0, tilde);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

bool is_active(StoredRunState state) {
  return state != StoredRunState::kFinished && state != StoredRunState::kStopped && state != StoredRunState::kPaused;
}

// One use of a prepared statement: reset at the end, whatever happens.
class SqliteDatabase::Use {
 public:
  Use(SqliteDatabase& database, const char* sql) {
    sqlite3_stmt*& cached = database.statements_[sql];
    if (cached == nullptr) {
      code_ = sqlite3_prepare_v3(database.connection_, sql, -1, SQLITE_PREPARE_PERSISTENT, &cached, nullptr);
    }
    statement_ = cached;
  }
  ~Use() {
    if (statement_ != nullptr) {
      sqlite3_reset(statement_);
      sqlite3_clear_bindings(statement_);
    }
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  void bind(int at, uint64_t value) { note(sqlite3_bind_int64(statement_, at, static_cast<int64_t>(value))); }
  void bind_real(int at, double value) { note(sqlite3_bind_double(statement_, at, value)); }
  void bind_text(int at, const std::string& value) {
    note(sqlite3_bind_text(statement_, at, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
  }
  void bind_blob(int at, std::span<const uint8_t> value) {
    const uint8_t* const bytes = value.empty() ? reinterpret_cast<const uint8_t*>("") : value.data();
    note(sqlite3_bind_blob(statement_, at, bytes, static_cast<int>(value.size()), SQLITE_STATIC));
  }
  // SQLITE_ROW, SQLITE_DONE, or the first error of preparing, binding and stepping.
  int step() { return code_ != SQLITE_OK ? code_ : sqlite3_step(statement_); }
  uint64_t number(int column) const { return static_cast<uint64_t>(sqlite3_column_int64(statement_, column)); }
  uint32_t number32(int column) const { return static_cast<uint32_t>(number(column)); }
  float real(int column) const { return static_cast<float>(sqlite3_column_double(statement_, column)); }
  std::string text(int column) const {
    const auto* const bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size(column)));
  }
  std::span<const uint8_t> blob(int column) const {
    const auto* const bytes = static_cast<const uint8_t*>(sqlite3_column_blob(statement_, column));
    return {bytes, static_cast<size_t>(size(column))};
  }

 private:
  int size(int column) const { return sqlite3_column_bytes(statement_, column); }
  void note(int code) {
    if (code_ == SQLITE_OK) {
      code_ = code;
    }
  }
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
};

// ---- Opening -------------------------------------------------------------------------------------------------------

SqliteDatabase::~SqliteDatabase() {
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(connection_);
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
  }
  return "";
}

StoreStatus SqliteDatabase::fail_with(StoreStatus status, std::string sentence) {
  error_ = std::move(sentence);
  return status;
}

StoreStatus SqliteDatabase::fail(int sqlite_code, const char* what) {
  const StoreStatus status = status_of(sqlite_code);
  const char* const cause = connection_ == nullptr ? sqlite3_errstr(sqlite_code) : sqlite3_errmsg(connection_);
  return fail_with(status, "database " + name_ + ": cannot " + what + ": " + cause + "; " + remedy_of(status));
}

StoreStatus SqliteDatabase::execute(const char* sql) {
  const int code = sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? StoreStatus::kOk : fail(code, sql);
}

StoreStatus SqliteDatabase::query_number(const char* sql, int64_t* out) {
  Use use(*this, sql);
  const int code = use.step();
  if (code != SQLITE_ROW) {
    return fail(code, sql);
  }
  *out = static_cast<int64_t>(use.number(0));
  return StoreStatus::kOk;
}

// SQLite would create the file readable by everybody.
StoreStatus SqliteDatabase::prepare_file(const SqliteOptions& options) {
  if (options.vfs != nullptr) {
    return StoreStatus::kOk;
  }
  bool is_there = false;
  const std::string problem = check_place(path_, name_, &is_there);
  if (!problem.empty()) {
    return fail_with(StoreStatus::kFailed, problem);
  }
  struct stat info = {};
  const bool is_empty = is_there && stat(path_.c_str(), &info) == 0 && info.st_size == 0;
  if (is_empty && !options.may_create) {
    return fail_with(StoreStatus::kFailed, "database " + name_ +
                                               " is an empty file; `gradstream device add` and "
                                               "`gradstream serve` make it a database");
  }
  if (is_there) {
    return StoreStatus::kOk;
  }
  if (!options.may_create) {
    return fail_with(StoreStatus::kFailed,
                     "database " + name_ +
                         " does not exist; `gradstream device add` and `gradstream serve` create it; "
                         "check server.database in the configuration");
  }
  const std::string folder = folder_of(path_);
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    return fail_with(StoreStatus::kFailed, "database " + name_ + " cannot be created: " + std::strerror(errno) +
                                               "; check the permissions of " + folder);
  }
  ::close(file);
  // The name of the new file must survive a power cut as well.
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
  return StoreStatus::kOk;
}

StoreStatus SqliteDatabase::check_format(bool* is_new) {
  int64_t application_id = 0;
  int64_t object_count = 0;
  // In this order: another process may make the tables in between, and names their owner in the same transaction.
  StoreStatus status = query_number("SELECT count(*) FROM sqlite_schema", &object_count);
  if (status == StoreStatus::kOk) {
    status = query_number("PRAGMA application_id", &application_id);
  }
  if (status == StoreStatus::kCorrupt) {
    return fail_with(status,
                     "database " + name_ + " is no SQLite database, or its beginning is damaged; " + remedy_of(status));
  }
  if (status != StoreStatus::kOk) {
    return status;
  }
  *is_new = application_id == 0 && object_count == 0;
  if (*is_new && is_copy_) {
    return fail_with(StoreStatus::kCorrupt, "database " + name_ + " is empty; " + kUseAnotherCopy);
  }
  if (!*is_new && application_id != kApplicationId) {
    return fail_with(StoreStatus::kCorrupt, "database " + name_ + " belongs to another program; " +
                                                (is_copy_ ? kUseAnotherCopy : "set server.database to another path"));
  }
  return StoreStatus::kOk;
}

StoreStatus SqliteDatabase::make_schema() {
  StoreStatus status = execute("BEGIN IMMEDIATE");
  bool is_new = false;
  if (status == StoreStatus::kOk) {
    status = check_format(&is_new);  // another process may have been first
  }
  if (status == StoreStatus::kOk && is_new) {
    for (const char* const table : kSchema) {
      if (status == StoreStatus::kOk) {
        status = execute(table);
      }
    }
    const std::string finish = "PRAGMA application_id=" + std::to_string(kApplicationId) +
                               "; INSERT INTO meta VALUES ('schema_version'," + std::to_string(kSchemaVersion) + ")";
    if (status == StoreStatus::kOk) {
      status = execute(finish.c_str());
    }
  }
  if (status == StoreStatus::kOk) {
    status = execute("COMMIT");
  }
  if (status != StoreStatus::kOk) {
    sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
}

StoreStatus SqliteDatabase::check_schema(const SqliteOptions& options) {
  int64_t version = 0;
  const StoreStatus status = query_number("SELECT value FROM meta WHERE key='schema_version'", &version);
  if (status != StoreStatus::kOk || version == kSchemaVersion) {
    return status;
  }
  const std::string format = "database " + name_ + " has format " + std::to_string(version);
  if (version < 1 || version > kSchemaVersion) {
    return fail_with(StoreStatus::kCorrupt, format + ", this release reads formats up to " +
                                                std::to_string(kSchemaVersion) + "; use the release that wrote it");
  }
  DatabaseOwner owner;
  if (!options.is_owner && options.vfs == nullptr) {
    DatabaseLock::probe(path_, &owner);
  }
  if (owner.is_held) {
    return fail_with(StoreStatus::kBusy, format + ", and an older server, process " + std::to_string(owner.process) +
                                             ", is at work on it; start that one anew with this release first");
  }
  return migrate(version);
}

StoreStatus SqliteDatabase::migrate(int64_t version) {
  StoreStatus status = execute("BEGIN IMMEDIATE");
  if (status == StoreStatus::kOk) {  // another process may have been first
    status = query_number("SELECT value FROM meta WHERE key='schema_version'", &version);
  }
  for (; status == StoreStatus::kOk && version < kSchemaVersion; ++version) {
    status = execute(kMigrations[version - 1]);
  }
  if (status == StoreStatus::kOk) {
    status = execute("COMMIT");
  }
  if (status != StoreStatus::kOk) {
    sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
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

StoreStatus SqliteDatabase::connect(const SqliteOptions& options) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (options.vfs != nullptr ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path_.c_str(), &connection_, flags, options.vfs);
  if (code != SQLITE_OK) {
    return fail(code, "open it");
  }
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_busy_timeout(connection_, kBusyTimeoutMs);
  bool is_new = false;
  StoreStatus status = check_format(&is_new);
  if (status == StoreStatus::kOk) {
    status = use_wal();
  }
  if (status == StoreStatus::kOk) {
    status = execute(options.synchronous_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  }
  if (status == StoreStatus::kOk) {
    status = execute("PRAGMA foreign_keys=ON");
  }
  if (status == StoreStatus::kOk) {
    sqlite3_wal_autocheckpoint(connection_, options.checkpoint_pages);
    const std::string limit = "PRAGMA journal_size_limit=" + std::to_string(options.checkpoint_pages * kPageSize);
    status = execute(limit.c_str());  // the WAL gives back what one large burst took
  }
  if (status == StoreStatus::kOk) {
    status = is_new ? make_schema() : status;
  }
  return status == StoreStatus::kOk ? check_schema(options) : status;
}

StoreStatus SqliteDatabase::open(const SqliteOptions& options) {
  path_ = options.path;
  is_copy_ = !options.copy_of.empty();
  name_ = is_copy_ ? options.copy_of : path_;
  StoreStatus status = prepare_file(options);
  if (status == StoreStatus::kOk) {
    status = connect(options);
  }
  if (status == StoreStatus::kOk && options.vfs == nullptr) {  // of another program's file it says what that is
    const std::string problem = check_mode(path_, name_);
    status = problem.empty() ? status : fail_with(StoreStatus::kFailed, problem);
  }
  if (status != StoreStatus::kOk || !options.check_integrity) {
    return status;
  }
  Use use(*this, "PRAGMA quick_check(1)");
  const int code = use.step();
  if (code != SQLITE_ROW) {
    return fail(code, "check it");
  }
  const std::string verdict = use.text(0);
  if (verdict != "ok") {
    return fail_with(StoreStatus::kCorrupt,
                     "database " + name_ + " is damaged: " + verdict + "; " + remedy_of(StoreStatus::kCorrupt));
  }
  return StoreStatus::kOk;
}

// ---- The fleet -----------------------------------------------------------------------------------------------------

// One transaction that changes the fleet or the runs, and counts itself.
StoreStatus SqliteDatabase::change(const std::function<StoreStatus()>& body) {
  StoreStatus status = execute("BEGIN IMMEDIATE");
  if (status != StoreStatus::kOk) {
    return status;
  }
  status = body();
  if (status == StoreStatus::kOk) {
    status = execute("INSERT INTO meta VALUES ('change_count',1) ON CONFLICT(key) DO UPDATE SET value=value+1");
  }
  if (status == StoreStatus::kOk) {
    status = execute("COMMIT");
  }
  if (status != StoreStatus::kOk) {
    sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
}

StoreStatus SqliteDatabase::change_count(uint64_t* out) {
  int64_t count = 0;
  const StoreStatus status =
      query_number("SELECT coalesce((SELECT value FROM meta WHERE key='change_count'),0)", &count);
  *out = static_cast<uint64_t>(count);
  return status;
}

StoreStatus SqliteDatabase::insert_device(const EnrolledDevice& row, uint64_t index, uint64_t now_ms, bool* added) {
  Use use(*this, kInsertDevice);
  use.bind(1, index);
  use.bind_text(2, row.name);
  use.bind_blob(3, row.key);
  use.bind(4, now_ms);
  use.bind(5, static_cast<uint64_t>(row.state));
  const int code = use.step();
  *added = code == SQLITE_DONE && sqlite3_changes(connection_) == 1;
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "add the device");
}

StoreStatus SqliteDatabase::add_device(const std::string& name, std::span<const uint8_t, 32> key, uint64_t now_ms,
                                       std::optional<uint32_t>* index, DeviceState state) {
  index->reset();
  bool added = false;
  int64_t count = 0;
  EnrolledDevice row;
  row.name = name;
  row.state = state;
  std::copy(key.begin(), key.end(), row.key.begin());
  const StoreStatus status = change([&] {
    const StoreStatus counted = query_number("SELECT count(*) FROM devices", &count);
    return counted == StoreStatus::kOk ? insert_device(row, static_cast<uint64_t>(count), now_ms, &added) : counted;
  });
  mbedtls_platform_zeroize(row.key.data(), row.key.size());
  if (status == StoreStatus::kOk && added) {
    *index = static_cast<uint32_t>(count);
  }
  return status;
}

StoreStatus SqliteDatabase::add_devices(const std::vector<EnrolledDevice>& rows, uint64_t now_ms, std::string* taken) {
  taken->clear();
  const StoreStatus status = change([&] {
    int64_t count = 0;
    StoreStatus added_all = query_number("SELECT count(*) FROM devices", &count);
    for (const EnrolledDevice& row : rows) {
      bool added = false;
      if (added_all == StoreStatus::kOk) {
        added_all = insert_device(row, static_cast<uint64_t>(count++), now_ms, &added);
      }
      if (added_all == StoreStatus::kOk && !added) {
        *taken = row.name;
        return StoreStatus::kFailed;  // takes the whole transaction back
      }
    }
    return added_all;
  });
  return taken->empty() ? status : StoreStatus::kOk;
}

StoreStatus SqliteDatabase::set_device_state(const std::string& name, DeviceState state,
                                             std::optional<DeviceState>* before) {
  before->reset();
  return change([&] {
    std::optional<EnrolledDevice> row;
    const StoreStatus found = find_device(name, &row);
    if (found != StoreStatus::kOk || !row) {
      return found;
    }
    *before = row->state;
    mbedtls_platform_zeroize(row->key.data(), row->key.size());
    mbedtls_platform_zeroize(row->previous_key.data(), row->previous_key.size());
    if (row->state == DeviceState::kRevoked) {
      return StoreStatus::kOk;
    }
    Use use(*this, "UPDATE devices SET state=?2 WHERE name=?1");
    use.bind_text(1, name);
    use.bind(2, static_cast<uint64_t>(state));
    const int code = use.step();
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "change the device's state");
  });
}

StoreStatus SqliteDatabase::revoke_device(const std::string& name, bool* found) {
  std::optional<DeviceState> before;
  const StoreStatus status = set_device_state(name, DeviceState::kRevoked, &before);
  *found = before.has_value();
  return status;
}

StoreStatus SqliteDatabase::rotate_key(const std::string& name, std::span<const uint8_t, 32> key,
                                       uint64_t previous_until_ms, std::optional<uint32_t>* generation) {
  generation->reset();
  return change([&] {
    Use use(*this, kRotateKey);
    use.bind_text(1, name);
    use.bind_blob(2, key);
    use.bind(3, previous_until_ms);
    int code = use.step();
    if (code == SQLITE_ROW) {
      *generation = use.number32(0);
      code = use.step();
    }
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "rotate the device's key");
  });
}

namespace {

template <typename UseType>
EnrolledDevice device_of(const UseType& use) {
  EnrolledDevice row;
  row.index = use.number32(0);
  row.name = use.text(1);
  row.state = static_cast<DeviceState>(use.number(2));
  row.created_ms = use.number(3);
  row.generation = use.number32(4);
  row.previous_until_ms = use.number(5);
  return row;
}

template <typename UseType>
ClaimRow claim_of(const UseType& use) {
  ClaimRow row;
  row.id = use.number32(0);
  row.name = use.text(1);
  row.count_max = use.number32(2);
  row.count_used = use.number32(3);
  row.expires_ms = use.number(4);
  row.device_state = static_cast<DeviceState>(use.number(5));
  row.created_ms = use.number(6);
  return row;
}

template <typename UseType>
RunRow run_of(const UseType& use) {
  RunRow row;
  row.id = use.number32(0);
  row.name = use.text(1);
  row.parameters = use.text(2);
  row.source = use.text(3);
  row.digest = use.number(4);
  row.state = static_cast<StoredRunState>(use.number(5));
  row.created_ms = use.number(6);
  return row;
}

}  // namespace

StoreStatus SqliteDatabase::find_device(const std::string& name, std::optional<EnrolledDevice>* out) {
  out->reset();
  Use use(*this, kSelectDevice);
  use.bind_text(1, name);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    *out = device_of(use);
    const auto key = use.blob(6);
    std::memcpy((*out)->key.data(), key.data(), std::min(key.size(), (*out)->key.size()));
    const auto previous = use.blob(7);
    if (!previous.empty()) {
      std::memcpy((*out)->previous_key.data(), previous.data(), std::min(previous.size(), (*out)->previous_key.size()));
    }
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the device");
}

StoreStatus SqliteDatabase::devices(std::vector<EnrolledDevice>* out) {
  out->clear();
  Use use(*this, kSelectDevices);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    out->push_back(device_of(use));
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the devices");
}

// ---- Claims --------------------------------------------------------------------------------------------------------

StoreStatus SqliteDatabase::add_claim(ClaimRow* row) {
  row->id = 0;
  return change([&] {
    Use use(*this,
            "INSERT INTO claims (name,key,count_max,expires_ms,device_state,created_ms) VALUES (?1,?2,?3,?4,?5,?6)"
            " ON CONFLICT(name) DO NOTHING");
    use.bind_text(1, row->name);
    use.bind_blob(2, row->key);
    use.bind(3, row->count_max);
    use.bind(4, row->expires_ms);
    use.bind(5, static_cast<uint64_t>(row->device_state));
    use.bind(6, row->created_ms);
    const int code = use.step();
    row->id = sqlite3_changes(connection_) == 1 ? static_cast<uint32_t>(sqlite3_last_insert_rowid(connection_)) : 0;
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "add the claim");
  });
}

StoreStatus SqliteDatabase::claims(std::vector<ClaimRow>* out) {
  out->clear();
  Use use(*this, "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms FROM claims ORDER BY id");
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    out->push_back(claim_of(use));
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the claims");
}

StoreStatus SqliteDatabase::find_claim(const std::string& name, std::optional<ClaimRow>* out) {
  out->reset();
  Use use(*this,
          "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms,key FROM claims WHERE name=?1");
  use.bind_text(1, name);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    *out = claim_of(use);
    const auto key = use.blob(7);
    std::memcpy((*out)->key.data(), key.data(), std::min(key.size(), (*out)->key.size()));
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the claim");
}

StoreStatus SqliteDatabase::end_claim(const std::string& name, uint64_t now_ms, bool* found) {
  return change([&] {
    Use use(*this, "UPDATE claims SET expires_ms=min(expires_ms,?2) WHERE name=?1");
    use.bind_text(1, name);
    use.bind(2, now_ms);
    const int code = use.step();
    *found = sqlite3_changes(connection_) == 1;
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "end the claim");
  });
}

// state: of the device, where it is granted.
StoreStatus SqliteDatabase::judge_claim(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key,
                                        uint64_t now_ms, ClaimOutcome* out, DeviceState* state) {
  {
    Use use(*this, "SELECT key,claim FROM devices WHERE name=?1");
    use.bind_text(1, name);
    const int code = use.step();
    if (code == SQLITE_ROW) {
      const auto known = use.blob(0);
      const bool is_same = use.number32(1) == id && std::equal(known.begin(), known.end(), key.begin(), key.end());
      *out = is_same ? ClaimOutcome::kRepeated : ClaimOutcome::kNameTaken;
      return StoreStatus::kOk;
    }
    if (code != SQLITE_DONE) {
      return fail(code, "read the device");
    }
  }
  Use use(*this, "SELECT device_state FROM claims WHERE id=?1 AND expires_ms>?2 AND count_used<count_max");
  use.bind(1, id);
  use.bind(2, now_ms);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    *state = static_cast<DeviceState>(use.number(0));
  }
  *out = code == SQLITE_ROW ? ClaimOutcome::kGranted : ClaimOutcome::kEnded;
  return code == SQLITE_ROW || code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the claim");
}

StoreStatus SqliteDatabase::insert_claimed(uint32_t id, const EnrolledDevice& row, uint64_t now_ms) {
  int64_t count = 0;
  bool added = false;
  StoreStatus status = query_number("SELECT count(*) FROM devices", &count);
  if (status == StoreStatus::kOk) {
    status = insert_device(row, static_cast<uint64_t>(count), now_ms, &added);
  }
  if (status == StoreStatus::kOk) {
    Use use(*this, "UPDATE devices SET claim=?1 WHERE device_index=?2");
    use.bind(1, id);
    use.bind(2, static_cast<uint64_t>(count));
    const int code = use.step();
    status = code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "note the device's claim");
  }
  if (status == StoreStatus::kOk) {
    Use use(*this, "UPDATE claims SET count_used=count_used+1 WHERE id=?1");
    use.bind(1, id);
    const int code = use.step();
    status = code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "count the claim");
  }
  return status;
}

StoreStatus SqliteDatabase::claim_device(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key,
                                         uint64_t now_ms, ClaimOutcome* out) {
  EnrolledDevice row;
  row.name = name;
  std::copy(key.begin(), key.end(), row.key.begin());
  // First without a transaction: what is refused costs the disk nothing.
  StoreStatus status = judge_claim(id, name, key, now_ms, out, &row.state);
  if (status == StoreStatus::kOk && *out == ClaimOutcome::kGranted) {
    status = change([&] {
      const StoreStatus judged = judge_claim(id, name, key, now_ms, out, &row.state);
      return judged == StoreStatus::kOk && *out == ClaimOutcome::kGranted ? insert_claimed(id, row, now_ms) : judged;
    });
  }
  mbedtls_platform_zeroize(row.key.data(), row.key.size());
  return status;
}

// ---- Runs ----------------------------------------------------------------------------------------------------------

StoreStatus SqliteDatabase::create_run(RunRow* row) {
  return change([&] {
    Use use(*this, "INSERT INTO runs (name,parameters,source,digest,state,created_ms) VALUES (?1,?2,?3,?4,?5,?6)");
    use.bind_text(1, row->name);
    use.bind_text(2, row->parameters);
    use.bind_text(3, row->source);
    use.bind(4, row->digest);
    use.bind(5, static_cast<uint64_t>(row->state));
    use.bind(6, row->created_ms);
    const int code = use.step();
    row->id = static_cast<uint32_t>(sqlite3_last_insert_rowid(connection_));
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "create the run");
  });
}

StoreStatus SqliteDatabase::find_run(uint32_t id, std::optional<RunRow>* out) {
  out->reset();
  Use use(*this, kSelectRun);
  use.bind(1, id);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    *out = run_of(use);
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the run");
}

StoreStatus SqliteDatabase::runs(std::vector<RunRow>* out) {
  out->clear();
  Use use(*this, kSelectRuns);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    out->push_back(run_of(use));
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the runs");
}

StoreStatus SqliteDatabase::set_run_state(uint32_t run, StoredRunState state) {
  return change([&] {
    Use use(*this, "UPDATE runs SET state=?2 WHERE id=?1");
    use.bind(1, run);
    use.bind(2, static_cast<uint64_t>(state));
    const int code = use.step();
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "set the run's state");
  });
}

StoreStatus SqliteDatabase::exchange_run_state(uint32_t run, StoredRunState from, StoredRunState to, bool* changed) {
  return change([&] {
    Use use(*this, "UPDATE runs SET state=?3 WHERE id=?1 AND state=?2");
    use.bind(1, run);
    use.bind(2, static_cast<uint64_t>(from));
    use.bind(3, static_cast<uint64_t>(to));
    const int code = use.step();
    if (changed != nullptr) {
      *changed = sqlite3_changes(connection_) == 1;
    }
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "set the run's state");
  });
}

StoreStatus SqliteDatabase::current_run(std::optional<RunRow>* out) {
  std::vector<RunRow> rows;
  const StoreStatus status = runs(&rows);
  out->reset();
  for (RunRow& row : rows) {
    if (is_active(row.state) || !out->has_value() || !is_active((*out)->state)) {
      *out = std::move(row);
    }
  }
  return status;
}

// ---- The journal ---------------------------------------------------------------------------------------------------

StoreStatus SqliteDatabase::append(uint32_t run, std::span<const JournalRecord> batch) {
  StoreStatus status = execute("BEGIN IMMEDIATE");
  if (status != StoreStatus::kOk) {
    return status;
  }
  for (const JournalRecord& record : batch) {
    Use use(*this, kInsertRecord);
    int at = 1;
    for (const uint64_t value : {uint64_t{run}, record.sequence, static_cast<uint64_t>(record.kind),
                                 uint64_t{record.device}, uint64_t{record.task_sequence}, uint64_t{record.version},
                                 uint64_t{record.base_version}, uint64_t{record.steps_done}, uint64_t{record.weight},
                                 uint64_t{record.verdict}, uint64_t{record.reason}, uint64_t{record.detail}}) {
      use.bind(at++, value);
    }
    use.bind_real(13, static_cast<double>(record.step_scale));
    use.bind_real(14, static_cast<double>(record.loss_before));
    use.bind_real(15, static_cast<double>(record.loss_after));
    use.bind(16, record.digest);
    use.bind(17, record.time_ms);
    use.bind_blob(18, record.payload);
    use.bind(19, checksum_of(run, record));
    const int code = use.step();
    if (code != SQLITE_DONE) {
      status = fail(code, "append to the journal");
      break;
    }
  }
  if (status == StoreStatus::kOk) {
    status = execute("COMMIT");
  }
  if (status != StoreStatus::kOk) {
    sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
}

StoreStatus SqliteDatabase::read(uint32_t run, const std::function<bool(const JournalRecord&)>& visit) {
  Use use(*this, kSelectRecords);
  use.bind(1, run);
  uint64_t expected = 1;
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step(), ++expected) {
    JournalRecord r;
    r.sequence = use.number(0);
    r.kind = static_cast<RecordKind>(use.number(1));
    r.device = use.number32(2);
    r.task_sequence = use.number32(3);
    r.version = use.number32(4);
    r.base_version = use.number32(5);
    r.steps_done = use.number32(6);
    r.weight = use.number32(7);
    r.verdict = use.number32(8);
    r.reason = use.number32(9);
    r.detail = use.number32(10);
    r.step_scale = use.real(11);
    r.loss_before = use.real(12);
    r.loss_after = use.real(13);
    r.digest = use.number(14);
    r.time_ms = use.number(15);
    const auto payload = use.blob(16);
    r.payload.assign(payload.begin(), payload.end());
    if (r.sequence != expected || checksum_of(run, r) != use.number32(17)) {
      return fail_with(StoreStatus::kCorrupt, "database " + name_ + ": the journal of run " + std::to_string(run) +
                                                  " is damaged at sequence " + std::to_string(expected) + "; " +
                                                  remedy_of(StoreStatus::kCorrupt));
    }
    if (!visit(r)) {
      return StoreStatus::kOk;
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the journal");
}

// ---- Copies --------------------------------------------------------------------------------------------------------

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

// Empty, or why not. A copy that keeps the source's write-ahead log could not be read in a folder where its reader may
// not write. SQLite goes on in the mode that it has, without an error, where it cannot change it.
std::string end_wal(sqlite3* target) {
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

// SQLITE_OK, or the code and *cause, with its remedy. What is no database or damaged can only be the source: the target
// is new.
int copy_pages(const std::string& from, const std::string& to, std::string* cause) {
  Connection source;
  int code = open_source(from, &source, cause);
  if (code != SQLITE_OK) {
    return code;
  }
  sqlite3* raw = nullptr;
  code = sqlite3_open_v2(to.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
  const Connection target(raw);
  if (code != SQLITE_OK) {
    *cause = cause_of(code);
    return code;
  }
  sqlite3_backup* const backup = sqlite3_backup_init(target.get(), "main", source.get(), "main");
  if (backup == nullptr) {
    code = sqlite3_errcode(target.get());
    *cause = cause_of(code);
    return code;
  }
  // In one step: with a write-ahead log a reader stops no writer, and nobody's commit makes it begin anew.
  code = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  code = code == SQLITE_DONE ? finished : code;
  *cause = code == SQLITE_OK ? end_wal(target.get()) : cause_of(code);
  return code == SQLITE_OK && !cause->empty() ? SQLITE_ERROR : code;
}

}  // namespace

StoreStatus copy_database(const std::string& from, const std::string& to, std::string* error) {
  struct stat info = {};
  if (stat(from.c_str(), &info) != 0 || ::access(from.c_str(), R_OK) != 0) {
    *error = "database " + from + " cannot be read: " + std::strerror(errno) + "; check the path and its permissions";
    return StoreStatus::kFailed;
  }
  if (!S_ISREG(info.st_mode)) {
    *error = "database " + from + " is no regular file; give the path of a file";
    return StoreStatus::kFailed;
  }
  const int file = ::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    *error = to + " cannot be created: " + std::strerror(errno) +
             (errno == EEXIST ? "; remove it or give another name" : "; check its folder");
    return StoreStatus::kFailed;
  }
  std::string cause;
  StoreStatus status = status_of(copy_pages(from, to, &cause));
  if (status == StoreStatus::kOk && ::fsync(file) != 0) {
    cause = std::string(std::strerror(errno)) + "; check both disks";
    status = StoreStatus::kFailed;
  }
  ::close(file);
  if (status != StoreStatus::kOk) {
    ::unlink(to.c_str());
    *error = (status == StoreStatus::kCorrupt ? from + " is no database, or damaged: "
                                              : "cannot copy " + from + " to " + to + ": ") +
             cause;
  }
  return status;
}

// ---- DatabaseLock --------------------------------------------------------------------------------------------------

DatabaseLock::~DatabaseLock() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

namespace {

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

// What must survive, in one SQLite file: the fleet, the runs and their journals.
//
// WAL with synchronous=FULL: append() returns when the batch is on the disk, and a power cut at any moment loses no
// batch that had returned. Every journal row carries a CRC-32C of itself. The file has mode 0600: it holds keys.
//
// The server and the command-line tools open the file at the same time (SQLite's locks serialise them); two servers
// must not: DatabaseLock.
#ifndef GRADSTREAM_SERVER_STORE_STORE_SQLITE_H_
#define GRADSTREAM_SERVER_STORE_STORE_SQLITE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/journal/store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gradstream {

struct SqliteOptions {
  std::string path;
  bool may_create = true;
  bool is_owner = false;  // holds the DatabaseLock: a file of an older format is brought to this one, others must wait
  // Reads every page at the opening, so that damage is named now and not in the middle of a run.
  bool check_integrity = false;
  // Not empty: `path` is a fresh copy of this file, to be restored. Errors name this file, and one that holds no
  // database is refused, where an empty file would become a new database.
  std::string copy_of;
  // false only for the test that shows what synchronous=FULL is for.
  bool synchronous_full = true;
  const char* vfs = nullptr;    // null: the operating system's
  int checkpoint_pages = 1000;  // of the WAL between two checkpoints
};

// Empty, or a sentence: no database can be opened, or made, at this path, for its folder, its kind, its mode or its
// owner. What is in the file is not looked at.
std::string check_database_file(const std::string& path);

//   pending --enable--> active <--enable/disable--> disabled        each --revoke--> revoked, for good
enum class DeviceState : uint8_t { kPending = 1, kActive = 2, kDisabled = 3, kRevoked = 4 };
const char* device_state_text(DeviceState state);

using DeviceKey = std::array<uint8_t, 32>;

// The credential of a batch, by which devices enrol themselves under keys that they have drawn (docs/wire.md, Claims).
struct ClaimRow {
  uint32_t id = 0;   // from 1
  std::string name;  // without the mark that its TLS identity begins with
  DeviceKey key = {};
  uint32_t count_max = 0;  // devices that it lets in
  uint32_t count_used = 0;
  uint64_t expires_ms = 0;                          // since the epoch
  DeviceState device_state = DeviceState::kActive;  // of those that it lets in
  uint64_t created_ms = 0;
};
enum class ClaimOutcome : uint8_t {
  kGranted,
  kRepeated,   // the same name and key by the same claim: granted before
  kNameTaken,  // under another key, or not by this claim
  kEnded,      // expired, or as many devices as it may let in
};

// A device and its keys. A rotation begins a new generation of the key and keeps the one before for a window. TLS
// identities say which one they prove: identity_of_generation().
struct EnrolledDevice {
  uint32_t index = 0;  // enrolment index, from 0 without gaps
  std::string name;
  DeviceState state = DeviceState::kActive;
  DeviceKey key = {};
  uint32_t generation = 0;
  DeviceKey previous_key = {};     // of the generation before
  uint64_t previous_until_ms = 0;  // when it ends; 0: there is none
  uint64_t created_ms = 0;
  bool is_active() const { return state == DeviceState::kActive; }
};

// The identity of a device's key in TLS: NAME, and after rotations NAME~GENERATION.
std::string identity_of_generation(const std::string& name, uint32_t generation);
// Whether it is one of a rotation; *name and *generation are then its parts.
bool split_identity(std::string_view identity, std::string* name, uint32_t* generation);

// Copies a database, also one that a server writes to, as it is at one moment. `to` is a new file of mode 0600, durable
// on return. kCorrupt: `from` is no database, or damaged; anything else but kOk: a file cannot be read or written.
// *error is then a sentence, and there is no new file.
StoreStatus copy_database(const std::string& from, const std::string& to, std::string* error);

// What the operator wants of a run, or what it has come to. A command writes the wish, the run's server makes it so in
// the journal, and then writes that it is: a crash between them leaves a wish that the next server finds.
enum class StoredRunState : uint8_t {
  kActive = 1,
  kStopRequested = 2,
  kFinished = 3,
  kStopped = 4,
  kPauseRequested = 5,
  kPaused = 6,
  kResumeRequested = 7
};
const char* stored_run_state_text(StoredRunState state);
// Whether devices belong to the run: neither paused nor over, nor so without a server.
bool is_active(StoredRunState state);

struct RunRow {
  uint32_t id = 0;  // from 1
  std::string name;
  std::string parameters;  // canonical text: what the digest is of
  std::string source;      // the [run] table in TOML: what reads back
  uint64_t digest = 0;
  StoredRunState state = StoredRunState::kActive;
  uint64_t created_ms = 0;
};

// One connection; used from one thread at a time. Each call returns kOk, or what went wrong with error() as a sentence
// that names the file, the cause and the remedy.
class SqliteDatabase {
 public:
  SqliteDatabase() = default;
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // kFailed: no such file or folder, no permission; kCorrupt: no gradstream database, damaged, or of a newer release.
  StoreStatus open(const SqliteOptions& options);
  const std::string& error() const { return error_; }

  // index is empty when the name is taken.
  StoreStatus add_device(const std::string& name, std::span<const uint8_t, 32> key, uint64_t now_ms,
                         std::optional<uint32_t>* index, DeviceState state = DeviceState::kActive);
  // All of them (name, key, state) or none; *taken: a name that is enrolled already.
  StoreStatus add_devices(const std::vector<EnrolledDevice>& rows, uint64_t now_ms, std::string* taken);
  // before: empty when there is no such device. What is revoked stays so.
  StoreStatus set_device_state(const std::string& name, DeviceState state, std::optional<DeviceState>* before);
  StoreStatus revoke_device(const std::string& name, bool* found);
  // Both keys count, the old one until then. *generation: of the new one, empty when there is no such device.
  StoreStatus rotate_key(const std::string& name, std::span<const uint8_t, 32> key, uint64_t previous_until_ms,
                         std::optional<uint32_t>* generation);
  StoreStatus find_device(const std::string& name, std::optional<EnrolledDevice>* out);
  // Sets row->id; 0: the name is taken.
  StoreStatus add_claim(ClaimRow* row);
  // In order of id, without their keys.
  StoreStatus claims(std::vector<ClaimRow>* out);
  StoreStatus find_claim(const std::string& name, std::optional<ClaimRow>* out);
  // It lets in nobody from now on.
  StoreStatus end_claim(const std::string& name, uint64_t now_ms, bool* found);
  // Enrols a device by claim `id`: durable on kGranted, nothing is changed by any other outcome.
  StoreStatus claim_device(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key, uint64_t now_ms,
                           ClaimOutcome* out);
  // In order of index, without their keys.
  StoreStatus devices(std::vector<EnrolledDevice>* out);

  // Sets row.id.
  StoreStatus create_run(RunRow* row);
  StoreStatus find_run(uint32_t id, std::optional<RunRow>* out);
  StoreStatus runs(std::vector<RunRow>* out);
  // The active run, of which there is one at most, else the one with the highest id.
  StoreStatus current_run(std::optional<RunRow>* out);
  StoreStatus set_run_state(uint32_t run, StoredRunState state);
  // Only where the state is still `from`. changed may be null.
  StoreStatus exchange_run_state(uint32_t run, StoredRunState from, StoredRunState to, bool* changed);

  // How often the fleet or the runs have been changed, by any connection; appends to a journal do not count.
  StoreStatus change_count(uint64_t* out);

 private:
  friend class SqliteStore;
  class Use;

  StoreStatus connect(const SqliteOptions& options);
  StoreStatus prepare_file(const SqliteOptions& options);
  StoreStatus use_wal();
  StoreStatus check_format(bool* is_new);
  StoreStatus make_schema();
  StoreStatus check_schema(const SqliteOptions& options);
  StoreStatus migrate(int64_t version);
  StoreStatus judge_claim(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key, uint64_t now_ms,
                          ClaimOutcome* out, DeviceState* state);
  StoreStatus insert_claimed(uint32_t id, const EnrolledDevice& row, uint64_t now_ms);
  StoreStatus insert_device(const EnrolledDevice& row, uint64_t index, uint64_t now_ms, bool* added);
  StoreStatus execute(const char* sql);
  StoreStatus change(const std::function<StoreStatus()>& body);
  StoreStatus query_number(const char* sql, int64_t* out);
  StoreStatus fail(int sqlite_code, const char* what);
  StoreStatus fail_with(StoreStatus status, std::string sentence);
  const char* remedy_of(StoreStatus status) const;
  StoreStatus append(uint32_t run, std::span<const JournalRecord> batch);
  StoreStatus read(uint32_t run, const std::function<bool(const JournalRecord&)>& visit);

  sqlite3* connection_ = nullptr;
  std::map<const char*, sqlite3_stmt*> statements_;
  std::string path_;
  std::string name_;  // of the file in errors
  std::string error_;
  bool is_copy_ = false;
};

// The journal of one run. The database must outlive it.
class SqliteStore : public Store {
 public:
  SqliteStore(SqliteDatabase& database, uint32_t run) : database_(database), run_(run) {}
  StoreStatus append(std::span<const JournalRecord> batch) override { return database_.append(run_, batch); }
  StoreStatus read(const std::function<bool(const JournalRecord&)>& visit) override {
    return database_.read(run_, visit);
  }

 private:
  SqliteDatabase& database_;
  uint32_t run_;
};

// Who holds the lock of a database.
struct DatabaseOwner {
  bool is_held = false;
  uint32_t process = 0;
  uint32_t run = 0;  // that it serves; 0: it has not chosen one yet
  // Whether a request to this run reaches a server: that has chosen it, or is about to.
  bool may_serve(uint32_t id) const { return is_held && (run == id || run == 0); }
};

// Held by the one server of a database, for as long as it lives: an advisory lock on `<path>.lock`, which the kernel
// drops when the process ends, however it ends. The file holds the owner's process and run.
class DatabaseLock {
 public:
  DatabaseLock() = default;
  ~DatabaseLock();
  DatabaseLock(const DatabaseLock&) = delete;
  DatabaseLock& operator=(const DatabaseLock&) = delete;
  // Empty, or a sentence that names the other server's process and the remedy. Tries for patience_ms: a command that
  // probes holds the lock for a moment.
  std::string take(const std::string& database_path, uint32_t patience_ms = 0);
  // After take(): the run that this server serves. Empty, or a sentence.
  std::string name_run(uint32_t run);
  // Which server holds it. A sentence when that cannot be known. Leaves nothing held.
  static std::string probe(const std::string& database_path, DatabaseOwner* out);

 private:
  std::string write_owner(uint32_t run);

  int file_ = -1;
  std::string path_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_STORE_SQLITE_H_

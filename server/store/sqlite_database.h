// What must survive, in one SQLite file: the fleet, the runs and their journals.
//
//   program/ --> SqliteDatabase: fleet_tables.cc, run_tables.cc --Use, Transaction (statement.h)--> SQLite
//                SqliteStore (journal_table.h), one a run       --'
//
// WAL with synchronous=FULL: append() returns when the batch is on the disk, and a power cut at any moment loses no
// batch that had returned. The file has mode 0600: it holds keys.
//
// The server and the command-line tools open the file at the same time (SQLite's locks serialise them); two servers
// must not: database_lock.h.
#ifndef GRADSTREAM_SERVER_STORE_SQLITE_DATABASE_H_
#define GRADSTREAM_SERVER_STORE_SQLITE_DATABASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/journal/store.h"
#include "server/store/expected.h"
#include "server/store/fleet_rows.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gradstream {

class Use;
struct DatabaseOwner;

struct SqliteOptions {
  std::string path;
  bool may_create = true;
  bool is_owner = false;  // holds the DatabaseLock: a file of an older format is brought to this one, others must wait
  // The caller has taken the DatabaseLock, so that no server is at work: what holds it is no other owner, and the log
  // is looked at. For a command that leaves the file as it is, or changes a little.
  bool is_locked_here = false;
  // Reads every page at the opening, so that damage is named now and not in the middle of a run.
  bool check_integrity = false;
  // Not empty: `path` is a fresh copy of this file, to be restored. Errors name this file, and one that holds no
  // database is refused, where an empty file would become a new database.
  std::string copy_of;
  // No file: a new database in the memory of this connection, which nobody else sees. `path` is its name in errors.
  bool is_in_memory = false;
  // A file that was made by this opening goes with the connection, unless somebody has changed something in it: a
  // command that fails leaves no empty fleet behind.
  bool keeps_unused = true;
  // false only for what need not outlive a power cut: the test that shows what synchronous=FULL is for, and a database
  // that a benchmark makes.
  bool synchronous_full = true;
  const char* vfs = nullptr;    // null: the operating system's
  int checkpoint_pages = 1000;  // of the WAL between two checkpoints

  // Whether the operating system has files of it, with modes, names and a log that others see.
  bool has_files() const { return vfs == nullptr && !is_in_memory; }
};

// An objection: no database can be opened at this path, for its folder, its kind or its owner, or because there
// is none and none may be made. What is in the file is not looked at.
Objection check_database_file(const std::string& path, bool may_create = true);
// Whether there is a file at the path that is not empty.
bool is_database_there(const std::string& path);

// One connection; used from one thread at a time. Each call gives kOk or its value, or what went wrong with error() as
// a sentence that names the file, the cause and the remedy. A call that went wrong has changed nothing.
class SqliteDatabase {
 public:
  SqliteDatabase() = default;
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // kFailed: no such file or folder, no permission; kCorrupt: no gradstream database, damaged, or of a newer release;
  // kBusy: a server serves another file of this name, or this file by another name, or the database is locked.
  StoreStatus open(const SqliteOptions& options);
  const std::string& error() const { return error_; }
  // Whether what error() tells may mend by itself (host/file_cause.h): a full or read-only disk, too many open files.
  bool is_failure_temporary() const { return is_failure_temporary_; }

  // The enrolment index; empty: the name is taken.
  Expected<std::optional<uint32_t>> add_device(const std::string& name, std::span<const uint8_t, 32> key,
                                               uint64_t now_ms, DeviceState state = DeviceState::kActive);
  // Adds all of them (name, key, state) or none. A name that is enrolled already; empty: all are added.
  Expected<std::string> add_devices(const std::vector<EnrolledDevice>& rows, uint64_t now_ms);
  // The state before; empty: there is no such device. What is revoked stays so.
  Expected<std::optional<DeviceState>> set_device_state(const std::string& name, DeviceState state);
  // Whether there is such a device.
  Expected<bool> revoke_device(const std::string& name);
  // Both keys count, the old one until then. The generation of the new one; empty: there is no such device.
  Expected<std::optional<uint32_t>> rotate_key(const std::string& name, std::span<const uint8_t, 32> key,
                                               uint64_t previous_until_ms);
  Expected<std::optional<EnrolledDevice>> find_device(const std::string& name);
  // The device is to draw a key: since, window and secret; where a request waits already, its secret stays. Whether
  // there is such a device, and it is not revoked.
  Expected<bool> request_key_change(const std::string& name, const KeyChangeRow& row);
  // Empty: there is no such device.
  Expected<std::optional<KeyChangeRow>> find_key_change(const std::string& name);
  // rotate_key() to this generation by the request that waits, whose secret goes. False: none waits, or it is of
  // another generation; nothing has changed then.
  Expected<bool> change_key(const std::string& name, uint32_t generation, std::span<const uint8_t, 32> key,
                            uint64_t previous_until_ms, const KeyChangeRow::Receipt& receipt);
  // The id; empty: the name is taken. row.id is not read.
  Expected<std::optional<uint32_t>> add_claim(const ClaimRow& row);
  // In order of id, without their keys.
  Expected<std::vector<ClaimRow>> claims();
  Expected<std::optional<ClaimRow>> find_claim(const std::string& name);
  Expected<std::optional<ClaimRow>> find_claim(uint32_t id);
  // It lets in nobody from now on. Whether there is such a claim.
  Expected<bool> end_claim(const std::string& name, uint64_t now_ms);
  // Enrols a device by claim `id`: durable on kGranted, nothing is changed by any other outcome.
  Expected<ClaimOutcome> claim_device(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key,
                                      uint64_t now_ms);
  // In order of index, without their keys.
  Expected<std::vector<EnrolledDevice>> devices();
  // The same of those that a change with a number above `change` has added or changed last (change_count()). Reads
  // these rows alone. A change that is committed meanwhile may be among them or not.
  Expected<std::vector<EnrolledDevice>> devices_changed_after(uint64_t change);

  // The id. row.id is not read.
  Expected<uint32_t> create_run(const RunRow& row);
  Expected<std::optional<RunRow>> find_run(uint32_t id);
  // In order of id.
  Expected<std::vector<RunRow>> runs();
  // The active run, of which there is one at most, else the one with the highest id.
  Expected<std::optional<RunRow>> current_run();
  StoreStatus set_run_state(uint32_t run, StoredRunState state);
  // Only where the state is still `from`. Whether it was.
  Expected<bool> exchange_run_state(uint32_t run, StoredRunState from, StoredRunState to);

  // Wall time decides whether a claim and a rotated key count, and a clock can be set back, or start late after a power
  // cut. So the largest time that was ever seen is kept: milliseconds since the epoch, 0 in a new database.
  Expected<uint64_t> latest_time();
  // *now_ms: a clock's time, raised to the latest one. Durable on kOk. If it fails to be stored, it is raised all the
  // same, so it is no Expected.
  StoreStatus note_time(uint64_t* now_ms);
  // What is over by now_ms is over for good: claims end, previous keys are dropped, and so are requests of keys that
  // have waited for kKeyChangeAgeMaxMs. Notes the time with it. When the next one is over; UINT64_MAX: none is open.
  Expected<uint64_t> end_expired(uint64_t now_ms);

  // kMoved: the file that this connection has open is no longer the one of its name, or its write-ahead log or the
  // log's index is not. Once another log or index was seen there, it stays kMoved: a command may have written to it.
  StoreStatus check_in_place();
  // From here on this connection reads the database as it is at its next read, whatever others change: a server may cut
  // a journal between two reads of a command. Until the connection ends, which cannot change anything any more.
  StoreStatus hold_snapshot();
  // How often the fleet or the runs have been changed, by any connection; appends to a journal do not count. Each
  // device has the number of its last change. The number goes back where an older copy of the file takes its place.
  Expected<uint64_t> change_count();

 private:
  friend class SqliteStore;
  friend class Transaction;
  friend class Use;

  struct FileId {
    uint64_t device = 0;
    uint64_t number = 0;  // 0: no file
    friend bool operator==(const FileId&, const FileId&) = default;
  };
  static FileId id_of(const std::string& path);

  // Opening; the format of a file in database_format.cc.
  StoreStatus prepare_file(const SqliteOptions& options);
  StoreStatus connect(const SqliteOptions& options);
  StoreStatus check_wal(const SqliteOptions& options);
  StoreStatus check_served_log();
  StoreStatus find_owner(DatabaseOwner* out);
  void note_log();
  Objection find_lost_log();
  void empty_wal();
  StoreStatus use_wal();
  StoreStatus check_pages();
  StoreStatus check_rows(const char* damaged_rows);  // a literal: SELECT of table_name and id
  Expected<bool> check_format();                     // whether it is a new file
  StoreStatus make_schema();
  StoreStatus check_meta();
  StoreStatus check_schema(const SqliteOptions& options);
  StoreStatus migrate();
  StoreStatus make_chains();
  void use_incremental_vacuum();

  // The fleet, in fleet_tables.cc.
  struct ClaimRuling {
    ClaimOutcome outcome = ClaimOutcome::kEnded;
    DeviceState state = DeviceState::kActive;  // of the device; kGranted
  };
  Expected<bool> insert_device(const EnrolledDevice& row, uint64_t index, uint64_t now_ms);  // false: the name is taken
  Expected<uint64_t> next_index();
  Expected<std::vector<EnrolledDevice>> list_devices(const char* sql, uint64_t change);
  // The row of a statement whose one parameter is the device's name; false: there is none. is_whole: the column that
  // is 0 in a damaged row.
  Expected<bool> step_to_device(Use& use, const std::string& name, int is_whole);
  Expected<std::optional<DeviceState>> find_device_state(const std::string& name);
  Expected<std::optional<ClaimRow>> read_claim(Use& use);
  Expected<ClaimRuling> judge_claim(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key,
                                    uint64_t now_ms);
  Expected<uint64_t> next_expiry();
  StoreStatus end_all_until(uint64_t now_ms);
  StoreStatus insert_claimed(uint32_t id, const EnrolledDevice& row, uint64_t now_ms);

  // What all tables need. `what` is a verb and its object, for the sentence.
  // change() is one transaction that changes the fleet or the runs, and counts itself. body() gives a StoreStatus or an
  // Expected; if it gives an error, all is taken back. In statement.h.
  template <typename Body>
  auto change(const Body& body) -> decltype(body());
  StoreStatus count_change();
  Expected<uint64_t> this_change();  // within change(): the number that it will have
  StoreStatus execute(const char* sql);
  Expected<int64_t> query_number(const char* sql);
  Expected<uint64_t> read_meta(const char* key);
  bool has_no_change();
  void remove_unused();
  StoreStatus fail(int sqlite_code, const char* what);
  StoreStatus fail_with(StoreStatus status, std::string sentence, int cause = 0);
  StoreStatus fail_damaged(const std::string& table, const std::string& id);
  const char* remedy_of(StoreStatus status) const;

  sqlite3* connection_ = nullptr;
  std::map<const char*, sqlite3_stmt*> statements_;  // prepared, by the address of their text
  std::string path_;
  std::string name_;  // of the file in errors
  std::string error_;
  std::string real_path_;  // without links
  FileId made_file_;       // by this opening; 0: it was there
  FileId log_;             // -wal, as this connection has it open
  FileId index_;           // -shm, likewise
  std::string lost_log_;   // a clause: of which of them another file was seen; empty: of none
  bool is_copy_ = false;
  bool keeps_unused_ = true;
  bool is_failure_temporary_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_SQLITE_DATABASE_H_

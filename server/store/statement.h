// How the tables of a SqliteDatabase are read and changed: statements and transactions. For the files of server/store/.
#ifndef GRADSTREAM_SERVER_STORE_STATEMENT_H_
#define GRADSTREAM_SERVER_STORE_STATEMENT_H_

#include <cstdint>
#include <span>
#include <string>

#include <sqlite3.h>

#include "server/store/expected.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

// How long a command waits for the server's transaction, or the server for a command's. Each lasts milliseconds.
inline constexpr int kBusyTimeoutMs = 5000;

// What a server asks of `devices` again and again, each by an index. Here, so that a test asks SQLite whether it is so.
// Changed devices come in no order: for the order of another index SQLite would leave that of changes alone.
inline constexpr const char* kSelectChangedDevices =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms,key_change_since_ms,is_whole"
    " FROM checked_devices WHERE changed>?1";
inline constexpr const char* kSelectNextKeyEnd =
    "SELECT coalesce(min(previous_until_ms),-1) FROM devices WHERE previous_until_ms<>0";
inline constexpr const char* kEndKeys =
    "UPDATE devices SET previous_key=NULL, previous_until_ms=0, changed=?2"
    " WHERE previous_until_ms<>0 AND previous_until_ms<=?1";
inline constexpr const char* kSelectFirstKeyChange =
    "SELECT coalesce(min(key_change_since_ms),-1) FROM devices WHERE key_change_since_ms<>0";
inline constexpr const char* kEndKeyChanges =
    "UPDATE devices SET key_change_secret=NULL, key_change_since_ms=0, key_change_window_s=0, changed=?2"
    " WHERE key_change_since_ms<>0 AND key_change_since_ms<=?1";

// The class of a result code of SQLite, extended or not.
StoreStatus status_of(int sqlite_code);

// One use of a prepared statement: reset at the end, whatever happens. Columns and parameters are numbered as in
// SQLite: columns from 0, parameters from 1.
class Use {
 public:
  // sql: a literal. Its address finds the statement that an earlier use has prepared.
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
  float real(int column) const { return static_cast<float>(wide_real(column)); }
  double wide_real(int column) const { return sqlite3_column_double(statement_, column); }
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

// One transaction: taken back at the end of its life, unless commit() returned kOk. Uses of statements end before it
// does.
class Transaction {
 public:
  explicit Transaction(SqliteDatabase& database) : database_(database) {}
  ~Transaction() {
    if (is_open_) {
      sqlite3_exec(database_.connection_, "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Takes the write lock of the file: what is read from now on is what the writes find. Codes of
  // SqliteDatabase::execute().
  StoreStatus begin() {
    const StoreStatus status = database_.execute("BEGIN IMMEDIATE");
    is_open_ = status == StoreStatus::kOk;
    return status;
  }
  // Durable on kOk.
  StoreStatus commit() {
    const StoreStatus status = database_.execute("COMMIT");
    is_open_ = status != StoreStatus::kOk;
    return status;
  }

 private:
  SqliteDatabase& database_;
  bool is_open_ = false;
};

template <typename Body>
auto SqliteDatabase::change(const Body& body) -> decltype(body()) {
  Transaction transaction(*this);
  GS_TRY_STORE(transaction.begin());
  auto result = body();
  GS_TRY_STORE(result);
  GS_TRY_STORE(count_change());
  GS_TRY_STORE(transaction.commit());
  return result;
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_STATEMENT_H_

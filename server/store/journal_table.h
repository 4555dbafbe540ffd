// The journals of runs in a SqliteDatabase. Every row carries a CRC-32C of itself.
#ifndef GRADSTREAM_SERVER_STORE_JOURNAL_TABLE_H_
#define GRADSTREAM_SERVER_STORE_JOURNAL_TABLE_H_

#include <cstdint>
#include <functional>
#include <span>

#include "server/store/sqlite_database.h"

namespace gradstream {

// The journal of one run. The database must outlive it.
class SqliteStore : public Store {
 public:
  SqliteStore(SqliteDatabase& database, uint32_t run) : database_(database), run_(run) {}
  StoreStatus append(std::span<const JournalRecord> batch) override;
  StoreStatus read(const std::function<bool(const JournalRecord&)>& visit) override;
  // Kind and device of the first records, count_max at most, until visit returns false. It reads no payloads and
  // compares no checksums: for what is only said to people.
  StoreStatus skim(uint32_t count_max, const std::function<bool(RecordKind, uint32_t)>& visit);

 private:
  SqliteDatabase& database_;
  uint32_t run_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_JOURNAL_TABLE_H_

// The journals of runs in a SqliteDatabase, and their checkpoints. Every row carries a CRC-32C of itself, which names
// its damage, and the chain of the records up to it (server/journal/journal_chain.h). A checkpoint carries that chain
// too: where the records before it are gone, the check of the next ones begins there.
#ifndef GRADSTREAM_SERVER_STORE_JOURNAL_TABLE_H_
#define GRADSTREAM_SERVER_STORE_JOURNAL_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "server/store/sqlite_database.h"

namespace gradstream {

// Bytes of payloads that skim_back() walks through. Reason: a command reads so much in a tenth of a second, and a
// server does so before it listens.
inline constexpr uint64_t kSkimBytesMax = 64ULL << 20;

// The tables of checkpoints, and of what stands in the chain for a body that was forgotten.
inline constexpr const char* kCheckpointTables =
    "CREATE TABLE IF NOT EXISTS checkpoints (run INTEGER NOT NULL REFERENCES runs(id), sequence INTEGER NOT NULL,"
    " version INTEGER NOT NULL, update_count INTEGER NOT NULL, size INTEGER NOT NULL, crc32c INTEGER NOT NULL,"
    " chain BLOB NOT NULL DEFAULT x'', PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS checkpoint_pieces (run INTEGER NOT NULL REFERENCES runs(id),"
    " sequence INTEGER NOT NULL, piece INTEGER NOT NULL, bytes BLOB NOT NULL, crc32c INTEGER NOT NULL,"
    " PRIMARY KEY (run, sequence, piece)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS forgotten (run INTEGER NOT NULL REFERENCES runs(id), sequence INTEGER NOT NULL,"
    " length INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID";

// Bytes of a checkpoint in one row, and in one transaction. Reason: a commit of records waits for it, some milliseconds
// on a slow card.
inline constexpr size_t kCheckpointPieceSize = 256U << 10;
// Records that one transaction drops. Reason as above: so many rows go in some milliseconds.
inline constexpr uint64_t kCutRecordsMax = 2000;
// A file gives back pages where more than this share of it is empty, so many at a time. Reason: records that come next
// fill empty pages anyway, and each page that is given back moves another one.
inline constexpr int64_t kEmptyPagesShare = 16;
inline constexpr int64_t kVacuumPagesMax = 256;

// The journal of one run. The database must outlive it.
class SqliteStore : public Store {
 public:
  SqliteStore(SqliteDatabase& database, uint32_t run) : database_(database), run_(run) {}
  StoreStatus append(std::span<const JournalRecord> batch) override;
  StoreStatus read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) override;
  StoreStatus read_chain_end(ChainHead* out) override;
  StoreStatus read_chain(uint64_t sequence, ChainHead* out) override;
  StoreStatus read_version(uint64_t sequence, std::optional<JournalRecord>* out) override;
  uint64_t broken_sequence() const override { return broken_sequence_; }
  // A head that does not fit its checksum has size 0: it is there, and does not read.
  StoreStatus read_heads(std::vector<CheckpointHead>* out) override;
  StoreStatus read_start(CheckpointHead* out) override;
  StoreStatus read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) override;
  StoreStatus write_checkpoint(const Checkpoint& checkpoint, uint64_t* written) override;
  StoreStatus cut(const JournalKeep& keep, bool* has_more) override;
  // For a journal of a format without a chain, within a transaction: gives one to its records and checkpoints. Where
  // the journal was cut, the chain begins with the run's identity at the cut. A record that is damaged, and those
  // behind it up to the next checkpoint that reads, get none, and reading them is kCorrupt. There the chain begins
  // anew. *damaged <- their sequences; null: the first one is kCorrupt.
  StoreStatus make_chain(std::vector<uint64_t>* damaged);

  // ---- Audit and retention: forgotten_table.cc ----

  // The chain before the first record that is there.
  StoreStatus read_kept_start(ChainHead* out);
  // All records that are there and the chain with each, until visit returns false: also those before read_start(),
  // whose bodies were forgotten. kCorrupt: the chain breaks, a record is damaged, or one that is no update, is not
  // blank, or has no checkpoint behind it, is said to be forgotten.
  StoreStatus walk_chain(const std::function<bool(const JournalRecord&, const ChainHead&)>& visit);
  // Of the device's updates up to `base`, a checkpoint that reads: values, notes and losses go, and the digest of the
  // body takes their place in the chain. Records up to there are replayed no more: read_start() is at `base` or behind
  // it, and checkpoints before it go. All of it or nothing. *count: updates whose body went. The bytes are in the file
  // until scrub().
  StoreStatus forget(uint32_t device, const CheckpointHead& base, uint64_t* count);
  // Reads every page of the file: kCorrupt where SQLite finds a fault in one. A page may lose rows and say nothing.
  StoreStatus check_pages() { return database_.check_pages(); }
  // How many bodies were forgotten, by device.
  Expected<std::map<uint32_t, uint64_t>> forgotten_counts();
  // Writes the whole file anew and empties its log: nothing that was deleted or overwritten is left in either. kBusy:
  // somebody else has it open.
  StoreStatus scrub();

  // Kind and device of the first records, count_max at most, until visit returns false. It reads no payloads and
  // compares no checksums: for what is only said to people.
  StoreStatus skim(uint32_t count_max, const std::function<bool(RecordKind, uint32_t)>& visit);
  // The last records, from the end backwards, count_max at most, until visit returns false: without their payloads and
  // checksums, as above. Updates have their notes, as long as the payloads before them are kSkimBytesMax together.
  StoreStatus skim_back(uint32_t count_max, const std::function<bool(const JournalRecord&)>& visit);

 private:
  // A record as it was written, and its chain as it is stored.
  using RowVisit = std::function<bool(const JournalRecord&, std::span<const uint8_t>)>;
  struct StoredHead {
    CheckpointHead head;
    std::vector<uint8_t> chain;
  };
  StoreStatus blank_row(JournalRow row);
  StoreStatus read_forgotten(std::map<uint64_t, RecordBody>* out);
  StoreStatus note_forgotten(uint64_t sequence, const RecordBody& body);
  Expected<uint64_t> last_forgotten();  // 0: none is
  StoreStatus read_cut(CheckpointHead* out);
  StoreStatus read_rows(uint64_t from, const RowVisit& visit);
  StoreStatus read_row_chain(uint64_t sequence, ChainHead* out);
  StoreStatus read_first_chain(ChainHead* out);
  Expected<uint64_t> first_without_chain(uint64_t last);
  StoreStatus chain_rows(const ChainHead& first);
  StoreStatus chain_heads(std::span<const StoredHead> heads, const ChainHead& first, uint64_t last);
  StoreStatus read_stored_heads(std::vector<StoredHead>* out);
  StoreStatus store_chains(std::span<const ChainHead> chains);
  StoreStatus sign_head(const CheckpointHead& head, const Sha256Digest& chain);
  StoreStatus chain_head(const CheckpointHead& head, const Sha256Digest& chain);
  Expected<uint64_t> first_sequence();  // of the records that are there; 0: none is
  StoreStatus delete_row(const char* sql, uint64_t sequence, uint64_t piece);
  StoreStatus find_cut(uint64_t start, const JournalKeep& keep, JournalCut* out, uint64_t* newest);
  StoreStatus drop_orphans(uint64_t newest, bool* has_more);
  StoreStatus give_back(bool* has_more);
  StoreStatus insert_rows(const char* sql, std::span<const JournalRecord> rows, JournalChain* chain);
  StoreStatus fail_damaged_at(uint64_t sequence);

  SqliteDatabase& database_;
  uint32_t run_;
  std::optional<ChainHead> end_;  // with the last record that append() has stored
  uint64_t broken_sequence_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_JOURNAL_TABLE_H_

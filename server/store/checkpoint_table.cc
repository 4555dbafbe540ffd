// The checkpoints of a run in a SqliteDatabase, and what a cut of its journal drops.
//
//   write: piece, piece, ..., last piece with the head          one transaction each: records are committed in between
//   cut:   heads before the cut, then records in batches, then pieces without a head, then empty pages
//
// A crash may come between two transactions. Pieces without a head are read by nobody, and records before the oldest
// head are needed by nobody. The next cut drops both.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "runtime/base/crc32c.h"
#include "server/store/journal_table.h"
#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kSelectHeads =
    "SELECT sequence,version,update_count,size,crc32c,chain FROM checkpoints WHERE run=?1 ORDER BY sequence";
constexpr const char* kInsertHead = "INSERT OR REPLACE INTO checkpoints VALUES (?1,?2,?3,?4,?5,?6,?7)";
constexpr const char* kUpdateHeadChain = "UPDATE checkpoints SET chain=?3 WHERE run=?1 AND sequence=?2";
constexpr const char* kDeleteHead = "DELETE FROM checkpoints WHERE run=?1 AND sequence=?2";
constexpr const char* kSelectPieces =
    "SELECT piece,bytes,crc32c FROM checkpoint_pieces WHERE run=?1 AND sequence=?2 ORDER BY piece";
constexpr const char* kInsertPiece = "INSERT OR REPLACE INTO checkpoint_pieces VALUES (?1,?2,?3,?4,?5)";
constexpr const char* kDeletePiece = "DELETE FROM checkpoint_pieces WHERE run=?1 AND sequence=?2 AND piece=?3";
// Those of a checkpoint that is being written have a sequence above all heads.
constexpr const char* kSelectOrphan =
    "SELECT sequence,piece FROM checkpoint_pieces AS p WHERE run=?1 AND sequence<?2 AND NOT EXISTS"
    " (SELECT 1 FROM checkpoints AS c WHERE c.run=p.run AND c.sequence=p.sequence) LIMIT 1";
constexpr const char* kSelectFirst = "SELECT sequence FROM journal WHERE run=?1 ORDER BY sequence LIMIT 1";
constexpr const char* kDeleteRecords = "DELETE FROM journal WHERE run=?1 AND sequence<=?2";

constexpr const char* kDeleteForgotten = "DELETE FROM forgotten WHERE run=?1 AND sequence<=?2";

constexpr int kOrphansAtOnce = 8;
constexpr int kIncremental = 2;  // of PRAGMA auto_vacuum
// A file of an older release that is written anew when it is brought to this format: a second's work at most.
constexpr int64_t kVacuumPageCountMax = (int64_t{64} << 20) / 4096;

uint32_t checksum_of(std::initializer_list<uint64_t> numbers, std::span<const uint8_t> bytes = {}) {
  uint32_t crc = 0;
  for (const uint64_t number : numbers) {
    std::array<uint8_t, sizeof number> text = {};
    for (size_t i = 0; i < text.size(); ++i) {
      text[i] = static_cast<uint8_t>(number >> (8 * i));
    }
    crc = crc32c(crc, text.data(), text.size());
  }
  return crc32c(crc, bytes.data(), bytes.size());
}

// Of a format without a chain, it was that of the numbers alone.
uint32_t checksum_of(uint32_t run, const CheckpointHead& head, std::span<const uint8_t> chain) {
  return checksum_of({run, head.sequence, head.version, head.update_count, head.size}, chain);
}

}  // namespace

// Of a file that an older release has made: so that what a cut frees goes back to the disk. A large file stays as it
// is, since writing it anew would keep a server from listening for minutes; there a cut frees pages for later records.
// It is no failure if that does not work, as on a disk without room for a second file: the next start tries it again.
// So it does where a command has brought the file to this format, or a start was broken off.
void SqliteDatabase::use_incremental_vacuum() {
  const Expected<int64_t> mode = query_number("PRAGMA auto_vacuum");
  const Expected<int64_t> pages = query_number("PRAGMA page_count");
  if (mode.is_ok() && *mode != kIncremental && pages.is_ok() && *pages <= kVacuumPageCountMax) {
    sqlite3_exec(connection_, "PRAGMA auto_vacuum=INCREMENTAL; VACUUM", nullptr, nullptr, nullptr);
  }
}

StoreStatus SqliteStore::read_stored_heads(std::vector<StoredHead>* out) {
  out->clear();
  Use use(database_, kSelectHeads);
  use.bind(1, run_);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    CheckpointHead head = {use.number(0), use.number32(1), use.number(2), use.number(3)};
    const std::span<const uint8_t> chain = use.blob(5);
    head.size = checksum_of(run_, head, chain) == use.number32(4) ? head.size : 0;
    out->push_back({head, {chain.begin(), chain.end()}});
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "read the checkpoints");
}

StoreStatus SqliteStore::read_heads(std::vector<CheckpointHead>* out) {
  std::vector<StoredHead> stored;
  GS_TRY_STORE(read_stored_heads(&stored));
  out->clear();
  for (const StoredHead& one : stored) {
    out->push_back(one.head);
  }
  return StoreStatus::kOk;
}

// Of an older format. A head that does not read gets its chain, and no checksum that says it reads.
StoreStatus SqliteStore::chain_head(const CheckpointHead& head, const Sha256Digest& chain) {
  if (head.size > 0) {
    return sign_head(head, chain);
  }
  Use use(database_, kUpdateHeadChain);
  use.bind(1, run_);
  use.bind(2, head.sequence);
  use.bind_blob(3, chain);
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "chain the journal");
}

StoreStatus SqliteStore::sign_head(const CheckpointHead& head, const Sha256Digest& chain) {
  Use use(database_, kInsertHead);
  int at = 1;
  for (const uint64_t value : {uint64_t{run_}, head.sequence, uint64_t{head.version}, head.update_count, head.size,
                               uint64_t{checksum_of(run_, head, chain)}}) {
    use.bind(at++, value);
  }
  use.bind_blob(at, chain);
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "write a checkpoint");
}

Expected<uint64_t> SqliteStore::first_sequence() {
  Use use(database_, kSelectFirst);
  use.bind(1, run_);
  const int code = use.step();
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    return database_.fail(code, "read the journal");
  }
  return code == SQLITE_ROW ? use.number(0) : uint64_t{0};
}

// A replay needs the bodies of all records that it reads.
StoreStatus SqliteStore::read_start(CheckpointHead* out) {
  GS_TRY_STORE(read_cut(out));
  const Expected<uint64_t> forgotten = last_forgotten();
  GS_TRY_STORE(forgotten);
  if (*forgotten <= out->sequence) {
    return StoreStatus::kOk;
  }
  std::vector<CheckpointHead> heads;
  GS_TRY_STORE(read_heads(&heads));
  for (const CheckpointHead& head : heads) {
    if (head.sequence >= *forgotten) {
      *out = head;
      out->is_behind_forgotten = true;
      return StoreStatus::kOk;
    }
  }
  broken_sequence_ = *forgotten;
  return database_.fail_with(StoreStatus::kCorrupt,
                             "database " + database_.name_ + ": the journal of run " + std::to_string(run_) +
                                 " has forgotten updates up to sequence " + std::to_string(*forgotten) +
                                 ", and no checkpoint leads there; " + database_.remedy_of(StoreStatus::kCorrupt));
}

// Where the records begin that a cut has left.
StoreStatus SqliteStore::read_cut(CheckpointHead* out) {
  *out = {};
  const Expected<uint64_t> first = first_sequence();
  GS_TRY_STORE(first);
  if (*first <= 1) {
    return StoreStatus::kOk;
  }
  std::vector<CheckpointHead> heads;
  GS_TRY_STORE(read_heads(&heads));
  for (const CheckpointHead& head : heads) {
    if (head.sequence + 1 >= *first) {
      *out = head;
      return StoreStatus::kOk;
    }
  }
  broken_sequence_ = *first;
  return database_.fail_with(StoreStatus::kCorrupt, "database " + database_.name_ + ": the journal of run " +
                                                        std::to_string(run_) + " begins at sequence " +
                                                        std::to_string(*first) + ", and no checkpoint leads there; " +
                                                        database_.remedy_of(StoreStatus::kCorrupt));
}

StoreStatus SqliteStore::read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) {
  out->clear();
  bool is_whole = head.size > 0;
  uint64_t expected = 0;
  {
    Use use(database_, kSelectPieces);
    use.bind(1, run_);
    use.bind(2, head.sequence);
    int code = use.step();
    for (; code == SQLITE_ROW && is_whole; code = use.step(), ++expected) {
      const std::span<const uint8_t> bytes = use.blob(1);
      is_whole = use.number(0) == expected && bytes.size() <= head.size - out->size() &&
                 checksum_of({run_, head.sequence, expected}, bytes) == use.number32(2);
      if (is_whole) {
        out->insert(out->end(), bytes.begin(), bytes.end());
      }
    }
    if (is_whole && code != SQLITE_DONE) {
      return database_.fail(code, "read a checkpoint");
    }
  }
  if (is_whole && out->size() == head.size) {
    return StoreStatus::kOk;
  }
  out->clear();
  return database_.fail_with(StoreStatus::kCorrupt, "database " + database_.name_ + ": the checkpoint of run " +
                                                        std::to_string(run_) + " at sequence " +
                                                        std::to_string(head.sequence) + " is damaged; " +
                                                        database_.remedy_of(StoreStatus::kCorrupt));
}

StoreStatus SqliteStore::write_checkpoint(const Checkpoint& checkpoint, uint64_t* written) {
  const CheckpointHead& head = checkpoint.head;
  GS_ASSERT(head.size == checkpoint.bytes.size() && *written < head.size && *written % kCheckpointPieceSize == 0);
  const std::span<const uint8_t> rest = std::span<const uint8_t>(checkpoint.bytes).subspan(*written);
  const std::span<const uint8_t> bytes = rest.first(std::min(rest.size(), kCheckpointPieceSize));
  const uint64_t piece = *written / kCheckpointPieceSize;
  Transaction transaction(database_);
  GS_TRY_STORE(transaction.begin());
  {
    Use use(database_, kInsertPiece);
    use.bind(1, run_);
    use.bind(2, head.sequence);
    use.bind(3, piece);
    use.bind_blob(4, bytes);
    use.bind(5, checksum_of({run_, head.sequence, piece}, bytes));
    if (const int code = use.step(); code != SQLITE_DONE) {
      return database_.fail(code, "write a checkpoint");
    }
  }
  if (bytes.size() == rest.size()) {
    ChainHead at;
    GS_TRY_STORE(read_row_chain(head.sequence, &at));
    GS_TRY_STORE(sign_head(head, at.chain));
  }
  GS_TRY_STORE(database_.check_in_place());
  GS_TRY_STORE(transaction.commit());
  *written += bytes.size();
  return StoreStatus::kOk;
}

StoreStatus SqliteStore::delete_row(const char* sql, uint64_t sequence, uint64_t piece) {
  Use use(database_, sql);
  use.bind(1, run_);
  use.bind(2, sequence);
  if (sql == kDeletePiece) {
    use.bind(3, piece);
  }
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "cut the journal");
}

StoreStatus SqliteStore::drop_orphans(uint64_t newest, bool* has_more) {
  for (int i = 0; i < kOrphansAtOnce; ++i) {
    uint64_t sequence = 0;
    uint64_t piece = 0;
    {
      Use use(database_, kSelectOrphan);
      use.bind(1, run_);
      use.bind(2, newest);
      const int code = use.step();
      if (code != SQLITE_ROW) {
        return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "cut the journal");
      }
      sequence = use.number(0);
      piece = use.number(1);
    }
    GS_TRY_STORE(delete_row(kDeletePiece, sequence, piece));
  }
  *has_more = true;
  return StoreStatus::kOk;
}

// What choose_cut() finds among the checkpoints that read. Those that do not read lead nowhere, and go too, but for the
// one that the records follow now. Reason: else one damaged row would keep the journal growing for ever.
StoreStatus SqliteStore::find_cut(uint64_t start, const JournalKeep& keep, JournalCut* out, uint64_t* newest) {
  std::vector<CheckpointHead> heads;
  GS_TRY_STORE(read_heads(&heads));
  std::vector<uint64_t> unreadable;
  const auto drop = [&](const CheckpointHead& head) {
    unreadable.push_back(head.sequence);
    return true;
  };
  std::erase_if(heads, [&](const CheckpointHead& head) { return head.size == 0 && drop(head); });
  *out = choose_cut(heads, start, keep);
  std::vector<uint8_t> bytes;
  while (out->sequence != 0) {  // records go only where what takes their place reads
    const auto base = std::find_if(heads.begin(), heads.end(),
                                   [&](const CheckpointHead& head) { return head.sequence == out->sequence; });
    const StoreStatus read = read_checkpoint(*base, &bytes);
    if (read != StoreStatus::kCorrupt) {
      GS_TRY_STORE(read);
      break;
    }
    drop(*base);
    heads.erase(base);
    *out = choose_cut(heads, start, keep);
  }
  *newest = heads.empty() ? 0 : heads.back().sequence;
  for (const uint64_t sequence : unreadable) {
    if (heads.size() >= kCheckpointsKept && (sequence != start || out->sequence != 0)) {
      out->checkpoints.push_back(sequence);
    }
  }
  return StoreStatus::kOk;
}

// What a cut that was broken off has left goes on where the checkpoint reads at which it was.
StoreStatus SqliteStore::cut(const JournalKeep& keep, bool* has_more) {
  *has_more = false;
  CheckpointHead start;
  JournalCut cut;
  uint64_t newest = 0;
  {
    Transaction transaction(database_);
    GS_TRY_STORE(transaction.begin());
    GS_TRY_STORE(read_cut(&start));
    GS_TRY_STORE(find_cut(start.sequence, keep, &cut, &newest));
    const Expected<uint64_t> first = first_sequence();
    GS_TRY_STORE(first);
    for (const uint64_t sequence : cut.checkpoints) {
      GS_TRY_STORE(delete_row(kDeleteHead, sequence, 0));
    }
    const uint64_t last = cut.sequence != 0 ? cut.sequence : start.size != 0 ? start.sequence : 0;
    if (*first != 0 && *first <= last) {
      const uint64_t until = std::min(last, *first + kCutRecordsMax - 1);
      GS_TRY_STORE(delete_row(kDeleteRecords, until, 0));
      GS_TRY_STORE(delete_row(kDeleteForgotten, until, 0));
      *has_more = until < last;
    }
    if (!*has_more) {
      GS_TRY_STORE(drop_orphans(newest, has_more));
    }
    GS_TRY_STORE(database_.check_in_place());
    GS_TRY_STORE(transaction.commit());
  }
  return *has_more ? StoreStatus::kOk : give_back(has_more);
}

StoreStatus SqliteStore::give_back(bool* has_more) {
  const Expected<int64_t> mode = database_.query_number("PRAGMA auto_vacuum");
  GS_TRY_STORE(mode);
  const Expected<int64_t> pages = database_.query_number("PRAGMA page_count");
  GS_TRY_STORE(pages);
  const Expected<int64_t> empty = database_.query_number("PRAGMA freelist_count");
  GS_TRY_STORE(empty);
  const int64_t surplus = *empty - *pages / kEmptyPagesShare;
  if (*mode != kIncremental || surplus <= 0) {
    return StoreStatus::kOk;
  }
  const std::string vacuum = "PRAGMA incremental_vacuum(" + std::to_string(std::min(surplus, kVacuumPagesMax)) + ")";
  GS_TRY_STORE(database_.execute(vacuum.c_str()));
  *has_more = surplus > kVacuumPagesMax;
  return StoreStatus::kOk;
}

}  // namespace gradstream

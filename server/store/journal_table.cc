#include "server/store/journal_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/crc32c.h"
#include "server/store/statement.h"

namespace gradstream {

namespace {

#define GS_JOURNAL_ROW "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
#define GS_JOURNAL_ROWS_4 GS_JOURNAL_ROW "," GS_JOURNAL_ROW "," GS_JOURNAL_ROW "," GS_JOURNAL_ROW
constexpr int kColumnCount = 21;
constexpr const char* kInsertRecord = "INSERT INTO journal VALUES " GS_JOURNAL_ROW;
// Of a batch. Reason: most of what a row costs beside its bytes is the statement's own beginning and end.
constexpr size_t kRowsAtOnce = 16;
constexpr const char* kInsertRecords =
    "INSERT INTO journal VALUES " GS_JOURNAL_ROWS_4 "," GS_JOURNAL_ROWS_4 "," GS_JOURNAL_ROWS_4 "," GS_JOURNAL_ROWS_4;
constexpr const char* kSelectRecords =
    "SELECT sequence,kind,device,task_sequence,version,base_version,steps_done,weight,verdict,reason,detail,step_scale,"
    "loss_before,loss_after,digest,time_ms,payload,crc32c,notes,chain FROM journal WHERE run=?1 AND sequence>?2 ORDER "
    "BY sequence";
constexpr const char* kSelectChain = "SELECT chain FROM journal WHERE run=?1 AND sequence=?2";
constexpr const char* kSelectChainEnd =
    "SELECT sequence,chain FROM journal WHERE run=?1 ORDER BY sequence DESC LIMIT 1";
// From the end backwards, where a chain that is there ends the search.
constexpr const char* kSelectUnchained =
    "SELECT coalesce((SELECT max(sequence) FROM journal WHERE run=?1 AND sequence<?2 AND length(chain)=32),0)+1";
constexpr const char* kSelectIdentity = "SELECT run_nonce,digest FROM runs WHERE id=?1";
constexpr const char* kBlankRow =
    "UPDATE journal SET loss_before=0, loss_after=0, payload=x'', notes=NULL, crc32c=?3 WHERE run=?1 AND sequence=?2";
constexpr const char* kUpdateChain = "UPDATE journal SET chain=?3 WHERE run=?1 AND sequence=?2";
// Records that get their chain between two reads. Reason: nothing is changed while it is read, and few are in memory.
constexpr size_t kChainedAtOnce = 1000;
// Before the payload in each row, which SQLite then does not read.
constexpr const char* kSelectKinds = "SELECT kind,device FROM journal WHERE run=?1 ORDER BY sequence LIMIT ?2";

constexpr int kChecksumColumn = 17;  // of kSelectRecords
constexpr int kChainColumn = 19;     // of kSelectRecords
constexpr int kPayloadLength = 19;   // the column of kSelectLast
constexpr const char* kSelectLast =
    "SELECT sequence,kind,device,task_sequence,version,base_version,steps_done,weight,verdict,reason,detail,step_scale,"
    "loss_before,loss_after,digest,time_ms,NULL,0,NULL,length(payload) FROM journal WHERE run=?1 ORDER BY sequence "
    "DESC "
    "LIMIT ?2";
// Behind the payload, which SQLite walks through to get there.
constexpr const char* kSelectNotes = "SELECT notes FROM journal WHERE run=?1 AND sequence=?2";

uint8_t* put_number(uint8_t* out, uint64_t value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out[i] = static_cast<uint8_t>(value >> 8 * i);
  }
  return out + sizeof value;
}

uint64_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Of a whole row, so that a bit that rots anywhere in it is found.
uint32_t checksum_of(uint32_t run, const JournalRow& r) {
  uint8_t numbers[17 * sizeof(uint64_t)];
  uint8_t* end = numbers;
  for (const uint64_t value :
       {uint64_t{run}, r.sequence, static_cast<uint64_t>(r.kind), uint64_t{r.device}, uint64_t{r.task_sequence},
        uint64_t{r.version}, uint64_t{r.base_version}, uint64_t{r.steps_done}, uint64_t{r.weight}, uint64_t{r.verdict},
        uint64_t{r.reason}, uint64_t{r.detail}, bits_of(r.step_scale), bits_of(r.loss_before), bits_of(r.loss_after),
        r.digest, r.time_ms}) {
    end = put_number(end, value);
  }
  GS_ASSERT(end == std::end(numbers));
  uint32_t crc = crc32c(0, numbers, sizeof numbers);
  crc = crc32c(crc, r.payload.data(), r.payload.size());
  if (r.notes.empty()) {
    return crc;  // that of the formats without the column
  }
  // The size counts: else a byte could go from the payload to the notes unseen.
  uint8_t size[sizeof(uint64_t)];
  put_number(size, r.notes.size());
  crc = crc32c(crc, size, sizeof size);
  return crc32c(crc, r.notes.data(), r.notes.size());
}

// Whether the row is as it was written. SQLite drops the sign of a loss of -0, which kpca has on samples of zeros: then
// the checksum tells it, and the row gets it back.
bool restore_row(uint32_t run, uint32_t checksum, JournalRow* r) {
  const float before = r->loss_before;
  const float after = r->loss_after;
  for (int signs = 0; signs < 4; ++signs) {
    if (((signs & 1) != 0 && before != 0) || ((signs & 2) != 0 && after != 0)) {
      continue;
    }
    r->loss_before = (signs & 1) != 0 ? -0.0F : before;
    r->loss_after = (signs & 2) != 0 ? -0.0F : after;
    if (checksum_of(run, *r) == checksum) {
      return true;
    }
  }
  return false;
}

// Of kSelectRecords and kSelectLast; its checksum is left to the reader.
JournalRow row_of(const Use& use) {
  JournalRow r;
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
  const auto notes = use.blob(18);
  r.notes.assign(notes.begin(), notes.end());
  return r;
}

// Whether each column of kSelectRecords holds a value that a record can have: what a narrower type would cut off is
// damage too.
bool fits(const Use& use) {
  constexpr int kFirstNumber = 2;
  constexpr int kLastNumber = 10;
  constexpr int kLastReal = 13;
  bool is_good = use.number(1) <= UINT8_MAX && use.number(kChecksumColumn) == use.number32(kChecksumColumn);
  for (int column = kFirstNumber; column <= kLastNumber; ++column) {
    is_good = is_good && use.number(column) == use.number32(column);
  }
  for (int column = kLastNumber + 1; column <= kLastReal; ++column) {
    is_good = is_good && use.wide_real(column) == static_cast<double>(use.real(column));
  }
  return is_good;
}

bool read_digest(std::span<const uint8_t> bytes, Sha256Digest* out) {
  if (bytes.size() != out->size()) {
    return false;
  }
  std::copy(bytes.begin(), bytes.end(), out->begin());
  return true;
}

}  // namespace

StoreStatus SqliteStore::insert_rows(const char* sql, std::span<const JournalRecord> rows, JournalChain* chain) {
  std::array<Sha256Digest, kRowsAtOnce> chains = {};  // bound until the statement is done
  GS_ASSERT(rows.size() <= chains.size());
  Use use(database_, sql);
  int first = 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    const JournalRow& row = rows[i].row();
    if (!chain->add(rows[i])) {
      return database_.fail_with(StoreStatus::kFailed,
                                 "database " + database_.name_ + ": record " + std::to_string(row.sequence) +
                                     " of run " + std::to_string(run_) + " does not follow record " +
                                     std::to_string(chain->head().sequence) + "; start the server again");
    }
    chains[i] = chain->head().chain;
    int at = first;
    for (const uint64_t value :
         {uint64_t{run_}, row.sequence, static_cast<uint64_t>(row.kind), uint64_t{row.device},
          uint64_t{row.task_sequence}, uint64_t{row.version}, uint64_t{row.base_version}, uint64_t{row.steps_done},
          uint64_t{row.weight}, uint64_t{row.verdict}, uint64_t{row.reason}, uint64_t{row.detail}}) {
      use.bind(at++, value);
    }
    for (const Real value : {row.step_scale, Real{row.loss_before}, Real{row.loss_after}}) {
      use.bind_real(at++, static_cast<double>(value));
    }
    use.bind(at++, row.digest);
    use.bind(at++, row.time_ms);
    use.bind_blob(at++, row.payload);
    use.bind(at++, checksum_of(run_, row));
    if (!row.notes.empty()) {  // else NULL, which takes no byte of the row's body
      use.bind_blob(at, row.notes);
    }
    use.bind_blob(at + 1, chains[i]);
    first += kColumnCount;
  }
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "append to the journal");
}

StoreStatus SqliteStore::append(std::span<const JournalRecord> batch) {
  Transaction transaction(database_);
  GS_TRY_STORE(transaction.begin());
  if (!end_) {
    ChainHead end;
    GS_TRY_STORE(read_chain_end(&end));
    end_ = end;
  }
  JournalChain chain(*end_);
  while (!batch.empty()) {
    const size_t count = batch.size() >= kRowsAtOnce ? kRowsAtOnce : 1;
    GS_TRY_STORE(insert_rows(count == 1 ? kInsertRecord : kInsertRecords, batch.first(count), &chain));
    batch = batch.subspan(count);
  }
  GS_TRY_STORE(database_.check_in_place());
  GS_TRY_STORE(transaction.commit());
  end_ = chain.head();
  return StoreStatus::kOk;
}

StoreStatus SqliteStore::fail_damaged_at(uint64_t sequence) {
  broken_sequence_ = sequence;
  return database_.fail_with(StoreStatus::kCorrupt, "database " + database_.name_ + ": the journal of run " +
                                                        std::to_string(run_) + " is damaged at sequence " +
                                                        std::to_string(sequence) + "; " +
                                                        database_.remedy_of(StoreStatus::kCorrupt));
}

StoreStatus SqliteStore::read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) {
  CheckpointHead start;
  GS_TRY_STORE(read_start(&start));
  const uint64_t from = sequence == 0 ? start.sequence : sequence;
  if (from < start.sequence) {
    return fail_damaged_at(from + 1);
  }
  ChainHead before;
  GS_TRY_STORE(read_chain(from, &before));
  JournalChain chain(before);
  bool holds = true;
  GS_TRY_STORE(read_rows(from, [&](const JournalRecord& record, std::span<const uint8_t> stored) {
    Sha256Digest said = {};
    holds = chain.add(record) && read_digest(stored, &said) && said == chain.head().chain;
    return holds && visit(record);
  }));
  return holds ? StoreStatus::kOk : fail_damaged_at(chain.head().sequence);
}

StoreStatus SqliteStore::read_rows(uint64_t from, const RowVisit& visit) {
  Use use(database_, kSelectRecords);
  use.bind(1, run_);
  use.bind(2, from);
  uint64_t expected = from + 1;
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step(), ++expected) {
    JournalRow r = row_of(use);
    if (r.sequence != expected || !fits(use) || !restore_row(run_, use.number32(kChecksumColumn), &r)) {
      return fail_damaged_at(expected);
    }
    if (!visit(JournalRecord(std::move(r)), use.blob(kChainColumn))) {
      return StoreStatus::kOk;
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "read the journal");
}

// Without its values, notes and losses, which SQLite overwrites (PRAGMA secure_delete).
StoreStatus SqliteStore::blank_row(JournalRow row) {
  row.loss_before = 0;
  row.loss_after = 0;
  row.payload.clear();
  row.notes.clear();
  Use use(database_, kBlankRow);
  use.bind(1, run_);
  use.bind(2, row.sequence);
  use.bind(3, checksum_of(run_, row));
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "forget a record's body");
}

// ---- The chain -----------------------------------------------------------------------------------------------------

// Before record 1.
StoreStatus SqliteStore::read_first_chain(ChainHead* out) {
  Use use(database_, kSelectIdentity);
  use.bind(1, run_);
  const int code = use.step();
  if (code != SQLITE_ROW) {
    return database_.fail(code, "read the run");
  }
  *out = chain_start({run_, use.number(0), use.number(1)});
  return StoreStatus::kOk;
}

// One row, and the chain of the one before: a start reads no more. Where a cut was broken off, that one may be gone.
StoreStatus SqliteStore::read_version(uint64_t sequence, std::optional<JournalRecord>* out) {
  out->reset();
  const Expected<uint64_t> first = first_sequence();
  GS_TRY_STORE(first);
  if (*first == 0 || *first > sequence) {
    return StoreStatus::kOk;
  }
  ChainHead wanted;  // where the records behind begin
  GS_TRY_STORE(read_chain(sequence, &wanted));
  GS_TRY_STORE(read_rows(sequence - 1, [out](const JournalRecord& record, std::span<const uint8_t>) {
    *out = record;
    return false;
  }));
  bool holds = out->has_value() && (*out)->kind() == RecordKind::kVersion;
  if (holds && (*first < sequence || sequence == 1)) {
    ChainHead before;
    GS_TRY_STORE(read_chain(sequence - 1, &before));
    JournalChain chain(before);
    holds = chain.add(**out) && chain.head() == wanted;
  }
  return holds ? StoreStatus::kOk : fail_damaged_at(sequence);
}

// As the record's row has it.
StoreStatus SqliteStore::read_row_chain(uint64_t sequence, ChainHead* out) {
  Use use(database_, kSelectChain);
  use.bind(1, run_);
  use.bind(2, sequence);
  const int code = use.step();
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    return database_.fail(code, "read the journal");
  }
  out->sequence = sequence;
  return code == SQLITE_ROW && read_digest(use.blob(0), &out->chain) ? StoreStatus::kOk : fail_damaged_at(sequence);
}

// A checkpoint's own is preferred: its checksum covers it, and where its record was dropped there is no other. Then it
// serves without its checksum too: another chain than the one that was written is told by the next record.
StoreStatus SqliteStore::read_chain(uint64_t sequence, ChainHead* out) {
  std::vector<StoredHead> heads;
  GS_TRY_STORE(read_stored_heads(&heads));
  const Expected<uint64_t> first = first_sequence();
  GS_TRY_STORE(first);
  for (const StoredHead& stored : heads) {
    const bool serves = stored.head.size > 0 || *first > sequence;
    if (stored.head.sequence == sequence && serves && read_digest(stored.chain, &out->chain)) {
      out->sequence = sequence;
      return StoreStatus::kOk;
    }
  }
  return sequence == 0 ? read_first_chain(out) : read_row_chain(sequence, out);
}

// Of the records up to `last`, which has none: those behind a damaged one got none either.
Expected<uint64_t> SqliteStore::first_without_chain(uint64_t last) {
  Use use(database_, kSelectUnchained);
  use.bind(1, run_);
  use.bind(2, last);
  const int code = use.step();
  return code == SQLITE_ROW ? Expected<uint64_t>(use.number(0)) : database_.fail(code, "read the journal");
}

// What this store has appended it knows, and needs no statement for each batch.
StoreStatus SqliteStore::read_chain_end(ChainHead* out) {
  if (end_) {
    *out = *end_;
    return StoreStatus::kOk;
  }
  {
    Use use(database_, kSelectChainEnd);
    use.bind(1, run_);
    const int code = use.step();
    if (code == SQLITE_ROW) {
      out->sequence = use.number(0);
      if (read_digest(use.blob(1), &out->chain)) {
        return StoreStatus::kOk;
      }
      const Expected<uint64_t> broken = first_without_chain(out->sequence);
      GS_TRY_STORE(broken);
      return fail_damaged_at(*broken);
    }
    if (code != SQLITE_DONE) {
      return database_.fail(code, "read the journal");
    }
  }
  return read_first_chain(out);
}

StoreStatus SqliteStore::store_chains(std::span<const ChainHead> chains) {
  for (const ChainHead& at : chains) {
    Use use(database_, kUpdateChain);
    use.bind(1, run_);
    use.bind(2, at.sequence);
    use.bind_blob(3, at.chain);
    if (const int code = use.step(); code != SQLITE_DONE) {
      return database_.fail(code, "chain the journal");
    }
  }
  return StoreStatus::kOk;
}

// Of the records behind `first`, as far as they read.
StoreStatus SqliteStore::chain_rows(const ChainHead& first) {
  JournalChain chain(first);
  std::vector<ChainHead> chains;
  do {
    chains.clear();
    const StoreStatus read =
        read_rows(chain.head().sequence, [&](const JournalRecord& record, std::span<const uint8_t>) {
          GS_ASSERT(chain.add(record));  // read_rows() has compared the sequence
          chains.push_back(chain.head());
          return chains.size() < kChainedAtOnce;
        });
    GS_TRY_STORE(store_chains(chains));  // also of those before one that is damaged
    GS_TRY_STORE(read);
  } while (!chains.empty());
  return StoreStatus::kOk;
}

// Of the checkpoints from `first` to the record `last`.
StoreStatus SqliteStore::chain_heads(std::span<const StoredHead> heads, const ChainHead& first, uint64_t last) {
  for (const StoredHead& stored : heads) {
    ChainHead at = first;
    const bool is_start = stored.head.sequence == first.sequence;
    const bool is_there = stored.head.sequence >= first.sequence && stored.head.sequence <= last;
    if (!is_there || (stored.head.size == 0 && !is_start)) {
      continue;  // no record of this chain leads there, or it does not read and no record needs it
    }
    if (!is_start) {
      GS_TRY_STORE(read_row_chain(stored.head.sequence, &at));
    }
    GS_TRY_STORE(chain_head(stored.head, at.chain));
  }
  return StoreStatus::kOk;
}

StoreStatus SqliteStore::make_chain(std::vector<uint64_t>* damaged) {
  CheckpointHead start;
  ChainHead first;
  std::vector<StoredHead> heads;
  GS_TRY_STORE(read_start(&start));
  GS_TRY_STORE(read_first_chain(&first));
  GS_TRY_STORE(read_stored_heads(&heads));
  first.sequence = start.sequence;
  for (;;) {
    broken_sequence_ = 0;
    const StoreStatus chained = chain_rows(first);
    if (chained == StoreStatus::kOk) {
      return chain_heads(heads, first, UINT64_MAX);
    }
    if (damaged == nullptr || broken_sequence_ == 0) {
      return chained;
    }
    damaged->push_back(broken_sequence_);
    GS_TRY_STORE(chain_heads(heads, first, broken_sequence_ - 1));
    const auto next = std::find_if(heads.begin(), heads.end(), [this](const StoredHead& stored) {
      return stored.head.sequence >= broken_sequence_ && stored.head.size > 0;
    });
    if (next == heads.end()) {
      return StoreStatus::kOk;
    }
    first.sequence = next->head.sequence;  // a replay can begin there: the chain begins anew, as at a cut
  }
}

StoreStatus SqliteStore::skim(uint32_t count_max, const std::function<bool(RecordKind, uint32_t)>& visit) {
  Use use(database_, kSelectKinds);
  use.bind(1, run_);
  use.bind(2, count_max);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    if (!visit(static_cast<RecordKind>(use.number(0)), use.number32(1))) {
      return StoreStatus::kOk;
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "read the journal");
}

StoreStatus SqliteStore::skim_back(uint32_t count_max, const std::function<bool(const JournalRecord&)>& visit) {
  Use use(database_, kSelectLast);
  use.bind(1, run_);
  use.bind(2, count_max);
  int code = use.step();
  for (uint64_t walked = 0; code == SQLITE_ROW; code = use.step()) {
    JournalRow row = row_of(use);
    walked += use.number(kPayloadLength);
    if (row.kind == RecordKind::kUpdate && walked <= kSkimBytesMax) {
      Use notes(database_, kSelectNotes);
      notes.bind(1, run_);
      notes.bind(2, row.sequence);
      const std::span<const uint8_t> bytes = notes.step() == SQLITE_ROW ? notes.blob(0) : std::span<const uint8_t>();
      row.notes.assign(bytes.begin(), bytes.end());
    }
    if (!visit(JournalRecord(std::move(row)))) {
      return StoreStatus::kOk;
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "read the journal");
}

}  // namespace gradstream

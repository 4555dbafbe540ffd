// Records whose body was forgotten: the journal's chain holds without them, and what they said is gone.
//
//   journal:   sequence, kind, device, version, ..., no values, notes and losses
//   forgotten: sequence, length and digest of the body, which stand in the chain
//
// A row keeps who took part, when, and what its update weighed, and the chain goes on to cover these columns.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/store/journal_table.h"
#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kSelectForgotten = "SELECT sequence,length,digest FROM forgotten WHERE run=?1 ORDER BY sequence";
constexpr const char* kSelectLastForgotten = "SELECT coalesce(max(sequence),0) FROM forgotten WHERE run=?1";
constexpr const char* kCountForgotten =
    "SELECT j.device,count(*) FROM forgotten AS f JOIN journal AS j ON j.run=f.run AND j.sequence=f.sequence"
    " WHERE f.run=?1 GROUP BY j.device";
constexpr const char* kInsertForgotten = "INSERT INTO forgotten VALUES (?1,?2,?3,?4)";
constexpr const char* kDeleteHeadsBefore = "DELETE FROM checkpoints WHERE run=?1 AND sequence<?2";
constexpr const char* kDeletePiecesBefore = "DELETE FROM checkpoint_pieces WHERE run=?1 AND sequence<?2";
// Records in memory between two reads, since nothing is changed while it is read.
constexpr size_t kForgottenAtOnce = 256;

// Whether the record is what forget() leaves of one. Any other would say what the chain does not cover.
bool is_blank_update(const JournalRow& row) {
  return row.kind == RecordKind::kUpdate && row.payload.empty() && row.notes.empty() && row.loss_before == 0 &&
         row.loss_after == 0;
}

}  // namespace

StoreStatus SqliteStore::read_kept_start(ChainHead* out) {
  const Expected<uint64_t> first = first_sequence();
  GS_TRY_STORE(first);
  CheckpointHead start;
  GS_TRY_STORE(read_cut(&start));
  std::vector<CheckpointHead> heads;
  GS_TRY_STORE(read_heads(&heads));
  // A cut that was broken off has left records before its checkpoint, and the chain before them is not known.
  const bool is_at_head =
      std::any_of(heads.begin(), heads.end(), [&](const CheckpointHead& head) { return head.sequence + 1 == *first; });
  return read_chain(*first <= 1 ? 0 : is_at_head ? *first - 1 : start.sequence, out);
}

StoreStatus SqliteStore::read_forgotten(std::map<uint64_t, RecordBody>* out) {
  out->clear();
  Use use(database_, kSelectForgotten);
  use.bind(1, run_);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    RecordBody body = {use.number32(1), {}};
    const std::span<const uint8_t> digest = use.blob(2);
    if (digest.size() != body.digest.size()) {
      return fail_damaged_at(use.number(0));
    }
    std::copy(digest.begin(), digest.end(), body.digest.begin());
    out->emplace(use.number(0), body);
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "read what was forgotten");
}

Expected<uint64_t> SqliteStore::last_forgotten() {
  Use use(database_, kSelectLastForgotten);
  use.bind(1, run_);
  const int code = use.step();
  return code == SQLITE_ROW ? Expected<uint64_t>(use.number(0)) : database_.fail(code, "read what was forgotten");
}

Expected<std::map<uint32_t, uint64_t>> SqliteStore::forgotten_counts() {
  std::map<uint32_t, uint64_t> counts;
  Use use(database_, kCountForgotten);
  use.bind(1, run_);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    counts[use.number32(0)] = use.number(1);
  }
  if (code != SQLITE_DONE) {
    return database_.fail(code, "read what was forgotten");
  }
  return counts;
}

StoreStatus SqliteStore::walk_chain(const std::function<bool(const JournalRecord&, const ChainHead&)>& visit) {
  CheckpointHead start;
  ChainHead at;
  std::map<uint64_t, RecordBody> forgotten;
  GS_TRY_STORE(read_start(&start));  // kCorrupt: what was forgotten has no checkpoint behind it
  GS_TRY_STORE(read_kept_start(&at));
  GS_TRY_STORE(read_forgotten(&forgotten));
  JournalChain bodies(at);
  bool holds = true;
  GS_TRY_STORE(read_rows(at.sequence, [&](const JournalRecord& record, std::span<const uint8_t> stored) {
    const auto known = forgotten.find(record.sequence());
    const bool is_gone = known != forgotten.end();
    at = next_link(at, record, is_gone ? known->second : bodies.body_of(record));
    holds = (!is_gone || is_blank_update(record.row())) &&
            std::equal(stored.begin(), stored.end(), at.chain.begin(), at.chain.end());
    return holds && visit(record, at);
  }));
  return holds ? StoreStatus::kOk : fail_damaged_at(at.sequence);
}

StoreStatus SqliteStore::note_forgotten(uint64_t sequence, const RecordBody& body) {
  Use use(database_, kInsertForgotten);
  use.bind(1, run_);
  use.bind(2, sequence);
  use.bind(3, body.length);
  use.bind_blob(4, body.digest);
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "forget a record's body");
}

StoreStatus SqliteStore::forget(uint32_t device, const CheckpointHead& base, uint64_t* count) {
  *count = 0;
  GS_TRY_STORE(database_.execute("PRAGMA secure_delete=ON"));
  Transaction transaction(database_);
  GS_TRY_STORE(transaction.begin());
  ChainHead at;
  std::map<uint64_t, RecordBody> forgotten;
  GS_TRY_STORE(read_kept_start(&at));
  GS_TRY_STORE(read_forgotten(&forgotten));
  JournalChain bodies(at);
  uint64_t from = at.sequence;
  std::vector<JournalRecord> found;
  do {
    found.clear();
    GS_TRY_STORE(read_rows(from, [&](const JournalRecord& record, std::span<const uint8_t>) {
      const bool is_before = record.sequence() <= base.sequence;
      from = is_before ? record.sequence() : from;
      if (is_before && record.kind() == RecordKind::kUpdate && record.device() == device &&
          !forgotten.contains(record.sequence())) {
        found.push_back(record);
      }
      return is_before && found.size() < kForgottenAtOnce;
    }));
    for (const JournalRecord& record : found) {
      GS_TRY_STORE(note_forgotten(record.sequence(), bodies.body_of(record)));
      GS_TRY_STORE(blank_row(record.row()));
    }
    *count += found.size();
  } while (!found.empty());
  if (*count > 0) {
    GS_TRY_STORE(delete_row(kDeleteHeadsBefore, base.sequence, 0));
    GS_TRY_STORE(delete_row(kDeletePiecesBefore, base.sequence, 0));
  }
  GS_TRY_STORE(database_.check_in_place());
  return transaction.commit();
}

StoreStatus SqliteStore::scrub() {
  GS_TRY_STORE(database_.execute("VACUUM"));
  const Expected<int64_t> busy = database_.query_number("PRAGMA wal_checkpoint(TRUNCATE)");
  GS_TRY_STORE(busy);
  return *busy == 0 ? StoreStatus::kOk
                    : database_.fail_with(StoreStatus::kBusy,
                                          "database " + database_.name_ +
                                              ": another program reads it, so its log still holds what was forgotten; "
                                              "end that program and do it again");
}

}  // namespace gradstream

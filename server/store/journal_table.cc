#include "server/store/journal_table.h"

#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/crc32c.h"
#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kInsertRecord =
    "INSERT INTO journal VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)";
constexpr const char* kSelectRecords =
    "SELECT sequence,kind,device,task_sequence,version,base_version,steps_done,weight,verdict,reason,detail,step_scale,"
    "loss_before,loss_after,digest,time_ms,payload,crc32c,notes FROM journal WHERE run=?1 ORDER BY sequence";
// Before the payload in each row, which SQLite then does not read.
constexpr const char* kSelectKinds = "SELECT kind,device FROM journal WHERE run=?1 ORDER BY sequence LIMIT ?2";

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
uint32_t checksum_of(uint32_t run, const JournalRow& r) {
  std::vector<uint8_t> bytes;
  bytes.reserve(17 * 8);
  for (const uint64_t value :
       {uint64_t{run}, r.sequence, static_cast<uint64_t>(r.kind), uint64_t{r.device}, uint64_t{r.task_sequence},
        uint64_t{r.version}, uint64_t{r.base_version}, uint64_t{r.steps_done}, uint64_t{r.weight}, uint64_t{r.verdict},
        uint64_t{r.reason}, uint64_t{r.detail}, bits_of(r.step_scale), bits_of(r.loss_before), bits_of(r.loss_after),
        r.digest, r.time_ms}) {
    append_bytes(value, &bytes);
  }
  uint32_t crc = crc32c(0, bytes.data(), bytes.size());
  crc = crc32c(crc, r.payload.data(), r.payload.size());
  if (r.notes.empty()) {
    return crc;  // that of the formats without the column
  }
  // The size counts: else a byte could go from the payload to the notes unseen.
  bytes.clear();
  append_bytes(r.notes.size(), &bytes);
  crc = crc32c(crc, bytes.data(), bytes.size());
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

}  // namespace

StoreStatus SqliteStore::append(std::span<const JournalRecord> batch) {
  Transaction transaction(database_);
  GS_TRY_STORE(transaction.begin());
  for (const JournalRecord& record : batch) {
    const JournalRow& row = record.row();
    Use use(database_, kInsertRecord);
    int at = 1;
    for (const uint64_t value :
         {uint64_t{run_}, row.sequence, static_cast<uint64_t>(row.kind), uint64_t{row.device},
          uint64_t{row.task_sequence}, uint64_t{row.version}, uint64_t{row.base_version}, uint64_t{row.steps_done},
          uint64_t{row.weight}, uint64_t{row.verdict}, uint64_t{row.reason}, uint64_t{row.detail}}) {
      use.bind(at++, value);
    }
    use.bind_real(13, static_cast<double>(row.step_scale));
    use.bind_real(14, static_cast<double>(row.loss_before));
    use.bind_real(15, static_cast<double>(row.loss_after));
    use.bind(16, row.digest);
    use.bind(17, row.time_ms);
    use.bind_blob(18, row.payload);
    use.bind(19, checksum_of(run_, row));
    if (!row.notes.empty()) {  // else NULL, which takes no byte of the row's body
      use.bind_blob(20, row.notes);
    }
    const int code = use.step();
    if (code != SQLITE_DONE) {
      return database_.fail(code, "append to the journal");
    }
  }
  GS_TRY_STORE(database_.check_in_place());
  return transaction.commit();
}

StoreStatus SqliteStore::read(const std::function<bool(const JournalRecord&)>& visit) {
  Use use(database_, kSelectRecords);
  use.bind(1, run_);
  uint64_t expected = 1;
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step(), ++expected) {
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
    if (r.sequence != expected || !restore_row(run_, use.number32(17), &r)) {
      return database_.fail_with(StoreStatus::kCorrupt, "database " + database_.name_ + ": the journal of run " +
                                                            std::to_string(run_) + " is damaged at sequence " +
                                                            std::to_string(expected) + "; " +
                                                            database_.remedy_of(StoreStatus::kCorrupt));
    }
    if (!visit(JournalRecord(std::move(r)))) {
      return StoreStatus::kOk;
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : database_.fail(code, "read the journal");
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

}  // namespace gradstream

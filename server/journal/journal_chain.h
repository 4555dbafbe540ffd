// The chain of a run's journal: by SHA-256 each record holds what all records before it say.
//
//   chain_0 = SHA-256("gradstream journal 1" | u32 run | u64 run_nonce | u64 parameters_digest)
//   chain_i = SHA-256(chain_{i-1} | u64 sequence | u32 kind | columns_i | u32 length | SHA-256(body_i))
//   columns_i = u32 device, task_sequence, version, base_version, steps_done, weight, verdict, reason, detail |
//               f64 step_scale | u64 digest, time_ms
//   body_i = f32 loss_before, loss_after | u32 size of the payload | payload | notes
//
// Integers and floats are little-endian; length is that of the body in bytes. Columns and body have all that a replay
// reads. A body stands in the chain by its own digest, so that it can be forgotten: length and digest in its place
// leave the chain whole. The columns cannot be: who took part, when, and what an update weighed stay proven.
//
// A chain names a changed, moved, added or missing record. It cannot see that the last records are gone, and who can
// write the whole journal can write a chain of its own: only a ChainHead that was kept elsewhere tells both.
#ifndef GRADSTREAM_SERVER_JOURNAL_JOURNAL_CHAIN_H_
#define GRADSTREAM_SERVER_JOURNAL_JOURNAL_CHAIN_H_

#include <cstdint>
#include <vector>

#include "server/base/sha256.h"
#include "server/journal/journal_record.h"

namespace gradstream {

// What tells a run from all others, also from one of the same file and number on another server.
struct RunIdentity {
  uint32_t run = 0;
  uint64_t run_nonce = 0;  // drawn when the run was made; 0: a run of a release that drew none
  uint64_t parameters_digest = 0;
  friend bool operator==(const RunIdentity&, const RunIdentity&) = default;
};

// The chain up to a record and with it.
struct ChainHead {
  uint64_t sequence = 0;  // of that record; 0: before the first one
  Sha256Digest chain = {};
  friend bool operator==(const ChainHead&, const ChainHead&) = default;
};

// What the chain takes of what a record can forget: its losses, payload and notes.
struct RecordBody {
  uint32_t length = 0;  // bytes
  Sha256Digest digest = {};
  friend bool operator==(const RecordBody&, const RecordBody&) = default;
};

// chain_0.
ChainHead chain_start(const RunIdentity& run);

// The chain with one more record, which follows `before`. Kind and columns are the record's, its body is not read.
ChainHead next_link(const ChainHead& before, const JournalRecord& record, const RecordBody& body);

// The chain of one journal, record by record. It keeps memory for the longest body.
class JournalChain {
 public:
  explicit JournalChain(const ChainHead& head) : head_(head) {}
  const ChainHead& head() const { return head_; }
  // False: the record does not follow the head, which stays as it was.
  [[nodiscard]] bool add(const JournalRecord& record);
  // Of a record, for a body that is to be forgotten.
  RecordBody body_of(const JournalRecord& record);

 private:
  ChainHead head_;
  std::vector<uint8_t> bytes_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_JOURNAL_CHAIN_H_

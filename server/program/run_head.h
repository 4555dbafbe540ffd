// Heads of a run (server/journal/journal_head.h): made of what a database holds, and compared with it.
#ifndef GRADSTREAM_SERVER_PROGRAM_RUN_HEAD_H_
#define GRADSTREAM_SERVER_PROGRAM_RUN_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/journal/journal_head.h"
#include "server/store/expected.h"
#include "server/store/fleet_rows.h"
#include "server/store/journal_table.h"

namespace gradstream {

// The head at the last record that is stored. Empty: the run has no version yet.
Expected<std::optional<JournalHead>> read_head(SqliteStore& journal, const RunRow& run, uint64_t time_ms);

enum class HeadFinding : uint8_t {
  kContained,  // the journal holds the record, with the head's chain, version and digest
  kNotKept,    // it begins behind the record: the head is neither proven nor refuted
  kMissing,    // it ends before the record
  kOther,      // another record stands there, or another one before it
  kOtherRun,   // the head is of another run: its number or its nonce differs
};

// What a journal is to heads, in order of their sequence.
struct HeadReport {
  size_t contained = 0;
  size_t not_kept = 0;
  HeadFinding finding = HeadFinding::kContained;  // another than kContained: of the head `bad`, the first such one
  size_t bad = 0;                                 // its place among the heads
  uint64_t same_sequence = 0;                     // of the last head that is contained; 0: none is
  ChainHead start;                                // before the first record that is there
  ChainHead end;  // with the last record that was read: all of them, unless kOther or kOtherRun
};

// Reads the whole journal, and proves its chain on the way. heads: in order of their sequence. kCorrupt: the chain
// breaks, and journal.broken_sequence() says where. Where records are missing, pages may be damaged and have lost them:
// then it reads the whole file, and kCorrupt is such a page.
StoreStatus check_heads(SqliteStore& journal, const RunRow& run, std::span<const JournalHead> heads, HeadReport* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_RUN_HEAD_H_

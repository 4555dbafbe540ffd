// The head of a run's journal: one line that says which record was the last, and what all records up to it hash to
// (server/journal/journal_chain.h).
//
//   gradstream_head=1 run=1 run_nonce=HEX sequence=812 chain=HEX version=90 digest=HEX time_ms=1764176400000
//   signature=HEX
//
// The chain shows damage and clumsy edits by itself, but the owner of a database can compute it anew. A head that was
// kept where that owner cannot change it holds the owner to the history that it names.
//
// The words stand in this order with one space between them, hexadecimal digits are small, and numbers have no zeros in
// front: one head has one text. A signature covers the text before " signature=".
#ifndef GRADSTREAM_SERVER_JOURNAL_JOURNAL_HEAD_H_
#define GRADSTREAM_SERVER_JOURNAL_JOURNAL_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/journal/journal_chain.h"
#include "server/journal/store.h"

namespace gradstream {

struct JournalHead {
  uint32_t run = 0;
  uint64_t run_nonce = 0;
  ChainHead record;      // the last one
  uint32_t version = 0;  // the highest that records up to there begin
  uint64_t digest = 0;   // of its model
  uint64_t time_ms = 0;  // since the epoch, when the head was made
  friend bool operator==(const JournalHead&, const JournalHead&) = default;
};

// Without a signature.
std::string head_text(const JournalHead& head);
// The line with it. signature: bytes of any form, at least one and at most kHeadSignatureSizeMax.
std::string signed_head_text(const JournalHead& head, const std::vector<uint8_t>& signature);

// Reason: a signature by ECDSA over P-256 in DER has at most 72 bytes.
inline constexpr size_t kHeadSignatureSizeMax = 72;

struct SignedHead {
  JournalHead head;
  std::string text;                // what the signature covers
  std::vector<uint8_t> signature;  // empty: there is none
};

// A line without its end. False: it is not the text of one head, or the signature has another form than the above.
bool parse_head(std::string_view line, SignedHead* out);

// What a device keeps of a journal: Welcome and Hello say it (docs/wire.md).
struct JournalMark {
  uint64_t sequence = 0;  // of a record; 0: none
  uint64_t chain = 0;     // the first 8 bytes of the chain there, little-endian
  friend bool operator==(const JournalMark&, const JournalMark&) = default;
};
JournalMark mark_of(const ChainHead& head);

// What a journal has where a device was told of one.
enum class MarkFinding : uint8_t {
  kSame,
  kOther,    // another record, or another one before it
  kMissing,  // the journal ends before it
  kUnknown,  // the journal does not keep that record, or does not read
};
MarkFinding find_mark(Store& journal, const JournalMark& mark);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_JOURNAL_HEAD_H_

// What must survive: the journal of a run, its snapshots, and who is known. Used by the shell only, on its own thread.
//
// The journal is the run: given it, the model is a pure function of it. Everything that time or arrival decided stands
// in a record, so that recovery replays and never decides again.
#ifndef GRADSTREAM_SERVER_JOURNAL_STORE_H_
#define GRADSTREAM_SERVER_JOURNAL_STORE_H_

#include <cstdint>
#include <functional>
#include <span>

#include "server/journal/journal_record.h"

namespace gradstream {

enum class [[nodiscard]] StoreStatus : uint8_t{
    kOk,
    kFull,     // disk full: nothing of the batch is stored; may be tried again
    kFailed,   // I/O error: nothing of the batch is known to be stored
    kCorrupt,  // what is stored does not read
    kBusy,     // another process holds the database
    kMoved,    // its file has been removed or replaced: what is written there, nobody would find again
};

class Store {
 public:
  virtual ~Store() = default;
  // All records of the batch or none; durable on return.
  virtual StoreStatus append(std::span<const JournalRecord> batch) = 0;
  // Calls visit for every record in order of sequence; stops early when visit returns false.
  virtual StoreStatus read(const std::function<bool(const JournalRecord&)>& visit) = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_STORE_H_

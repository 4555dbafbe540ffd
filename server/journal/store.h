// What must survive: the journal of a run, its snapshots, and who is known. Used by the shell only, on its own thread.
//
// The journal is the run: given it, the model is a pure function of it. Everything that time or arrival decided stands
// in a record, so that recovery replays and never decides again.
#ifndef GRADSTREAM_SERVER_JOURNAL_STORE_H_
#define GRADSTREAM_SERVER_JOURNAL_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/journal/checkpoint.h"
#include "server/journal/journal_chain.h"
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

// For people: a clause.
constexpr const char* cause_of(StoreStatus status) {
  switch (status) {
    case StoreStatus::kFull:
      return "the disk is full";
    case StoreStatus::kBusy:
      return "another program holds the database";
    case StoreStatus::kMoved:
      return "the database's file or its write-ahead log was removed or replaced";
    case StoreStatus::kCorrupt:
      return "the database is damaged";
    default:
      return "the disk failed";
  }
}

class Store {
 public:
  virtual ~Store() = default;
  // All records of the batch or none; durable on return.
  virtual StoreStatus append(std::span<const JournalRecord> batch) = 0;
  // Calls visit for every record that is kept, in order of sequence; stops early when visit returns false. Where the
  // journal was cut, the first of them follows the oldest checkpoint.
  StoreStatus read(const std::function<bool(const JournalRecord&)>& visit) { return read_after(0, visit); }
  // The same of the records behind `sequence`. kCorrupt: they do not follow it, by number or by their chain; 0: nor the
  // cut.
  virtual StoreStatus read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) = 0;

  // ---- The chain (server/journal/journal_chain.h); a store without one has nothing to tell ----

  // With the last record; of a run without records, its beginning.
  virtual StoreStatus read_chain_end(ChainHead* out) {
    *out = {};
    return StoreStatus::kOk;
  }
  // With the record of this sequence, as it was stored: the record is not read. 0: before record 1, also where
  // that is gone. kCorrupt: it is not kept, and the records that are do not begin behind it.
  virtual StoreStatus read_chain(uint64_t sequence, ChainHead* out) {
    *out = {sequence, {}};
    return StoreStatus::kOk;
  }
  // The record of this sequence, where a checkpoint stands. Empty: it is not kept. kCorrupt: it begins no version, is
  // damaged, or the chain before it does not lead to it.
  virtual StoreStatus read_version(uint64_t sequence, std::optional<JournalRecord>* out) {
    static_cast<void>(sequence);
    out->reset();
    return StoreStatus::kOk;
  }
  // Of the record at which reading the journal gave kCorrupt; 0: it did not.
  virtual uint64_t broken_sequence() const { return 0; }

  // ---- Checkpoints; a store without them keeps all records ----

  // Of those that are whole, in order of sequence.
  virtual StoreStatus read_heads(std::vector<CheckpointHead>* out) {
    out->clear();
    return StoreStatus::kOk;
  }
  // Where the records that are kept begin: the head of that checkpoint. sequence 0: with record 1.
  virtual StoreStatus read_start(CheckpointHead* out) {
    *out = {};
    return StoreStatus::kOk;
  }
  // kCorrupt: there is none such, or its bytes are not those that were written.
  virtual StoreStatus read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) {
    static_cast<void>(head);
    out->clear();
    return StoreStatus::kCorrupt;
  }
  // Writes its next piece, durably, as a short transaction of its own; *written: bytes so far. It is there once all of
  // it is. Records up to its sequence have been appended before.
  virtual StoreStatus write_checkpoint(const Checkpoint& checkpoint, uint64_t* written) {
    *written = checkpoint.bytes.size();
    return StoreStatus::kOk;
  }
  // Drops some of what choose_cut() finds, as a short transaction of its own. *has_more: another call drops more.
  virtual StoreStatus cut(const JournalKeep& keep, bool* has_more) {
    static_cast<void>(keep);
    *has_more = false;
    return StoreStatus::kOk;
  }
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_STORE_H_

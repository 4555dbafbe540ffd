// A store that lives as long as its process: tests, the simulator, trials.
#ifndef GRADSTREAM_SERVER_JOURNAL_STORE_MEMORY_H_
#define GRADSTREAM_SERVER_JOURNAL_STORE_MEMORY_H_

#include <vector>

#include "server/journal/store.h"

namespace gradstream {

class StoreMemory : public Store {
 public:
  explicit StoreMemory(const RunIdentity& run = {}) : first_(chain_start(run)), start_(first_) {}
  StoreStatus append(std::span<const JournalRecord> batch) override;
  StoreStatus read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) override;
  StoreStatus read_chain_end(ChainHead* out) override;
  StoreStatus read_chain(uint64_t sequence, ChainHead* out) override;
  StoreStatus read_version(uint64_t sequence, std::optional<JournalRecord>* out) override;
  StoreStatus read_heads(std::vector<CheckpointHead>* out) override;
  StoreStatus read_start(CheckpointHead* out) override;
  StoreStatus read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) override;
  StoreStatus write_checkpoint(const Checkpoint& checkpoint, uint64_t* written) override;
  StoreStatus cut(const JournalKeep& keep, bool* has_more) override;

  // What the next calls of append return until kOk is set again; a failing append stores nothing.
  void fail_with(StoreStatus status) { status_ = status; }
  // Those that are kept.
  const std::vector<JournalRecord>& records() const { return records_; }

 private:
  std::vector<Checkpoint> checkpoints_;
  std::vector<JournalRecord> records_;
  std::vector<ChainHead> chain_;  // with each of them
  ChainHead first_;               // before record 1
  ChainHead start_;               // before the first one that is kept
  StoreStatus status_ = StoreStatus::kOk;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_STORE_MEMORY_H_

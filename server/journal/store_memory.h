// A store that lives as long as its process: tests, the simulator, trials.
#ifndef GRADSTREAM_SERVER_JOURNAL_STORE_MEMORY_H_
#define GRADSTREAM_SERVER_JOURNAL_STORE_MEMORY_H_

#include <vector>

#include "server/journal/store.h"

namespace gradstream {

class StoreMemory : public Store {
 public:
  StoreStatus append(std::span<const JournalRecord> batch) override;
  StoreStatus read(const std::function<bool(const JournalRecord&)>& visit) override;

  // What the next calls of append return until kOk is set again; a failing append stores nothing.
  void fail_with(StoreStatus status) { status_ = status; }
  const std::vector<JournalRecord>& records() const { return records_; }

 private:
  std::vector<JournalRecord> records_;
  StoreStatus status_ = StoreStatus::kOk;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_STORE_MEMORY_H_

#include "server/journal/store_memory.h"

namespace gradstream {

StoreStatus StoreMemory::append(std::span<const JournalRecord> batch) {
  if (status_ != StoreStatus::kOk) {
    return status_;
  }
  // The journal has no gaps: a batch that does not follow is our own fault and must not be kept.
  uint64_t next = records_.empty() ? 1 : records_.back().sequence() + 1;
  for (const JournalRecord& record : batch) {
    if (record.sequence() != next) {
      return StoreStatus::kFailed;
    }
    ++next;
  }
  records_.insert(records_.end(), batch.begin(), batch.end());
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read(const std::function<bool(const JournalRecord&)>& visit) {
  for (const JournalRecord& record : records_) {
    if (!visit(record)) {
      break;
    }
  }
  return StoreStatus::kOk;
}

}  // namespace gradstream

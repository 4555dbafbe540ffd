#include "server/journal/store_memory.h"

#include <algorithm>
#include <cstddef>

namespace gradstream {

StoreStatus StoreMemory::append(std::span<const JournalRecord> batch) {
  if (status_ != StoreStatus::kOk) {
    return status_;
  }
  // The journal has no gaps: a batch that does not follow is our own fault and must not be kept.
  JournalChain chain(chain_.empty() ? start_ : chain_.back());
  std::vector<ChainHead> links;
  links.reserve(batch.size());
  for (const JournalRecord& record : batch) {
    if (!chain.add(record)) {
      return StoreStatus::kFailed;
    }
    links.push_back(chain.head());
  }
  records_.insert(records_.end(), batch.begin(), batch.end());
  chain_.insert(chain_.end(), links.begin(), links.end());
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) {
  if (sequence != 0 && !records_.empty() && records_.front().sequence() > sequence + 1) {
    return StoreStatus::kCorrupt;
  }
  for (const JournalRecord& record : records_) {
    if (record.sequence() > sequence && !visit(record)) {
      break;
    }
  }
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_chain_end(ChainHead* out) {
  *out = chain_.empty() ? start_ : chain_.back();
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_chain(uint64_t sequence, ChainHead* out) {
  if (sequence == 0) {
    *out = first_;
    return StoreStatus::kOk;
  }
  if (sequence < start_.sequence || sequence > start_.sequence + chain_.size()) {
    return StoreStatus::kCorrupt;
  }
  *out = sequence == start_.sequence ? start_ : chain_[sequence - start_.sequence - 1];
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_version(uint64_t sequence, std::optional<JournalRecord>* out) {
  out->reset();
  if (records_.empty() || sequence < records_.front().sequence()) {
    return StoreStatus::kOk;
  }
  const uint64_t index = sequence - records_.front().sequence();
  if (index >= records_.size() || records_[index].kind() != RecordKind::kVersion) {
    return StoreStatus::kCorrupt;
  }
  *out = records_[index];
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_heads(std::vector<CheckpointHead>* out) {
  out->clear();
  for (const Checkpoint& checkpoint : checkpoints_) {
    out->push_back(checkpoint.head);
  }
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_start(CheckpointHead* out) {
  const bool is_cut = !records_.empty() && records_.front().sequence() > 1;
  *out = is_cut ? checkpoints_.front().head : CheckpointHead();
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) {
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.head == head) {
      *out = checkpoint.bytes;
      return StoreStatus::kOk;
    }
  }
  return StoreStatus::kCorrupt;
}

StoreStatus StoreMemory::write_checkpoint(const Checkpoint& checkpoint, uint64_t* written) {
  if (status_ != StoreStatus::kOk) {
    return status_;
  }
  checkpoints_.push_back(checkpoint);
  *written = checkpoint.bytes.size();
  return StoreStatus::kOk;
}

StoreStatus StoreMemory::cut(const JournalKeep& keep, bool* has_more) {
  *has_more = false;
  std::vector<CheckpointHead> heads;
  CheckpointHead start;
  GS_ASSERT(read_heads(&heads) == StoreStatus::kOk && read_start(&start) == StoreStatus::kOk);
  const JournalCut cut = choose_cut(heads, start.sequence, keep);
  const uint64_t wanted = cut.sequence > start_.sequence ? cut.sequence - start_.sequence : 0;
  if (const uint64_t dropped = std::min<uint64_t>(wanted, chain_.size()); dropped > 0) {
    start_ = chain_[dropped - 1];
    chain_.erase(chain_.begin(), chain_.begin() + static_cast<std::ptrdiff_t>(dropped));
  }
  std::erase_if(records_, [&cut](const JournalRecord& record) { return record.sequence() <= cut.sequence; });
  std::erase_if(checkpoints_, [&cut](const Checkpoint& checkpoint) {
    return std::count(cut.checkpoints.begin(), cut.checkpoints.end(), checkpoint.head.sequence) > 0;
  });
  return StoreStatus::kOk;
}

}  // namespace gradstream

// What the disk of a fuzzed coordinator holds, and what follows from it. Every record is checked as it becomes durable:
// a task is issued once and judged once, no update is counted twice, and each version is the mean of its updates.
#ifndef GRADSTREAM_TESTS_FUZZ_FUZZ_DISK_H_
#define GRADSTREAM_TESTS_FUZZ_FUZZ_DISK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "server/journal/store.h"
#include "server/rules/record.h"
#include "server/run/run_parameters.h"

namespace gradstream::testing {

// The journal, and what may be said because of it.
class FuzzDisk {
 public:
  explicit FuzzDisk(const RunParameters& parameters) : parameters_(parameters) {}

  const std::vector<JournalRecord>& journal() const { return journal_; }
  uint64_t last_sequence() const { return journal_.size(); }
  size_t size() const { return size_; }  // bytes

  // A record has become durable: the next of the journal. Fails unless it fits what came before.
  void append(const JournalRecord& record);

  bool has_version(uint32_t version) const { return has_version_ && version <= version_; }
  // The task was issued to the device, of this version.
  bool has_task(uint32_t device, uint32_t sequence, uint32_t version) const {
    const auto found = tasks_.find({device, sequence});
    return found != tasks_.end() && found->second == version;
  }
  // The verdict on the device's task; null: there is none yet.
  const JournalRecord* judged(uint32_t device, uint32_t sequence) const {
    const auto found = judged_.find({device, sequence});
    return found == judged_.end() ? nullptr : &found->second;
  }

 private:
  void check_version(const JournalRecord& record);
  static void add_update(const JournalRecord& update, std::vector<double>& sum);
  // Each coefficient is the weighted mean within the rounding of its encoding.
  void check_block(const RecordBlock& block, const std::vector<double>& sum, double total) const;

  RunParameters parameters_;
  std::vector<JournalRecord> journal_;
  size_t size_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> tasks_;  // version
  std::map<std::pair<uint32_t, uint32_t>, JournalRecord> judged_;
  std::set<std::pair<uint32_t, uint32_t>> on_time_;  // device, version
  std::vector<JournalRecord> open_updates_;
  uint32_t version_ = 0;
  bool has_version_ = false;
};

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_FUZZ_FUZZ_DISK_H_

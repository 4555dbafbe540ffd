#include "tests/fuzz/fuzz_disk.h"

#include <algorithm>
#include <cmath>

#include "runtime/wire/codec.h"
#include "server/run/run_core.h"
#include "tests/fuzz/fuzz_input.h"

namespace gradstream::testing {

void FuzzDisk::append(const JournalRecord& record) {
  FUZZ_CHECK(record.sequence() == journal_.size() + 1);
  journal_.push_back(record);
  size_ += sizeof(JournalRecord) + record.payload().size();
  std::pair<uint32_t, uint32_t> task;
  if (record.has_device()) {
    task = {record.device(), record.task_sequence()};
  }
  switch (record.kind()) {
    case RecordKind::kTaskIssued:
      FUZZ_CHECK(tasks_.try_emplace(task, record.version()).second);
      break;
    case RecordKind::kUpdate:
      FUZZ_CHECK(tasks_.contains(task));
      FUZZ_CHECK(judged_.try_emplace(task, record).second);
      if (record.verdict() == gs_Verdict_VERDICT_FOLDED) {
        FUZZ_CHECK(on_time_.insert({record.device(), record.version()}).second);
      }
      open_updates_.push_back(record);
      break;
    case RecordKind::kVerdict:
      FUZZ_CHECK(tasks_.contains(task));
      FUZZ_CHECK(judged_.try_emplace(task, record).second);
      break;
    case RecordKind::kVersion:
      check_version(record);
      version_ = record.version();
      has_version_ = true;
      open_updates_.clear();
      break;
    case RecordKind::kRunState:
      break;
  }
}

void FuzzDisk::check_version(const JournalRecord& record) {
  FUZZ_CHECK(record.version() == (has_version_ ? version_ + 1 : 0));
  VersionRecord decoded;
  decoded.version = record.version();
  FUZZ_CHECK(decode_payload(parameters_, record.payload(), &decoded) == Status::kOk);
  if (record.version() == 0 || record.step_scale() == 0 || parameters_.stream() != StreamKind::kScalarStream) {
    return;
  }
  double total = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<double>> sums;
  for (const JournalRecord& update : open_updates_) {
    FUZZ_CHECK(update.version() == record.version());
    total += update.weight();
    add_update(update, sums[{update.base_version(), parameters_.owner_of(update.device())}]);
  }
  FUZZ_CHECK(total > 0 && sums.size() == decoded.blocks.size());
  for (const RecordBlock& block : decoded.blocks) {
    const auto found = sums.find({block.base_version, block.owner});
    FUZZ_CHECK(found != sums.end());
    check_block(block, found->second, total);
  }
}

void FuzzDisk::add_update(const JournalRecord& update, std::vector<double>& sum) {
  std::vector<Real> values(update.payload().size() / 4);
  FUZZ_CHECK(decode_values(Encoding::kF32, values.size(), update.payload().data(), update.payload().size(),
                           values.data()) == Status::kOk);
  sum.resize(std::max(sum.size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    sum[i] += static_cast<double>(values[i]) / update.steps_done() * update.weight();
  }
}

void FuzzDisk::check_block(const RecordBlock& block, const std::vector<double>& sum, double total) const {
  FUZZ_CHECK(block.value_count == sum.size());
  std::vector<Real> values(block.value_count);
  FUZZ_CHECK(decode_values(block.encoding, values.size(), block.bytes.data(), block.bytes.size(), values.data()) ==
             Status::kOk);
  const double rounding = block.encoding == Encoding::kF32 ? 1e-6 : block.encoding == Encoding::kBf16 ? 4e-3 : 5e-3;
  const double unit = std::ldexp(1.0, 1 - static_cast<int>(parameters_.fold->fold_scale_log2));
  for (size_t first = 0; first < values.size(); first += kInt8BlockSize) {
    const size_t end = std::min(values.size(), first + kInt8BlockSize);
    double largest = 0;
    for (size_t i = first; i < end; ++i) {
      largest = std::max(largest, std::fabs(sum[i] / total));
    }
    for (size_t i = first; i < end; ++i) {
      FUZZ_CHECK(std::fabs(static_cast<double>(values[i]) - sum[i] / total) <= rounding * largest + unit);
    }
  }
}

}  // namespace gradstream::testing

#include "server/coordinator/attendance.h"

#include <algorithm>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

void Attendance::add() {
  seen_.push_back(kNever);
  is_awaited_.push_back(false);
}

void Attendance::note(uint32_t index) {
  GS_ASSERT(index < seen_.size());
  if (!is_kept() || open_ == kNever || seen_[index] == open_) {
    return;
  }
  seen_[index] = open_;
  by_version_.back().push_back(index);
}

void Attendance::set_awaited(uint32_t index, bool is_awaited) {
  if (is_awaited_[index] != is_awaited) {
    is_awaited_[index] = is_awaited;
    (is_awaited ? come_ : gone_).push_back(index);
  }
}

void Attendance::begin_version(uint32_t version) {
  if (!is_kept()) {
    return;
  }
  GS_ASSERT(open_ == kNever || version == open_ + 1);
  come_.clear();
  gone_.clear();
  if (!by_version_.empty()) {
    for (const uint32_t index : by_version_.back()) {
      set_awaited(index, true);
    }
  }
  open_ = version;
  by_version_.emplace_back();
  if (by_version_.size() > size_t{version_count_} + 1) {
    const uint32_t forgotten = version - version_count_ - 1;
    for (const uint32_t index : by_version_.front()) {
      if (seen_[index] == forgotten) {  // and not since
        set_awaited(index, false);
      }
    }
    by_version_.pop_front();
  }
}

void Attendance::exchange(StateArchive& io, uint32_t version, uint32_t count) {
  if (!is_kept()) {
    return;
  }
  if (count > seen_.size()) {
    io.fail();
    return;
  }
  io.numbers(std::span<uint32_t>(seen_).first(count));
  if (!io.is_reading()) {
    return;
  }
  open_ = version;
  by_version_.assign(std::min(version, version_count_) + size_t{1}, {});
  for (uint32_t index = 0; index < count; ++index) {
    if (seen_[index] == kNever || !io.is_sound()) {
      continue;
    }
    if (seen_[index] >= version) {
      io.fail();
      return;
    }
    const uint32_t age = version - seen_[index];
    is_awaited_[index] = age <= version_count_;
    if (is_awaited_[index]) {
      by_version_[by_version_.size() - 1 - age].push_back(index);
    }
  }
}

}  // namespace gradstream

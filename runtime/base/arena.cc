#include "runtime/base/no_contraction.h"

#include "runtime/base/arena.h"

#include <cstring>

namespace gradstream {
namespace {

constexpr size_t kAlignmentMask = kArenaAlignment - 1;
static_assert((kArenaAlignment & kAlignmentMask) == 0);

// Bytes that count items take, rounded up to the alignment; more than free_size when they do not fit.
size_t rounded_size(size_t count, size_t item_size, size_t free_size) {
  if (count > free_size / item_size) {
    return free_size + 1;
  }
  return (count * item_size + kAlignmentMask) & ~kAlignmentMask;
}

}  // namespace

Arena::Arena(void* buffer, size_t size) : begin_(static_cast<uint8_t*>(buffer)), size_(size) {
  const size_t misaligned = reinterpret_cast<uintptr_t>(buffer) & kAlignmentMask;
  const size_t skipped = misaligned == 0 ? 0 : kArenaAlignment - misaligned;
  begin_ += skipped;
  size_ = size > skipped ? (size - skipped) & ~kAlignmentMask : 0;
}

void Arena::release(size_t mark) {
  GS_ASSERT(mark <= persistent_size_);
  persistent_size_ = mark;
}

void* Arena::take_persistent(size_t count, size_t item_size) {
  const size_t taken = rounded_size(count, item_size, free_size());
  if (taken > free_size()) {
    return nullptr;
  }
  void* memory = begin_ + persistent_size_;
  persistent_size_ += taken;
  note_high_water();
  std::memset(memory, 0, taken);
  return memory;
}

void* Arena::take_scratch(size_t count, size_t item_size) {
  const size_t taken = rounded_size(count, item_size, free_size());
  if (taken > free_size()) {
    return nullptr;
  }
  scratch_size_ += taken;
  note_high_water();
  void* memory = begin_ + (size_ - scratch_size_);
  if (taken > 0 && scratch_size_ <= held_size_) {
    held_size_ = scratch_size_ < held_size_ ? held_size_ : 0;  // all of it is back in use
    return memory;
  }
  std::memset(memory, 0, taken);
  return memory;
}

void Arena::suspend_scratch() {
  held_from_ = scratch_size_;
  scratch_size_ = max_size(held_size_, scratch_size_);
}

void Arena::note_high_water() {
  const size_t used = persistent_size_ + scratch_size_;
  if (used > high_water_size_) {
    high_water_size_ = used;
  }
}

}  // namespace gradstream

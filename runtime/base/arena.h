// One caller-owned buffer for everything that a task needs.
//
//   +------------------------+----------- free -----------+----------------------+
//   | persistent, grows ->   |                            |    <- grows, scratch |
//   +------------------------+----------------------------+----------------------+
//   begin                                                                        end
//
// persistent: lives until reset(); taken by prepare(). scratch: lives until the enclosing ScratchScope ends; taken
// inside one call. No destructors run: T must be trivially destructible. Memory is aligned to kArenaAlignment.
//
// Work that is done in several calls keeps scratch between them: hold_scratch() in the call that ends early, then
// suspend_scratch() when its scopes have ended. The next call begins with resume_scratch(). It takes the same scratch
// in the same order, and finds it as it was. drop_scratch() gives all of it back.
#ifndef GRADSTREAM_RUNTIME_BASE_ARENA_H_
#define GRADSTREAM_RUNTIME_BASE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/base/status.h"

namespace gradstream {

inline constexpr size_t kArenaAlignment = 8;

// The scratch that either of two operations may take, if neither runs inside the other.
constexpr size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

class Arena {
 public:
  // The buffer stays the caller's and must outlive the arena. Its begin is rounded up to kArenaAlignment.
  Arena(void* buffer, size_t size);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // count objects of T, zeroed. kOutOfMemory when they do not fit.
  template <typename T>
  Result<T*> persistent(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kArenaAlignment);
    return typed<T>(take_persistent(count, sizeof(T)));
  }
  // As persistent(), from the scratch end. Only inside a ScratchScope.
  template <typename T>
  Result<T*> scratch(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kArenaAlignment);
    return typed<T>(take_scratch(count, sizeof(T)));
  }

  // Bytes that persistent<T>(count) or scratch<T>(count) takes: for scratch_size() and tables of memory.
  template <typename T>
  static constexpr size_t taken_size(size_t count) {
    return (count * sizeof(T) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  }

  // Marks of the persistent end: everything taken after mark() is given back by release(mark).
  size_t mark() const { return persistent_size_; }
  void release(size_t mark);
  void reset() { release(0); }

  // What is scratch now keeps its place and its bytes after the scopes around it end; of several calls the one with the
  // most scratch counts.
  void hold_scratch() { held_size_ = max_size(held_size_, scratch_size_); }
  // Outside of those scopes: held scratch counts as taken until resume_scratch() or drop_scratch().
  void suspend_scratch();
  // The scopes to come take what is held again: not zeroed, up to the point where it was held. Scratch that was taken
  // since suspend_scratch() must be back.
  void resume_scratch() { scratch_size_ = held_from_; }
  // In place of resume_scratch().
  void drop_scratch() {
    resume_scratch();
    held_size_ = 0;
  }

  size_t size() const { return size_; }
  size_t free_size() const { return size_ - persistent_size_ - scratch_size_; }
  // Most bytes ever in use at once (both ends), since construction.
  size_t high_water_size() const { return high_water_size_; }

 private:
  friend class ScratchScope;
  template <typename T>
  static Result<T*> typed(void* memory) {
    if (memory == nullptr) {
      return Status::kOutOfMemory;
    }
    return static_cast<T*>(memory);
  }
  void* take_persistent(size_t count, size_t item_size);
  void* take_scratch(size_t count, size_t item_size);
  void note_high_water();

  uint8_t* begin_;
  size_t size_;
  size_t persistent_size_ = 0;
  size_t scratch_size_ = 0;
  size_t high_water_size_ = 0;
  size_t held_size_ = 0;  // scratch_size_ up to which scratch is held; 0: none
  size_t held_from_ = 0;  // scratch_size_ outside of the scopes that held it
};

// Gives back, at its end, all scratch taken since its begin. Scopes nest.
class ScratchScope {
 public:
  explicit ScratchScope(Arena& arena) : arena_(arena), mark_(arena.scratch_size_) {}
  ~ScratchScope() { arena_.scratch_size_ = mark_; }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_ARENA_H_

// A queue of bytes between an interrupt and the rest: one writer, one reader.
#ifndef GRADSTREAM_BOARDS_BARE_RING_H_
#define GRADSTREAM_BOARDS_BARE_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gradstream {

// The indices are volatile, the bytes are not: without the fences the compiler may move a byte's store behind the index
// that hands it over, or its load behind the index that frees its place. One core sees its own accesses in order, so
// that the processor needs no barrier.
template <size_t N>
class Ring {
 public:
  bool is_empty() const { return begin_ == end_; }
  bool is_full() const { return size() == N; }
  size_t size() const { return end_ - begin_; }
  void push(uint8_t byte) {
    bytes_[end_ % N] = byte;
    std::atomic_signal_fence(std::memory_order_release);
    end_ = end_ + 1;
  }
  uint8_t pop() {
    std::atomic_signal_fence(std::memory_order_acquire);  // not before is_empty() has said that there is one
    const uint8_t byte = bytes_[begin_ % N];
    std::atomic_signal_fence(std::memory_order_release);
    begin_ = begin_ + 1;
    return byte;
  }
  void forget() { begin_ = end_; }

 private:
  static_assert((N & (N - 1)) == 0, "the counters wrap");
  volatile uint32_t begin_ = 0;
  volatile uint32_t end_ = 0;
  uint8_t bytes_[N];
};

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_BARE_RING_H_

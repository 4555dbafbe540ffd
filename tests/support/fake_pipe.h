// A pipe in memory with two ends. The device's end is a Transport whose faults are chosen: how many bytes one call
// moves, how often it blocks, after how many bytes the connection drops.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_PIPE_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_PIPE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

#include "runtime/link/transport.h"

namespace gradstream {

class FakePipe {
 public:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  std::deque<uint8_t> to_device;
  std::deque<uint8_t> to_peer;
  size_t piece_size_max = kNever;  // bytes moved by one call of the device's end
  bool blocks_often = false;       // every second call or so moves nothing, without a rhythm
  size_t drop_after = kNever;      // bytes, both directions together; then the connection is gone
  bool stalled = false;            // nothing moves, and nobody says why
  bool can_dial = true;
  uint32_t opened = 0;
  uint32_t closed = 0;
  uint32_t writes = 0;               // calls that moved bytes to the peer
  bool refuses = false;              // open() fails
  const char* fault_text = nullptr;  // its own words for that

  Transport transport() {
    return {can_dial ? &kDialOps : &kFixedOps, this, can_dial ? "server.test:7433" : nullptr, &fault_text};
  }
  size_t moved() const { return moved_; }
  bool dropped() const { return moved_ >= drop_after; }
  // A new connection over the same pipe.
  void restart() {
    to_device.clear();
    to_peer.clear();
    moved_ = 0;
  }

 private:
  static FakePipe& self(void* context) { return *static_cast<FakePipe*>(context); }
  static Status open(void* context) {
    if (self(context).refuses) {
      return Status::kClosed;
    }
    ++self(context).opened;
    return Status::kOk;
  }
  bool blocks() {
    turn_ = turn_ * 1664525 + 1013904223;
    return stalled || (blocks_often && (turn_ >> 31) != 0);
  }
  // Bytes that one call may move of `size`; a board without dialling does not see that the peer is gone.
  size_t allowance(size_t size) const {
    return std::min({size, piece_size_max, drop_after - std::min(drop_after, moved_)});
  }
  static Result<size_t> read(void* context, uint8_t* out, size_t size) {
    FakePipe& pipe = self(context);
    if (pipe.dropped()) {
      return pipe.can_dial ? Status::kClosed : Status::kWouldBlock;
    }
    const size_t count = std::min(pipe.allowance(size), pipe.to_device.size());
    if (count == 0 || pipe.blocks()) {
      return Status::kWouldBlock;
    }
    std::copy_n(pipe.to_device.begin(), count, out);
    pipe.to_device.erase(pipe.to_device.begin(), pipe.to_device.begin() + static_cast<std::ptrdiff_t>(count));
    pipe.moved_ += count;
    return count;
  }
  static Result<size_t> write(void* context, const uint8_t* bytes, size_t size) {
    FakePipe& pipe = self(context);
    if (pipe.dropped()) {
      return pipe.can_dial ? Result<size_t>(Status::kClosed) : Result<size_t>(size);
    }
    if (pipe.blocks()) {
      return Status::kWouldBlock;
    }
    const size_t count = pipe.allowance(size);
    pipe.to_peer.insert(pipe.to_peer.end(), bytes, bytes + count);
    pipe.moved_ += count;
    ++pipe.writes;
    return count;
  }
  static void close(void* context) { ++self(context).closed; }

  static constexpr TransportOps kDialOps{open, read, write, close, true};
  static constexpr TransportOps kFixedOps{open, read, write, close, false};

  uint32_t turn_ = 0;
  size_t moved_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_PIPE_H_

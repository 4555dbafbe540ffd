#include "runtime/base/no_contraction.h"

#include "runtime/wire/frame.h"

#include <cstring>

namespace gradstream {
namespace {

constexpr uint8_t kMagic[2] = {'G', 'S'};

size_t payload_size(const uint8_t* prefix) {
  return static_cast<size_t>(prefix[2]) | static_cast<size_t>(prefix[3]) << 8;
}

// The first `size` (>= 1) bytes can begin a frame.
bool may_be_prefix(const uint8_t* bytes, size_t size) {
  if (bytes[0] != kMagic[0] || (size >= 2 && bytes[1] != kMagic[1])) {
    return false;
  }
  return size < kFramePrefixSize || (payload_size(bytes) >= 1 && payload_size(bytes) <= kMessageSizeMax);
}

}  // namespace

void write_frame_prefix(size_t size, uint8_t* out) {
  GS_ASSERT(size >= 1 && size <= kMessageSizeMax);
  out[0] = kMagic[0];
  out[1] = kMagic[1];
  out[2] = static_cast<uint8_t>(size & 0xff);
  out[3] = static_cast<uint8_t>(size >> 8);
}

size_t FrameReader::feed(std::span<const uint8_t> input) {
  size_t taken = 0;
  while (taken < input.size() && !complete_) {
    if (size_ < kFramePrefixSize) {
      buffer_[size_++] = input[taken++];
      drop_false_prefix();
      continue;
    }
    const size_t missing = frame_size() - size_;
    const size_t rest = input.size() - taken;
    const size_t count = rest < missing ? rest : missing;
    std::memcpy(buffer_ + size_, input.data() + taken, count);
    size_ += count;
    taken += count;
    complete_ = count == missing;
  }
  return taken;
}

// One byte at a time: the bytes after a false magic may hold the true one.
void FrameReader::drop_false_prefix() {
  while (size_ > 0 && !may_be_prefix(buffer_, size_)) {
    --size_;
    std::memmove(buffer_, buffer_ + 1, size_);
    ++discarded_size_;
  }
}

std::span<const uint8_t> FrameReader::payload() const {
  GS_ASSERT(complete_);
  return {buffer_ + kFramePrefixSize, size_ - kFramePrefixSize};
}

void FrameReader::pop() {
  GS_ASSERT(complete_);
  reset();
}

void FrameReader::reset() {
  size_ = 0;
  complete_ = false;
}

size_t FrameReader::frame_size() const { return kFramePrefixSize + payload_size(buffer_); }

}  // namespace gradstream

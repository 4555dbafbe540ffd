// Frames: magic 'G' 'S', payload length (u16, little-endian), payload. At most kFrameSizeMax bytes with the prefix.
#ifndef GRADSTREAM_RUNTIME_WIRE_FRAME_H_
#define GRADSTREAM_RUNTIME_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace gradstream {

// Writes the prefix of a payload of `size` bytes (1 .. kMessageSizeMax; GS_ASSERT) to out[0 .. kFramePrefixSize).
void write_frame_prefix(size_t size, uint8_t* out);

// Cuts a byte stream into frames, whatever the pieces in which it arrives.
class FrameReader {
 public:
  // Takes bytes up to the end of the next frame and returns how many it took: at least 1, or 0 when has_frame() or
  // input is empty. Bytes that are no prefix are skipped to the next magic and counted in discarded_size().
  size_t feed(std::span<const uint8_t> input);
  bool has_frame() const { return complete_; }
  // The payload, valid until pop() or reset(). Only when has_frame() (GS_ASSERT).
  std::span<const uint8_t> payload() const;
  // Makes room for the next frame. Only when has_frame() (GS_ASSERT).
  void pop();
  // A frame has begun and is not complete: the frame deadline runs.
  bool in_frame() const { return !complete_ && size_ > 0; }
  // Bytes skipped, since construction. Inside TLS any is a fault of the peer: the session closes with REASON_MALFORMED.
  size_t discarded_size() const { return discarded_size_; }
  // Forgets a frame in progress, as a new session demands; discarded_size() stays.
  void reset();

 private:
  size_t frame_size() const;
  void drop_false_prefix();

  uint8_t buffer_[kFrameSizeMax];
  size_t size_ = 0;
  bool complete_ = false;
  size_t discarded_size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_FRAME_H_

// A byte pipe: what a board, a socket or a fake offers to the layer above. Never blocks.
#ifndef GRADSTREAM_RUNTIME_LINK_TRANSPORT_H_
#define GRADSTREAM_RUNTIME_LINK_TRANSPORT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"

namespace gradstream {

struct TransportOps {
  // Begins or continues to open; kWouldBlock until open. kClosed when the peer refuses or cannot be reached,
  // kDeadlineExceeded when it does not answer, kInvalidArgument when its name has no address.
  Status (*open)(void* context);
  // At least one byte, or kWouldBlock, or kClosed.
  Result<size_t> (*read)(void* context, uint8_t* out, size_t size);
  // At least one byte taken, or kWouldBlock, or kClosed.
  Result<size_t> (*write)(void* context, const uint8_t* bytes, size_t size);
  // Always succeeds; a pipe that cannot dial only forgets its buffers.
  void (*close)(void* context);
  // false: the pipe is always there (UART through a chardev or ser2net) and the loss of the peer is not seen.
  bool can_dial;
};

inline constexpr const char* kNoFaultText = nullptr;

struct Transport {
  const TransportOps* ops = nullptr;
  void* context = nullptr;
  const char* peer = nullptr;  // whom it dials, "HOST:PORT", for log lines; null: it cannot dial
  // Where the pipe puts static words that say why it failed, with the remedy. Null there: the pipe knows no more than
  // its status and the session over it say.
  const char* const* fault_text = &kNoFaultText;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_TRANSPORT_H_

// For a board without a source of random numbers: the client says so and does without TLS, that is, without a server.
#include "boards/self_test.h"
#include "runtime/link/port.h"

namespace gradstream {

Status port_random_bytes(uint8_t*, size_t) { return Status::kClosed; }

RawEntropy board_raw_entropy() { return {}; }

}  // namespace gradstream

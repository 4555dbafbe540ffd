// What a board supplies: one documented set of functions, defined in boards/<name>/board.cc.
#ifndef GRADSTREAM_RUNTIME_LINK_PORT_H_
#define GRADSTREAM_RUNTIME_LINK_PORT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/link/transport.h"

struct gs_port;

namespace gradstream {

// Milliseconds since boot; monotonic, 64 bits, never jumps.
uint64_t port_now_ms();
// Sleeps until the given time or until the link has something to read or room to write, whichever is first (WFI on a
// board, poll on a host). May wake early.
void port_sleep_until_ms(uint64_t when_ms);
// size random bytes from a source that passed its health test; kClosed when there is none (then no TLS).
Status port_random_bytes(uint8_t* out, size_t size);
// The link to the server.
Transport port_transport();
// One line for the console, without the newline; written at once.
void port_log_line(const char* text);
// Non-volatile state of the client. write replaces the whole atomically: after a cut the old or the new stands there.
// The pieces are stored one after the other. read: size of what is stored and its first bytes, up to capacity.
// kUnimplemented on a board without storage.
struct StoragePiece {
  const uint8_t* bytes = nullptr;
  size_t size = 0;
};
Status port_storage_write(const StoragePiece* pieces, size_t count);
Result<size_t> port_storage_read(uint8_t* out, size_t capacity);
// The local steps of the task in progress, one record each. write: step `index`, which is 0 (those before it are
// forgotten) or follows the last one; a state written later makes all of them obsolete. After a cut the steps before
// the one in hand stand there. read: size of record `index` (0: there is none) and its first bytes, up to capacity.
// kUnimplemented on a board that keeps no steps: it repeats the task in progress after a reset.
Status port_step_write(uint32_t index, const StoragePiece* pieces, size_t count);
Result<size_t> port_step_read(uint32_t index, uint8_t* out, size_t capacity);
// Never returns.
[[noreturn]] void port_reboot();
// Until the next call, transport, storage, steps and log are those of one of several devices
// (include/gradstream/port.h); null: those of the process. Returns what was so before. Only programs with
// gs_device_init() call it, and a board that has one device defines none.
const ::gs_port* port_use(const ::gs_port* port);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_PORT_H_

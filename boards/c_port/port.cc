// The port over the C functions of an application (include/gradstream/port.h), and what stands where it has none.
#include "include/gradstream/port.h"

#include "runtime/link/port.h"

#define GS_DEFAULT [[gnu::weak]]

extern "C" {
GS_DEFAULT bool gs_port_link_can_dial(void) { return false; }
GS_DEFAULT int32_t gs_port_link_open(void) { return 1; }
GS_DEFAULT void gs_port_link_close(void) {}
GS_DEFAULT int32_t gs_port_storage_write(const gs_port_piece*, size_t) { return GS_PORT_ABSENT; }
GS_DEFAULT int32_t gs_port_storage_read(uint8_t*, size_t) { return GS_PORT_ABSENT; }
GS_DEFAULT int32_t gs_port_step_write(uint32_t, const gs_port_piece*, size_t) { return GS_PORT_ABSENT; }
GS_DEFAULT int32_t gs_port_step_read(uint32_t, uint8_t*, size_t) { return GS_PORT_ABSENT; }
GS_DEFAULT void gs_port_log(const char*) {}
}

namespace gradstream {
namespace {

static_assert(sizeof(gs_port_piece) == sizeof(StoragePiece) &&
                  offsetof(gs_port_piece, size) == offsetof(StoragePiece, size),
              "pieces are handed on as they are");

const gs_port_piece* pieces_of(const StoragePiece* pieces) { return reinterpret_cast<const gs_port_piece*>(pieces); }

Status link_status(int32_t answer) {
  return answer > 0 ? Status::kOk : answer == GS_PORT_WOULD_BLOCK ? Status::kWouldBlock : Status::kClosed;
}

// Of a call on size bytes. More than these would be a breach of the contract.
Result<size_t> link_size(int32_t answer, size_t size) {
  const Status status = link_status(answer);
  if (status != Status::kOk) {
    return status;
  }
  GS_ASSERT(static_cast<size_t>(answer) <= size);
  return static_cast<size_t>(answer);
}

Status storage_fault(int32_t answer) {
  return answer == GS_PORT_ABSENT ? Status::kUnimplemented : Status::kDataCorrupt;
}

// Of a write. 0 is no success: nothing was written, as by a driver that answers with a number of bytes.
Status write_status(int32_t answer) { return answer > 0 ? Status::kOk : storage_fault(answer); }

// Of a read. 0: nothing is stored.
Result<size_t> read_size(int32_t answer) {
  return answer >= 0 ? Result<size_t>(static_cast<size_t>(answer)) : Result<size_t>(storage_fault(answer));
}

TransportOps link_ops = {
    [](void*) { return link_status(gs_port_link_open()); },
    [](void*, uint8_t* out, size_t size) { return link_size(gs_port_link_read(out, size), size); },
    [](void*, const uint8_t* bytes, size_t size) { return link_size(gs_port_link_write(bytes, size), size); },
    [](void*) { gs_port_link_close(); },
    false,
};

}  // namespace

uint64_t port_now_ms() { return gs_port_now_ms(); }

Status port_random_bytes(uint8_t* out, size_t size) {
  return gs_port_random(out, size) ? Status::kOk : Status::kClosed;
}

Transport port_transport() {
  link_ops.can_dial = gs_port_link_can_dial();
  return {&link_ops, nullptr};
}

void port_log_line(const char* text) { gs_port_log(text); }

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  return write_status(gs_port_storage_write(pieces_of(pieces), count));
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  return read_size(gs_port_storage_read(out, capacity));
}

Status port_step_write(uint32_t index, const StoragePiece* pieces, size_t count) {
  return write_status(gs_port_step_write(index, pieces_of(pieces), count));
}

Result<size_t> port_step_read(uint32_t index, uint8_t* out, size_t capacity) {
  return read_size(gs_port_step_read(index, out, capacity));
}

}  // namespace gradstream

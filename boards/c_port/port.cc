// The port over the C functions of an application (include/gradstream/port.h), and what stands where it has none. One
// of several devices has functions of its own.
#include "include/gradstream/port.h"

#include "boards/device_port.h"
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

TransportOps link_ops = {
    [](void*) { return status_of_link(gs_port_link_open()); },
    [](void*, uint8_t* out, size_t size) { return size_of_link(gs_port_link_read(out, size), size); },
    [](void*, const uint8_t* bytes, size_t size) { return size_of_link(gs_port_link_write(bytes, size), size); },
    [](void*) { gs_port_link_close(); },
    false,
};

}  // namespace

uint64_t port_now_ms() { return gs_port_now_ms(); }

Status port_random_bytes(uint8_t* out, size_t size) {
  return gs_port_random(out, size) ? Status::kOk : Status::kClosed;
}

Transport port_transport() {
  if (device_port != nullptr) {
    return device_transport();
  }
  link_ops.can_dial = gs_port_link_can_dial();
  return {&link_ops, nullptr};
}

void port_log_line(const char* text) {
  if (!device_log_line(text)) {
    gs_port_log(text);
  }
}

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  if (device_port != nullptr) {
    return device_storage_write(pieces, count);
  }
  return status_of_storage(gs_port_storage_write(pieces_in_c(pieces), count));
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  if (device_port != nullptr) {
    return device_storage_read(out, capacity);
  }
  return size_of_storage(gs_port_storage_read(out, capacity));
}

Status port_step_write(uint32_t index, const StoragePiece* pieces, size_t count) {
  if (device_port != nullptr) {
    return device_step_write(index, pieces, count);
  }
  return status_of_storage(gs_port_step_write(index, pieces_in_c(pieces), count));
}

Result<size_t> port_step_read(uint32_t index, uint8_t* out, size_t capacity) {
  if (device_port != nullptr) {
    return device_step_read(index, out, capacity);
  }
  return size_of_storage(gs_port_step_read(index, out, capacity));
}

}  // namespace gradstream

#include "boards/device_port.h"

#include <utility>

namespace gradstream {
namespace {

static_assert(sizeof(gs_port_piece) == sizeof(StoragePiece) &&
                  offsetof(gs_port_piece, size) == offsetof(StoragePiece, size),
              "pieces are handed on as they are");

const gs_port& port_of(void* context) { return *static_cast<const gs_port*>(context); }

Status open_link(void* context) {
  const gs_port& port = port_of(context);
  return port.link_open == nullptr ? Status::kOk : status_of_link(port.link_open(port.context));
}

Result<size_t> read_link(void* context, uint8_t* out, size_t size) {
  const gs_port& port = port_of(context);
  return size_of_link(port.link_read(port.context, out, size), size);
}

Result<size_t> write_link(void* context, const uint8_t* bytes, size_t size) {
  const gs_port& port = port_of(context);
  return size_of_link(port.link_write(port.context, bytes, size), size);
}

void close_link(void* context) {
  const gs_port& port = port_of(context);
  if (port.link_close != nullptr) {
    port.link_close(port.context);
  }
}

constexpr TransportOps kDials = {open_link, read_link, write_link, close_link, true};
constexpr TransportOps kIsThere = {open_link, read_link, write_link, close_link, false};

Status storage_fault(int32_t answer) {
  return answer == GS_PORT_ABSENT ? Status::kUnimplemented : Status::kDataCorrupt;
}

}  // namespace

const gs_port* device_port = nullptr;

const gs_port* port_use(const gs_port* port) { return std::exchange(device_port, port); }

Status status_of_link(int32_t answer) {
  switch (answer) {
    case GS_PORT_WOULD_BLOCK:
      return Status::kWouldBlock;
    case GS_PORT_NO_ANSWER:
      return Status::kDeadlineExceeded;
    case GS_PORT_NO_ADDRESS:
      return Status::kInvalidArgument;
    default:
      return answer > 0 ? Status::kOk : Status::kClosed;
  }
}

Result<size_t> size_of_link(int32_t answer, size_t size) {
  const Status status = answer < 0 ? Status::kClosed : status_of_link(answer);
  if (status != Status::kOk) {
    return status;
  }
  GS_ASSERT(static_cast<size_t>(answer) <= size);
  return static_cast<size_t>(answer);
}

Status status_of_storage(int32_t answer) { return answer > 0 ? Status::kOk : storage_fault(answer); }

Result<size_t> size_of_storage(int32_t answer) {
  return answer >= 0 ? Result<size_t>(static_cast<size_t>(answer)) : Result<size_t>(storage_fault(answer));
}

const gs_port_piece* pieces_in_c(const StoragePiece* pieces) { return reinterpret_cast<const gs_port_piece*>(pieces); }

Transport device_transport() {
  // The context is read alone.
  return {device_port->link_can_dial ? &kDials : &kIsThere, const_cast<gs_port*>(device_port), device_port->peer};
}

Status device_storage_write(const StoragePiece* pieces, size_t count) {
  const gs_port& port = *device_port;
  if (port.storage_write == nullptr) {
    return Status::kUnimplemented;
  }
  return status_of_storage(port.storage_write(port.context, pieces_in_c(pieces), count));
}

Result<size_t> device_storage_read(uint8_t* out, size_t capacity) {
  const gs_port& port = *device_port;
  if (port.storage_read == nullptr) {
    return Status::kUnimplemented;
  }
  return size_of_storage(port.storage_read(port.context, out, capacity));
}

Status device_step_write(uint32_t index, const StoragePiece* pieces, size_t count) {
  const gs_port& port = *device_port;
  if (port.step_write == nullptr) {
    return Status::kUnimplemented;
  }
  return status_of_storage(port.step_write(port.context, index, pieces_in_c(pieces), count));
}

Result<size_t> device_step_read(uint32_t index, uint8_t* out, size_t capacity) {
  const gs_port& port = *device_port;
  if (port.step_read == nullptr) {
    return Status::kUnimplemented;
  }
  return size_of_storage(port.step_read(port.context, index, out, capacity));
}

bool device_log_line(const char* text) {
  const bool has_log = device_port != nullptr && device_port->log != nullptr;
  if (has_log) {
    device_port->log(device_port->context, text);
  }
  return has_log;
}

}  // namespace gradstream

// The link by UART: two rings between its interrupt and the rest.
#include <cstddef>
#include <cstdint>

#include "boards/bare/link.h"
#include "boards/bare/machine.h"
#include "boards/bare/processor.h"
#include "boards/bare/ring.h"
#include "runtime/link/port.h"

#include GS_BOARD_CONFIG  // the board's board_config.h, by bare.cmake

namespace gradstream {
namespace {

Ring<kReceiveRingSize> receive_ring;
Ring<kTransmitRingSize> transmit_ring;
bool write_blocked = false;

// With interrupts masked, or inside one.
void serve_link() {
  uint8_t byte = 0;
  while (!receive_ring.is_full() && machine_link_get(&byte)) {
    receive_ring.push(byte);
  }
  while (!transmit_ring.is_empty() && machine_link_has_room()) {
    machine_link_put(transmit_ring.pop());
  }
  // A full ring switches the interrupt off, which holds back a peer that can be held.
  machine_link_want(!receive_ring.is_full(), !transmit_ring.is_empty());
}

Status link_open(void*) { return Status::kOk; }

Result<size_t> link_read(void*, uint8_t* out, size_t size) {
  size_t count = 0;
  while (count < size && !receive_ring.is_empty()) {
    out[count++] = receive_ring.pop();
  }
  if (count > 0) {  // the ring may have been full, at any moment up to here, and the interrupt off
    mask_interrupts();
    serve_link();
    unmask_interrupts();
  }
  return count == 0 ? Result<size_t>(Status::kWouldBlock) : Result<size_t>(count);
}

Result<size_t> link_write(void*, const uint8_t* bytes, size_t size) {
  size_t count = 0;
  mask_interrupts();
  do {
    while (count < size && !transmit_ring.is_full()) {
      transmit_ring.push(bytes[count++]);
    }
    serve_link();
  } while (count < size && !transmit_ring.is_full());
  unmask_interrupts();
  write_blocked = count < size;
  return count == 0 ? Result<size_t>(Status::kWouldBlock) : Result<size_t>(count);
}

// What is still to be sent, such as a close_notify, leaves; what came in belongs to a session that is over.
void link_close(void*) {
  mask_interrupts();
  receive_ring.forget();
  serve_link();
  unmask_interrupts();
}

constexpr TransportOps kLinkOps = {link_open, link_read, link_write, link_close, false};

}  // namespace

void on_link_interrupt() { serve_link(); }

uint32_t link_serve() { return kSleepMaxMs; }
bool link_has_news() { return !receive_ring.is_empty() || (write_blocked && transmit_ring.is_empty()); }

Transport port_transport() { return {&kLinkOps, nullptr}; }

}  // namespace gradstream

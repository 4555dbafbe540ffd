// The port of one of several devices in a process: what runtime/link/port.h asks, answered by the C functions of a
// gs_port. A port that may have several devices asks here first, and itself where no device is at work.
#ifndef GRADSTREAM_BOARDS_DEVICE_PORT_H_
#define GRADSTREAM_BOARDS_DEVICE_PORT_H_

#include <cstddef>
#include <cstdint>

#include "include/gradstream/port.h"
#include "runtime/link/port.h"

namespace gradstream {

// As port_use() said last; null: no device.
extern const gs_port* device_port;

// What the functions in C answer, as the status of this side.
Status status_of_link(int32_t answer);
// Of a call on size bytes. More than these would be a breach of the contract.
Result<size_t> size_of_link(int32_t answer, size_t size);
// Of a write. 0 is no success: nothing was written, as by a driver that answers with a number of bytes.
Status status_of_storage(int32_t answer);
// Of a read. 0: nothing is stored.
Result<size_t> size_of_storage(int32_t answer);
// Pieces are handed on as they are.
const gs_port_piece* pieces_in_c(const StoragePiece* pieces);

// Of the device at work. The transport lives as long as *device_port.
Transport device_transport();
Status device_storage_write(const StoragePiece* pieces, size_t count);
Result<size_t> device_storage_read(uint8_t* out, size_t capacity);
Status device_step_write(uint32_t index, const StoragePiece* pieces, size_t count);
Result<size_t> device_step_read(uint32_t index, uint8_t* out, size_t capacity);
// false: there is no device at work, or its lines go to the process's log.
bool device_log_line(const char* text);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_DEVICE_PORT_H_

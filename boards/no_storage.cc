// For a board that keeps nothing over a reset.
#include "boards/board.h"
#include "boards/flash.h"
#include "runtime/link/port.h"

namespace gradstream {

const FlashOps* board_flash() { return nullptr; }
bool board_has_storage() { return false; }
Status board_check_storage() { return Status::kUnimplemented; }
Status board_wipe_identity() { return Status::kUnimplemented; }
Status port_storage_write(const StoragePiece*, size_t) { return Status::kUnimplemented; }
Result<size_t> port_storage_read(uint8_t*, size_t) { return Status::kUnimplemented; }
Status port_step_write(uint32_t, const StoragePiece*, size_t) { return Status::kUnimplemented; }
Result<size_t> port_step_read(uint32_t, uint8_t*, size_t) { return Status::kUnimplemented; }

}  // namespace gradstream

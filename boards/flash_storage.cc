// The port's storage on boards with flash: the log of boards/flash_log.h over the board's two pages.
#include <optional>

#include "boards/board.h"
#include "boards/flash.h"
#include "boards/flash_log.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// Opened at its first use; null: the board has no flash for it.
FlashLog* open_log() {
  static std::optional<FlashLog> log;
  if (!log.has_value() && board_flash() != nullptr) {
    log.emplace(*board_flash());
    if (log->open() != Status::kOk) {
      port_log_line("event=state_lost reason=\"neither page of the log in flash holds together; starting afresh\"");
    }
  }
  return log.has_value() ? &*log : nullptr;
}

}  // namespace

bool board_has_storage() { return board_flash() != nullptr; }

Status board_check_storage() {
  const FlashLog* const log = open_log();
  return log == nullptr ? Status::kUnimplemented : log->check();
}

// The log first: a board that lost its identity amid this may not keep the other's update.
Status board_wipe_identity() {
  for (uint32_t page = 0; board_flash() != nullptr && page < kFlashPageCount; ++page) {
    GS_TRY(board_flash()->erase(page));
  }
  GS_TRY(erase_identity());
  port_reboot();
}

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  FlashLog* const log = open_log();
  return log == nullptr ? Status::kUnimplemented : log->write_state(pieces, count);
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  FlashLog* const log = open_log();
  return log == nullptr ? Result<size_t>(Status::kUnimplemented) : Result<size_t>(log->read_state(out, capacity));
}

Status port_step_write(uint32_t index, const StoragePiece* pieces, size_t count) {
  FlashLog* const log = open_log();
  return log == nullptr ? Status::kUnimplemented : log->write_step(index, pieces, count);
}

Result<size_t> port_step_read(uint32_t index, uint8_t* out, size_t capacity) {
  FlashLog* const log = open_log();
  return log == nullptr ? Result<size_t>(Status::kUnimplemented) : Result<size_t>(log->read_step(index, out, capacity));
}

}  // namespace gradstream

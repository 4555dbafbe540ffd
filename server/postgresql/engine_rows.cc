#include "server/postgresql/engine_rows.h"

#include "server/base/state_archive.h"

namespace gradstream {
namespace {

void exchange_memory(StateArchive& io, uint8_t form, RowMemory* memory) {
  if (form >= kEngineMemoryRowForm) {
    io.values(memory->last.base_version, memory->last.version, memory->before.base_version, memory->before.version);
  }
}

}  // namespace

std::vector<uint8_t> encode_engine_row(const DeviceRow& row) {
  StateArchive io;
  DeviceRow copy = row;  // exchange() reads and writes
  uint8_t form = row.memory == RowMemory() ? kEngineRowForm : kEngineMemoryRowForm;
  io.set_form(kEngineRowForm);
  io.values(form);
  copy.exchange(io);
  exchange_memory(io, form, &copy.memory);
  return io.take_bytes();
}

bool decode_engine_row(std::span<const uint8_t> bytes, DeviceRow* row) {
  StateArchive io(bytes);
  uint8_t form = 0;
  io.values(form);
  if (!io.is_sound() || form == 0 || form > kEngineMemoryRowForm) {
    return false;
  }
  io.set_form(kEngineRowForm);
  *row = DeviceRow();
  row->exchange(io);
  exchange_memory(io, form, &row->memory);
  return io.is_sound() && io.is_at_end();
}

}  // namespace gradstream

#include "server/postgresql/engine_rows.h"

#include "server/base/state_archive.h"

namespace gradstream {

std::vector<uint8_t> encode_engine_row(const DeviceRow& row) {
  StateArchive io;
  uint8_t form = kEngineRowForm;
  io.set_form(form);
  io.values(form);
  DeviceRow copy = row;  // exchange() reads and writes
  copy.exchange(io);
  return io.take_bytes();
}

bool decode_engine_row(std::span<const uint8_t> bytes, DeviceRow* row) {
  StateArchive io(bytes);
  uint8_t form = 0;
  io.values(form);
  if (!io.is_sound() || form == 0 || form > kEngineRowForm) {
    return false;
  }
  io.set_form(form);
  *row = DeviceRow();
  row->exchange(io);
  return io.is_sound() && io.is_at_end();
}

}  // namespace gradstream

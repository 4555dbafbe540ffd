// A device's row as the bytes of one column. The fields that a batch compares are columns of their own beside it
// (engine_schema.cc); all others only nodes read.
//
// Bytes: the form u8, then what DeviceRow::exchange() lists. Of form 2, DeviceRow::memory behind that: of the last
// update and of the one before, base version u32 and version u32. Nodes of two releases read each other's rows while a
// cluster is upgraded, so a field that is added to the list takes a form of its own (StateArchive::has_form()).
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ROWS_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/coordinator/device_row.h"

namespace gradstream {

// Forms that this release writes; it reads both.
inline constexpr uint8_t kEngineRowForm = 1;
inline constexpr uint8_t kEngineMemoryRowForm = 2;  // with a memory behind the list, where the row has one

std::vector<uint8_t> encode_engine_row(const DeviceRow& row);
// Whether these are the bytes of a row, of a form that this release knows. *row is unspecified if they are not.
bool decode_engine_row(std::span<const uint8_t> bytes, DeviceRow* row);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ROWS_H_

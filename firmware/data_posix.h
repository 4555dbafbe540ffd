// The file of --data: a shard, or a table that becomes one before the client starts.
//
//   first bytes -> a table? yes: read, checked, made a float shard in memory; its file may change from then on
//                           no:  read, or mapped where it is large; a mapped file must stay as it is
#ifndef GRADSTREAM_FIRMWARE_DATA_POSIX_H_
#define GRADSTREAM_FIRMWARE_DATA_POSIX_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "boards/posix/mapped_file.h"
#include "host/table.h"

namespace gradstream {

struct PosixData {
  std::vector<uint8_t> copy;
  MappedFile mapped;
  std::vector<std::string> lines;  // for the log: what was found in a table
  std::vector<std::string> names;  // of a table's values, as SampleTable has them; empty: there are none
  std::string cut_line;            // of guard_mapped_file()
  std::string changed_line;
  std::string failed_line;
  std::span<const uint8_t> bytes() const { return copy.empty() ? mapped.bytes : std::span(copy); }
};

// Reads or maps the file as it is. 0, or errno.
int open_bytes(const std::string& path, PosixData* out);

struct DataFault {
  int cause = 0;     // errno: the file cannot be read
  std::string text;  // else what follows the file's name; empty: there is no fault
};
// The bytes of a shard, which is not looked at, or of one that is made of a table of at most kDeviceTableSizeMax bytes.
// A mapped file is guarded from then on, so *out must outlive its use. size_max of the options is not read.
DataFault open_data(const std::string& path, TableOptions options, PosixData* out);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_DATA_POSIX_H_

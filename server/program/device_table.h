// The table of devices that `device import` reads: a line NAME or NAME,KEY each.
#ifndef GRADSTREAM_SERVER_PROGRAM_DEVICE_TABLE_H_
#define GRADSTREAM_SERVER_PROGRAM_DEVICE_TABLE_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/objection.h"
#include "server/store/fleet_rows.h"

namespace gradstream {

// What is_device_name() takes, in words.
inline constexpr const char* kDeviceNameRule =
    "1 to 56 printable ASCII characters without spaces, commas and ~, not beginning with #, and not the word name";
bool is_device_name(std::string_view name);

// Lines as LineReader reads them, values as split_row() splits them, perhaps below a head line `name` or `name,key`.
// Rows without a key have an all-zero one in *out, and their names stand in *drawn. An objection names `file`,
// the line, the limit and the remedy; it holds no value, which may be a key nearly right.
Objection parse_device_table(std::string_view text, const std::string& file, std::vector<EnrolledDevice>* out,
                             std::set<std::string>* drawn);

// Whether a key of the table, of those without a drawn one, is that of another device or of a claim of the database:
// an objection names both. A device of the same name is the database's to refuse.
Objection find_taken_key(const std::vector<EnrolledDevice>& imported, const std::vector<EnrolledDevice>& enrolled,
                         const std::vector<ClaimRow>& claims);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_DEVICE_TABLE_H_

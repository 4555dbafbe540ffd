// Files that people write, whole in memory; runtime/base/text.h reads their lines.
#ifndef GRADSTREAM_SERVER_BASE_TEXT_FILE_H_
#define GRADSTREAM_SERVER_BASE_TEXT_FILE_H_

#include <cstdint>
#include <string>

#include "host/shown.h"  // for the messages about them
#include "server/base/objection.h"

namespace gradstream {

// The bytes of an ordinary file of at most size_max bytes. An objection is a clause that follows the file's name: it
// cannot be read, is a folder, or is too large. *out is reserved once, so that a secret leaves no copy in blocks it
// outgrew.
Objection read_text_file(const std::string& path, uint64_t size_max, std::string* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_TEXT_FILE_H_

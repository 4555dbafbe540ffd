#include "server/base/text_file.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "host/read_file.h"

namespace gradstream {

namespace {

constexpr size_t kShownSizeMax = 40;  // bytes. Reason: a message stays one line

}  // namespace

Objection read_text_file(const std::string& path, uint64_t size_max, std::string* out) {
  const int cause = read_file(path.c_str(), size_max, out);
  struct stat info = {};
  switch (cause) {
    case 0:
      return {};
    case EISDIR:
      return "is a folder; name a file";
    case ESPIPE:
      return "is no ordinary file; name one";
    case EFBIG:
      return "has " + (::stat(path.c_str(), &info) == 0 ? std::to_string(info.st_size) : "more") +
             " bytes, and at most " + std::to_string(size_max) + " are read";
    default:
      return std::string("cannot be read: ") + std::strerror(cause);
  }
}

std::string shown(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "`";
  for (const char c : text.substr(0, kShownSizeMax)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out + (text.size() > kShownSizeMax ? "...`" : "`");
}

}  // namespace gradstream

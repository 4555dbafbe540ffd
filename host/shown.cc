#include "host/shown.h"

#include <cstddef>
#include <cstdint>

namespace gradstream {
namespace {

constexpr size_t kShownSizeMax = 40;  // bytes. Reason: a message stays one line

}  // namespace

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

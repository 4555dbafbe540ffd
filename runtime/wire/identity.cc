#include "runtime/base/no_contraction.h"

#include "runtime/wire/identity.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/base/crc32c.h"
#include "runtime/base/text.h"

namespace gradstream {
namespace {

bool parse_name(std::string_view value, Identity* out) {
  if (value.empty() || value.size() > Identity::kNameSizeMax) {
    return false;
  }
  for (const char c : value) {
    if (c <= ' ' || c > '~') {
      return false;
    }
  }
  std::memcpy(out->name, value.data(), value.size());
  out->name[value.size()] = '\0';
  return true;
}

bool parse_key(std::string_view value, Identity* out) {
  if (value.size() != 2 * Identity::kKeySize) {
    return false;
  }
  for (size_t i = 0; i < Identity::kKeySize; ++i) {
    const int high = hex_digit(value[2 * i]);
    const int low = hex_digit(value[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    out->key[i] = static_cast<uint8_t>(16 * high + low);
  }
  return true;
}

struct Found {
  bool name = false;
  bool key = false;
};

bool parse_line(std::string_view text, Identity* out, Found* found) {
  text = trim(text);
  if (text.empty() || text.front() == '#') {
    return true;
  }
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return false;
  }
  const std::string_view field = trim(slice(text, 0, equals));
  const std::string_view value = trim(slice(text, equals + 1, text.size()));
  if (field == "identity" && !found->name) {
    found->name = true;
    return parse_name(value, out);
  }
  if (field == "key" && !found->key) {
    found->key = true;
    return parse_key(value, out);
  }
  return false;
}

Status parse(std::string_view text, Identity* out, uint32_t* line) {
  Found found;
  for (*line = 1; !text.empty(); ++*line) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (!parse_line(slice(text, 0, end), out, &found)) {
      return Status::kDataCorrupt;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  *line = 0;
  return found.name && found.key ? Status::kOk : Status::kDataCorrupt;
}

}  // namespace

uint32_t identity_digest(const Identity& identity) {
  const uint32_t of_name = crc32c(0, reinterpret_cast<const uint8_t*>(identity.name), std::strlen(identity.name) + 1);
  return crc32c(of_name, identity.key, sizeof(identity.key));
}

Status parse_identity(std::span<const char> text, Identity* out, uint32_t* line) {
  size_t size = 0;
  while (size < text.size() && text[size] != '\0' && text[size] != '\xff') {
    ++size;
  }
  *line = 0;
  Status status = Status::kDataCorrupt;
  if (size <= kIdentityTextSizeMax) {
    status = parse(std::string_view(text.data(), size), out, line);
  }
  if (status != Status::kOk) {
    std::memset(out->key, 0, sizeof(out->key));
  }
  return status;
}

}  // namespace gradstream

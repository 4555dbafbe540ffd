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

bool parse_key(std::string_view value, uint8_t* out) {
  if (value.size() != 2 * Identity::kKeySize) {
    return false;
  }
  for (size_t i = 0; i < Identity::kKeySize; ++i) {
    const int high = hex_digit(value[2 * i]);
    const int low = hex_digit(value[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    out[i] = static_cast<uint8_t>(16 * high + low);
  }
  return true;
}

struct Found {
  bool name = false;
  bool key = false;
  ServerKey server;
};

bool parse_line(std::string_view text, Identity* out, Found* found) {
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
    return parse_key(value, out->key);
  }
  if (field == "server" && !found->server.is_there) {
    found->server.is_there = true;
    return parse_key(value, found->server.bytes);
  }
  return false;
}

Status parse(std::string_view text, Identity* out, uint32_t* line, ServerKey* server) {
  Found found;
  LineReader lines(text);
  for (std::string_view next; lines.next(&next);) {
    if (!parse_line(next, out, &found)) {
      *line = lines.number();
      return Status::kDataCorrupt;
    }
  }
  if (server != nullptr) {
    *server = found.server;
  }
  return found.name && found.key ? Status::kOk : Status::kDataCorrupt;
}

// Up to what is left of an erased flash page.
size_t text_size(std::span<const char> text) {
  size_t size = 0;
  while (size < text.size() && text[size] != '\0' && text[size] != '\xff') {
    ++size;
  }
  return size;
}

IdentityFault name_fault(std::string_view value, uint32_t line) {
  if (value.empty() || value.size() > Identity::kNameSizeMax) {
    return {line, "identity: expected a name of 1 to 63 characters", value.size(), true};
  }
  return {line, "identity: expected printable ASCII characters without spaces", 0, false};
}

IdentityFault key_fault(std::string_view field, std::string_view value, uint32_t line) {
  const bool is_server = field == "server";
  size_t digits = 0;
  while (digits < value.size() && hex_digit(value[digits]) >= 0) {
    ++digits;
  }
  if (digits != value.size()) {
    return {line,
            is_server ? "server: expected hexadecimal digits alone, 64 of them"
                      : "key: expected hexadecimal digits alone, 64 of them",
            0, false};
  }
  return {line, is_server ? "server: expected 64 hexadecimal digits" : "key: expected 64 hexadecimal digits",
          value.size(), true};
}

IdentityFault line_fault(std::string_view text, uint32_t line, const Found& before, Identity* ignored) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return {line, "expected `identity = NAME` or `key = 64 hexadecimal digits`", 0, false};
  }
  const std::string_view field = trim(slice(text, 0, equals));
  const std::string_view value = trim(slice(text, equals + 1, text.size()));
  if ((field == "identity" && before.name) || (field == "key" && before.key) ||
      (field == "server" && before.server.is_there)) {
    return {line, "the field stands here twice", 0, false};
  }
  if (field == "identity" && !parse_name(value, ignored)) {
    return name_fault(value, line);
  }
  return field == "key" || field == "server" ? key_fault(field, value, line)
                                             : IdentityFault{line, "no field of this name is known", 0, false};
}

}  // namespace

bool is_undrawn_key(std::span<const uint8_t> key) {
  uint8_t all = 0xff, any = 0;
  for (const uint8_t byte : key) {
    all = static_cast<uint8_t>(all & byte);
    any = static_cast<uint8_t>(any | byte);
  }
  return any == 0 || all == 0xff;
}

uint32_t identity_digest(const Identity& identity) {
  const uint32_t of_name = crc32c(0, reinterpret_cast<const uint8_t*>(identity.name), std::strlen(identity.name) + 1);
  return crc32c(of_name, identity.key, sizeof(identity.key));
}

Status parse_identity(std::span<const char> text, Identity* out, uint32_t* line, ServerKey* server) {
  const size_t size = text_size(text);
  *line = 0;
  Status status = Status::kDataCorrupt;
  if (size <= kIdentityTextSizeMax) {
    status = parse(std::string_view(text.data(), size), out, line, server);
  }
  if (status != Status::kOk) {
    std::memset(out->key, 0, sizeof(out->key));
  }
  return status;
}

IdentityFault find_identity_fault(std::span<const char> text, uint32_t line) {
  const size_t size = text_size(text);
  if (text.empty()) {
    return {0, "is empty", 0, false};
  }
  bool is_padded = true;  // behind its end stands what a flash page has there
  for (size_t i = size; i < text.size(); ++i) {
    is_padded = is_padded && (text[i] == '\0' || text[i] == '\xff');
  }
  if (const TextFault fault = find_text_fault({text.data(), text.size()}); fault.text != nullptr && !is_padded) {
    return {fault.line, fault.text, 0, false};
  }
  if (size > kIdentityTextSizeMax) {
    return {0, "is too long: expected at most 1024 bytes", size, true};
  }
  LineReader lines({text.data(), size});
  std::string_view at;
  Identity ignored;
  Found before;  // the line at fault
  while (lines.next(&at) && lines.number() < line) {
    (void)parse_line(at, &ignored, &before);
  }
  const IdentityFault fault =
      line == 0 || lines.number() != line
          ? IdentityFault{0, "lacks `identity = NAME` or `key = 64 hexadecimal digits`", 0, false}
          : line_fault(at, line, before, &ignored);
  std::memset(ignored.key, 0, sizeof(ignored.key));
  return fault;
}

void write_identity_fault(std::span<const char> text, uint32_t line, std::span<char> out) {
  const IdentityFault fault = find_identity_fault(text, line);
  size_t size = 0;
  const auto put = [&](const char* words) {
    for (; *words != '\0' && size + 1 < out.size(); ++words) {
      out[size++] = *words;
    }
  };
  const auto put_number = [&](size_t number) {
    char digits[24] = {};
    char* at = digits + sizeof digits - 1;
    do {
      *--at = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    put(at);
  };
  put(fault.line == 0 ? " " : " line ");
  if (fault.line != 0) {
    put_number(fault.line);
    put(": ");
  }
  put(fault.text);
  if (fault.has_count) {
    put(", and it has ");
    put_number(fault.count);
  }
  out[size] = '\0';
}

}  // namespace gradstream

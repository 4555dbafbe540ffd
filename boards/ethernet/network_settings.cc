#include "boards/ethernet/network_settings.h"

#include <cstring>
#include <string_view>

#include "runtime/base/text.h"

namespace gradstream {
namespace {

// Takes a number from the front of the text. Leading zeros are refused: some read them as octal.
bool take_number(std::string_view* text, uint32_t max, uint32_t* out) {
  uint32_t value = 0;
  size_t count = 0;
  for (; count < text->size() && (*text)[count] >= '0' && (*text)[count] <= '9'; ++count) {
    value = 10 * value + static_cast<uint32_t>((*text)[count] - '0');
    if (value > max) {
      return false;
    }
  }
  if (count == 0 || (count > 1 && text->front() == '0')) {
    return false;
  }
  text->remove_prefix(count);
  *out = value;
  return true;
}

bool take(std::string_view* text, char wanted) {
  if (text->empty() || text->front() != wanted) {
    return false;
  }
  text->remove_prefix(1);
  return true;
}

bool take_address(std::string_view* text, uint32_t* out) {
  uint32_t address = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t byte = 0;
    if ((i > 0 && !take(text, '.')) || !take_number(text, 255, &byte)) {
      return false;
    }
    address = address << 8 | byte;
  }
  *out = address;
  return address != 0 && address >> 28 < 0xE;  // a host's, not a group's
}

bool parse_own(std::string_view value, NetworkSettings* out) {
  return take_address(&value, &out->address) && take(&value, '/') && take_number(&value, 30, &out->prefix_size) &&
         out->prefix_size > 0 && value.empty();
}

bool parse_server(std::string_view value, NetworkSettings* out) {
  if (value.size() > NetworkSettings::kServerTextSizeMax) {
    return false;
  }
  std::memcpy(out->server_text, value.data(), value.size());
  out->server_text[value.size()] = '\0';
  uint32_t port = 0;
  const bool parsed = take_address(&value, &out->server) && take(&value, ':') && take_number(&value, 65535, &port);
  out->port = static_cast<uint16_t>(port);
  return parsed && port > 0 && value.empty();
}

bool parse_mac(std::string_view value, NetworkSettings* out) {
  if (value.size() != 3 * sizeof(out->mac) - 1) {
    return false;
  }
  for (size_t i = 0; i < sizeof(out->mac); ++i) {
    const int high = hex_digit(value[3 * i]), low = hex_digit(value[3 * i + 1]);
    if (high < 0 || low < 0 || (i > 0 && value[3 * i - 1] != ':')) {
      return false;
    }
    out->mac[i] = static_cast<uint8_t>(16 * high + low);
  }
  out->has_mac = true;
  return (out->mac[0] & 1) == 0;  // a group's address is nobody's
}

bool parse_line(std::string_view text, NetworkSettings* out) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return false;
  }
  const std::string_view name = trim(slice(text, 0, equals));
  std::string_view value = trim(slice(text, equals + 1, text.size()));
  if (name == "address" && out->address == 0) {
    return parse_own(value, out);
  }
  if (name == "gateway" && out->gateway == 0) {
    return take_address(&value, &out->gateway) && value.empty();
  }
  if (name == "server" && out->server == 0) {
    return parse_server(value, out);
  }
  return name == "mac" && !out->has_mac && parse_mac(value, out);
}

}  // namespace

Status parse_network_settings(std::span<const char> text, NetworkSettings* out, uint32_t* line) {
  size_t size = 0;
  while (size < text.size() && text[size] != '\0' && text[size] != '\xff') {
    ++size;
  }
  *out = {};
  LineReader lines({text.data(), size});
  for (std::string_view next; lines.next(&next);) {
    if (!parse_line(next, out)) {
      *line = lines.number();
      return Status::kDataCorrupt;
    }
  }
  *line = 0;
  const bool is_whole = out->address != 0 && out->server != 0 && out->next_hop() != 0 &&
                        ((out->address ^ out->next_hop()) & out->mask()) == 0;
  return is_whole ? Status::kOk : Status::kDataCorrupt;
}

}  // namespace gradstream

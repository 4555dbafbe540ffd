#include "runtime/base/no_contraction.h"

#include "runtime/wire/server_address.h"

#include <cstddef>
#include <cstdint>

#include "runtime/base/text.h"

namespace gradstream {
namespace {

constexpr AddressFault kNone = {};
constexpr const char* kWantsPort = "lacks its port; write HOST:PORT";
constexpr size_t kIpv6GroupCount = 8;  // of 16 bits each

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_number(std::string_view text) {
  for (const char c : text) {
    if (!is_digit(c)) {
      return false;
    }
  }
  return !text.empty();
}

// The part before the first `end`, which both go from *text.
std::string_view take_part(std::string_view* text, char end) {
  const size_t found = text->find(end);
  const size_t size = found == std::string_view::npos ? text->size() : found;
  const std::string_view part = slice(*text, 0, size);
  text->remove_prefix(found == std::string_view::npos ? size : size + 1);
  return part;
}

// Four decimal numbers up to 255, without leading zeros, which some read as octal.
bool is_ipv4(std::string_view text) {
  size_t count = 0;
  for (bool has_more = true; has_more; ++count) {
    has_more = text.find('.') != std::string_view::npos;
    const std::string_view part = take_part(&text, '.');
    if (!is_number(part) || part.size() > 3 || (part.size() > 1 && part.front() == '0') ||
        (part.size() == 3 && part > "255")) {
      return false;
    }
  }
  return count == 4;
}

// Groups of a side of "::", an address of IPv4 at the end as two; kIpv6GroupCount + 1: it is none.
size_t count_groups(std::string_view side) {
  constexpr size_t kNoAddress = kIpv6GroupCount + 1;
  size_t count = 0;
  bool has_more = !side.empty();
  while (has_more) {
    has_more = side.find(':') != std::string_view::npos;
    const std::string_view group = take_part(&side, ':');
    if (!has_more && is_ipv4(group)) {
      return count + 2;
    }
    if (group.empty() || group.size() > 4 || ++count > kIpv6GroupCount) {
      return kNoAddress;
    }
    for (const char c : group) {
      if (hex_digit(c) < 0) {
        return kNoAddress;
      }
    }
  }
  return count;
}

bool is_ipv6(std::string_view text) {
  const size_t zone = text.find('%');
  if (zone != std::string_view::npos) {
    if (zone + 1 == text.size()) {
      return false;
    }
    text = slice(text, 0, zone);
  }
  const size_t gap = text.find("::");
  if (gap == std::string_view::npos) {
    return count_groups(text) == kIpv6GroupCount;
  }
  const std::string_view left = slice(text, 0, gap), right = slice(text, gap + 2, text.size());
  return left.find('.') == std::string_view::npos && count_groups(left) + count_groups(right) < kIpv6GroupCount;
}

AddressFault check_label(std::string_view label, std::string_view host) {
  if (label.empty()) {
    return {"has an empty part between dots; write the server's name", host};
  }
  if (label.size() > kHostLabelSizeMax) {
    return {"is longer than the 63 characters that DNS allows between dots", label};
  }
  if (label.front() == '-' || label.back() == '-') {
    return {"begins or ends with a hyphen, as no part of a name does", label};
  }
  return kNone;
}

AddressFault check_name(std::string_view host) {
  for (const char& c : host) {
    if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_' && c != '.') {
      return static_cast<unsigned char>(c) < 0x80
                 ? AddressFault{"stands in no host's name; letters, digits, hyphens and dots do",
                                std::string_view(&c, 1)}
                 : AddressFault{"is not ASCII; write the name as DNS has it, such as xn--kche-0ra", host};
    }
  }
  std::string_view rest = host;
  if (rest.back() == '.') {  // the root's
    rest.remove_suffix(1);
  }
  if (rest.size() > kHostNameSizeMax) {
    return {"is longer than the 253 characters that DNS allows", host};
  }
  std::string_view label;
  do {
    const bool is_last = rest.find('.') == std::string_view::npos;
    label = take_part(&rest, '.');
    if (const AddressFault fault = check_label(label, host); fault.text != nullptr) {
      return fault;
    }
    if (is_last) {
      break;
    }
  } while (true);
  return is_number(label) && !is_ipv4(host)
             ? AddressFault{"is no address of IPv4; write four numbers of 0 to 255 with dots between them", host}
             : kNone;
}

AddressFault check_port(std::string_view port) {
  if (port.empty()) {
    return {"stands where a port should; write one of 1 to 65535", port};
  }
  uint32_t value = 0;
  for (const char c : port) {
    if (!is_digit(c)) {
      return {"is no port; write a number of 1 to 65535", port};
    }
    value = value > UINT16_MAX ? value : 10 * value + static_cast<uint32_t>(c - '0');
  }
  return value == 0 || value > UINT16_MAX ? AddressFault{"is no port; write a number of 1 to 65535", port} : kNone;
}

// What is no part of HOST:PORT at all.
AddressFault check_text(std::string_view text) {
  for (const char& c : text) {
    if (is_blank(c) || c == '\n' || c == '\0') {
      return {"holds a blank; write HOST:PORT without one", text};
    }
  }
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    return {"is no part of HOST:PORT; leave it out, devices speak TLS of their own", slice(text, 0, scheme + 3)};
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    return {"is a path, which a server of devices has not; leave it out", slice(text, slash, text.size())};
  }
  if (const size_t user = text.find('@'); user != std::string_view::npos) {
    return {"names a user, which a server of devices has not; leave it out", slice(text, 0, user + 1)};
  }
  return kNone;
}

AddressFault split_brackets(std::string_view text, ServerAddress* out) {
  const size_t end = text.find(']');
  if (end == std::string_view::npos) {
    return {"lacks the bracket that closes it; write [ADDRESS]:PORT", text};
  }
  out->host = slice(text, 1, end);
  if (!is_ipv6(out->host)) {
    return {"is no address of IPv6; brackets hold one, such as [::1]:7433", slice(text, 0, end + 1)};
  }
  if (end + 1 == text.size() || text[end + 1] != ':') {
    return {kWantsPort, text};
  }
  out->port = slice(text, end + 2, text.size());
  return kNone;
}

AddressFault split(std::string_view text, ServerAddress* out) {
  if (text.empty()) {
    return {"is empty; write HOST:PORT", text};
  }
  if (text.front() == '[') {
    return split_brackets(text, out);
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return {kWantsPort, text};
  }
  if (text.rfind(':') != colon && (is_ipv6(text) || is_ipv6(slice(text, 0, text.rfind(':'))))) {
    return {"is an address of IPv6 without brackets; write [ADDRESS]:PORT", text};
  }
  if (colon == 0) {
    return {"lacks its host; write HOST:PORT", text};
  }
  out->host = slice(text, 0, colon);
  out->port = slice(text, colon + 1, text.size());
  return check_name(out->host);
}

}  // namespace

AddressFault parse_server_address(std::string_view text, ServerAddress* out) {
  AddressFault fault = check_text(text);
  ServerAddress address;
  if (fault.text == nullptr) {
    fault = split(text, &address);
  }
  if (fault.text == nullptr) {
    fault = check_port(address.port);
  }
  if (fault.text == nullptr) {
    *out = address;
  } else if (fault.part.empty()) {
    fault.part = text;
  }
  return fault;
}

}  // namespace gradstream

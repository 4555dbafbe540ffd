#include "firmware/name_posix.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include <mbedtls/md.h>
#include <sys/utsname.h>

#include "runtime/base/text.h"
#include "runtime/wire/claim.h"
#include "runtime/wire/identity.h"

namespace gradstream {
namespace {

constexpr char kMachineIdPath[] = "/etc/machine-id";
constexpr size_t kIdSize = 16;  // bytes

using Id = std::array<uint8_t, kIdSize>;

bool parse_id(std::string_view text, Id* out) {
  if (text.size() != 2 * kIdSize) {
    return false;
  }
  for (size_t i = 0; i < kIdSize; ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    (*out)[i] = static_cast<uint8_t>(16 * high + low);
  }
  return true;
}

// Empty, or what is wrong.
std::string read_machine_id(std::string* out) {
  std::ifstream file(kMachineIdPath);
  std::string line;
  if (!std::getline(file, line)) {
    return std::string("{machine-id}: cannot read ") + kMachineIdPath + ": " + std::strerror(errno) +
           "; make it with systemd-machine-id-setup, or write the name out";
  }
  return derive_machine_id(line, out) ? std::string()
                                      : std::string("{machine-id}: ") + kMachineIdPath +
                                            " holds no 32 hexadecimal digits; make it with systemd-machine-id-setup";
}

}  // namespace

bool derive_machine_id(const std::string& machine_id, std::string* out) {
  Id id = {}, application = {};
  if (!parse_id(trim(machine_id), &id) || id == Id() || !parse_id(kMachineIdApplication, &application)) {
    return false;
  }
  std::array<uint8_t, 32> digest = {};
  if (mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), id.data(), id.size(), application.data(),
                      application.size(), digest.data()) != 0) {
    return false;
  }
  digest[6] = static_cast<uint8_t>((digest[6] & 0x0F) | 0x40);  // as a UUID of version 4, as systemd does
  digest[8] = static_cast<uint8_t>((digest[8] & 0x3F) | 0x80);
  out->clear();
  for (size_t i = 0; i < kIdSize; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    *out += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  }
  return true;
}

std::string expand_name(const std::string& text, std::string* out) {
  std::string name;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '{' ? text.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      name += text[at++];
      continue;
    }
    const std::string placeholder = text.substr(at, end + 1 - at);
    std::string value;
    if (placeholder == "{hostname}") {
      utsname system = {};
      value = uname(&system) == 0 ? system.nodename : "";
    } else if (placeholder == "{machine-id}") {
      if (std::string problem = read_machine_id(&value); !problem.empty()) {
        return problem;
      }
    } else {
      return placeholder + " is no placeholder; {hostname} and {machine-id} are";
    }
    name += value;
    at = end + 1;
  }
  if (!is_claimable_name(name)) {
    return (name == text ? std::string() : "it stands for '" + name + "'; ") + "expected 1 to " +
           std::to_string(kClaimNameSizeMax) +
           " printable ASCII characters without spaces, commas, / and ~, not beginning with #, and not the word name";
  }
  *out = name;
  return {};
}

std::string failed_line(const std::string& reason) {
  std::string line = "event=failed reason=\"";
  for (const char c : reason) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      line += c;
    } else {
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return line + "\"";
}

std::string identity_fault_text(std::span<const char> text, uint32_t line) {
  std::array<char, kIdentityFaultSizeMax> words = {};
  write_identity_fault(text, line, words);
  return words.data();
}

std::string board_name() {
  std::string model;
  std::ifstream file("/proc/device-tree/model");
  if (std::getline(file, model, '\0') && !model.empty()) {
    return model;
  }
  utsname system = {};
  return uname(&system) == 0 ? std::string("linux-") + system.machine : "linux";
}

}  // namespace gradstream

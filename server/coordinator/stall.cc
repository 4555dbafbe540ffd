#include "server/coordinator/stall.h"

#include <array>
#include <charconv>

namespace gradstream {

std::string number_text(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6).ptr;
  return {text.data(), end};
}

std::vector<uint8_t> encode_stall(const StallCause& cause) {
  if (cause.empty()) {
    return {};
  }
  const std::string text = cause.cause + "\n" + cause.text + "\n" + cause.remedy;
  return {text.begin(), text.end()};
}

StallCause decode_stall(std::span<const uint8_t> payload) {
  const std::string text(payload.begin(), payload.end());
  const size_t first = text.find('\n');
  const size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (first == 0 || second == std::string::npos || text.find('\n', second + 1) != std::string::npos) {
    return {};
  }
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

}  // namespace gradstream

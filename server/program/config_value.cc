#include "server/program/config_value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace gradstream {

Objection read_value(const TomlNode& node, std::string* out, ValueRange) {
  if (node.kind != TomlKind::kText || node.text.find('\0') != std::string::npos) {  // a path would end there
    return "a text in quotes, without a byte 0";
  }
  *out = node.text;
  return {};
}

Objection read_value(const TomlNode& node, std::vector<std::string>* out, ValueRange) {
  constexpr const char* kExpected = "a list of texts in quotes, such as [\"a\", \"b\"]";
  if (node.kind != TomlKind::kText && node.kind != TomlKind::kArray) {
    return kExpected;
  }
  const bool is_one = node.kind == TomlKind::kText;
  std::vector<std::string> texts(is_one ? 1 : node.items.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (read_value(is_one ? node : node.items[i], &texts[i])) {
      return kExpected;
    }
  }
  *out = std::move(texts);
  return {};
}

Objection read_value(const TomlNode& node, bool* out, ValueRange) {
  if (node.kind != TomlKind::kFlag) {
    return "true or false";
  }
  *out = node.flag;
  return {};
}

Objection read_value(const TomlNode& node, uint32_t* out, ValueRange range) {
  if (node.kind != TomlKind::kWhole || node.whole < int64_t{range.least} || node.whole > int64_t{range.most}) {
    return "a whole number from " + std::to_string(range.least) + " to " + std::to_string(range.most);
  }
  *out = static_cast<uint32_t>(node.whole);
  return {};
}

Objection read_value(const TomlNode& node, float* out, ValueRange) {
  const double value = node.kind == TomlKind::kWhole ? static_cast<double>(node.whole) : node.number;
  const bool is_number = node.kind == TomlKind::kWhole || node.kind == TomlKind::kNumber;
  if (!is_number || !(std::abs(value) <= double{std::numeric_limits<float>::max()})) {
    return "a finite number";
  }
  *out = value == 0 ? 0.0F : static_cast<float>(value);
  return {};
}

std::string toml_text(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += std::string("\\u00") + kDigits[static_cast<unsigned char>(c) >> 4] + kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_text(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    text += (text.empty() ? "" : ", ") + toml_text(value);
  }
  return "[" + text + "]";
}

std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(uint32_t value) { return std::to_string(value); }
std::string toml_text(float value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace gradstream

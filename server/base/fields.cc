#include "server/base/fields.h"

namespace gradstream {

namespace {

constexpr char kDigits[] = "0123456789abcdef";

bool needs_quotes(std::string_view value) {
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '\\' || c > '~') {
      return true;
    }
  }
  return value.empty();
}

void append_quoted(std::string_view value, std::string* out) {
  out->push_back('"');
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c < ' ' || c > '~') {
      const auto byte = static_cast<unsigned char>(c);
      out->append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

}  // namespace

std::string hex(uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) {
    text.push_back(kDigits[(value >> shift) & 15]);
  }
  return text;
}

Fields& Fields::add(std::string_view key, std::string_view value) {
  if (!text_.empty()) {
    text_.push_back(' ');
  }
  has_remedy_ = has_remedy_ || key == "remedy";
  text_.append(key);
  text_.push_back('=');
  if (needs_quotes(value)) {
    append_quoted(value, &text_);
  } else {
    text_.append(value);
  }
  return *this;
}

Fields& Fields::add(std::string_view key, uint64_t value) { return add(key, std::string_view(std::to_string(value))); }

Fields& Fields::add_hex(std::string_view key, uint64_t value) { return add(key, std::string_view(hex(value))); }

Fields& Fields::add_pairs(std::string_view pairs) {
  if (!text_.empty() && !pairs.empty()) {
    text_.push_back(' ');
  }
  text_.append(pairs);
  return *this;
}

}  // namespace gradstream

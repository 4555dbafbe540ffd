// The value of a key as text, as it stands in the canonical text of a run. Numbers are the shortest text that reads
// back as the same number, whatever the locale.
#ifndef GRADSTREAM_SERVER_RUN_FIELD_TEXT_H_
#define GRADSTREAM_SERVER_RUN_FIELD_TEXT_H_

#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "server/run/key.h"
#include "server/run/names.h"

namespace gradstream {

inline std::string field_text(const std::string& value) { return value; }
inline std::string field_text(bool value) { return value ? "true" : "false"; }
inline std::string field_text(uint32_t value) { return std::to_string(value); }
template <std::floating_point Float>
std::string field_text(Float value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
template <typename Enum>
requires std::is_enum_v<Enum> std::string field_text(Enum value) { return name_of(value); }

// Whether the field stands for the key's word for 0.
template <typename Field>
bool is_zero_word(const Key& key, const Field& field) {
  if constexpr (std::is_floating_point_v<Field>) {
    return key.has_zero_word() && field == 0;
  } else {
    return false;
  }
}
// The text of a key's value.
template <typename Field>
std::string key_text(const Key& key, const Field& field) {
  return is_zero_word(key, field) ? key.zero_word : field_text(field);
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_FIELD_TEXT_H_

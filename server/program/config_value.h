// Values of keys: out of TOML, and back as config_text() shows them.
#ifndef GRADSTREAM_SERVER_PROGRAM_CONFIG_VALUE_H_
#define GRADSTREAM_SERVER_PROGRAM_CONFIG_VALUE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "server/base/objection.h"
#include "server/program/toml_document.h"
#include "server/run/names.h"

namespace gradstream {

// Of whole numbers, both ends included.
struct ValueRange {
  uint32_t least = 0;
  uint32_t most = std::numeric_limits<uint32_t>::max();
};

// Each objects with the words for what was expected instead, and then leaves *out as it was. range: of a whole number.
Objection read_value(const TomlNode& node, std::string* out, ValueRange range = {});
// One text is a list of one: a variable and --set need no brackets then.
Objection read_value(const TomlNode& node, std::vector<std::string>* out, ValueRange range = {});
Objection read_value(const TomlNode& node, bool* out, ValueRange range = {});
Objection read_value(const TomlNode& node, uint32_t* out, ValueRange range = {});
// -0 becomes 0: it would be shown as a whole number without a sign.
Objection read_value(const TomlNode& node, float* out, ValueRange range = {});

// As TOML: read_value() of the text gives the value again.
std::string toml_text(const std::string& value);
std::string toml_text(const std::vector<std::string>& values);
std::string toml_text(const char*) = delete;  // it would be a bool
std::string toml_text(bool value);
std::string toml_text(uint32_t value);
std::string toml_text(float value);

template <typename Enum>
requires std::is_enum_v<Enum> Objection read_value(const TomlNode& node, Enum* out, ValueRange = {}) {
  std::string words;
  for (const auto& [name, known] : names_of<Enum>()) {
    if (node.kind == TomlKind::kText && node.text == name) {
      *out = known;
      return {};
    }
    words += std::string(words.empty() ? "" : ", ") + '"' + name + '"';
  }
  return "one of " + words;
}

template <typename Enum>
requires std::is_enum_v<Enum> std::string toml_text(Enum value) { return toml_text(std::string(name_of(value))); }

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_CONFIG_VALUE_H_

// The words of enums: one table for each, from which every text, page and parser takes them. A table stands beside its
// enum, or in a header of words where the enum is not ours: server/run/names.h, server/watch/words.h.
#ifndef GRADSTREAM_SERVER_BASE_ENUM_NAMES_H_
#define GRADSTREAM_SERVER_BASE_ENUM_NAMES_H_

#include <array>
#include <span>
#include <string_view>

namespace gradstream {

template <typename Enum>
struct EnumName {
  const char* word;
  Enum value;
};
template <typename Enum>
using EnumNames = std::span<const EnumName<Enum>>;

// The table of an enum: a specialisation. An enum without one has no words.
template <typename Enum>
inline constexpr std::array<EnumName<Enum>, 0> kEnumNames = {};

// All words of an enum, each with its value.
template <typename Enum>
constexpr EnumNames<Enum> names_of() {
  static_assert(!kEnumNames<Enum>.empty(), "an enum without a table");
  return kEnumNames<Enum>;
}

// Static text; `unknown` for a value that has no word.
template <typename Enum>
constexpr const char* name_of(Enum value, const char* unknown = "none") {
  for (const auto& [word, known] : names_of<Enum>()) {
    if (known == value) {
      return word;
    }
  }
  return unknown;
}

// The value of a word; `none` for a word that is not in the table.
template <typename Enum>
constexpr Enum parse_name(std::string_view text, Enum none) {
  for (const auto& [word, value] : names_of<Enum>()) {
    if (text == word) {
      return value;
    }
  }
  return none;
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_ENUM_NAMES_H_

// TOML text as a tree of plain values. toml++ stays behind this header: whatever it asserts, throws or recurses into, a
// caller gets a tree or one error.
#ifndef GRADSTREAM_SERVER_PROGRAM_TOML_DOCUMENT_H_
#define GRADSTREAM_SERVER_PROGRAM_TOML_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/objection.h"

namespace gradstream {

// Bytes of a text. Reason: every key with its comment takes a hundredth of it, and the tree of a text that is no
// configuration must fit into the memory of a small server.
inline constexpr size_t kTomlSizeMax = size_t{1} << 20;
// Arrays and inline tables inside each other. Reason: a configuration has one, and each level takes stack.
inline constexpr uint32_t kTomlDepthMax = 16;
// Names that points join to one key or header. Reason: a configuration has three, and each becomes a table inside a
// table, which takes stack when it is read and when it is freed.
inline constexpr uint32_t kTomlKeyPartsMax = 16;
// Bytes of one name. Reason: the longest key has 32, and a name stands in messages whole.
inline constexpr size_t kTomlNameSizeMax = 128;
// Underscores in one word. Reason: toml++ looks back at 127 characters at most, and does not count underscores when it
// looks for a date.
inline constexpr uint32_t kTomlUnderscoresMax = 100;

enum class TomlKind : uint8_t { kTable, kArray, kText, kFlag, kWhole, kNumber, kTime };

struct TomlEntry;

// One value. Only the member of its kind has a meaning; a date or time (kTime) keeps nothing but its place.
struct TomlNode {
  TomlKind kind = TomlKind::kTable;
  uint32_t line = 0;               // from 1; 0: not from a text
  std::string text;                // kText: UTF-8, any control characters among it
  bool flag = false;               // kFlag
  int64_t whole = 0;               // kWhole
  double number = 0;               // kNumber: also infinite or not a number
  std::vector<TomlNode> items;     // kArray
  std::vector<TomlEntry> entries;  // kTable: in the order of the text, each name once

  bool is_table() const { return kind == TomlKind::kTable; }
  // Null when it is no table, or has no such name. The pointer holds while the node stays as it is.
  const TomlNode* find(std::string_view name) const;
};

struct TomlEntry {
  std::string name;
  TomlNode value;
};

// Reads `text` into *root, a table; what *root held is gone. An objection is one sentence without a newline that says
// what is wrong; *line is its line then, from 1, and *root is empty. Any bytes may stand in `text`.
Objection parse_toml(std::string_view text, TomlNode* root, uint32_t* line);

// `text` with control characters, and what is no UTF-8, as \xNN: fit for a message of one line.
std::string printable(std::string_view text);
// Whether all of it is UTF-8.
bool is_utf8(std::string_view text);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_TOML_DOCUMENT_H_

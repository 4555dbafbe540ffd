// The keys of a run for people: the table of docs/reference/keys.md and the lines of `gradstream run keys`, made of
// what each group says of its keys.
#ifndef GRADSTREAM_SERVER_RUN_KEY_TABLE_H_
#define GRADSTREAM_SERVER_RUN_KEY_TABLE_H_

#include <string>
#include <vector>

#include "server/run/key.h"

namespace gradstream {

struct KeyRow {
  std::string group;     // its title
  std::string name;      // of the key
  std::string value;     // its default; "needed": it has none
  std::string takes;     // words with ", " between them, or a range with its unit: "1 to 256 steps"
  std::string sentence;  // Markdown
  bool is_word = false;  // the configuration writes its value in quotes
  bool has_words = false;
};

// "1 to 256 steps (solver `curve`)". The range has an end.
std::string range_text(const Range& range, const std::string& unit);

// Every key in the order of the canonical text.
std::vector<KeyRow> key_rows();

// The same as Markdown: a heading and a table for each group. It ends with a line break.
std::string key_table();

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_KEY_TABLE_H_

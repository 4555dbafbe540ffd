// Tables in text: rows, fields and numbers, as programs and spreadsheets of all countries write them.
#ifndef GRADSTREAM_HOST_TABLE_TEXT_H_
#define GRADSTREAM_HOST_TABLE_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "host/table.h"

namespace gradstream {

// parse_table() of a text, which holds no byte 0.
std::string parse_text_table(std::string_view text, const TableOptions& options, SampleTable* table);

// The index of the label's column: by its name, else by its number from 1. Empty, or what follows the file's name.
// column_count > 0.
std::string find_label(const std::string& label, const std::vector<std::string>& names, size_t column_count,
                       size_t* index);

// Splits a line outside double quotes. Values lose the blanks around them and the quotes. A doubled quote within quotes
// stays doubled. Null, or a clause about the last of *out. The views are into the line.
const char* split_fields(std::string_view line, char delimiter, std::vector<std::string_view>* out);

enum class FieldKind : uint8_t { kNumber, kMissing, kInfinite, kTooLarge, kWord };
struct Field {
  FieldKind kind = FieldKind::kWord;
  float value = 0;
  bool has_point = false;
  bool has_comma = false;  // as the decimal sign
};
// The decimal signs that are taken.
Field read_field(std::string_view text, bool takes_comma, bool takes_point = true);

// A number's exact value in one form, whatever way it was written: 1 for +1.0, 01 and 10e-1. The text is a number with
// one of the decimal signs.
std::string number_text(std::string_view text);

// Empty, or what is wrong with a label that becomes a float: whole numbers of more digits than it has fall together.
// text: its number_text().
std::string label_digits_fault(std::string_view text, float value);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_TABLE_TEXT_H_

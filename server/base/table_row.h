// A row of a table that people or spreadsheets write: values between commas.
#ifndef GRADSTREAM_SERVER_BASE_TABLE_ROW_H_
#define GRADSTREAM_SERVER_BASE_TABLE_ROW_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace gradstream {

struct RowFault {
  size_t column = 0;           // from 1
  const char* text = nullptr;  // a clause with the remedy; null: there is none
};

// Splits a line of LineReader at its commas. Values lose the blanks around them, and double quotes that enclose them;
// a comma within quotes separates nothing. A semicolon or a tab outside quotes is a fault: it separates values where
// the comma is the decimal sign, so the numbers beside it cannot be trusted. After a fault the last of *out is the
// value at fault. The views are into the line.
RowFault split_row(std::string_view line, std::vector<std::string_view>* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_TABLE_ROW_H_

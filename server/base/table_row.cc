#include "server/base/table_row.h"

#include <algorithm>

#include "runtime/base/text.h"

namespace gradstream {

namespace {

// What encloses a value that begins with a quote; *at moves behind it and the blanks after it.
RowFault take_quoted(std::string_view line, size_t* at, std::string_view* out) {
  const size_t begin = *at + 1;
  const size_t end = line.find('"', begin);
  if (end == std::string_view::npos) {
    *out = line.substr(begin);
    return {0, "a double quote is not closed; close it in the same line"};
  }
  *out = trim(line.substr(begin, end - begin));
  *at = end + 1;
  while (*at < line.size() && is_blank(line[*at])) {
    ++*at;
  }
  return *at < line.size() && line[*at] != ','
             ? RowFault{0, "something stands behind a closing quote; put a comma between values"}
             : RowFault{};
}

RowFault take_plain(std::string_view line, size_t* at, std::string_view* out) {
  const size_t begin = *at;
  *at = std::min(line.find(',', begin), line.size());
  *out = trim(line.substr(begin, *at - begin));
  if (out->find(';') != std::string_view::npos) {
    return {0, "values are separated by semicolons; separate them by commas, and write decimals with a point"};
  }
  return out->find('\t') != std::string_view::npos
             ? RowFault{0, "values are separated by tabs; separate them by commas"}
             : RowFault{};
}

}  // namespace

RowFault split_row(std::string_view line, std::vector<std::string_view>* out) {
  out->clear();
  for (size_t at = 0; at <= line.size(); ++at) {  // each turn begins behind a comma
    while (at < line.size() && is_blank(line[at])) {
      ++at;
    }
    std::string_view value;
    const bool is_quoted = at < line.size() && line[at] == '"';
    RowFault fault = is_quoted ? take_quoted(line, &at, &value) : take_plain(line, &at, &value);
    out->push_back(value);
    if (fault.text != nullptr) {
      fault.column = out->size();
      return fault;
    }
  }
  return {};
}

}  // namespace gradstream

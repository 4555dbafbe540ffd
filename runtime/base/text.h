// Reading small texts that stand in flash. Nothing here can throw or allocate, as string_view's own substr() can.
#ifndef GRADSTREAM_RUNTIME_BASE_TEXT_H_
#define GRADSTREAM_RUNTIME_BASE_TEXT_H_

#include <cstddef>
#include <string_view>

namespace gradstream {

// text[begin .. end - 1], begin <= end <= its size.
inline std::string_view slice(std::string_view text, size_t begin, size_t end) {
  return std::string_view(text.data() + begin, end - begin);
}

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Without blanks at either end.
inline std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// 0 .. 15; -1: no such digit.
inline int hex_digit(char c) {
  const char low = static_cast<char>(c | 0x20);
  return c >= '0' && c <= '9' ? c - '0' : (low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1);
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_TEXT_H_

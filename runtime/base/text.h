// Reading texts that people write: files on a host, small texts in flash. Nothing here can throw or allocate, as
// string_view's own substr() can.
#ifndef GRADSTREAM_RUNTIME_BASE_TEXT_H_
#define GRADSTREAM_RUNTIME_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
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

// Editors and spreadsheets write it before UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The lines of a text, one after the other: the one reader of all text that people write. A byte order mark before the
// first line is skipped. A line ends with "\n", "\r\n" or "\r", and the last one perhaps with nothing. The text must
// outlive the reader and what it gives.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {
    if (text.size() >= 3 && text[0] == '\xEF' && text[1] == '\xBB' && text[2] == '\xBF') {  // kByteOrderMark
      at_ = 3;
    }
  }

  // The next line, without its end and without blanks at either side. Lines of blanks alone and those that begin with #
  // are passed over. False: there is none.
  bool next(std::string_view* line) {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') {
        ++at_;
      }
      *line = trim(slice(text_, begin, at_));
      ++number_;
      const bool is_pair = at_ + 1 < text_.size() && text_[at_] == '\r' && text_[at_ + 1] == '\n';
      at_ += is_pair ? 2 : 1;  // behind the end, where the last line has none
      if (!line->empty() && line->front() != '#') {
        return true;
      }
    }
    return false;
  }

  // Of the line that next() gave last, from 1; after false the count of lines.
  uint32_t number() const { return number_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  uint32_t number_ = 0;
};

// Why a text cannot be read line by line, for the ends that have a whole file in memory.
struct TextFault {
  const char* text = nullptr;  // a clause after the file's name, with the remedy; null: it can be read
  uint32_t line = 0;           // from 1; 0: the whole text
};

inline TextFault find_text_fault(std::string_view text) {
  constexpr std::string_view kUtf16Little = "\xFF\xFE", kUtf16Big = "\xFE\xFF";
  const std::string_view head = slice(text, 0, text.size() < 2 ? text.size() : 2);
  if (head == kUtf16Little || head == kUtf16Big) {
    return {"is text in UTF-16; save it as UTF-8", 0};
  }
  uint32_t line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') {
      return {"holds a byte 0, so it is no text or text in UTF-16; save it as UTF-8", line};
    }
    const bool is_pair = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    line += text[i] == '\n' || (text[i] == '\r' && !is_pair) ? 1U : 0U;
  }
  return {};
}

// 0 .. 15; -1: no such digit.
inline int hex_digit(char c) {
  const char low = static_cast<char>(c | 0x20);
  return c >= '0' && c <= '9' ? c - '0' : (low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1);
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_TEXT_H_

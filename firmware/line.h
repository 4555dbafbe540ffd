// One log line, made without printf: "event=connected version=12".
#ifndef GRADSTREAM_FIRMWARE_LINE_H_
#define GRADSTREAM_FIRMWARE_LINE_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

class Line {
 public:
  static constexpr size_t kSizeMax = 239;

  explicit Line(const char* event) { text("event=").text(event); }
  // What does not fit is cut off.
  Line& text(const char* value) {
    while (*value != '\0' && size_ < kSizeMax) {
      text_[size_++] = *value++;
    }
    text_[size_] = '\0';
    return *this;
  }
  Line& number(const char* key, uint64_t value) {
    char digits[21];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    return name(key).text(digits + at);
  }
  // 16 hexadecimal digits.
  Line& hex(const char* key, uint64_t value) {
    char digits[17];
    for (int i = 0; i < 16; ++i) {
      digits[i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
    }
    digits[16] = '\0';
    return name(key).text(digits);
  }
  Line& quoted(const char* key, const char* value) { return name(key).text("\"").text(value).text("\""); }
  Line& word(const char* key, const char* value) { return name(key).text(value); }
  const char* c_str() const { return text_; }

 private:
  Line& name(const char* key) { return text(" ").text(key).text("="); }

  char text_[kSizeMax + 1] = {};
  size_t size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_LINE_H_

#include "firmware/line.h"

namespace gradstream {

ConsoleLine& ConsoleLine::text(const char* value) {
  while (*value != '\0' && size_ < kSizeMax) {
    text_[size_++] = *value++;
  }
  text_[size_] = '\0';
  return *this;
}

ConsoleLine& ConsoleLine::number(const char* key, uint64_t value) {
  char digits[21];
  size_t at = sizeof(digits) - 1;
  digits[at] = '\0';
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  return word(key, digits + at);
}

ConsoleLine& ConsoleLine::hex(const char* key, uint64_t value) {
  char digits[17];
  for (size_t i = 0; i < 16; ++i) {
    digits[i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
  }
  digits[16] = '\0';
  return word(key, digits);
}

ConsoleLine& ConsoleLine::word(const char* key, const char* value) { return text(" ").text(key).text("=").text(value); }

ConsoleLine& ConsoleLine::quoted(const char* key, const char* value) { return word(key, "\"").text(value).text("\""); }

}  // namespace gradstream

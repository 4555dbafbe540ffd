#include "firmware/line.h"

#include <cmath>

namespace gradstream {

ConsoleLine& ConsoleLine::text(const char* value) {
  while (*value != '\0' && size_ < kSizeMax) {
    text_[size_++] = *value++;
  }
  text_[size_] = '\0';
  return *this;
}

ConsoleLine& ConsoleLine::number(const char* key, uint64_t value) {
  return text(" ").text(key).text("=").digits(value);
}

ConsoleLine& ConsoleLine::digits(uint64_t value) {
  char digits[21];
  size_t at = sizeof(digits) - 1;
  digits[at] = '\0';
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  return text(digits + at);
}

// Without printf, which would be the largest function of an image. The decimal exponent is found by steps of ten,
// whose rounding is below what four digits show.
ConsoleLine& ConsoleLine::real(float value) {
  if (!(value - value == 0)) {
    return text("not_a_number");
  }
  if (value < 0) {
    text("-");
    value = -value;
  }
  if (value == 0) {
    return text("0");
  }
  int exponent = 3;  // value = mantissa 10^(exponent - 3), 1000 <= mantissa < 10000
  float scaled = value;
  for (; scaled >= 9999.5F; ++exponent) {
    scaled /= 10;
  }
  for (; scaled < 999.95F; --exponent) {
    scaled *= 10;
  }
  auto mantissa = static_cast<uint32_t>(std::lround(scaled));
  char shown[5];
  for (size_t i = 4; i-- > 0; mantissa /= 10) {
    shown[i] = static_cast<char>('0' + mantissa % 10);
  }
  size_t count = 4;
  while (count > 1 && shown[count - 1] == '0') {
    --count;
  }
  const bool is_plain = exponent >= -3 && exponent <= 5;
  const int last_whole = is_plain ? exponent : 0;  // index of the digit before the point
  char out[16] = {};
  size_t size = 0;
  for (int i = last_whole < 0 ? last_whole : 0; i <= last_whole || i < static_cast<int>(count); ++i) {
    if (i == last_whole + 1 || (i > last_whole && size == 0)) {
      out[size++] = '.';
    }
    out[size++] = i >= 0 && i < static_cast<int>(count) ? shown[i] : '0';
  }
  text(out);
  if (!is_plain) {
    text("e").text(exponent < 0 ? "-" : "").digits(static_cast<uint64_t>(exponent < 0 ? -exponent : exponent));
  }
  return *this;
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

#include "firmware/report_lines.h"

#include "runtime/base/crc32c.h"

namespace gradstream {

void ReportLines::put(char c) {
  if (size_ < kLineSizeMax) {
    line_[size_++] = c;
  }
}

void ReportLines::put(const char* text) {
  while (*text != '\0') {
    put(*text++);
  }
}

void ReportLines::put_hex(uint64_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    put("0123456789abcdef"[value >> shift & 15]);
  }
}

void ReportLines::begin(const char* name) {
  size_ = 0;
  put("report ");
  put(name);
  put('=');
}

void ReportLines::close() {
  line_[size_] = '\0';
  sink_(line_);
  line_[size_] = '\n';
  crc_ = crc32c(crc_, reinterpret_cast<const uint8_t*>(line_), size_ + 1);
}

void ReportLines::text(const char* name, const char* value) {
  begin(name);
  put(value);
  close();
}

void ReportLines::number(const char* name, uint64_t value) {
  char digits[21] = {};
  size_t at = sizeof(digits) - 1;
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  text(name, digits + at);
}

void ReportLines::hex(const char* name, uint64_t value, int digits) {
  begin(name);
  put_hex(value, digits);
  close();
}

void ReportLines::end() {
  const uint32_t crc = crc_;
  size_ = 0;
  put("report end crc=");
  put_hex(crc, 8);
  close();
  crc_ = 0;
}

}  // namespace gradstream

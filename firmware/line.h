// One log line, made without printf: "event=connected version=12".
#ifndef GRADSTREAM_FIRMWARE_LINE_H_
#define GRADSTREAM_FIRMWARE_LINE_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

class ConsoleLine {
 public:
  static constexpr size_t kSizeMax = 239;

  explicit ConsoleLine(const char* event) { text("event=").text(event); }
  // Each adds to the line; what does not fit is cut off.
  ConsoleLine& text(const char* value);
  ConsoleLine& number(const char* key, uint64_t value);
  ConsoleLine& digits(uint64_t value);                // without a key
  ConsoleLine& real(float value);                     // without a key, 4 significant digits, as 0.25, 2 or 1.273e5
  ConsoleLine& hex(const char* key, uint64_t value);  // 16 digits
  ConsoleLine& word(const char* key, const char* value);
  ConsoleLine& quoted(const char* key, const char* value);
  const char* c_str() const { return text_; }

 private:
  char text_[kSizeMax + 1] = {};
  size_t size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_LINE_H_

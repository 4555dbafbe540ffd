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
  // Each adds to the line; what does not fit is cut off.
  Line& text(const char* value);
  Line& number(const char* key, uint64_t value);
  Line& hex(const char* key, uint64_t value);  // 16 digits
  Line& word(const char* key, const char* value);
  Line& quoted(const char* key, const char* value);
  const char* c_str() const { return text_; }

 private:
  char text_[kSizeMax + 1] = {};
  size_t size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_LINE_H_

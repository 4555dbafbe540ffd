// The lines of a self-test's report (docs/how-to/report.md): `report NAME=VALUE`, then `report end crc=...`.
#ifndef GRADSTREAM_FIRMWARE_REPORT_LINES_H_
#define GRADSTREAM_FIRMWARE_REPORT_LINES_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

class ReportLines {
 public:
  // A line, without what ends it, zero and all; text and value together are cut to it.
  static constexpr size_t kLineSizeMax = 79;
  // Takes each line as it is done; it is valid during the call.
  using Sink = void (*)(const char* line);

  explicit ReportLines(Sink sink) : sink_(sink) {}

  // A value has no blank in it.
  void text(const char* name, const char* value);
  void number(const char* name, uint64_t value);
  void hex(const char* name, uint64_t value, int digits);
  // `none`: the board has no such thing.
  void none(const char* name) { text(name, "none"); }
  // The last line, with the CRC-32C of those before it, each with a line feed.
  void end();

 private:
  void begin(const char* name);
  void put(char c);
  void put(const char* text);
  void put_hex(uint64_t value, int digits);
  void close();

  Sink sink_;
  uint32_t crc_ = 0;
  size_t size_ = 0;
  char line_[kLineSizeMax + 1] = {};
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_REPORT_LINES_H_

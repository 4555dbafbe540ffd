// What a log line says: a level, and `key=value` pairs. Pure: the coordinator makes them, server/base/log.h writes
// them.
//
// Values with spaces, quotes or control bytes are quoted and escaped, so that nothing a peer sends can forge a line.
#ifndef GRADSTREAM_SERVER_BASE_FIELDS_H_
#define GRADSTREAM_SERVER_BASE_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gradstream {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };

// 16 digits.
std::string hex(uint64_t value);

// Collects `key=value` pairs: Fields().add("session", id).add("peer", name).
class Fields {
 public:
  Fields& add(std::string_view key, std::string_view value);
  Fields& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  Fields& add(std::string_view key, uint64_t value);
  Fields& add_hex(std::string_view key, uint64_t value);
  // Pairs that are text already.
  Fields& add_pairs(std::string_view pairs);
  const std::string& text() const { return text_; }
  // Whether add() got a pair with the key `remedy`. The pairs of add_pairs() do not count.
  bool has_remedy() const { return has_remedy_; }

 private:
  std::string text_;
  bool has_remedy_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_FIELDS_H_

// One object of JSON, written as it goes. Reason: of ten thousand devices a tree of values would be three hundred
// thousand nodes.
//
//   JsonObject().add("version", uint64_t{3}).word("state", "active").text()
#ifndef GRADSTREAM_SERVER_WATCH_JSON_OBJECT_H_
#define GRADSTREAM_SERVER_WATCH_JSON_OBJECT_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "server/watch/metrics.h"

namespace gradstream {

class JsonObject {
 public:
  // What is no number is written as null.
  static constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

  JsonObject& add(const char* key, uint64_t value) { return raw(key, std::to_string(value)); }
  JsonObject& add(const char* key, uint32_t value) { return raw(key, std::to_string(value)); }
  JsonObject& add(const char* key, const char* text) = delete;  // it would become a bool: word(), or a std::string
  JsonObject& add(const char* key, bool value) { return raw(key, value ? "true" : "false"); }
  JsonObject& add(const char* key, double value) {
    return raw(key, std::isfinite(value) ? metric_text(value) : "null");
  }
  // Becomes ASCII; what a device says may be no UTF-8.
  JsonObject& add(const char* key, const std::string& text);
  // text: of printable ASCII without quotes and backslashes.
  JsonObject& word(const char* key, const char* text) {
    begin(key);
    text_ += '"';
    text_ += text;
    text_ += '"';
    return *this;
  }
  // json: one whole value.
  JsonObject& raw(const char* key, std::string_view json) {
    begin(key);
    text_ += json;
    return *this;
  }
  std::string text() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  void begin(const char* key) {
    text_ += text_.empty() ? "{\"" : ",\"";
    text_ += key;
    text_ += "\":";
  }

  std::string text_;
};

// The list of what text_of(entry) says, each of which is one whole value.
template <typename Entries, typename TextOf>
std::string json_list(const Entries& entries, TextOf&& text_of) {
  std::string text = "[";
  for (const auto& entry : entries) {
    text += (text.size() == 1 ? "" : ",") + text_of(entry);
  }
  return text + "]";
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_JSON_OBJECT_H_

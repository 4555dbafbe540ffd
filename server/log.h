// Structured log lines on standard error: `time level event=... key=value ...`, one line each, flushed at once.
//
// event is a stable identifier that scripts may match; values with spaces, quotes or control bytes are quoted and
// escaped, so that nothing a peer sends can forge a line. Keys of devices never reach this file.
#ifndef GRADSTREAM_SERVER_LOG_H_
#define GRADSTREAM_SERVER_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gradstream {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };

// "debug", "info", "warn" or "error"; false for any other text.
bool parse_log_level(std::string_view text, LogLevel* out);
std::string_view log_level_text(LogLevel level);

// Lines below the level are dropped. Before the first call the level is kInfo.
void set_log_level(LogLevel level);

// Every line goes to `sink` instead of standard error; an empty function restores standard error. For tests.
using LogSink = std::function<void(LogLevel, std::string_view event, std::string_view fields)>;
void set_log_sink(LogSink sink);

// Collects `key=value` pairs: log_event(LogLevel::kWarn, "queue_full", Fields().add("session", id)).
class Fields {
 public:
  Fields& add(std::string_view key, std::string_view value);
  Fields& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  Fields& add(std::string_view key, uint64_t value);
  Fields& add_hex(std::string_view key, uint64_t value);
  // Pairs that are already text, as the coordinator writes them.
  Fields& add_pairs(std::string_view pairs);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void log_event(LogLevel level, std::string_view event, const Fields& fields = {});

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LOG_H_

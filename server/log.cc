#include "server/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace gradstream {

namespace {

constexpr std::string_view kLevelTexts[] = {"debug", "info", "warn", "error"};
constexpr spdlog::level::level_enum kSpdlogLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                       spdlog::level::err};

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = std::make_shared<spdlog::logger>("gradstream", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger();
  return *instance;
}

struct GuardedSink {
  std::mutex mutex;  // the store thread logs too
  LogSink sink;
};

GuardedSink& sink_of_tests() {
  static GuardedSink guarded;
  return guarded;
}

bool needs_quotes(std::string_view value) {
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '\\' || c > '~') {
      return true;
    }
  }
  return value.empty();
}

void append_quoted(std::string_view value, std::string* out) {
  out->push_back('"');
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c < ' ' || c > '~') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out->append(escaped);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

}  // namespace

bool parse_log_level(std::string_view text, LogLevel* out) {
  for (size_t i = 0; i < std::size(kLevelTexts); ++i) {
    if (text == kLevelTexts[i]) {
      *out = static_cast<LogLevel>(i);
      return true;
    }
  }
  return false;
}

std::string_view log_level_text(LogLevel level) { return kLevelTexts[static_cast<size_t>(level)]; }

void set_log_level(LogLevel level) { logger().set_level(kSpdlogLevels[static_cast<size_t>(level)]); }

void set_log_sink(LogSink sink) {
  const std::lock_guard<std::mutex> lock(sink_of_tests().mutex);
  sink_of_tests().sink = std::move(sink);
}

Fields& Fields::add(std::string_view key, std::string_view value) {
  if (!text_.empty()) {
    text_.push_back(' ');
  }
  text_.append(key);
  text_.push_back('=');
  if (needs_quotes(value)) {
    append_quoted(value, &text_);
  } else {
    text_.append(value);
  }
  return *this;
}

Fields& Fields::add(std::string_view key, uint64_t value) { return add(key, std::string_view(std::to_string(value))); }

Fields& Fields::add_hex(std::string_view key, uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return add(key, std::string_view(text));
}

Fields& Fields::add_pairs(std::string_view pairs) {
  if (!text_.empty() && !pairs.empty()) {
    text_.push_back(' ');
  }
  text_.append(pairs);
  return *this;
}

void log_event(LogLevel level, std::string_view event, const Fields& fields) {
  {
    const std::lock_guard<std::mutex> lock(sink_of_tests().mutex);
    if (sink_of_tests().sink) {
      sink_of_tests().sink(level, event, fields.text());
      return;
    }
  }
  const char* const gap = fields.text().empty() ? "" : " ";
  logger().log(kSpdlogLevels[static_cast<size_t>(level)], "event={}{}{}", event, gap, fields.text());
}

}  // namespace gradstream

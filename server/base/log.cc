#include "server/base/log.h"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "host/log_file.h"

namespace gradstream {

namespace {

constexpr std::string_view kLevelTexts[] = {"debug", "info", "warning", "error"};  // as spdlog prints them
constexpr spdlog::level::level_enum kSpdlogLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                       spdlog::level::err};

// Standard error, whose reader can stop nothing.
class LogFileSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (file_.lost_count() > 0) {
      constexpr const EventRow& kLost = "log_lines_lost"_event;
      const std::string text =
          std::string("event=") + kLost.id + " " + fields_of(kLost, Fields().add("count", file_.lost_count())).text();
      (void)file_.write_count(format({message.logger_name, kSpdlogLevels[static_cast<size_t>(kLost.level)], text}));
    }
    (void)file_.write(format(message));
  }
  void flush_() override {}

 private:
  // Good until the next call.
  std::string_view format(const spdlog::details::log_msg& message) {
    line_.clear();
    formatter_->format(message, line_);
    return {line_.data(), line_.size()};
  }

  LogFile file_{STDERR_FILENO};
  spdlog::memory_buf_t line_;
};

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = std::make_shared<spdlog::logger>("gradstream", std::make_shared<LogFileSink>());
  constexpr const char* kNoNewline = "";
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%e%z %l %v",
                                                                    spdlog::pattern_time_type::local, kNoNewline));
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

void write(const EventRow& event, LogLevel level, std::string_view pairs) {
  {
    const std::lock_guard<std::mutex> lock(sink_of_tests().mutex);
    if (sink_of_tests().sink) {
      sink_of_tests().sink(level, event.id, pairs);
      return;
    }
  }
  const char* const gap = pairs.empty() ? "" : " ";
  logger().log(kSpdlogLevels[static_cast<size_t>(level)], "event={}{}{}", event.id, gap, pairs);
}

}  // namespace

bool parse_log_level(std::string_view text, LogLevel* out) {
  if (text == "warn") {
    text = kLevelTexts[static_cast<size_t>(LogLevel::kWarn)];
  }
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

bool is_logged(LogLevel level) {
  if (logger().should_log(kSpdlogLevels[static_cast<size_t>(level)])) {
    return true;
  }
  const std::lock_guard<std::mutex> lock(sink_of_tests().mutex);
  return static_cast<bool>(sink_of_tests().sink);
}

void log_event(const EventRow& event, const Fields& fields) {
  write(event, event.level, fields_of(event, fields).text());
}

void log_milder(const EventRow& event, LogLevel level, const Fields& fields) { write(event, level, fields.text()); }

void log_pairs(const EventRow& event, std::string_view pairs) { write(event, event.level, pairs); }

}  // namespace gradstream

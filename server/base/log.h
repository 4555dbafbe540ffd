// Structured log lines on standard error: `time level event=... key=value ...`, one line each, flushed at once. A
// reader that is gone or stands still costs lines, which are counted (host/log_file.h), and nothing else.
//
// An event is a row of the catalogue, and the level of its lines is the row's. Keys of devices never reach this file.
#ifndef GRADSTREAM_SERVER_BASE_LOG_H_
#define GRADSTREAM_SERVER_BASE_LOG_H_

#include <functional>
#include <string_view>

#include "server/base/event_catalogue.h"
#include "server/base/fields.h"

namespace gradstream {

// "debug", "info", "warning" (or "warn", as configurations of older releases have it) or "error"; false for any other
// text.
bool parse_log_level(std::string_view text, LogLevel* out);
std::string_view log_level_text(LogLevel level);

// Lines below the level are dropped. Before the first call the level is kInfo.
void set_log_level(LogLevel level);

// Every line goes to `sink` instead of standard error; an empty function restores standard error. For tests.
using LogSink = std::function<void(LogLevel, std::string_view event, std::string_view fields)>;
void set_log_sink(LogSink sink);

// Whether a line of the level would be written: for lines of the hot path, whose fields are not free.
bool is_logged(LogLevel level);
// The line ends with the row's remedy where the fields name none.
void log_event(const EventRow& event, const Fields& fields = {});
// The same at a level below the row's, as its meaning says.
void log_milder(const EventRow& event, LogLevel level, const Fields& fields);
// Pairs as they stand, which Fields has made.
void log_pairs(const EventRow& event, std::string_view pairs);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_LOG_H_

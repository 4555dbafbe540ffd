// What the port of the devices and the one of people and monitors have in common.
#ifndef GRADSTREAM_SERVER_BASE_PORTS_H_
#define GRADSTREAM_SERVER_BASE_PORTS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "server/base/asio_alias.h"

namespace gradstream {

// After an accept that failed, mostly for want of a descriptor: asking again at once would only burn the processor.
inline constexpr auto kAcceptRetry = std::chrono::milliseconds(100);
// Between two lines of one kind that a flood of connections makes.
inline constexpr uint64_t kLogPeriodMs = 1000;

// A timer that fires so much late tells of a process that stood still: stopped, swapped out, or its machine paused. A
// loop at work is late by less.
inline constexpr uint64_t kStandstillMs = 250;
// Then what has come meanwhile is read for so long before the deadline is judged. Reason: enough for 4,000 updates.
inline constexpr uint64_t kWakeMs = 250;

// By the clock that nobody sets.
inline uint64_t steady_ms() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_boot).count());
}

// Whether kLogPeriodMs have passed since *last_ms (0: never), which then becomes now.
inline bool is_log_due(uint64_t* last_ms) {
  const uint64_t now = steady_ms();
  if (*last_ms != 0 && now < *last_ms + kLogPeriodMs) {
    return false;
  }
  *last_ms = now;
  return true;
}

// As a configuration writes it: "127.0.0.1:7433", "[::1]:7433".
inline std::string text_of(const Tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_PORTS_H_

// A Pull that the server keeps until there is a task, in place of a Wait (docs/wire.md, "Held Pulls").
//
//   Pull, hold_max_ms = kDeviceHoldMs -> kOpen -> a frame of the answer -> kKnown -> Ack.hold -> the next Pull, at
//   once
//
// With single flight the Update says which model the device holds, and an Ack with `hold` stands for the next Pull.
// That needs a server that knows hold_max_ms, so a Pull of the same session comes before.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_HOLD_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_HOLD_H_

#include <cstdint>

#include "runtime/base/config.h"

namespace gradstream {

// Whether the client knows how to leave its Pulls with the server (ClientConfig::holds_pulls): hosts, and images whose
// board says that it has mains power (GS_HOLDS_PULLS). Reason: a battery does without it, and so does its flash.
#if !defined(GS_BARE_METAL) || defined(GS_HOLDS_PULLS)
inline constexpr bool kHoldsPulls = true;
#else
inline constexpr bool kHoldsPulls = false;
#endif

// How long a device lets the server keep a Pull, ms. Reason: home routers forget a connection that is silent for some
// minutes. One exchange a minute, of about 180 bytes, keeps them from it.
inline constexpr uint32_t kDeviceHoldMs = 60000;
static_assert(kDeviceHoldMs > kSessionKeepMs, "who holds keeps its session for longer than who waits");
static_assert(kDeviceHoldMs >= kAnswerDeadlineMs, "a Pull that is kept has longer than one that is answered at once");

// SYNC: the first frame of the answer to such a Pull, ms. Reason: at the end of the hold the server answers as any.
inline constexpr uint32_t kHeldAnswerDeadlineMs = kDeviceHoldMs + kAnswerDeadlineMs;

// What a session has come to with its held Pulls.
enum class PullHold : uint8_t {
  kUnknown,  // the server does not know yet how long it may keep a Pull
  kKnown,    // it does, from an earlier Pull of the session
  kOpen,     // a Pull is with the server, which may keep it; no frame has come since
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_HOLD_H_

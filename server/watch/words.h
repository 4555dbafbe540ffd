// The words of the wire's states, of a run's events and of a device's standing, as /status, the page, lineages and
// `gradstream status` have them: one table for each enum. Scripts read these words: none of them is ever renamed.
#ifndef GRADSTREAM_SERVER_WATCH_WORDS_H_
#define GRADSTREAM_SERVER_WATCH_WORDS_H_

#include <array>
#include <cstdint>

#include "runtime/wire/codec.h"
#include "server/base/enum_names.h"
#include "server/journal/journal_record.h"

namespace gradstream {

// What a device is to the run: the first that holds, in this order.
enum class DeviceStanding : uint8_t {
  kOff,      // pending, disabled or revoked
  kSilent,   // not connected, and not heard of for silent_after_ms
  kUnable,   // its image lacks what the run's tasks need, or it refused them for good
  kLate,     // it works on a version that is over, or its last update began at one
  kRefused,  // its last update was refused, or its task ended without one
  kNew,      // it has not sent an update yet
  kPartial,  // its last accepted update had fewer steps than asked
  kInTime,   // its last update counted, in time and with all its steps
};

template <>
inline constexpr auto kEnumNames<DeviceStanding> =
    std::to_array<EnumName<DeviceStanding>>({{"off", DeviceStanding::kOff},
                                             {"silent", DeviceStanding::kSilent},
                                             {"unable", DeviceStanding::kUnable},
                                             {"late", DeviceStanding::kLate},
                                             {"refused", DeviceStanding::kRefused},
                                             {"new", DeviceStanding::kNew},
                                             {"partial", DeviceStanding::kPartial},
                                             {"in_time", DeviceStanding::kInTime}});
template <>
inline constexpr auto kEnumNames<gs_RunState> =
    std::to_array<EnumName<gs_RunState>>({{"waiting", gs_RunState_RUN_STATE_NONE},
                                          {"active", gs_RunState_RUN_STATE_ACTIVE},
                                          {"stalled", gs_RunState_RUN_STATE_STALLED},
                                          {"paused", gs_RunState_RUN_STATE_PAUSED},
                                          {"finished", gs_RunState_RUN_STATE_FINISHED},
                                          {"stopped", gs_RunState_RUN_STATE_STOPPED}});
template <>
inline constexpr auto kEnumNames<RunEvent> = std::to_array<EnumName<RunEvent>>({{"extended", RunEvent::kExtended},
                                                                                {"stalled", RunEvent::kStalled},
                                                                                {"finished", RunEvent::kFinished},
                                                                                {"stopped", RunEvent::kStopped},
                                                                                {"paused", RunEvent::kPaused},
                                                                                {"resumed", RunEvent::kResumed}});
template <>
inline constexpr auto kEnumNames<gs_Verdict> =
    std::to_array<EnumName<gs_Verdict>>({{"folded", gs_Verdict_VERDICT_FOLDED},
                                         {"late", gs_Verdict_VERDICT_LATE},
                                         {"superseded", gs_Verdict_VERDICT_SUPERSEDED},
                                         {"abandoned", gs_Verdict_VERDICT_ABANDONED},
                                         {"refused", gs_Verdict_VERDICT_REFUSED},
                                         {"try_later", gs_Verdict_VERDICT_TRY_LATER}});

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_WORDS_H_

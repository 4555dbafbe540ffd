// The moves of fuzz_coordinator.cc: an input is two configuration bytes, then moves, each one byte and its arguments.
// Arguments that are zero make the honest message, so that fuzz_seeds.cc can write deep inputs by hand.
#ifndef GRADSTREAM_TESTS_FUZZ_FUZZ_COORDINATOR_H_
#define GRADSTREAM_TESTS_FUZZ_FUZZ_COORDINATOR_H_

#include <cstdint>

namespace gradstream::testing {

inline constexpr uint32_t kFuzzDeviceCount = 4;

enum class CoordinatorMove : uint8_t {
  kRound,    // every device: connect if needed, hello, pull, upload; all is durable at once
  kHello,    // device, spoil
  kPull,     // device, spoil
  kUpload,   // device, kind of values, spoil
  kResend,   // device: the last upload again, byte for byte
  kRefuse,   // device, spoil
  kStatus,   // device
  kRaw,      // device, size, bytes: a payload
  kClose,    // device: its session ends
  kConnect,  // device: a new session, the old one is still there
  kTime,     // milliseconds, as a power of two; the coordinator ticks
  kPersist,  // how many of the waiting records became durable
  kStorage,  // the disk fails, or is there again
  kCrash,    // what is not durable is gone; the rest is replayed
  kAdd,      // one more device
  kRevoke,   // device
  kStop,     // by the operator
  kFlood,    // device, move: the same honest message 100 times
  kCount,
};

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_FUZZ_FUZZ_COORDINATOR_H_

// The moves of fuzz_client.cc: an input is a configuration byte, then moves, each one byte and its arguments. All
// arguments zero is the friendly server, so that fuzz_seeds.cc can write deep inputs by hand.
#ifndef GRADSTREAM_TESTS_FUZZ_FUZZ_CLIENT_H_
#define GRADSTREAM_TESTS_FUZZ_FUZZ_CLIENT_H_

#include <cstdint>

namespace gradstream::testing {

enum class ClientMove : uint8_t {
  kPoll,     // the shell's loop, a few times
  kAnswer,   // what a good server says now; argument: 0, or which field to spoil
  kWelcome,  // a message out of turn; argument: which field to spoil
  kTask,
  kLog,
  kSnapshot,
  kAck,
  kWait,
  kRefuse,
  kDrain,
  kRawFrame,  // size, bytes
  kTime,      // milliseconds, as a power of two
  kLoseLink,
  kMalformed,
  kRestart,    // power cut: a new client, restored from what was saved; argument: 0, or which byte to spoil
  kFlipModel,  // a bit of the device's model goes wrong
  kCount,
};

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_FUZZ_FUZZ_CLIENT_H_

// Spoils honest messages of a device: what a faulty or hostile device could send, one field at a time.
#ifndef GRADSTREAM_TESTS_FUZZ_FUZZ_SPOIL_H_
#define GRADSTREAM_TESTS_FUZZ_FUZZ_SPOIL_H_

#include <cstdint>

#include "runtime/wire/codec.h"
#include "tests/fuzz/fuzz_input.h"

namespace gradstream::testing {

// Changes one field of the message. which: 0 for none, else it chooses the field; the input gives the new value.
void spoil(FuzzInput& in, uint32_t which, DeviceMessage& message);

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_FUZZ_FUZZ_SPOIL_H_

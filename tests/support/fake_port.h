// The port of a board that exists in a test only: time stands in a variable, lines are kept, storage is a vector.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_PORT_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_PORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/link/transport.h"

namespace gradstream {

struct FakePort {
  uint64_t now_ms = 1000;
  Transport transport;
  std::vector<std::string> lines;
  std::vector<uint8_t> storage;
  std::vector<std::vector<uint8_t>> steps;
  bool has_storage = false;
  bool keeps_steps = true;  // where it has storage
  bool has_random = false;
};

// The one that port_*() of fake_port.cc use.
FakePort& fake_port();

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_PORT_H_

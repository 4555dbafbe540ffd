// An application of include/gradstream/device.h in a FakeWorld. One device per process: IN_A_PROCESS gives each test
// one.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_APPLICATION_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_APPLICATION_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/client_main.h"
#include "include/gradstream/device.h"
#include "tests/support/fake_world.h"

namespace gradstream {

inline const std::string kIdentityText = "identity = device-1\nkey = " + [] {
  std::string key;
  for (int i = 0; i < 32; ++i) key += "07";  // as test_identity()
  return key;
}() + "\n";

struct ApplicationMemory {
  std::vector<uint8_t> arena = std::vector<uint8_t>(1 << 16);
  std::vector<float> ring = std::vector<float>(5 * 3);
};

inline gs_config base_config(ApplicationMemory& memory) {
  gs_config config = {};
  config.size = sizeof config;
  config.privacy = no_privacy();
  config.firmware_version = "test";
  config.identity_text = kIdentityText.data();
  config.identity_size = kIdentityText.size();
  config.arena = memory.arena.data();
  config.arena_size = memory.arena.size();
  return config;
}

inline FakeRun run_of(Shape shape) {
  FakeRun run;
  run.shape = shape;
  return run;
}

inline bool run_to_end(FakeWorld& world) {
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 20000 && !status.run_finished; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status(&status);
  }
  return status.run_finished;
}

// Runs a body in a child process, since gs_init() may be called once only. The child ends without the destructors of
// static objects: the device's would write to a link that the body has taken away.
#define IN_A_PROCESS(body)                               \
  EXPECT_EXIT(                                           \
      {                                                  \
        body;                                            \
        std::fflush(nullptr);                            \
        std::_Exit(testing::Test::HasFailure() ? 1 : 0); \
      },                                                 \
      testing::ExitedWithCode(0), "")

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_APPLICATION_H_

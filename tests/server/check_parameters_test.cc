#include "server/run/check_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/local_keys.h"
#include "server/run/model_keys.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CheckParameters, GoodOnesPass) {
  EXPECT_EQ(check_parameters(scalar_parameters()).sentence, "");
  EXPECT_EQ(check_parameters(tangent_parameters()).sentence, "");
}

// The order of the checks decides which of several faults a user is told: work, model, then what the server does.
TEST(CheckParameters, TheFirstFaultIsTold) {
  RunParameters p = tangent_parameters();
  p.trigger->device_count = 0;
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("device_count:"));
  p.name = "";
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("name:"));
  EXPECT_EQ(check_parameters(p).sentence, check_model(p).sentence);
  p.local->local_step_count = 0;
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("local_step_count:"));
  EXPECT_EQ(check_parameters(p).sentence, check_local_work(p).sentence);
}

// Stored by a release that did not know better it goes on.
TEST(CheckParameters, AFleetOfOneSpeedBeyondTheStalenessBeginsNoRun) {
  RunParameters p = asynchronous_parameters();
  EXPECT_EQ(check_new_run(p).sentence, "");
  p.trigger->device_count = p.trigger->staleness_max + 2;
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_THAT(check_new_run(p).sentence,
              testing::StartsWith("staleness_max, device_count, buffer_size: with a version for every "
                                  "update each of 10 devices of one speed is 9"));
  p.trigger->device_count -= 1;
  EXPECT_EQ(check_new_run(p).sentence, "");
  p.steps->step_size = -1;
  EXPECT_EQ(check_new_run(p).sentence, check_parameters(p).sentence);
}

}  // namespace
}  // namespace gradstream

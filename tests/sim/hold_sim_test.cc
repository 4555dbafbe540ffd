// Devices that wait on the server, and what goes wrong meanwhile: one digest, and no Pull that is held too long.
#include <gtest/gtest.h>

#include "sim/simulation.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

constexpr uint32_t kAllFaults = (1U << kFaultCount) - 1;

DeviceMessage pull_message(uint32_t hold_max_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_pull_tag;
  message.body.pull.hold_max_ms = hold_max_ms;
  return message;
}

ServerMessage wait_message() {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  return message;
}

// A server with one device, whose Pull is held because the run has no version yet.
struct Holding {
  Holding() : server(7, sim_parameters({}), {"d0"}) {
    server.start(1000);
    DeviceMessage hello = {};
    hello.which_body = gs_DeviceMessage_hello_tag;
    hello.body.hello.protocol_version = kProtocolVersion;
    auto& capabilities = hello.body.hello.capabilities;
    capabilities.manifolds = capabilities.solvers = capabilities.estimators = capabilities.encodings = ~0U;
    capabilities.features = ~0U;
    capabilities.problems_count = 1;
    std::copy_n("kpca", 5, capabilities.problems[0]);
    hello.body.hello.sample_count = 10;
    server.on_message(1, 0, hello, 1000);
  }
  Coordinator server;
};

TEST(HoldCheck, NoticesALateAnswerAndASecondOne) {
  Holding holding;
  HoldCheck check(5000, 0, 1);
  const DeviceMessage pull = pull_message(2000);
  check.on_message(1, 0, pull, holding.server, 1000);
  holding.server.on_message(1, 0, pull, 1000);
  ASSERT_TRUE(holding.server.is_held(1));
  EXPECT_EQ(check.check(holding.server, 3000), "");
  EXPECT_NE(check.check(holding.server, 3001), "") << "nobody ticked";
  EXPECT_EQ(check.hold_count(), 1U);
  // The same Pull again: one answer is owed.
  check.on_message(1, 0, pull, holding.server, 3001);
  holding.server.on_message(1, 0, pull, 3001);
  EXPECT_EQ(check.check(holding.server, 3001), "");
  EXPECT_EQ(check.on_sent(1, wait_message(), 3001), "");
  EXPECT_NE(check.on_sent(1, wait_message(), 3001), "");
}

// A server that lets go of a Pull and says nothing would look like one that never held it.
TEST(HoldCheck, NoticesAPullThatIsNeverAnswered) {
  Holding holding;
  HoldCheck check(5000, 0, 1);
  const DeviceMessage pull = pull_message(2000);
  check.on_message(1, 0, pull, holding.server, 1000);  // and the server never sees it
  EXPECT_EQ(check.check(holding.server, 3000 + kAnswerDeadlineMs), "");
  EXPECT_NE(check.check(holding.server, 3001 + kAnswerDeadlineMs), "");
  check.forget(1);
  EXPECT_EQ(check.check(holding.server, 3001 + kAnswerDeadlineMs), "") << "its session has ended";
}

// 48 schedules in which devices are cut while they are held, pull twice, and the server drains.
TEST(Simulation, OneDigestWhereDevicesAreHeld) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    const SimResult polling = Simulation(options, 0).run();
    options.holds_pulls = true;
    const SimResult calm = Simulation(options, 0).run();
    ASSERT_EQ(calm.fault, "");
    EXPECT_EQ(calm.digest, polling.digest);
    EXPECT_GT(calm.hold_count, 0U);
    EXPECT_EQ(calm.client_deadline_count + calm.session_deadline_count, 0U);
    options.fault_bits = kAllFaults;
    FaultCounts faults = {};
    for (uint32_t schedule = 0; schedule < campaign_draws(48); ++schedule) {
      options.arrival_rate = schedule % 2 == 0 ? 0 : 100;
      const SimResult result = Simulation(options, schedule).run();
      ASSERT_EQ(result.fault, "") << "schedule " << schedule;
      ASSERT_EQ(result.digest, calm.digest) << "schedule " << schedule;
      for (size_t i = 0; i < kFaultCount; ++i) {
        faults[i] += result.faults[i];
      }
    }
    for (size_t i = 0; i < kFaultCount; ++i) {
      EXPECT_TRUE(faults[i] > 0 || (kHoldFaultBits >> i & 1U) == 0) << kFaultNames[i];
    }
  }
}

// Cohorts, and no rounds: who is not asked stays held, and a version wakes whoever it is for.
TEST(Simulation, DevicesAreHeldInEveryKindOfRun) {
  SimOptions options;
  options.holds_pulls = true;
  options.participation = Participation::kSchemeOne;
  const uint64_t digest = Simulation(options, 0).run().digest;
  options.fault_bits = kAllFaults;
  for (uint32_t schedule = 0; schedule < campaign_draws(6); ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    ASSERT_EQ(result.fault, "") << "schedule " << schedule;
    ASSERT_EQ(result.digest, digest) << "schedule " << schedule;
  }
  options.participation = Participation::kAll;
  options.buffer_size = 2;
  for (uint32_t schedule = 0; schedule < campaign_draws(6); ++schedule) {
    ASSERT_EQ(Simulation(options, schedule).run().fault, "") << "schedule " << schedule;
  }
}

}  // namespace
}  // namespace gradstream

// What every engine promises (server/engine/engine.h): one body of tests for all of them.
#ifndef GRADSTREAM_TESTS_SUPPORT_ENGINE_CONTRACT_H_
#define GRADSTREAM_TESTS_SUPPORT_ENGINE_CONTRACT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/engine/engine.h"

namespace gradstream {

// What happens to the next call of a node.
enum class EngineFault : uint8_t {
  kNever,     // it never reaches the engine, and its node is told kUnknown
  kAnswer,    // it is executed, and its node is told kUnknown
  kLate,      // its node is told kUnknown, and it is executed after that, but before what the node asks then
  kMuchLate,  // its node is told kUnknown, and it is executed when the node's next two calls are answered
};

// An engine with an empty run at version 0, and what a test does to it.
class EngineHarness {
 public:
  virtual ~EngineHarness() = default;
  virtual std::unique_ptr<EngineNode> connect(const std::string& node) = 0;
  // Waits until the reply to this call is there.
  virtual EngineReply wait(EngineNode& node, EngineTicket ticket) = 0;
  // Waits until nothing is under way.
  virtual void settle() = 0;
  virtual void fault(const std::string& node, EngineFault fault) = 0;
  // The lease that is held ends by the engine's clock.
  virtual void pass_lease() = 0;
  // A change of the fleet of its own writes the row; its number is not read from it.
  virtual void change_fleet(const FleetChange& row) = 0;
  // An operator changes what the run has come to.
  virtual void change_state(EngineRunState state) = 0;
};

// All sums of the version, from place to place.
inline std::vector<std::vector<uint8_t>> read_all_sums(EngineHarness& harness, EngineNode& node, uint32_t version) {
  std::vector<std::vector<uint8_t>> sums;
  for (SumPlace after;;) {
    const EngineReply reply = harness.wait(node, node.read_sums(version, after));
    EXPECT_EQ(reply.outcome, EngineOutcome::kCommitted);
    if (reply.sums.empty()) {
      return sums;
    }
    for (const BatchSum& one : reply.sums) {
      sums.push_back(one.bytes);
      after = one.place;
    }
  }
}

using MakeEngineHarness = std::unique_ptr<EngineHarness> (*)();
void expect_exactly_once(MakeEngineHarness make);      // tasks, verdicts and sums: committed, conflict
void expect_a_cut(MakeEngineHarness make);             // a batch is in the version before, or nowhere
void expect_unknowns_resolve(MakeEngineHarness make);  // whichever way the answer was lost
void expect_no_guess(MakeEngineHarness make);          // where joins came before the question
void expect_a_seal(MakeEngineHarness make);            // the sums of a sealed version are a fixed set
void expect_sums_by_place(MakeEngineHarness make);     // each sum once, from any place on
void expect_a_memory(MakeEngineHarness make);          // the last update of each device, and those of the open version
void expect_one_clock(MakeEngineHarness make);         // of leases and of nodes
void expect_one_publisher(MakeEngineHarness make);     // lease, holder, term and version
void expect_a_released_lease(MakeEngineHarness make);  // it is free at once, by its holder alone
void expect_states(MakeEngineHarness make);            // nothing is sealed but of an active run
void expect_fleet_changes(MakeEngineHarness make);     // each in its turn, and a row as it is now

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_ENGINE_CONTRACT_H_

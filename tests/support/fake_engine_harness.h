// The engine of the simulator, as the tests of every engine want it.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_ENGINE_HARNESS_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_ENGINE_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "sim/fake_engine.h"
#include "tests/support/engine_contract.h"

namespace gradstream {

class FakeHarness : public EngineHarness {
 public:
  explicit FakeHarness(uint32_t lost_odds = 0, uint32_t seed = 1, size_t sum_count_max = 3)
      : engine_({.seed = seed, .lost_odds = lost_odds, .sum_count_max = sum_count_max}) {}
  std::unique_ptr<EngineNode> connect(const std::string& node) override { return engine_.connect(node); }
  EngineReply wait(EngineNode& node, EngineTicket ticket) override {
    for (;;) {
      GS_ASSERT(engine_.next_ms() != UINT64_MAX);
      now_ms_ = engine_.next_ms();
      engine_.advance(now_ms_);
      for (EngineReply& reply : node.take_replies()) {
        if (reply.ticket == ticket) {
          return reply;
        }
      }
    }
  }
  void settle() override {
    while (engine_.next_ms() != UINT64_MAX) {
      now_ms_ = engine_.next_ms();
      engine_.advance(now_ms_);
    }
  }
  void fault(const std::string& node, EngineFault fault) override {
    engine_.plant(node, fault == EngineFault::kNever    ? FakeEngine::Fault::kLostBefore
                        : fault == EngineFault::kAnswer ? FakeEngine::Fault::kLostAfter
                        : fault == EngineFault::kLate   ? FakeEngine::Fault::kLate
                                                        : FakeEngine::Fault::kMuchLate);
  }
  void pass_lease() override { engine_.advance(now_ms_ += 3'001); }
  void change_fleet(const FleetChange& row) override { engine_.change_fleet(row); }
  void change_state(EngineRunState state) override { engine_.change_state(state); }
  FakeEngine& engine() { return engine_; }

 private:
  FakeEngine engine_;
  uint64_t now_ms_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_ENGINE_HARNESS_H_

// The end of a run by its records: when it comes, why, and that a crash before it changes nothing.
#include <gtest/gtest.h>

#include "server/coordinator/ledger.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters svrg_parameters(Real stop_gradient_norm) {
  RunParameters p = tangent_parameters();
  p.local->solver = SolverId::kSvrg;
  p.local->batch_mode = BatchMode::kAll;
  p.trigger->round_count = 1;
  p.trigger.keys().stop_gradient_norm = stop_gradient_norm;
  return p;
}

// Runs to the end; in `phases` versions, each of all devices.
void run_phases(TestServer* server, uint32_t phases) {
  server->start();
  server->join(4);
  for (uint32_t phase = 0; phase < phases; ++phase) {
    server->round(4);
  }
}

// The process dies when the version is stored and the end is not: the next one comes to the same end.
TEST(LedgerEnd, AnEndThatACrashCutOffIsMadeUpFor) {
  for (const bool is_stopped : {true, false}) {
    TestServer server(svrg_parameters(is_stopped ? 1e6F : 0));
    run_phases(&server, is_stopped ? 1 : 2);
    const std::vector<JournalRecord>& journal = server.store.records();
    ASSERT_TRUE(journal.back().is_event(RunEvent::kFinished));
    Coordinator next(1, server.parameters, server.names);
    for (size_t i = 0; i + 1 < journal.size(); ++i) {
      ASSERT_EQ(next.replay(journal[i]), Status::kOk);
    }
    EXPECT_EQ(next.run_state(), gs_RunState_RUN_STATE_ACTIVE);
    next.start(server.now_ms);
    EXPECT_EQ(next.run_state(), gs_RunState_RUN_STATE_FINISHED);
    EXPECT_EQ(next.end_cause().cause, is_stopped ? "stop_gradient_norm" : "");
    EXPECT_EQ(next.end_cause(), server.coordinator->end_cause());
    EXPECT_EQ(next.state_text(), server.coordinator->state_text());
  }
}

TEST(LedgerEnd, TheLogSaysWhyARunIsFinished) {
  TestServer server(svrg_parameters(0));
  run_phases(&server, 2);
  EXPECT_TRUE(server.has_log("run_finished version=2 cause=round_count text=\"all rounds are done\""));
  EXPECT_TRUE(server.coordinator->stall_cause().empty());
}

}  // namespace
}  // namespace gradstream

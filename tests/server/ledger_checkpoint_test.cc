#include <gtest/gtest.h>

#include "server/coordinator/ledger.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

std::vector<uint8_t> state_of(Ledger* ledger) {
  StateArchive io;
  ledger->exchange(io);
  return io.take_bytes();
}

// A ledger that follows three rounds of a run.
struct Followed {
  explicit Followed(const RunParameters& p) : server(p), ledger(p, server.names) {
    server.start();
    server.join(4);
    for (int i = 0; i < 3; ++i) {
      server.round(4);
    }
    for (const JournalRecord& record : server.store.records()) {
      GS_ASSERT(ledger.apply(record) == Status::kOk);
    }
  }
  TestServer server;
  Ledger ledger;
};

TEST(LedgerCheckpoint, ReadsBackToTheSameState) {
  for (const RunParameters& p : {scalar_parameters(), tangent_parameters()}) {
    Followed followed(p);
    const std::vector<uint8_t> bytes = state_of(&followed.ledger);
    EXPECT_EQ(followed.ledger.update_count(), 12U);
    Ledger read(p, followed.server.names);
    StateArchive io(bytes);
    read.exchange(io);
    ASSERT_TRUE(io.is_sound());
    EXPECT_TRUE(io.is_at_end());
    EXPECT_EQ(read.state_text(), followed.ledger.state_text());
    EXPECT_EQ(state_of(&read), bytes);
  }
}

// The open version's cohort is the fleet's. Records that devices may still want keep no list of who was asked.
TEST(LedgerCheckpoint, HoldsNoCohortsOfVersionsBefore) {
  RunParameters p = scalar_parameters();
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = 4;
  Followed followed(p);
  const SyncPlan plan = followed.ledger.run().plan_sync(true, followed.ledger.run().version() - 1, 0);
  ASSERT_EQ(plan.records.size(), 1U);
  EXPECT_EQ(plan.records.front()->cohort, (Cohort{4, {0}}));
  const std::vector<uint8_t> bytes = state_of(&followed.ledger);
  Ledger read(p, followed.server.names);
  StateArchive io(bytes);
  read.exchange(io);
  ASSERT_TRUE(io.is_sound() && io.is_at_end());
  EXPECT_EQ(read.state_text(), followed.ledger.state_text());
  EXPECT_EQ(read.fleet().asked_count(), 4U);
}

// Devices that were enrolled later are asked from the next version on; a fleet that has fewer is another one.
TEST(LedgerCheckpoint, ALargerFleetReadsItAndASmallerOneDoesNot) {
  Followed followed(scalar_parameters());
  const std::vector<uint8_t> bytes = state_of(&followed.ledger);
  std::vector<std::string> names = followed.server.names;
  names.push_back("late");
  Ledger larger(followed.server.parameters, names);
  StateArchive io(bytes);
  larger.exchange(io);
  EXPECT_TRUE(io.is_sound());
  EXPECT_TRUE(larger.fleet().is_member(4));
  EXPECT_EQ(larger.fleet().at(4).row.task.sequence, 0U);
  names.resize(3);
  Ledger smaller(followed.server.parameters, names);
  StateArchive short_io(bytes);
  smaller.exchange(short_io);
  EXPECT_FALSE(short_io.is_sound());
}

// Another model of the same size does not reach the digest.
TEST(LedgerCheckpoint, AModelThatIsNotTheDigestsIsNotSound) {
  Followed followed(scalar_parameters());
  std::vector<uint8_t> bytes = state_of(&followed.ledger);
  constexpr size_t kInModel = 16;
  bytes[kInModel] ^= 1;
  Ledger read(followed.server.parameters, followed.server.names);
  StateArchive io(bytes);
  read.exchange(io);
  EXPECT_FALSE(io.is_sound());
}

}  // namespace
}  // namespace gradstream

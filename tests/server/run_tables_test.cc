// The runs: their states, and which one is current.
#include <gtest/gtest.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

TEST(RunTables, TheCurrentRunIsTheActiveOneElseTheLatest) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::optional<RunRow> current = value_of(database.current_run());
  EXPECT_FALSE(current);
  RunRow run;
  for (uint32_t id = 1; id <= 3; ++id) {
    run.id = value_of(database.create_run(run));
    ASSERT_EQ(database.set_run_state(id, StoredRunState::kPaused), StoreStatus::kOk);
  }
  const auto current_id = [&] {
    current = value_of(database.current_run());
    return current->id;
  };
  EXPECT_EQ(current_id(), 3U);
  ASSERT_EQ(database.set_run_state(2, StoredRunState::kResumeRequested), StoreStatus::kOk);
  EXPECT_EQ(current_id(), 2U);
  // A state is only exchanged for one that is still there.
  bool changed = value_of(database.exchange_run_state(2, StoredRunState::kPauseRequested, StoredRunState::kPaused));
  EXPECT_FALSE(changed);
  changed = value_of(database.exchange_run_state(2, StoredRunState::kResumeRequested, StoredRunState::kActive));
  EXPECT_TRUE(changed);
  EXPECT_EQ(current_id(), 2U);
  EXPECT_EQ(current->state, StoredRunState::kActive);
  ASSERT_EQ(database.set_run_state(2, StoredRunState::kStopped), StoreStatus::kOk);
  EXPECT_EQ(current_id(), 3U);
}

}  // namespace
}  // namespace gradstream

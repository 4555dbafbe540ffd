// The runs: their states, and which one is current.
#include <gtest/gtest.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

TEST(RunTables, TheCurrentRunIsTheActiveOneElseTheLatest) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  std::optional<RunRow> current;
  ASSERT_EQ(database.current_run(&current), StoreStatus::kOk);
  EXPECT_FALSE(current);
  RunRow run;
  for (uint32_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(database.create_run(&run), StoreStatus::kOk);
    ASSERT_EQ(database.set_run_state(id, StoredRunState::kPaused), StoreStatus::kOk);
  }
  const auto current_id = [&] {
    EXPECT_EQ(database.current_run(&current), StoreStatus::kOk);
    return current->id;
  };
  EXPECT_EQ(current_id(), 3U);
  ASSERT_EQ(database.set_run_state(2, StoredRunState::kResumeRequested), StoreStatus::kOk);
  EXPECT_EQ(current_id(), 2U);
  // A state is only exchanged for one that is still there.
  bool changed = true;
  ASSERT_EQ(database.exchange_run_state(2, StoredRunState::kPauseRequested, StoredRunState::kPaused, &changed),
            StoreStatus::kOk);
  EXPECT_FALSE(changed);
  ASSERT_EQ(database.exchange_run_state(2, StoredRunState::kResumeRequested, StoredRunState::kActive, &changed),
            StoreStatus::kOk);
  EXPECT_TRUE(changed);
  EXPECT_EQ(current_id(), 2U);
  EXPECT_EQ(current->state, StoredRunState::kActive);
  ASSERT_EQ(database.set_run_state(2, StoredRunState::kStopped), StoreStatus::kOk);
  EXPECT_EQ(current_id(), 3U);
}

}  // namespace
}  // namespace gradstream

// What the end of a journal says of a run.
#include "server/program/past_runs.h"

#include <gtest/gtest.h>

#include "server/program/config.h"
#include "server/store/journal_table.h"
#include "tests/support/expected_value.h"
#include "tests/support/fleet_database.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint64_t kBeganMs = 1'700'000'000'000;

// A run of two devices with so many versions.
class PastRunsTest : public testing::Test {
 protected:
  RunRow begin(const std::string& name, StoredRunState state, uint32_t versions) {
    RunRow row;
    row.name = name;
    RunParameters parameters = scalar_parameters();
    parameters.name = name;
    row.source = run_source(parameters);
    row.created_ms = kBeganMs;
    row.state = state;
    row.id = value_of(database_.command.create_run(row));
    SqliteStore journal(database_.command, row.id);
    std::vector<JournalRecord> records;
    for (uint32_t version = 0; version <= versions; ++version) {
      for (uint32_t device = 0; device < 2 && version > 0; ++device) {
        records.push_back(JournalRecord::update({.device = device,
                                                 .task_sequence = version,
                                                 .base_version = version - 1,
                                                 .version = version,
                                                 .verdict = gs_Verdict_VERDICT_FOLDED,
                                                 .loss_before = 1.0F / static_cast<float>(version + device),
                                                 .values = {1, 2, 3}}));
      }
      JournalRecord made = JournalRecord::begin_version({.version = version});
      records.push_back(std::move(made));
    }
    for (size_t i = 0; i < records.size(); ++i) {
      records[i].set_sequence(i + 1);
      records[i].set_time_ms(kBeganMs + 1000 * (i + 1));
    }
    EXPECT_EQ(journal.append(records), StoreStatus::kOk);
    return row;
  }

  FleetDatabase database_;
};

TEST_F(PastRunsTest, TheLastVersionTellsTheLoss) {
  const RunRow row = begin("pumps", StoredRunState::kFinished, 4);
  PastRun run;
  ASSERT_EQ(read_past_run(database_.fleet, row, &run), StoreStatus::kOk);
  EXPECT_EQ(run.number, row.id);
  EXPECT_EQ(run.name, "pumps");
  EXPECT_EQ(run.problem, "kpca");
  EXPECT_EQ(run.state, "finished");
  EXPECT_EQ(run.versions, 4U);
  EXPECT_EQ(run.began_ms, kBeganMs);
  EXPECT_EQ(run.ended_ms, kBeganMs + 13'000) << "of its last record";
  EXPECT_FLOAT_EQ(static_cast<float>(run.loss.value_or(0)), (1.0F / 4 + 1.0F / 5) / 2);
  EXPECT_EQ(run.quality, "");
}

TEST_F(PastRunsTest, ARunWithoutAVersionHasNoFigures) {
  RunRow row = begin("young", StoredRunState::kPaused, 0);
  row.source = "of another release";
  PastRun run;
  ASSERT_EQ(read_past_run(database_.fleet, row, &run), StoreStatus::kOk);
  EXPECT_EQ(run.versions, 0U);
  EXPECT_FALSE(run.loss);
  EXPECT_EQ(run.ended_ms, 0U) << "it is not over";
  EXPECT_EQ(run.problem, "");
}

TEST_F(PastRunsTest, TheServedRunIsLeftOutAndAKnownOneIsNotReadAgain) {
  const std::vector<RunRow> rows = {begin("a", StoredRunState::kFinished, 1), begin("b", StoredRunState::kPaused, 2),
                                    begin("c", StoredRunState::kActive, 3)};
  std::vector<PastRun> runs;
  ASSERT_EQ(read_past_runs(database_.fleet, rows, 3, {}, &runs), StoreStatus::kOk);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].versions, 2U);
  std::vector<PastRun> known = runs;
  known[0].versions = 77;
  known[1].state = "active";  // it was, when its journal was read
  ASSERT_EQ(read_past_runs(database_.fleet, rows, 3, known, &runs), StoreStatus::kOk);
  EXPECT_EQ(runs[0].versions, 77U);
  EXPECT_EQ(runs[1].versions, 2U);
  EXPECT_EQ(runs[1].state, "paused");
}

TEST(PastRunsTime, PeopleReadIt) {
  EXPECT_EQ(time_text(1'700'000'000'000), "2023-11-14 22:13:20 UTC");
  EXPECT_EQ(time_text(0), "");
}

}  // namespace
}  // namespace gradstream

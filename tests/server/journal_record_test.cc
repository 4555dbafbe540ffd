#include "server/journal/journal_record.h"

#include <gtest/gtest.h>

#include "server/run/trigger.h"

namespace gradstream {
namespace {

// The columns are the format of databases: what stands where never changes.
TEST(JournalRecord, TasksAndUpdatesHaveTheirColumns) {
  JournalRow task;
  task.kind = RecordKind::kTaskIssued;
  task.device = 3;
  task.task_sequence = 9;
  task.version = 5;
  task.steps_done = 4;
  task.weight = 77;
  EXPECT_EQ(
      JournalRecord::task({.device = 3, .task_sequence = 9, .version = 5, .step_count = 4, .sample_count = 77}).row(),
      task);
  JournalRow update;
  update.kind = RecordKind::kUpdate;
  update.device = 3;
  update.task_sequence = 9;
  update.base_version = 5;
  update.version = 8;
  update.steps_done = 2;
  update.weight = 1000;
  update.verdict = 2;
  update.detail = 1500;
  update.step_scale = 4;
  update.loss_before = 2.5F;
  update.loss_after = 1.5F;
  update.payload = {1, 2, 3, 4};
  EXPECT_EQ(JournalRecord::update({.device = 3,
                                   .task_sequence = 9,
                                   .base_version = 5,
                                   .version = 8,
                                   .steps_done = 2,
                                   .weight = 1000,
                                   .verdict = 2,
                                   .inverse_participation = 4,
                                   .step_time_us = 1500,
                                   .loss_before = 2.5F,
                                   .loss_after = 1.5F,
                                   .values = {1, 2, 3, 4}})
                .row(),
            update);
}

TEST(JournalRecord, NotesOfAnUpdateHaveAColumnOfTheirOwn) {
  const UpdateNotes notes = {UpdateLine{-1, 2}, UpdateEvaluation{3, 4, 0.5F}};
  const JournalRecord record = JournalRecord::update({.device = 3, .values = {1, 2, 3, 4}, .notes = notes});
  EXPECT_EQ(record.row().notes, encode_notes(notes));
  EXPECT_EQ(record.notes(), notes);
  EXPECT_TRUE(JournalRecord::update({.device = 3}).row().notes.empty());
  JournalRow broken = record.row();
  broken.notes.pop_back();
  UpdateNotes out;
  EXPECT_EQ(JournalRecord(broken).read_notes(&out), Status::kDataCorrupt);
  EXPECT_EQ(JournalRecord(broken).notes(), UpdateNotes());
}

TEST(JournalRecord, AVersionSaysWhatItsClipDecided) {
  const ClipDecided decided = {0xfedcba9876543210ULL, 0x89abcdefU};
  const JournalRecord record = JournalRecord::begin_version({.version = 8, .clip = decided});
  EXPECT_EQ(record.row().notes,
            (std::vector<uint8_t>{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0xef, 0xcd, 0xab, 0x89}));
  std::optional<ClipDecided> clip;
  ASSERT_EQ(record.read_clip(&clip), Status::kOk);
  EXPECT_EQ(clip, decided);
  ASSERT_EQ(JournalRecord::begin_version({.version = 8}).read_clip(&clip), Status::kOk);
  EXPECT_FALSE(clip.has_value());
  JournalRow broken = record.row();
  broken.notes.pop_back();
  EXPECT_EQ(JournalRecord(broken).read_clip(&clip), Status::kDataCorrupt);
}

TEST(JournalRecord, EndsVersionsAndEventsHaveTheirColumns) {
  JournalRow verdict;
  verdict.kind = RecordKind::kVerdict;
  verdict.device = 3;
  verdict.task_sequence = 9;
  verdict.version = 5;
  verdict.verdict = 4;
  verdict.reason = 6;
  verdict.detail = 1500;
  EXPECT_EQ(JournalRecord::verdict(
                {.device = 3, .task_sequence = 9, .version = 5, .verdict = 4, .reason = 6, .step_time_us = 1500})
                .row(),
            verdict);
  JournalRow version;
  version.kind = RecordKind::kVersion;
  version.version = 8;
  version.step_scale = 0.5F;
  version.digest = 0xfedcba9876543210ULL;
  version.detail = 2;
  version.payload = {7, 8};
  EXPECT_EQ(JournalRecord::begin_version({.version = 8,
                                          .step_scale = 0.5F,
                                          .digest = 0xfedcba9876543210ULL,
                                          .trigger = Trigger::kDeadline,
                                          .payload = {7, 8}})
                .row(),
            version);
  JournalRow event;
  event.kind = RecordKind::kRunState;
  event.version = 8;
  event.detail = 2;
  event.payload = {9};
  EXPECT_EQ(JournalRecord::run_state({.event = RunEvent::kStalled, .version = 8, .cause = {9}}).row(), event);
}

TEST(JournalRecord, ReadersHaveTheNamesOfTheirKind) {
  const JournalRecord task = JournalRecord::task({.device = 3, .step_count = 4, .sample_count = 77});
  EXPECT_EQ(task.task_step_count(), 4U);
  EXPECT_EQ(task.task_sample_count(), 77U);
  EXPECT_TRUE(task.has_device());
  EXPECT_FALSE(task.is_judgement());
  JournalRecord update = JournalRecord::update(
      {.device = 3, .base_version = 5, .version = 8, .weight = 9, .inverse_participation = 4, .step_time_us = 15});
  EXPECT_EQ(update.staleness(), 2U);
  EXPECT_EQ(update.weight(), 9U);
  EXPECT_EQ(update.inverse_participation(), 4);
  EXPECT_EQ(update.step_time_us(), 15U);
  EXPECT_TRUE(update.has_device() && update.is_judgement());
  JournalRow older = update.row();
  older.step_scale = 0;  // as releases wrote it that did not know participation
  EXPECT_EQ(JournalRecord(older).inverse_participation(), 1);
  const JournalRecord version = JournalRecord::begin_version({.version = 8, .trigger = Trigger::kGoal});
  EXPECT_EQ(version.trigger(), Trigger::kGoal);
  EXPECT_FALSE(version.has_device());
  EXPECT_FALSE(version.promise().has_value()) << "also of releases that did not know it";
  EXPECT_EQ(JournalRecord::begin_version({.version = 8, .promise = 0.25F}).promise(), 0.25F);
  EXPECT_EQ(JournalRecord::begin_version({.version = 8, .promise = 0.0F}).promise(), 0.0F);
  EXPECT_FALSE(version.is_event(RunEvent::kExtended));  // whose number is that of the trigger
  const JournalRecord event = JournalRecord::run_state({.event = RunEvent::kExtended});
  EXPECT_TRUE(event.is_event(RunEvent::kExtended));
  EXPECT_FALSE(event.is_event(RunEvent::kResumed));
  update.set_sequence(12);
  update.set_time_ms(34);
  EXPECT_EQ(update.sequence(), 12U);
  EXPECT_EQ(update.time_ms(), 34U);
}

// A column of one kind is not read as that of another.
TEST(JournalRecordDeathTest, AReaderOfAnotherKindIsAFault) {
  const JournalRecord version = JournalRecord::begin_version({.version = 8, .trigger = Trigger::kGoal});
  EXPECT_DEATH(static_cast<void>(version.run_event()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(version.device()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(version.step_time_us()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(version.inverse_participation()), "assertion failed");
  const JournalRecord event = JournalRecord::run_state({.event = RunEvent::kExtended});
  EXPECT_DEATH(static_cast<void>(event.trigger()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(event.step_scale()), "assertion failed");
  const JournalRecord task = JournalRecord::task({});
  EXPECT_DEATH(static_cast<void>(task.weight()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(task.verdict()), "assertion failed");
}

}  // namespace
}  // namespace gradstream

#include "server/coordinator/device_row.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

JournalRecord decided(JournalRecord record, uint64_t sequence) {
  record.set_sequence(sequence);
  record.set_time_ms(1000 * sequence);
  return record;
}

JournalRecord issued(uint32_t task_sequence, uint32_t version, uint64_t sequence) {
  return decided(JournalRecord::task({.task_sequence = task_sequence, .version = version}), sequence);
}

JournalRecord accepted(uint32_t task_sequence, uint32_t base_version, uint32_t version, uint32_t steps,
                       uint64_t sequence) {
  const bool is_late = base_version + 1 < version;
  return decided(JournalRecord::update({.task_sequence = task_sequence,
                                        .base_version = base_version,
                                        .version = version,
                                        .steps_done = steps,
                                        .weight = 1,
                                        .verdict = is_late ? gs_Verdict_VERDICT_LATE : gs_Verdict_VERDICT_FOLDED,
                                        .step_time_us = 400}),
                 sequence);
}

JournalRecord ended(uint32_t task_sequence, uint32_t version, gs_Verdict verdict, gs_Reason reason, uint64_t sequence) {
  return decided(JournalRecord::verdict(
                     {.task_sequence = task_sequence, .version = version, .verdict = verdict, .reason = reason}),
                 sequence);
}

TEST(DeviceRow, WhatASequenceIsWorth) {
  DeviceRow row;
  EXPECT_EQ(sequence_state(row, 0), SequenceState::kUnknown);
  EXPECT_EQ(sequence_state(row, 1), SequenceState::kUnknown);
  row.task.sequence = 5;
  row.task.is_open = true;
  row.judged.task_sequence = 3;
  EXPECT_EQ(sequence_state(row, 5), SequenceState::kOpen);
  EXPECT_EQ(sequence_state(row, 4), SequenceState::kSuperseded);  // a newer task was issued over it
  EXPECT_EQ(sequence_state(row, 3), SequenceState::kJudged);
  EXPECT_EQ(sequence_state(row, 2), SequenceState::kSuperseded);
  EXPECT_EQ(sequence_state(row, 6), SequenceState::kUnknown);
  row.judged.task_sequence = 5;
  row.task.is_open = false;
  EXPECT_EQ(sequence_state(row, 5), SequenceState::kJudged);
  EXPECT_EQ(sequence_state(row, 3), SequenceState::kSuperseded);
}

TEST(DeviceRow, FollowsATaskAndItsUpdate) {
  DeviceRow row;
  follow_task(issued(1, 4, 10), 6, 32, &row);
  EXPECT_EQ(row.task.sequence, 1U);
  EXPECT_EQ(row.task.version, 4U);
  EXPECT_EQ(row.task.record_sequence, 10U);
  EXPECT_EQ(row.task.issued_ms, 10'000U);
  EXPECT_EQ(row.task.steps, 6U);
  EXPECT_EQ(row.task.samples, 32U);
  EXPECT_EQ(sequence_state(row, 1), SequenceState::kOpen);

  follow_update(accepted(1, 4, 5, 6, 11), {.staleness_weight = 1, .is_round = true}, &row);
  const JudgedTask wanted = {1, gs_Verdict_VERDICT_FOLDED, gs_Reason_REASON_NONE, 5, 1, 11};
  EXPECT_EQ(row.judged, wanted);
  EXPECT_EQ(row.accepted, wanted);
  EXPECT_EQ(row.answered_version, 4U);
  EXPECT_EQ(row.step_time_us, 400U);
  EXPECT_EQ(row.tally.rounds_joined, 1U);
  EXPECT_EQ(row.tally.updates_folded, 1U);
  EXPECT_EQ(row.tally.updates_late, 0U);
  EXPECT_EQ(row.tally.updates_partial, 0U);
  EXPECT_EQ(row.tally.judged_version, 5U);
  EXPECT_EQ(sequence_state(row, 1), SequenceState::kJudged);
}

// A late one answers no version, and an anchor phase is no round of the device.
TEST(DeviceRow, FollowsALateUpdateWithFewerSteps) {
  DeviceRow row;
  follow_task(issued(1, 4, 10), 6, 1, &row);
  follow_update(accepted(1, 4, 7, 2, 20), {.staleness_weight = 0.25F}, &row);
  EXPECT_EQ(row.judged.verdict, gs_Verdict_VERDICT_LATE);
  EXPECT_EQ(row.judged.staleness_weight, 0.25F);
  EXPECT_EQ(row.answered_version, kNoVersion);
  EXPECT_EQ(row.tally.rounds_joined, 0U);
  EXPECT_EQ(row.tally.updates_folded, 0U);
  EXPECT_EQ(row.tally.updates_late, 1U);
  EXPECT_EQ(row.tally.updates_partial, 1U);
  EXPECT_EQ(row.tally.last_staleness, 2U);
  EXPECT_EQ(row.tally.last_steps, 2U);
  EXPECT_EQ(row.tally.last_steps_asked, 6U);
}

// The accepted verdict outlives those of the tasks after it, which ended without an update.
TEST(DeviceRow, KeepsTheLastAcceptedVerdict) {
  DeviceRow row;
  follow_task(issued(1, 4, 10), 6, 1, &row);
  follow_update(accepted(1, 4, 5, 6, 11), {.staleness_weight = 1}, &row);
  follow_task(issued(2, 5, 12), 6, 1, &row);
  follow_verdict(ended(2, 5, gs_Verdict_VERDICT_ABANDONED, gs_Reason_REASON_NONE, 13), &row);
  EXPECT_EQ(sequence_state(row, 1), SequenceState::kJudged);
  EXPECT_EQ(judged_task(row, 1).verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(judged_task(row, 2).verdict, gs_Verdict_VERDICT_ABANDONED);
  EXPECT_EQ(row.refusals.count, 0U) << "an abandoned task is no refusal";
}

TEST(DeviceRow, CountsTheRefusalsOfOneVersion) {
  DeviceRow row;
  const struct {
    uint32_t version;
    uint32_t count;
  } kTasks[] = {{4, 1}, {4, 2}, {5, 1}, {5, 2}, {5, 3}};
  uint32_t task = 0;
  for (const auto& [version, count] : kTasks) {
    ++task;
    follow_task(issued(task, version, 2 * task), 6, 1, &row);
    follow_verdict(ended(task, version, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_NOT_FINITE, 2 * task + 1), &row);
    EXPECT_EQ(row.refusals.version, version);
    EXPECT_EQ(row.refusals.count, count);
    EXPECT_EQ(row.tally.tasks_refused, task);
  }
}

// Its owner has thought again: an answer of a stage of units lets sums out, and another update says nothing of them.
TEST(DeviceRow, KnowsWhoseOwnerKeepsSums) {
  DeviceRow row;
  follow_task(issued(1, 0, 2), 1, 1, &row);
  follow_verdict(ended(1, 0, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNITS_REFUSED, 3), &row);
  EXPECT_TRUE(row.refuses_units);
  follow_task(issued(2, 0, 4), 1, 1, &row);
  follow_update(accepted(2, 0, 1, 1, 5), {.staleness_weight = 1}, &row);
  EXPECT_TRUE(row.refuses_units);
  follow_task(issued(3, 1, 6), 1, 1, &row);
  follow_update(accepted(3, 1, 2, 1, 7), {.staleness_weight = 1, .is_of_units = true}, &row);
  EXPECT_FALSE(row.refuses_units);
}

TEST(DeviceRow, ComesBackFromACheckpoint) {
  DeviceRow row;
  follow_task(issued(1, 4, 10), 6, 3, &row);
  follow_update(accepted(1, 4, 5, 5, 11), {.staleness_weight = 1, .is_round = true}, &row);
  follow_task(issued(2, 5, 12), 6, 3, &row);
  follow_verdict(ended(2, 5, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNITS_REFUSED, 13), &row);
  row.is_left_out = true;
  StateArchive out;
  row.exchange(out);
  const std::vector<uint8_t> bytes = out.take_bytes();
  StateArchive in(bytes);
  DeviceRow read;
  read.exchange(in);
  EXPECT_TRUE(in.is_sound() && in.is_at_end());
  EXPECT_EQ(read.judged, row.judged);
  EXPECT_EQ(read.accepted, row.accepted);
  EXPECT_EQ(read.task.samples, 3U);
  EXPECT_TRUE(read.refuses_units && read.is_left_out);
  StateArchive again;
  read.exchange(again);
  EXPECT_EQ(again.take_bytes(), bytes);
}

}  // namespace
}  // namespace gradstream

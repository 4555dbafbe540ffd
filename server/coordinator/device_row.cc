#include "server/coordinator/device_row.h"

#include "server/run/work.h"

namespace gradstream {
namespace {

void judge(const JournalRecord& record, DeviceRow* row) {
  row->task.is_open = false;
  row->tally.judged_version = record.version();
  row->judged = {
      record.task_sequence(), static_cast<gs_Verdict>(record.verdict()), static_cast<gs_Reason>(record.reason()), 0, 0,
      record.sequence()};
  row->step_time_us = next_step_time_us(row->step_time_us, record.step_time_us());
}

}  // namespace

void DeviceRow::exchange(StateArchive& io) {
  const auto exchange_judged = [&io](JudgedTask& one) {
    io.values(one.task_sequence, one.verdict, one.reason, one.version, one.staleness_weight, one.record_sequence);
  };
  io.values(task.sequence, task.version, task.record_sequence, task.issued_ms, task.steps, task.samples, task.is_open);
  io.values(step_time_us, answered_version, refusals.version, refusals.count);
  exchange_judged(judged);
  exchange_judged(accepted);
  io.values(tally.rounds_joined, tally.updates_folded, tally.updates_late, tally.updates_partial, tally.last_staleness,
            tally.last_steps, tally.last_steps_asked, tally.tasks_refused, tally.judged_version);
  io.values(refuses_units, is_left_out);
}

SequenceState sequence_state(const DeviceRow& row, uint32_t task_sequence) {
  if (task_sequence == 0 || task_sequence > row.task.sequence) {
    return SequenceState::kUnknown;
  }
  if (task_sequence == row.judged.task_sequence || task_sequence == row.accepted.task_sequence) {
    return SequenceState::kJudged;
  }
  return task_sequence == row.task.sequence && row.task.is_open ? SequenceState::kOpen : SequenceState::kSuperseded;
}

const JudgedTask& judged_task(const DeviceRow& row, uint32_t task_sequence) {
  return task_sequence == row.accepted.task_sequence ? row.accepted : row.judged;
}

void follow_task(const JournalRecord& record, uint32_t steps, uint16_t samples, DeviceRow* row) {
  row->task = {.sequence = record.task_sequence(),
               .version = record.version(),
               .record_sequence = record.sequence(),
               .issued_ms = record.time_ms(),
               .steps = steps,
               .samples = samples,
               .is_open = true};
}

void follow_update(const JournalRecord& record, const UpdateStanding& standing, DeviceRow* row) {
  judge(record, row);
  row->judged.version = record.version();
  row->judged.staleness_weight = standing.staleness_weight;
  row->accepted = row->judged;
  row->refuses_units = row->refuses_units && !standing.is_of_units;  // its owner has thought again
  DeviceWork& tally = row->tally;
  tally.rounds_joined += standing.is_round ? 1 : 0;
  if (record.verdict() == gs_Verdict_VERDICT_LATE) {
    ++tally.updates_late;
  } else {
    row->answered_version = record.base_version();
    ++tally.updates_folded;
  }
  tally.updates_partial += record.steps_done() < row->task.steps ? 1 : 0;
  tally.last_staleness = record.staleness();
  tally.last_steps = record.steps_done();
  tally.last_steps_asked = row->task.steps;
}

void follow_verdict(const JournalRecord& record, DeviceRow* row) {
  judge(record, row);
  if (row->judged.verdict == gs_Verdict_VERDICT_REFUSED) {
    row->refusals.count = row->refusals.version == row->task.version ? row->refusals.count + 1 : 1;
    row->refusals.version = row->task.version;
    ++row->tally.tasks_refused;
  }
  row->refuses_units = row->refuses_units || row->judged.reason == gs_Reason_REASON_UNITS_REFUSED;
}

}  // namespace gradstream

// What the journal says of one device in a run, and what each of its records makes of that.
//
// Exactly once rests here. Each device's task sequences are issued strictly increasing, and two of its verdicts are
// kept: that of the last judged task and that of the last accepted one. Reason for the second: a device that is reset
// between an Ack and its next upload comes back with the accepted update as its pending one. Its next task may have
// been abandoned by then. From the first verdict alone it would learn "superseded", and lose the correction that
// follows from its update.
#ifndef GRADSTREAM_SERVER_COORDINATOR_DEVICE_ROW_H_
#define GRADSTREAM_SERVER_COORDINATOR_DEVICE_ROW_H_

#include <cstdint>

#include "runtime/wire/codec.h"
#include "server/base/state_archive.h"
#include "server/journal/journal_record.h"

namespace gradstream {

inline constexpr uint32_t kNoVersion = 0xffffffffU;

// The verdict of one judged task, as its Ack says.
struct JudgedTask {
  uint32_t task_sequence = 0;  // 0: none yet
  gs_Verdict verdict = gs_Verdict_VERDICT_NONE;
  gs_Reason reason = gs_Reason_REASON_NONE;
  uint32_t version = 0;  // the version that the update went into; 0: none
  float staleness_weight = 0;
  uint64_t record_sequence = 0;  // of the journal record: the Ack waits for it
  friend bool operator==(const JudgedTask&, const JudgedTask&) = default;
};

// The task that a device was issued last.
struct IssuedTask {
  uint32_t sequence = 0;         // highest issued; 0: none
  uint32_t version = 0;          // its base version
  uint64_t record_sequence = 0;  // of its kTaskIssued: the Task waits for it
  uint64_t issued_ms = 0;
  uint32_t steps = 0;    // local steps that it asks for
  uint16_t samples = 1;  // N_i of its update, where the rule weighs by it
  bool is_open = false;  // issued, not judged
};

// What a device has done in the run.
struct DeviceWork {
  uint32_t rounds_joined = 0;  // in which it took part: accepted answers
  uint64_t updates_folded = 0;
  uint64_t updates_late = 0;
  uint64_t updates_partial = 0;   // of both
  uint32_t last_staleness = 0;    // of the last accepted update: versions behind ...
  uint32_t last_steps = 0;        // ... local steps done ...
  uint32_t last_steps_asked = 0;  // ... and asked
  uint64_t tasks_refused = 0;     // updates refused, and tasks that the device refused
  uint32_t judged_version = 0;    // of the record of its last verdict
};

// Tasks that ended in a refusal: the last version with such a task, and how many it had.
struct RefusedTasks {
  uint32_t version = kNoVersion;
  uint32_t count = 0;
};

// An accepted update of a device in a run whose rule has a memory.
struct RowUpdate {
  uint32_t base_version = kNoVersion;  // kNoVersion: there is none
  uint32_t version = 0;                // that it went into
  friend bool operator==(const RowUpdate&, const RowUpdate&) = default;
};
// What the memory of a run may hold of the device: of the open version that is the update before, where the last one
// is in no version yet. Rows of a cluster have it; a single server's rule has the memory itself.
struct RowMemory {
  RowUpdate last;
  RowUpdate before;  // the last one that went into an earlier version than that
  friend bool operator==(const RowMemory&, const RowMemory&) = default;
};

struct DeviceRow {
  IssuedTask task;
  JudgedTask judged;
  JudgedTask accepted;                     // the last one folded, in time or late
  uint32_t step_time_us = 0;               // running estimate of one local step; 0: not measured yet
  uint32_t answered_version = kNoVersion;  // last version that it answered in time
  RefusedTasks refusals;
  DeviceWork tally;
  bool refuses_units = false;  // its owner does not let sums out
  bool is_left_out = false;    // of the stages: its numbers were beyond belief
  RowMemory memory;            // no part of a checkpoint

  // Of a checkpoint.
  void exchange(StateArchive& io);
};

enum class SequenceState : uint8_t {
  kUnknown,     // never issued to this device
  kOpen,        // issued and not judged
  kJudged,      // the last judged or the last accepted one: its verdict is known
  kSuperseded,  // lower than one of these
};
SequenceState sequence_state(const DeviceRow& row, uint32_t task_sequence);
// The verdict of a task that is kJudged.
const JudgedTask& judged_task(const DeviceRow& row, uint32_t task_sequence);

// ---- What a record of the device makes of its row. That it follows from the records before it was seen already ----

// kTaskIssued. steps: local steps that it asks for. samples: N_i of its update.
void follow_task(const JournalRecord& record, uint32_t steps, uint16_t samples, DeviceRow* row);

// What the open version is to an update.
struct UpdateStanding {
  float staleness_weight = 0;  // 1: all
  bool is_round = false;       // it counts as a round that the device took part in
  bool is_of_units = false;    // it answers a stage of units: the device's owner lets sums out
};
// kUpdate.
void follow_update(const JournalRecord& record, const UpdateStanding& standing, DeviceRow* row);

// kVerdict.
void follow_verdict(const JournalRecord& record, DeviceRow* row);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_DEVICE_ROW_H_

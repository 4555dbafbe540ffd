// What must survive: the journal of a run, its snapshots, and who is known. Used by the shell only, on its own thread.
//
// The journal is the run: given it, the model is a pure function of it. Everything that time or arrival decided stands
// in a record, so that recovery replays and never decides again.
#ifndef GRADSTREAM_SERVER_JOURNAL_STORE_H_
#define GRADSTREAM_SERVER_JOURNAL_STORE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace gradstream {

enum class RecordKind : uint8_t {
  kTaskIssued = 1,  // A task was issued: device, task_sequence, version (the task's base version).
                    // steps_done is the number of steps that the task asks for, 0 for K.
                    // weight is the number of samples that the device weighs by, in the memory form.
  kUpdate = 2,      // A complete update was accepted: device, task_sequence, base_version, steps_done, verdict.
                    // version is the one that the update goes into; weight includes the staleness weight.
                    // step_scale is 1 / q of the device's participation.
                    // `detail` is the time of a local step, us (0: unknown).
                    // The payload is the decoded values, f32 (f64 in the double build).
  kVerdict = 3,     // An update was not accepted, or a task was abandoned: device, task_sequence, verdict, reason.
                    // `detail` is the time of a local step, us, of an update that came too late.
  kVersion = 4,     // A version was begun: version, step_scale, digest, Trigger in `detail`.
                    // The payload is that of server/rules/record.h: the blocks sent to replicas (scalar runs) or the
                    // model itself (tangent runs, version 0). Where the run chooses cohorts it also names the devices
                    // asked.
  kRunState = 5,    // extended, stalled, finished, stopped, ...: RunEvent in detail, the open version in `version`.
                    // The payload of a stall is its cause (server/coordinator/stall.h); older releases wrote none.
};

// What a kRunState record says. A stalled run is active again with its next version, a paused one with kResumed.
enum class RunEvent : uint8_t {
  kNone = 0,
  kExtended = 1,
  kStalled = 2,
  kFinished = 3,
  kStopped = 4,
  kPaused = 5,
  kResumed = 6
};

// One record. Unused fields are 0. sequence is assigned by the coordinator, without gaps, from 1.
struct JournalRecord {
  uint64_t sequence = 0;
  RecordKind kind = RecordKind::kTaskIssued;
  uint32_t device = 0;  // enrolment index
  uint32_t task_sequence = 0;
  uint32_t version = 0;
  uint32_t base_version = 0;
  uint32_t steps_done = 0;
  uint32_t weight = 0;
  uint32_t verdict = 0;  // gs_Verdict
  uint32_t reason = 0;   // gs_Reason
  uint32_t detail = 0;
  Real step_scale = 0;
  float loss_before = 0;
  float loss_after = 0;
  uint64_t digest = 0;
  // When it was decided: for people, and of a task for judging what its device had time for. No state follows from it.
  uint64_t time_ms = 0;
  std::vector<uint8_t> payload;
  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;
};

enum class StoreStatus : uint8_t {
  kOk,
  kFull,     // disk full: nothing of the batch is stored; may be tried again
  kFailed,   // I/O error: nothing of the batch is known to be stored
  kCorrupt,  // what is stored does not read
  kBusy,     // another process holds the database
  kMoved,    // its file has been removed or replaced: what is written there, nobody would find again
};

class Store {
 public:
  virtual ~Store() = default;
  // All records of the batch or none; durable on return.
  virtual StoreStatus append(std::span<const JournalRecord> batch) = 0;
  // Calls visit for every record in order of sequence; stops early when visit returns false.
  virtual StoreStatus read(const std::function<bool(const JournalRecord&)>& visit) = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_STORE_H_

// One record of a run's journal. What time or arrival decided stands in a record, so that recovery replays and never
// decides again.
//
// A record is made and read by names. Beneath them is a row of columns (JournalRow), of which one column has several
// meanings: only stores know the row.
#ifndef GRADSTREAM_SERVER_JOURNAL_JOURNAL_RECORD_H_
#define GRADSTREAM_SERVER_JOURNAL_JOURNAL_RECORD_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/status.h"
#include "server/journal/update_notes.h"

namespace gradstream {

enum class Trigger : uint8_t;  // server/run/trigger.h

enum class RecordKind : uint8_t {
  kTaskIssued = 1,  // a task was issued
  kUpdate = 2,      // a complete update was accepted
  kVerdict = 3,     // an update was not accepted, or a task was abandoned
  kVersion = 4,     // a version was begun
  kRunState = 5,    // extended, stalled, finished, stopped, ...
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

// The columns of a record; unused ones are 0. Stores write and read it as it stands.
struct JournalRow {
  uint64_t sequence = 0;
  RecordKind kind = RecordKind::kTaskIssued;
  uint32_t device = 0;
  uint32_t task_sequence = 0;
  uint32_t version = 0;
  uint32_t base_version = 0;
  uint32_t steps_done = 0;
  uint32_t weight = 0;
  uint32_t verdict = 0;
  uint32_t reason = 0;
  uint32_t detail = 0;
  Real step_scale = 0;
  float loss_before = 0;
  float loss_after = 0;
  uint64_t digest = 0;
  uint64_t time_ms = 0;
  std::vector<uint8_t> payload;
  // Of an update: server/journal/update_notes.h. Of a version: radius u64 and clipped_count u32, little-endian. Empty:
  // none.
  std::vector<uint8_t> notes;
  friend bool operator==(const JournalRow&, const JournalRow&) = default;
};

// ---- What a record is made of, one struct a kind. device: an enrolment index ----

struct TaskIssued {
  uint32_t device = 0;
  uint32_t task_sequence = 0;
  uint32_t version = 0;       // that the task is made at
  uint32_t step_count = 0;    // that it asks for; 0: all of them, K
  uint32_t sample_count = 0;  // that the device weighs by, in the memory form; 0 elsewhere
};

struct UpdateAccepted {
  uint32_t device = 0;
  uint32_t task_sequence = 0;
  uint32_t base_version = 0;
  uint32_t version = 0;  // that the update goes into
  uint32_t steps_done = 0;
  uint32_t weight = 0;             // the staleness weight included
  uint32_t verdict = 0;            // gs_Verdict: FOLDED or LATE
  Real inverse_participation = 1;  // 1 / q of the device
  uint32_t step_time_us = 0;       // of a local step; 0: unknown
  float loss_before = 0;
  float loss_after = 0;
  std::vector<uint8_t> values = {};  // decoded: f32, f64 in the double build
  UpdateNotes notes = {};            // sound ones
};

struct TaskEnded {
  uint32_t device = 0;
  uint32_t task_sequence = 0;
  uint32_t version = 0;       // that the task was made at
  uint32_t verdict = 0;       // gs_Verdict: REFUSED or ABANDONED
  uint32_t reason = 0;        // gs_Reason
  uint32_t step_time_us = 0;  // of an update that came too late; 0: unknown
};

// What a clip has decided with a version's record (server/rules/record.h, VersionClip).
struct ClipDecided {
  uint64_t radius = 0;
  uint32_t clipped_count = 0;
  friend bool operator==(const ClipDecided&, const ClipDecided&) = default;
};

struct VersionBegun {
  uint32_t version = 0;
  Real step_scale = 0;
  uint64_t digest = 0;
  Trigger trigger = Trigger{};
  // Of the round that it ends: what its step promises (server/rules/progress_watch.h), finite. None where the version
  // ends no round of training, as that of an anchor phase.
  std::optional<float> promise = {};
  std::optional<ClipDecided> clip = {};  // of a run that clips
  // As server/rules/record.h has it: the blocks sent to replicas (scalar runs) or the model itself (tangent runs,
  // version 0). Where the run chooses cohorts it also names the devices asked.
  std::vector<uint8_t> payload = {};
};

struct RunEventDecided {
  RunEvent event = RunEvent::kNone;
  uint32_t version = 0;             // the open one; 0 before there is one
  std::vector<uint8_t> cause = {};  // of a stall (server/coordinator/stall.h); older releases wrote none
};

// Readers assert the kinds that they name.
class JournalRecord {
 public:
  JournalRecord() = default;
  // For stores, and for tests that spoil a record.
  explicit JournalRecord(JournalRow row) : row_(std::move(row)) {}
  const JournalRow& row() const { return row_; }

  // The sequence and the time are set when the record is decided.
  static JournalRecord task(const TaskIssued& task);
  static JournalRecord update(UpdateAccepted update);
  static JournalRecord verdict(const TaskEnded& task);
  static JournalRecord begin_version(VersionBegun begun);
  static JournalRecord run_state(RunEventDecided decided);

  // ---- Of every kind ----
  uint64_t sequence() const { return row_.sequence; }  // without gaps, from 1
  RecordKind kind() const { return row_.kind; }
  // When it was decided: for people, and of a task for judging what its device had time for. No state follows from it.
  uint64_t time_ms() const { return row_.time_ms; }
  void set_sequence(uint64_t sequence) { row_.sequence = sequence; }
  void set_time_ms(uint64_t time_ms) { row_.time_ms = time_ms; }
  // As the struct of the kind says; a task's ends name the version that it was made at.
  uint32_t version() const { return row_.version; }
  // Values of an update, payload of a version, cause of a stall; else empty.
  const std::vector<uint8_t>& payload() const { return row_.payload; }

  // ---- kTaskIssued, kUpdate, kVerdict ----
  bool has_device() const;
  uint32_t device() const { return of_device().device; }
  uint32_t task_sequence() const { return of_device().task_sequence; }

  // ---- kTaskIssued ----
  uint32_t task_step_count() const { return of(RecordKind::kTaskIssued).steps_done; }
  uint32_t task_sample_count() const { return of(RecordKind::kTaskIssued).weight; }

  // ---- kUpdate, kVerdict ----
  bool is_judgement() const { return row_.kind == RecordKind::kUpdate || row_.kind == RecordKind::kVerdict; }
  uint32_t verdict() const { return of_judgement().verdict; }  // gs_Verdict
  uint32_t reason() const { return of_judgement().reason; }    // gs_Reason
  uint32_t step_time_us() const { return of_judgement().detail; }

  // ---- kUpdate ----
  uint32_t base_version() const { return of(RecordKind::kUpdate).base_version; }
  uint32_t staleness() const { return of(RecordKind::kUpdate).version - 1 - row_.base_version; }
  uint32_t steps_done() const { return of(RecordKind::kUpdate).steps_done; }
  uint32_t weight() const { return of(RecordKind::kUpdate).weight; }
  Real inverse_participation() const;  // 1 in records of releases that did not know it
  // Whether the losses are the device's, and not 0 in their place. A note that does not read hides them.
  bool tells_losses() const;
  float loss_before() const { return of(RecordKind::kUpdate).loss_before; }
  float loss_after() const { return of(RecordKind::kUpdate).loss_after; }
  // Line and evaluation; none in records of releases that did not know them. kDataCorrupt: as decode_notes().
  Status read_notes(UpdateNotes* out) const { return decode_notes(of(RecordKind::kUpdate).notes, out); }
  // The same, and none where they do not read: a ledger has refused such a record.
  UpdateNotes notes() const;

  // ---- kVersion ----
  Real step_scale() const { return of(RecordKind::kVersion).step_scale; }
  uint64_t digest() const { return of(RecordKind::kVersion).digest; }
  Trigger trigger() const { return static_cast<Trigger>(of(RecordKind::kVersion).detail); }
  std::optional<float> promise() const;  // none also in records of releases that did not know it
  // kDataCorrupt: it has notes that no clip makes.
  Status read_clip(std::optional<ClipDecided>* out) const;

  // ---- kRunState ----
  RunEvent run_event() const { return static_cast<RunEvent>(of(RecordKind::kRunState).detail); }
  // Whether it is a kRunState record that says so.
  bool is_event(RunEvent event) const { return row_.kind == RecordKind::kRunState && run_event() == event; }

  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;

 private:
  const JournalRow& of(RecordKind kind) const {
    GS_ASSERT(row_.kind == kind);
    return row_;
  }
  const JournalRow& of_device() const;
  const JournalRow& of_judgement() const;

  JournalRow row_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_JOURNAL_RECORD_H_

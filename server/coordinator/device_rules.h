// The rules of one run for one device: what is to be done about what it says.
//
// Pure functions: the run as it stands, the device's row and session, the message and the time go in, a decision comes
// out. Nothing is sent, stored or logged here, and nothing is read beyond the arguments. A server that keeps its runs
// in a journal (server/coordinator/coordinator.h) and one that keeps its rows elsewhere decide alike by calling them.
//
// Of an upload the rules stand in server/coordinator/upload_rules.h. now_ms: as of Coordinator.
#ifndef GRADSTREAM_SERVER_COORDINATOR_DEVICE_RULES_H_
#define GRADSTREAM_SERVER_COORDINATOR_DEVICE_RULES_H_

#include <cstdint>

#include "runtime/training/task.h"
#include "runtime/wire/codec.h"
#include "server/coordinator/device_row.h"
#include "server/coordinator/device_session.h"
#include "server/journal/journal_chain.h"
#include "server/journal/journal_record.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Refusals of one device in one version before it gets no more tasks in it. Reason: a device that fails three times in
// the same way would fail for ever.
inline constexpr uint32_t kRefusedTasksMax = 3;

// A run as it stands, as far as a device's message is judged by it. Parameters and identity outlive the view.
struct RunView {
  const RunParameters& parameters;
  const RunIdentity& identity;
  gs_RunState state = gs_RunState_RUN_STATE_ACTIVE;
  // Of the open version.
  bool has_version = false;  // else the run has none yet, and what follows is 0
  uint32_t version = 0;
  TaskStage stage = TaskStage::kTrain;
  uint32_t steps_min = 0;       // that an update has at least
  bool asks_everybody = false;  // whatever the rounds ask
  uint32_t update_count = 0;    // accepted into it, late ones too
  uint32_t extension_count = 0;
  uint32_t train_version = 0;  // the first version that trains; kNoVersion: it is not there yet
  // What is durable.
  bool is_storage_failed = false;   // nothing can be made durable now
  uint64_t durable_sequence = 0;    // records up to this one are
  uint32_t durable_version = 0;     // the highest such version
  uint64_t version_sequence = 0;    // record of the open version
  uint64_t run_state_sequence = 0;  // record of the last run event
  bool is_over() const { return state == gs_RunState_RUN_STATE_FINISHED || state == gs_RunState_RUN_STATE_STOPPED; }
  bool is_paused() const { return state == gs_RunState_RUN_STATE_PAUSED; }
  bool is_stalled() const { return state == gs_RunState_RUN_STATE_STALLED; }
};

// What the run's fleet knows of a device beside its row and session.
struct FleetStanding {
  bool is_asked = true;        // in the open version
  uint32_t share_count = 0;    // its updates in the last versions, of a run that looks at shares
  uint32_t sharing_count = 0;  // devices that were there in these versions
};

// When a device is to be back (server/run/pace.h).
enum class WindowKind : uint8_t {
  kPaced,    // retry_window(), factor 1
  kLong,     // the same, factor kRefusedWindowFactor
  kRefused,  // refused_window()
  kIdle,     // idle_window()
};

// ---- Hello ----

struct HelloDecision {
  gs_Reason refusal = gs_Reason_REASON_NONE;  // not NONE: the session ends with it
  bool is_lost = false;                       // the device has lost its open task, which is abandoned
};
// has_hello: the session has had one.
HelloDecision judge_hello(const RunView& run, const DeviceRow& row, const gs_Hello& hello, bool has_hello);

// The Welcome of the device of this enrolment index, all but the mark of the journal. is_abandoned: its task was, now.
gs_Welcome make_welcome(const RunView& run, uint32_t device, const DeviceImage& image, bool is_abandoned,
                        uint64_t now_ms);

// ---- Pull ----

// Whether a device that is barred, or refused for good, may be asked once more.
bool may_try_again(const DeviceSession& session, uint64_t now_ms);
// Whether a device that could do the run's tasks gets none in the open version. The first one after a restart of the
// server is given: it tells value and limit anew.
bool is_task_barred(const RunView& run, const DeviceRow& row, const DeviceSession& session, uint64_t now_ms);
// Whether the device was refused in this version so that it gets no more tasks in it.
bool is_refused(const DeviceRow& row, const DeviceSession& session, uint32_t version);
// Whether the device gives nothing to the open stage, so that nobody waits for it. It may train all the same. One that
// was refused for its values, or has too few samples for a floor, is asked again after a while, or by a server that was
// restarted. Its samples may be others by then, as of a ring that was still empty.
bool is_out_of_stage(const RunView& run, const DeviceRow& row, const DeviceSession& session, uint64_t now_ms);
// Whether the device has given its share of the last versions and gets no further task yet: it waits for the updates of
// others. Where nobody else comes within T the version is extended, and the device goes on. Its one open task is within
// the share, so that it never trains in vain.
bool is_share_used(const RunView& run, const FleetStanding& standing, const DeviceRow& row);
// Whether the server holds a Pull of this device, where it holds any: the answer would be a Wait that ends by itself,
// ANSWERED, NOT_CHOSEN or STALLED, and the run goes on.
bool may_hold_pull(const RunView& run, const FleetStanding& standing, const DeviceRow& row,
                   const DeviceSession& session);

enum class WorkKind : uint8_t {
  kWait,        // cause, window and required
  kWaitShared,  // the same, as its share is used
  kRefuse,      // REASON_STORAGE ends the session
  kSame,        // its open task once more
  kNew,         // a new task
  kInstead,     // its open task is abandoned first
};
struct WorkDecision {
  WorkKind kind = WorkKind::kWait;
  gs_WaitCause cause = gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN;
  WindowKind window = WindowKind::kPaced;
  uint64_t required = 0;  // record that the Wait depends on
};
// What a device gets that has just had the open version's model. has_model: it held one before. The session's meter of
// new tasks moves where one is asked for.
WorkDecision decide_work(const RunView& run, const FleetStanding& standing, const DeviceRow& row, bool has_model,
                         uint64_t now_ms, DeviceSession* session);

// ---- Tasks ----

// Local steps that a task of the device asks for; 0: all of them, K.
struct StepCount {
  uint32_t count = 0;
  uint32_t slow_deadline_ms = 0;  // not 0: the fewest steps take the device longer than this
};
// deadline_ms: when the open round ends; UINT64_MAX: no end is known.
StepCount decide_steps(const RunView& run, const DeviceRow& row, uint64_t deadline_ms, uint64_t now_ms);
// The next task of the device of this enrolment index.
TaskIssued next_task(const RunView& run, uint32_t device, const DeviceRow& row, uint32_t sample_count,
                     uint32_t step_count);

// The record of a task that ends without an update, by whichever end.
TaskEnded refused_task(uint32_t device, const DeviceRow& row, uint32_t task_sequence, gs_Reason reason,
                       uint32_t step_time_us);
TaskEnded abandoned_task(uint32_t device, const DeviceRow& row);

// A device refuses a task, or the run. The session takes what it complains of, and whether it can do anything of this
// run. True: its open task ends by this.
bool judge_refusal(const RunView& run, const DeviceRow& row, const gs_TaskRefused& refused, uint64_t now_ms,
                   DeviceSession* session);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_DEVICE_RULES_H_

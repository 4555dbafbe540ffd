// The trigger of the straggler policy: when a round closes. Pure functions of the run's parameters and of what has come
// in. One of four independent choices (docs/wire.md); the others: server/run/weights.h and server/run/work.h.
//
// Trigger "buffer": the same with B accepted updates, late ones too, in place of k on time; B = 1 is a version with
// every update.
//
//   OPEN --k on time--> close        at T: q on time --> close
//     ^                                    else        --> extend by T (at most extension_count_max times), then stall
//     +-------- next version               stalled     --> closes as soon as q are in
//
// Where a run awaits the devices that it has seen, k is all of these. After the last extension the version closes with
// what is there, and stalls with nothing alone. The first answer to a stalled version gives the others T once more.
#ifndef GRADSTREAM_SERVER_RUN_TRIGGER_H_
#define GRADSTREAM_SERVER_RUN_TRIGGER_H_

#include <cstdint>

#include "server/run/run_parameters.h"

namespace gradstream {

// The most updates that a version of the run takes: fewer where the rule keeps each of them, or where a stage does
// (keeps_answers).
uint32_t update_count_max(const RunParameters& parameters, bool keeps_answers);
// k as the keys want it, where `asked_count` devices are asked.
uint32_t wanted_updates(const RunParameters& parameters, uint32_t asked_count);
// k and q with their defaults put in, where `asked_count` devices are asked. Neither is more than a version takes.
uint32_t update_goal(const RunParameters& parameters, uint32_t asked_count);
uint32_t update_least(const RunParameters& parameters, uint32_t asked_count);

// q of a phase or stage that wants everybody asked: that of a round, or where there are no rounds the buffer's size.
uint32_t least_of_all(const RunParameters& parameters, uint32_t asked_count);
// k of it: everybody, or where there are more devices than answers are taken, as many as that.
uint32_t goal_of_all(const RunParameters& parameters, uint32_t asked_count, bool keeps_answers);

// Whether a round waits for the devices that were seen (server/coordinator/attendance.h), not for all that are asked.
bool awaits_seen(const RunParameters& parameters);

// Why a round closed. Values stand in the journal; never renumber.
enum class Trigger : uint8_t { kNone = 0, kGoal = 1, kDeadline = 2, kStallEnded = 3 };
// Static text, as logs and exports have it; "none" for kNone.
const char* trigger_name(Trigger trigger);

// What the open round has come to.
struct RoundProgress {
  uint32_t asked_count = 0;    // devices of the cohort (server/run/participation.h) that are not revoked
  uint32_t on_time_count = 0;  // answers made from the open version
  uint32_t extension_count = 0;
  bool is_stalled = false;
  bool is_past_deadline = false;
  bool is_anchor = false;      // a phase or stage that wants everybody asked: k is goal_of_all(), q least_of_all()
  uint32_t late_count = 0;     // accepted answers made from older versions
  bool keeps_answers = false;  // of a stage that keeps its answers until it closes
  // Where the run awaits_seen():
  uint32_t awaited_count = 0;  // devices that are awaited, and have not answered
  bool has_deadline = true;    // a stalled version has none, until an answer gives it one
};

enum class RoundDecision : uint8_t { kWait, kClose, kExtend, kStall };
struct RoundVerdict {
  RoundDecision decision = RoundDecision::kWait;
  Trigger trigger = Trigger::kNone;  // kClose
};
// What to do with the open round now. Whoever extends it or lets it stall counts that in the next progress.
RoundVerdict judge_round(const RunParameters& parameters, const RoundProgress& progress);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_TRIGGER_H_

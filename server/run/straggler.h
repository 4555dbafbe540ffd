// The straggler policy: when a round closes, and what a late or partial update is worth. Pure functions of the run's
// parameters and of what has come in; four independent choices (docs/wire.md).
//
// Trigger "buffer": the same with B accepted updates, late ones too, in place of k on time; B = 1 is a version with
// every update.
//
//   OPEN --k on time--> close        at T: q on time --> close
//     ^                                    else        --> extend by T (at most extension_count_max times), then stall
//     +-------- next version               stalled     --> closes as soon as q are in
#ifndef GRADSTREAM_SERVER_RUN_STRAGGLER_H_
#define GRADSTREAM_SERVER_RUN_STRAGGLER_H_

#include <cstdint>
#include <span>

#include "server/run/run_parameters.h"

namespace gradstream {

// Staleness weights are fixed point: kStalenessOne is 1.
inline constexpr uint32_t kStalenessBits = 15;
inline constexpr uint32_t kStalenessOne = 1U << kStalenessBits;

// The committed table: weight of an update that is `staleness` versions behind, 1 .. kStalenessOne; kStalenessOne for
// 0.
uint32_t staleness_weight(const RunParameters& parameters, uint32_t staleness);

// An update's weight in the fold: the device's own (its samples, capped; kStalenessOne where the run weighs uniformly,
// so that a staleness weight keeps its 15 bits), times the staleness weight, at least 1. Fits 16 bits.
// In the memory form the result is the staleness weight alone, because the memory keeps the device's sample weight
// beyond this version.
uint16_t fold_weight(const RunParameters& parameters, uint32_t sample_count, uint32_t staleness);

// N_i of the memory form's w_i = N_i / N: the samples, capped, at least 1. 1 where the run weighs otherwise.
uint16_t memory_weight(const RunParameters& parameters, uint32_t sample_count);

// K_i of a device whose local step takes step_time_us (0: not known) and that has budget_ms for all: as many steps as
// seven eighths of the budget hold, the last eighth being the way back, from least_steps() to K. A device that nobody
// has measured begins with least_steps().
uint32_t timed_step_count(const RunParameters& parameters, uint32_t step_time_us, uint64_t budget_ms);

// The running estimate of a step time after one more measurement: three quarters of the old one, a quarter of the new.
uint32_t next_step_time_us(uint32_t estimate_us, uint32_t measured_us);

// Whether a device can have done so many steps in elapsed_ms, which began before it had the task. step_time_us: what it
// says one took; its clock may run twice as fast as ours. 0: it does not say.
bool had_time_for(const RunParameters& parameters, uint32_t steps_done, uint32_t step_time_us, uint64_t elapsed_ms);

// Caps each weight of a version at weight_share_max of the sum of what they become; the result is in another unit, the
// same for all. Where fewer updates came than the cap allows, all weigh the same. A function of the weights alone, in
// integers, whatever their order.
void cap_weights(const RunParameters& parameters, std::span<uint16_t> weights);

// k and q with their defaults put in, where `asked_count` devices are asked.
uint32_t update_goal(const RunParameters& parameters, uint32_t asked_count);
uint32_t update_least(const RunParameters& parameters, uint32_t asked_count);

// Why a round closed. Values stand in the journal; never renumber.
enum class Trigger : uint8_t { kNone = 0, kGoal = 1, kDeadline = 2, kStallEnded = 3 };
const char* trigger_name(Trigger trigger);

// What the open round has come to.
struct RoundProgress {
  uint32_t asked_count = 0;    // devices of the cohort (server/run/participation.h) that are not revoked
  uint32_t on_time_count = 0;  // answers made from the open version
  uint32_t extension_count = 0;
  bool is_stalled = false;
  bool is_past_deadline = false;
  bool is_anchor = false;   // a phase that wants the gradient of everybody asked: k is that number, q the run's
  uint32_t late_count = 0;  // accepted answers made from older versions
};

enum class RoundDecision : uint8_t { kWait, kClose, kExtend, kStall };
struct RoundVerdict {
  RoundDecision decision = RoundDecision::kWait;
  Trigger trigger = Trigger::kNone;  // kClose
};
RoundVerdict judge_round(const RunParameters& parameters, const RoundProgress& progress);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_STRAGGLER_H_

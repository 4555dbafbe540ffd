// What an update weighs in the fold: its device's samples, how late it is, and the largest share of a version. Pure
// functions of the run's parameters. The straggler policy's choice of what a late update is worth (docs/wire.md).
#ifndef GRADSTREAM_SERVER_RUN_WEIGHTS_H_
#define GRADSTREAM_SERVER_RUN_WEIGHTS_H_

#include <cstdint>
#include <span>

#include "server/run/run_parameters.h"

namespace gradstream {

// Staleness weights are fixed point: kStalenessOne is 1.
inline constexpr uint32_t kStalenessBits = 15;
inline constexpr uint32_t kStalenessOne = 1U << kStalenessBits;

// The committed table: weight of an update that is `staleness` versions behind, 1 .. kStalenessOne; for
// staleness 0 kStalenessOne.
uint32_t staleness_weight(const TriggerCore& keys, uint32_t staleness);

// Whether no server takes an update in that is `staleness` versions behind. One of the open version is never too stale.
bool is_too_stale(const TriggerCore& keys, uint32_t staleness);

// An update's weight in the fold: the device's own (its samples, capped; kStalenessOne where the run weighs uniformly,
// so that a staleness weight keeps its 15 bits), times the staleness weight, at least 1. Fits 16 bits.
// In the memory form and in asynchronous runs the result is the staleness weight alone: their rules weigh by N_i
// themselves, and lose no bits of small ones.
uint16_t fold_weight(const RunParameters& parameters, uint32_t sample_count, uint32_t staleness);

// Whether an asynchronous run weighs an update by its device's samples.
bool weighs_updates(const RunParameters& parameters);
// Whether a task's record says how many samples its device has: what the rule weighs by beyond a version.
bool records_samples(const RunParameters& parameters);
// N_i of such a run: the samples, capped, at least 1. 1 where the run weighs otherwise.
uint16_t memory_weight(const RunParameters& parameters, uint32_t sample_count);

// Caps each weight of a version at weight_share_max of the sum of what they become; the result is in another unit, the
// same for all. Where fewer updates came than the cap allows, all weigh the same. A function of the weights alone, in
// integers, whatever their order.
void cap_weights(const FoldCore& keys, std::span<uint16_t> weights);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_WEIGHTS_H_

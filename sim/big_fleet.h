// The simulator at fleet scale: thousands of devices of unequal speed, asleep, disconnected and replaced. They train
// one small model in virtual time (timed_fleet.h), and the oracle holds them to the invariants as the run goes on.
//
//   options --> speeds, cycles, samples of each device --> TimedFleet --version--> loss, bytes: a line of the CSV
#ifndef GRADSTREAM_SIM_BIG_FLEET_H_
#define GRADSTREAM_SIM_BIG_FLEET_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "sim/timed_fleet.h"

namespace gradstream {

// Constant: all alike. Lognormal: e^N(0, 1) times the step. Mix: 1, 2, 4 and 8 steps, a quarter each.
enum class SpeedMix : uint8_t { kConstant, kLognormal, kMix };

struct BigFleetOptions {
  uint32_t device_count = 10'000;
  uint32_t seed = 1;
  double days = 1;
  SpeedMix speeds = SpeedMix::kMix;
  uint32_t step_ms = 60'000;   // of a local step of the fastest device
  uint32_t silent_count = 1;   // devices that take tasks and never answer
  uint32_t awake_minutes = 0;  // of every cycle, each at its own time; 0: always
  uint32_t cycle_minutes = 1440;
  uint32_t loss_odds = 1000;    // one frame in this many takes its connection down; 0: none
  uint32_t life_hours = 0;      // mean time until a device loses all that it has; 0: never
  uint32_t absence_hours = 1;   // mean time until it is back
  uint32_t buffer_size = 500;   // updates of a version; 0: rounds
  double update_share = 0.8;    // rounds: of the devices, whose answers close one
  uint32_t round_minutes = 60;  // rounds: at the latest, with what is there
  uint32_t retry_minutes = 10;  // a device that has answered comes back after half of it up to all
  bool has_oracle = true;
};

struct BigFleetResult {
  std::string fault;  // the first invariant that was broken; empty: none
  uint32_t version = 0;
  uint64_t digest = 0;
  double gap_first = 0;  // (F - F*) / |F*| of version 0, and at the end
  double gap_last = 0;
  uint64_t virtual_ms = 0;
  uint64_t updates_folded = 0;
  uint64_t updates_late = 0;
  uint64_t updates_refused = 0;
  uint64_t tasks_abandoned = 0;
  uint64_t rounds_extended = 0;
  TimedCounts counts;
};

// The run that the fleet trains.
RunParameters big_fleet_parameters(const BigFleetOptions& options);

// csv: a line for each version, at most one a virtual minute; null: none.
BigFleetResult run_big_fleet(const BigFleetOptions& options, std::FILE* csv);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_BIG_FLEET_H_

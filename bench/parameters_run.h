// One run of `./run bench parameters`: a configuration of few lines, the coordinator and the clients in virtual time.
//
//   keys --configuration--> RunParameters --calm TimedFleet--> gap at some rounds, events of the log
#ifndef GRADSTREAM_BENCH_PARAMETERS_RUN_H_
#define GRADSTREAM_BENCH_PARAMETERS_RUN_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/parameters_workload.h"

namespace gradstream {

// Rounds at which the gap is measured. Reason: those of the table in docs/algorithms.md.
inline constexpr std::array<uint32_t, 4> kMarkRounds = {50, 100, 150, 300};

struct BenchRun {
  const ParameterWorkload* workload = nullptr;
  uint32_t seed = 1;
  uint32_t round_count = kMarkRounds.back();
  bool is_automatic = true;  // the run must find its step by itself
  bool has_liar = false;     // the last device lies (tell_stage_lies() in sim/lies.h)
  // Lines of the section [run] beside name, seed, problem and size: `step_size = 0.1`.
  std::vector<std::string> keys;
};

struct BenchEvent {
  uint32_t round = 0;  // that was open
  std::string name;    // of the log line
  std::string text;
};

struct BenchOutcome {
  std::string fault;                // what ended the run before its last round; empty: nothing
  std::string refusal;              // the first update or task that was refused
  std::map<uint32_t, double> gaps;  // by mark; of a run that ended before, infinity
  uint32_t exchange_count = 0;      // versions between version 0 and the first step
  std::vector<BenchEvent> events;   // those of kWatchedEvents
  double gap_at(uint32_t round) const;
  // Whether an event of that name was logged while a round up to this one was open.
  bool has_event(const std::string& name, uint32_t round) const;
};

BenchOutcome run_bench(const BenchRun& run);

// Whether a configuration has the key: `step_size`.
bool is_run_key(const std::string& name);

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_PARAMETERS_RUN_H_

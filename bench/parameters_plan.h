// What `./run bench parameters` runs, part by part, and what it makes of it: tables, bars and the figures of the result
// line. A bar is a bound that a figure must hold; docs/algorithms.md tells them.
//
//   jobs_of() -> jobs --run_job(), in any order--> outcomes -> report(): tables and missed bars
#ifndef GRADSTREAM_BENCH_PARAMETERS_PLAN_H_
#define GRADSTREAM_BENCH_PARAMETERS_PLAN_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/parameters_run.h"
#include "bench/parameters_workload.h"

namespace gradstream {

enum class BenchPart : uint8_t {
  kAuto,       // steps and units by themselves, zeroth order
  kStream,     // the same by RFedAGS: solver gradient_stream, analytic gradients
  kLiar,       // as kAuto with one device that lies
  kConstant,   // steps set by hand, on a grid: what the run says of them
  kSmoothing,  // as kAuto for no round, with a smoothing set by hand
};
inline constexpr const char* kBenchPartNames[] = {"auto", "stream", "liar", "constant", "smoothing"};

// The step of a constant job that is the default of a release without automatic steps: 0.1, whatever the table.
inline constexpr double kOldDefault = -1;

struct BenchJob {
  const WorkloadRow* row = nullptr;
  BenchPart part = BenchPart::kAuto;
  uint32_t seed = 1;
  uint32_t round_count = kMarkRounds.back();
  double value = 0;  // kConstant: step over the workload's step_unit(), or kOldDefault; kSmoothing: the smoothing
  std::vector<std::string> keys;  // of BenchChoice
  BenchOutcome outcome;
  double seconds = 0;
};

struct BenchChoice {
  std::vector<std::string> names;  // workloads whose name contains one of them; empty: all
  std::optional<uint32_t> seed;    // only this one
  std::optional<uint32_t> round_count;
  std::vector<std::string> keys;  // of every run, lines of [run]: `local_step_count = 1`
};

std::vector<BenchJob> jobs_of(BenchPart part, const BenchChoice& choice);
void run_job(BenchJob* job);

// Figures of the result line, and the bars that were missed. NaN: the part was not run.
struct BenchFigures {
  double digits_150 = std::numeric_limits<double>::quiet_NaN();
  double digits_300 = std::numeric_limits<double>::quiet_NaN();
  double worst_kpca = std::numeric_limits<double>::quiet_NaN();
  double worst_least_squares = std::numeric_limits<double>::quiet_NaN();
  double worst_logistic = std::numeric_limits<double>::quiet_NaN();
  std::string missed_bad_runs = "-";  // missed/all
  std::string false_alarms = "-";
  std::set<std::string> workloads;  // that were run
  uint32_t missed_bars = 0;
};

// Prints the table of the part's jobs and its bars, `bar holds: ...` or `bar MISSED: ...`.
void report(BenchPart part, const std::vector<BenchJob>& jobs, BenchFigures* figures);

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_PARAMETERS_PLAN_H_

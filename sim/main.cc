// gradstream-sim: a fleet in one thread and virtual time, from one seed.
//
// One run (default), or --schedules N runs of the same training under different faults, which must all end in one
// digest. Exit status 0: everything held; 1: an invariant was broken (the line names seed and schedule); 2: usage; 8 or
// 10: everything held, and standard output could not be written (host/output_end.h).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include <sys/resource.h>

#include "host/output_end.h"
#include "host/standard_files.h"
#include "server/run/check_parameters.h"
#include "sim/arguments.h"
#include "sim/big_fleet.h"
#include "sim/cluster_report.h"
#include "sim/report.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

void print_log(uint64_t now_ms, const char* who, const std::string& text) {
  print_format("%8llu %s %s\n", static_cast<unsigned long long>(now_ms), who, text.c_str());
}

void print_line(const std::string& line) { print_format("%s\n", line.c_str()); }

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int run_fleet(const Arguments& arguments) {
  BigFleetOptions fleet = arguments.fleet;
  fleet.device_count = arguments.fleet_count;
  fleet.seed = arguments.options.seed;
  fleet.buffer_size =
      std::min(arguments.has_buffer ? arguments.options.buffer_size : fleet.buffer_size, fleet.device_count);
  fleet.speeds = arguments.speeds == "mix"         ? SpeedMix::kMix
                 : arguments.speeds == "lognormal" ? SpeedMix::kLognormal
                                                   : SpeedMix::kConstant;
  if (fleet.awake_minutes >= fleet.cycle_minutes) {
    std::fprintf(stderr, "--awake-minutes: below --cycle-minutes, or 0 for always\n");
    print_format("result: verb=simulate error=usage\n");
    return 2;
  }
  if (const Objection objection = check_new_run(big_fleet_parameters(fleet))) {
    std::fprintf(stderr, "--fleet, --buffer: no server would run this: %s\n", objection.sentence.c_str());
    print_format("result: verb=simulate error=usage\n");
    return 2;
  }
  std::FILE* csv = arguments.csv.empty() ? nullptr : std::fopen(arguments.csv.c_str(), "w");
  if (csv == nullptr && !arguments.csv.empty()) {
    std::fprintf(stderr, "--csv: cannot write %s; name a file in a folder that can be written\n",
                 arguments.csv.c_str());
    print_format("result: verb=simulate error=usage\n");
    return 2;
  }
  const BigFleetResult result = run_big_fleet(fleet, csv);
  const bool is_whole = csv == nullptr || std::ferror(csv) == 0;  // what failed before leaves nothing to a close
  const bool is_written = (csv == nullptr || std::fclose(csv) == 0) && is_whole;
  if (!result.fault.empty() || !is_written) {
    print_format("seed %u: %s\n", fleet.seed, is_written ? result.fault.c_str() : "the CSV could not be written");
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const double device_years = static_cast<double>(result.virtual_ms) / 86'400'000.0 / 365 * fleet.device_count;
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  print_format(
      "folded=%llu late=%llu abandoned=%llu extended=%llu sessions=%llu losses=%llu resets=%llu "
      "records=%llu events=%llu queue_max=%llu bytes_up=%llu bytes_down=%llu\n",
      number(result.updates_folded), number(result.updates_late), number(result.tasks_abandoned),
      number(result.rounds_extended), number(result.counts.sessions), number(result.counts.losses),
      number(result.counts.resets), number(result.counts.records), number(result.counts.events),
      number(result.counts.queue_max), number(result.counts.bytes_up), number(result.counts.bytes_down));
  print_format(
      "result: devices=%u days=%.3f versions=%u digest=%016llx gap_first=%.3e gap=%.3e refused=%llu broken=%d "
      "cpu_s=%.1f device_years_per_cpu_minute=%.2f memory_mib=%ld\n",
      fleet.device_count, static_cast<double>(result.virtual_ms) / 86'400'000.0, result.version, number(result.digest),
      result.gap_first, result.gap_last, number(result.updates_refused), result.fault.empty() ? 0 : 1, cpu_seconds(),
      device_years / (cpu_seconds() / 60), usage.ru_maxrss / 1024);
  return result.fault.empty() && is_written ? 0 : 1;
}

int run(int argc, char** argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse_arguments(argc, argv, nullptr, std::cout, std::cerr, &arguments)) {
    print_format("result: verb=simulate %s\n", *code == 0 ? "help=1" : "error=usage");
    return *code;
  }
  if (arguments.fleet_count > 0) {
    return run_fleet(arguments);
  }
  if (arguments.front_count > 0) {
    std::string line;
    const bool holds = run_clusters(arguments, print_line, &line);
    print_line(line);
    return holds ? 0 : 1;
  }
  const bool is_single = arguments.schedules == 0 && !is_planted(arguments.options);
  if (is_single || arguments.is_verbose) {
    arguments.options.on_log = print_log;
  }
  const Total total = run_schedules(arguments, print_line);
  std::string line;
  const bool holds = report(arguments, total, print_line, &line);
  print_line(line);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  return gradstream::finish_output("gradstream-sim", gradstream::run(argc, argv));
}

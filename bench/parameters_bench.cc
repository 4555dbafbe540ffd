// gradstream-parameters: what a run makes of a table when nothing is set but name, problem and size. ./run bench
// parameters calls it.
//
// Exit status: 0 every bar holds; 1 one is missed; 2 usage; 8 or 10 the output is lost (host/output_end.h).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/parameters_plan.h"
#include "host/output_end.h"
#include "host/standard_files.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

// Reason: a run of the whole bench leaves a machine of two processors usable.
constexpr uint32_t kThreadCountMax = 2;

// Reason: small, and together they take out units of two kinds; a step that is wrong ruins both.
constexpr const char* kQuickWorkloads[] = {"iris_raw", "log_wine_raw"};

struct BenchArguments {
  BenchChoice choice;
  std::vector<std::string> parts = {"auto", "stream", "liar", "constant", "smoothing"};
  bool is_quick = false;
  uint32_t thread_count = kThreadCountMax;
};

std::string workload_names() {
  std::string names;
  for (const WorkloadRow& row : parameter_workloads()) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

// "-": the part was not run.
std::string text_of(double figure) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2e", figure);
  return std::isnan(figure) ? "-" : text;
}

void run_jobs(std::vector<BenchJob>* jobs, uint32_t thread_count) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      for (size_t index = next++; index < jobs->size(); index = next++) {
        run_job(&(*jobs)[index]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

int run_parts(const BenchArguments& arguments) {
  BenchFigures figures;
  size_t job_count = 0;
  for (size_t part = 0; part < std::size(kBenchPartNames); ++part) {
    if (std::find(arguments.parts.begin(), arguments.parts.end(), kBenchPartNames[part]) == arguments.parts.end()) {
      continue;
    }
    std::vector<BenchJob> jobs = jobs_of(static_cast<BenchPart>(part), arguments.choice);
    if (!jobs.empty()) {
      job_count += jobs.size();
      run_jobs(&jobs, arguments.thread_count);
      report(static_cast<BenchPart>(part), jobs, &figures);
    }
  }
  if (job_count == 0) {
    std::fprintf(stderr, "error: no workload of these parts has such a name (--workload); known: %s\n",
                 workload_names().c_str());
    print_format("result: verb=bench error=usage\n");
    return 2;
  }
  print_format(
      "result: workloads=%zu runs=%zu digits_150=%s digits_300=%s worst_kpca=%s worst_least_squares=%s "
      "worst_logistic=%s missed_bad_runs=%s false_alarms=%s missed_bars=%u\n",
      figures.workloads.size(), job_count, text_of(figures.digits_150).c_str(), text_of(figures.digits_300).c_str(),
      text_of(figures.worst_kpca).c_str(), text_of(figures.worst_least_squares).c_str(),
      text_of(figures.worst_logistic).c_str(), figures.missed_bad_runs.c_str(), figures.false_alarms.c_str(),
      figures.missed_bars);
  return figures.missed_bars == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  BenchArguments arguments;
  CLI::App app("What a run makes of a table when nothing is set but name, problem and size.");
  app.add_option("--part", arguments.parts, "auto, stream (RFedAGS), liar, constant (steps by hand), smoothing")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kBenchPartNames), std::end(kBenchPartNames))))
      ->delimiter(',');
  app.add_option("--workload", arguments.choice.names, "only workloads whose name contains one of these texts")
      ->delimiter(',');
  app.add_option("--seed", arguments.choice.seed, "only this one; without it 1 to 3, of constant steps 1 to 5");
  app.add_option("--rounds", arguments.choice.round_count, "of every run; gaps at later rounds are infinite")
      ->check(CLI::Range(1U, kMarkRounds.back()));
  app.add_option("--set", arguments.choice.keys, "a line of [run] for every run: step_size=\"auto\"");
  app.add_option("--threads", arguments.thread_count, "runs at a time")
      ->check(CLI::Range(1U, kThreadCountMax))
      ->capture_default_str();
  auto* quick = app.add_flag("--quick", arguments.is_quick, "part auto of two workloads, seed 1: what ./run test runs");
  for (const char* other : {"--part", "--workload", "--seed", "--rounds", "--set"}) {
    quick->excludes(app.get_option(other));
  }
  app.footer("Exit status: 0 every bar holds; 1 one is missed; 2 usage; 8 or 10 its output is lost.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = app.exit(error) == 0;
    print_format("result: verb=bench %s\n", is_help ? "help=1" : "error=usage");
    return is_help ? 0 : 2;
  }
  if (arguments.is_quick) {
    arguments.parts = {"auto"};
    arguments.choice = {{std::begin(kQuickWorkloads), std::end(kQuickWorkloads)}, 1, {}, {}};
  }
  return run_parts(arguments);
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  return gradstream::finish_output("gradstream-parameters", gradstream::run(argc, argv));
}

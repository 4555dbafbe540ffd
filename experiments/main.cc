// gradstream-experiment: the papers' experiments in the simulator. ./run experiment calls it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "experiments/compare.h"
#include "experiments/harness.h"
#include "experiments/network.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

constexpr const char* kPrecision = sizeof(Real) == sizeof(double) ? "double" : "float";

enum class Outcome { kPassed, kFailed, kSkipped, kNoSuchCase };

struct Arguments {
  std::string name;
  std::string case_part;       // only cases whose key contains it; they are then not judged
  std::string network_folder;  // empty: no files for a run over TLS
  HarnessOptions harness;
};

void print_case(const Case& one, const Curve& curve) {
  const CurvePoint last = curve.points.empty() ? CurvePoint() : curve.points.back();
  std::printf("case %-34s rounds=%u excess=%.3e grad_norm=%.3e bytes_up=%llu bytes_down=%llu seconds=%.1f%s%s\n",
              one.key.c_str(), last.round, last.measures.excess, last.measures.grad_norm,
              static_cast<unsigned long long>(last.bytes_up), static_cast<unsigned long long>(last.bytes_down),
              curve.seconds, curve.fault.empty() ? "" : " ended by: ", curve.fault.c_str());
  std::fflush(stdout);
}

// Starts that a sensitive case is run from besides. Reason: one may happen to move it little.
constexpr uint32_t kNudgeCount = 3;

std::vector<Curve> nudged_curves(const Case& one, HarnessOptions options) {
  std::vector<Curve> curves;
  for (uint32_t entry = 0; entry < kNudgeCount; ++entry) {
    options.nudged_entry = entry;
    curves.push_back(run_case(one, options));
  }
  return curves;
}

uint32_t seed_of(const Case& one, const Request& request) { return one.seed == 0 ? request.seed : one.seed; }

bool is_sensitive(const std::vector<ReferenceException>& exceptions, const std::string& key, uint32_t seed) {
  return std::any_of(exceptions.begin(), exceptions.end(), [&](const ReferenceException& exception) {
    return exception.kind == ReferenceException::Kind::kSensitive && matches(exception, key, seed);
  });
}

// Holds one case to all lines of the reference that it follows; appends their keys to `held`.
void hold_case(const std::vector<ReferenceCurve>& references, const std::vector<ReferenceException>& exceptions,
               const Case& one, const Curve& curve, const HarnessOptions& options, std::vector<HeldKey>* held,
               Judgement* judgement) {
  const uint32_t seed = seed_of(one, options.request);
  std::vector<Curve> nudged;
  for (const ReferenceCurve& reference : references) {
    const bool is_its_own = reference.key == one.key && one.reference_key != kNoReference;
    if ((!is_its_own && reference.key != one.reference_key) || reference.seed != seed) {
      continue;
    }
    held->push_back({reference.key, reference.seed});
    if (curve.points.empty()) {
      judgement->check(one.key + " runs: " + curve.fault, false);
      continue;
    }
    Tolerance tolerance = tolerance_of(reference, one.parameters, curve.optimum);
    tolerance.may_end_early = !curve.fault.empty() && may_end(exceptions, one.key, seed, curve);
    if (nudged.empty() && is_sensitive(exceptions, one.key, seed)) {
      nudged = nudged_curves(one, options);
    }
    tolerance.nudged = nudged;
    compare(reference, curve, tolerance, options.round_count_max, judgement);
  }
}

void hold_to_references(const Experiment& experiment, const std::vector<Case>& cases, const Curves& curves,
                        bool is_whole, const HarnessOptions& options, Judgement* judgement) {
  const std::vector<ReferenceCurve> references = read_references(experiment.name);
  const std::vector<ReferenceException> exceptions = read_exceptions(experiment.name);
  std::vector<HeldKey> held;
  for (const Case& one : cases) {
    hold_case(references, exceptions, one, curves.at(one.key), options, &held, judgement);
  }
  if (is_whole) {
    check_coverage(references, exceptions, held, options.request.seed, judgement);
    check_ends(exceptions, curves, options.request.seed, judgement);
  }
}

// Files for the run over TLS, and a line that tools/experiment.py reads.
bool write_network(const Arguments& arguments, const Experiment& experiment, const Case& one, const Curve& curve) {
  RunParameters parameters = complete_parameters(one, arguments.harness.request);
  parameters.round_count = std::min(parameters.round_count, arguments.harness.round_count_max);
  std::string folder = arguments.network_folder + "/" + experiment.name + "/" + case_file_name(one.key);
  const bool is_written = write_network_case(folder, parameters, *one.workload);
  std::printf("network case=%s folder=%s devices=%u problem=%s digest=%016llx\n", one.key.c_str(), folder.c_str(),
              parameters.device_count, parameters.problem.c_str(), static_cast<unsigned long long>(curve.digest));
  return is_written;
}

Outcome run_one(const Experiment& experiment, const Arguments& arguments) {
  const HarnessOptions& options = arguments.harness;
  std::printf("experiment %s: %s\n", experiment.name, experiment.title);
  std::vector<Case> cases = experiment.cases(options.request);
  const bool was_there = !cases.empty();
  std::erase_if(cases, [&](const Case& one) { return one.key.find(arguments.case_part) == std::string::npos; });
  const bool is_whole =
      arguments.case_part.empty() && options.round_count_max == UINT32_MAX && options.nudged_entry == UINT32_MAX;
  if (cases.empty() && was_there) {
    return Outcome::kNoSuchCase;
  }
  if (cases.empty()) {
    std::printf("result: name=%s seed=%u skipped=1 reason=no_%s_in_the_data_folder\n", experiment.name,
                options.request.seed, experiment.needs);
    return Outcome::kSkipped;
  }
  const std::string folder =
      options.results_folder + "/" + experiment.name + "/seed" + std::to_string(options.request.seed);
  bool is_written = true;
  const Curves curves = run_cases(cases, options, [&](const Case& one, const Curve& curve) {
    print_case(one, curve);
    is_written = is_written && write_csv(folder, one.key, curve, experiment.axis);
    if (!arguments.network_folder.empty() && !one.train && !one.tabulate) {
      is_written = is_written && write_network(arguments, experiment, one, curve);
    }
  });
  is_written = is_written && write_picture(folder, experiment, curves);
  Judgement judgement;
  hold_to_references(experiment, cases, curves, is_whole, options, &judgement);
  if (is_whole) {
    experiment.judge(curves, options.request, &judgement);
  } else {
    judgement.note("not judged as an experiment: some cases, or some rounds, were left out, or a start was moved");
  }
  for (const auto& [key, curve] : curves) {
    if (!curve.fault.empty()) {
      judgement.note("ended      " + key + " at round " +
                     std::to_string(curve.points.empty() ? 0 : curve.points.back().round) + " by " + curve.fault);
    }
  }
  judgement.check("results are written to " + folder, is_written);
  double seconds = 0;
  for (const auto& [key, curve] : curves) {
    seconds += curve.seconds;
  }
  for (const std::string& line : judgement.lines()) {
    std::printf("%s\n", line.c_str());
  }
  std::printf("result: name=%s seed=%u passed=%d precision=%s cases=%zu criteria=%u failed=%u seconds=%.0f\n",
              experiment.name, options.request.seed, judgement.passed() ? 1 : 0, kPrecision, cases.size(),
              judgement.check_count(), judgement.failed_count(), seconds);
  std::fflush(stdout);
  return judgement.passed() ? Outcome::kPassed : Outcome::kFailed;
}

std::vector<const Experiment*> experiments_of(const std::string& name) {
  const auto all = all_experiments();
  if (name == "all") {
    return {all.begin(), all.end()};
  }
  return {find_experiment(name)};
}

std::string known_names() {
  std::string names = "all";
  for (const Experiment* experiment : all_experiments()) {
    names += std::string(", ") + experiment->name;
  }
  return names;
}

int run(int argc, char** argv) {
  Arguments arguments;
  HarnessOptions& options = arguments.harness;
  std::string& name = arguments.name;
  options.request.data_folder = "../shared/data";
  options.results_folder = "results";
  options.thread_count = std::clamp(std::thread::hardware_concurrency(), 1U, 64U);
  CLI::App app("The papers' experiments, in the simulator, in " + std::string(kPrecision) + " arithmetic.");
  app.add_option("name", name, "one of " + known_names())->required();
  app.add_option("--seed", options.request.seed, "of data, start, batches and directions")->capture_default_str();
  app.add_option("--data", options.request.data_folder, "folder of mnist/, wordnet/ and school.csv.gz")
      ->capture_default_str();
  app.add_option("--results", options.results_folder, "NAME/seedS/ is made in it")->capture_default_str();
  app.add_option("--threads", options.thread_count, "cases at a time")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--case", arguments.case_part, "only cases whose key contains this");
  app.add_option("--rounds", options.round_count_max, "only so many rounds")->check(CLI::Range(1, 1000000));
  app.add_option("--nudge", options.nudged_entry, "moves this entry of the first model by one unit in the last place");
  app.add_option("--network-folder", arguments.network_folder, "writes there what a server and clients take");
  app.footer("Exit status: 0 every experiment passed, or was skipped for want of data; 1 not; 2 usage.");
  try {
    app.parse(argc, argv);
    if (name != "all" && find_experiment(name) == nullptr) {
      throw CLI::ValidationError("name", "no experiment is called '" + name + "'; known: " + known_names());
    }
  } catch (const CLI::ParseError& error) {
    const bool is_help = app.exit(error) == 0;
    std::printf("result: verb=experiment %s\n", is_help ? "help=1" : "error=usage");
    return is_help ? 0 : 2;
  }
  uint32_t passed = 0;
  uint32_t failed = 0;
  uint32_t skipped = 0;
  bool has_cases = false;
  for (const Experiment* experiment : experiments_of(name)) {
    const Outcome outcome = run_one(*experiment, arguments);
    ++(outcome == Outcome::kPassed ? passed : outcome == Outcome::kFailed ? failed : skipped);
    has_cases = has_cases || outcome != Outcome::kNoSuchCase;
  }
  if (!has_cases) {
    std::fprintf(stderr, "error: no case's key contains '%s' (--case)\n", arguments.case_part.c_str());
    std::printf("result: verb=experiment error=usage\n");
    return 2;
  }
  if (name == "all") {
    std::printf("result: name=all seed=%u passed=%d precision=%s experiments_passed=%u failed=%u skipped=%u\n",
                options.request.seed, failed == 0 ? 1 : 0, kPrecision, passed, failed, skipped);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run(argc, argv); }

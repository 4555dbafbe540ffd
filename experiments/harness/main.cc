// gradstream-experiment: the papers' experiments in the simulator. ./run experiment calls it.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <system_error>
#include <thread>

#include <CLI/CLI.hpp>

#include "experiments/harness/campaign.h"
#include "host/output_end.h"
#include "host/standard_files.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

constexpr uint32_t kSeedCountMax = 100;  // of one command: some days with all experiments

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

// Seeds 1 to kMeanSeedCount one after the other, then the means. 0 if all of it holds.
int run_means(const std::string& name, CampaignOptions campaign) {
  std::vector<MeanPart> parts;
  campaign.mean_parts = &parts;
  bool is_passed = true;
  for (uint32_t seed = 1; seed <= kMeanSeedCount; ++seed) {
    campaign.harness.request.seed = seed;
    const std::vector<Outcome> outcomes = run_experiments(experiments_of(name), campaign);
    is_passed = is_passed && std::none_of(outcomes.begin(), outcomes.end(),
                                          [](Outcome outcome) { return outcome == Outcome::kFailed; });
  }
  Judgement judgement;
  check_means(parts, &judgement);
  for (const std::string& line : judgement.lines()) {
    print_format("%s\n", line.c_str());
  }
  is_passed = is_passed && judgement.passed();
  print_format("result: name=%s seeds=%u passed=%d precision=%s means=%u failed=%u\n", name.c_str(), kMeanSeedCount,
               is_passed ? 1 : 0, kPrecisionName, judgement.check_count(), judgement.failed_count());
  return is_passed ? 0 : 1;
}

// Whether the experiment has cases, but none that a server and clients could train.
bool is_without_network(const std::string& name, const Request& request) {
  const std::vector<Case> cases = name == "all" ? std::vector<Case>() : find_experiment(name)->cases(request);
  return !cases.empty() && std::none_of(cases.begin(), cases.end(), has_network_run);
}

// What the experiments of a command came to.
struct Tally {
  uint32_t passed = 0;
  uint32_t failed = 0;
  uint32_t skipped = 0;
  bool has_cases = false;
};

// Runs the campaign's seed, and adds to the tally.
void count_seed(const std::string& name, const CampaignOptions& campaign, Tally* tally) {
  for (const Outcome outcome : run_experiments(experiments_of(name), campaign)) {
    ++(outcome == Outcome::kPassed ? tally->passed : outcome == Outcome::kFailed ? tally->failed : tally->skipped);
    tally->has_cases = tally->has_cases || outcome != Outcome::kNoSuchCase;
  }
}

int refuse_case(const CampaignOptions& campaign) {
  std::fprintf(stderr, "error: no case's key contains '%s' (--case)\n", campaign.case_part.c_str());
  print_format("result: verb=experiment error=usage\n");
  return 2;
}

// One seed.
int run_seed(const std::string& name, const CampaignOptions& campaign) {
  Tally tally;
  count_seed(name, campaign, &tally);
  if (!tally.has_cases) {
    return refuse_case(campaign);
  }
  if (name == "all") {
    print_format(
        "result: name=all seed=%u passed=%d complete=%d precision=%s experiments_passed=%u failed=%u skipped=%u\n",
        campaign.harness.request.seed, tally.failed == 0 ? 1 : 0, tally.skipped == 0 ? 1 : 0, kPrecisionName,
        tally.passed, tally.failed, tally.skipped);
  }
  return tally.failed == 0 ? 0 : 1;
}

struct SeedRange {
  uint32_t first = 0;  // 0: the text is no range
  uint32_t last = 0;
};

// Of a text such as 1-3, both ends inclusive.
SeedRange seed_range(const std::string& text) {
  SeedRange range;
  const size_t dash = text.find('-');
  const char* const end = text.data() + text.size();
  if (dash == std::string::npos) {
    return {};
  }
  const auto first = std::from_chars(text.data(), text.data() + dash, range.first);
  const auto last = std::from_chars(text.data() + dash + 1, end, range.last);
  const bool is_whole =
      first.ec == std::errc() && first.ptr == text.data() + dash && last.ec == std::errc() && last.ptr == end;
  return is_whole && range.first <= range.last ? range : SeedRange();
}

// "" where --seeds is a range that one command may run.
std::string check_seed_range(const std::string& text) {
  const SeedRange range = seed_range(text);
  if (range.first == 0) {
    return "'" + text + "' is no range of seeds such as 1-3, which begin at 1";
  }
  return range.last - range.first < kSeedCountMax
             ? ""
             : "'" + text + "' has more than " + std::to_string(kSeedCountMax) + " seeds: split it";
}

// Seeds one after the other. 0 if all experiments passed with each, or were skipped.
int run_seeds(const std::string& name, CampaignOptions campaign, SeedRange range) {
  const std::clock_t begin = std::clock();
  Tally tally;
  for (uint32_t i = 0; i <= range.last - range.first; ++i) {
    const uint32_t seed = campaign.harness.request.seed = range.first + i;
    Tally one;
    count_seed(name, campaign, &one);
    tally.passed += one.passed;
    tally.failed += one.failed;
    tally.skipped += one.skipped;
    tally.has_cases = tally.has_cases || one.has_cases;
    print_format("seed %-5u passed=%u failed=%u skipped=%u\n", seed, one.passed, one.failed, one.skipped);
  }
  if (!tally.has_cases) {
    return refuse_case(campaign);
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  print_format(
      "result: name=%s seeds=%u-%u passed=%d complete=%d precision=%s experiments_passed=%u failed=%u skipped=%u "
      "seconds=%.0f\n",
      name.c_str(), range.first, range.last, tally.failed == 0 ? 1 : 0, tally.skipped == 0 ? 1 : 0, kPrecisionName,
      tally.passed, tally.failed, tally.skipped, seconds);
  return tally.failed == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  std::string name;
  CampaignOptions campaign;
  HarnessOptions& options = campaign.harness;
  options.request.data_folder = "../shared/data";
  options.results_folder = "results";
  campaign.thread_count = std::clamp(std::thread::hardware_concurrency(), 1U, 64U);
  CLI::App app("The papers' experiments, in the simulator, in " + std::string(kPrecisionName) + " arithmetic.");
  app.add_option("name", name, "one of " + known_names())->required();
  // From 1 on: 0 in a case means the request's seed, and X14 counts the seeds of its rules from 6 (S - 1) + 1.
  auto* seed = app.add_option("--seed", options.request.seed, "of data, start, batches and directions, from 1 on")
                   ->check(CLI::Range(1U, UINT32_MAX));
  app.add_option("--data", options.request.data_folder, "folder of mnist/, cifar10/, wordnet/ and school.csv.gz")
      ->capture_default_str();
  app.add_option("--results", options.results_folder, "NAME/seedS/ is made in it")->capture_default_str();
  app.add_option("--threads", campaign.thread_count, "cases at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  auto* part = app.add_option("--case", campaign.case_part, "only cases whose key contains this");
  auto* rounds = app.add_option("--rounds", options.round_count_max, "only so many rounds");
  auto* nudge = app.add_option("--nudge", options.nudged_entry,
                               "moves this entry of the first model, or all, by one unit in the last place")
                    ->type_name("I|all")
                    ->transform(CLI::Transformer(std::map<std::string, uint32_t>{{"all", kNudgeAll}}).description(""));
  auto* network =
      app.add_option("--network-folder", campaign.network_folder, "writes there what a server and clients take");
  std::string seeds;
  auto* range = app.add_option("--seeds", seeds, "seeds A to B, one after the other")
                    ->type_name("A-B")
                    ->check(CLI::Validator(check_seed_range, ""));
  bool has_means = false;
  auto* means = app.add_flag("--means", has_means,
                             "runs seeds 1 to " + std::to_string(kMeanSeedCount) +
                                 " and holds the geometric means to the reference's (X1 to X4, X12, X13)");
  seed->capture_default_str();
  rounds->check(CLI::Range(1, 1000000));
  for (CLI::Option* other : {seed, part, rounds, nudge, network, range}) {
    means->excludes(other);
  }
  range->excludes(seed)->excludes(network);
  app.footer(
      "Exit status: 0 every experiment passed, or was skipped for want of data; 1 not; 2 usage; 8 or 10 its output is "
      "lost.");
  try {
    app.parse(argc, argv);
    if (name != "all" && find_experiment(name) == nullptr) {
      throw CLI::ValidationError("name", "no experiment is called '" + name + "'; known: " + known_names());
    }
    const std::string with_means[] = {"X1", "X2", "X3", "X4", "X12", "X13"};
    if (has_means && std::find(std::begin(with_means), std::end(with_means), name) == std::end(with_means)) {
      throw CLI::ValidationError(
          "--means", "the references of " + name + " are no means of seeds; X1 to X4, X12 and X13 have them");
    }
    if (!campaign.network_folder.empty() && is_without_network(name, options.request)) {
      throw CLI::ValidationError("--network", "no case of " + name +
                                                  " runs over connections: each has its own trainer, table or " +
                                                  "problem; leave --network out");
    }
  } catch (const CLI::ParseError& error) {
    const bool is_help = app.exit(error) == 0;
    print_format("result: verb=experiment %s\n", is_help ? "help=1" : "error=usage");
    return is_help ? 0 : 2;
  }
  if (has_means) {
    return run_means(name, campaign);
  }
  return seeds.empty() ? run_seed(name, campaign) : run_seeds(name, campaign, seed_range(seeds));
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  return gradstream::finish_output("gradstream-experiment", gradstream::run(argc, argv));
}

#include "sim/cluster_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>

#include "sim/cluster.h"
#include "sim/simulation.h"

namespace gradstream {
namespace {

// Schedules with a planted fault. Reason: the rarest of the plants is found in some of them.
constexpr uint32_t kPlantedSchedules = 100;
// Broken schedules after which no further one is run.
constexpr uint32_t kBrokenMax = 10;
// From so many schedules on, each fault must have happened.
constexpr uint32_t kAllFaultsSchedules = 100;
// From so many schedules on, each fault must have happened more often than this. Reason: a fault meets each of some
// dozens of situations only where it is frequent.
constexpr uint32_t kOftenFaultsSchedules = 1000;
constexpr uint64_t kOftenFaults = 100;

struct Sum {
  ClusterCounters counters;
  ClusterFaultCounts faults = {};
  std::set<uint64_t> digests;
  uint64_t event_count = 0;
  uint64_t virtual_ms = 0;
  uint32_t schedules = 0;
  uint32_t broken = 0;
  uint32_t first_broken = 0;
  uint32_t found = 0;       // of those with a plant: by a sentence that has to
  uint32_t found_else = 0;  // by another one
};

void add(const ClusterResult& result, uint32_t schedule, Sum* sum) {
  ++sum->schedules;
  sum->event_count += result.event_count;
  sum->virtual_ms += result.virtual_ms;
  ClusterCounters& all = sum->counters;
  const ClusterCounters& one = result.counters;
  all.updates += one.updates;
  all.duplicates += one.duplicates;
  all.batches += one.batches;
  all.cuts += one.cuts;
  all.conflicts += one.conflicts;
  all.unknowns += one.unknowns;
  all.judged_anew += one.judged_anew;
  all.terms += one.terms;
  all.versions += one.versions;
  all.versions_cut += one.versions_cut;
  for (size_t i = 0; i < kClusterFaultCount; ++i) {
    sum->faults[i] += result.faults[i];
  }
  if (result.fault.empty()) {
    sum->digests.insert(result.digest);
  } else {
    sum->first_broken = sum->broken++ == 0 ? schedule : sum->first_broken;
  }
}

// The digest that one server comes to, without a fault.
uint64_t single_digest(const SimOptions& options) {
  SimOptions single = options;
  single.fault_bits = 0;
  single.on_log = nullptr;
  return Simulation(single, 0).run().digest;
}

// Whether the digests are that of one server, where the options have one.
bool check_digests(const Arguments& arguments, const Sum& sum, const Say& say, bool* is_single) {
  *is_single = has_one_digest(arguments.options) && sum.digests == std::set<uint64_t>{single_digest(arguments.options)};
  if (*is_single || !has_one_digest(arguments.options)) {
    return true;
  }
  say("the schedules end with " + std::to_string(sum.digests.size()) + " digests in place of one server's");
  return false;
}

bool check_faults(const Arguments& arguments, const Sum& sum, const Say& say) {
  const uint64_t most = sum.schedules >= kOftenFaultsSchedules ? kOftenFaults : 0;
  bool holds = true;
  for (size_t i = 0; i < kClusterFaultCount; ++i) {
    if ((arguments.options.fault_bits >> i & 1U) != 0 && sum.faults[i] <= most) {
      say(std::string(kClusterFaultNames[i]) + " was injected " + std::to_string(sum.faults[i]) +
          " times, and has to be more often than " + std::to_string(most));
      holds = false;
    }
  }
  return holds;
}

std::string text_of(const Arguments& arguments, const Sum& sum, bool is_single) {
  std::string line;
  const auto add_count = [&line](const char* name, uint64_t count) {
    line += std::string(" ") + name + "=" + std::to_string(count);
  };
  char digest[32];
  (void)std::snprintf(digest, sizeof digest, " digest=%016" PRIx64, sum.digests.empty() ? 0 : *sum.digests.begin());
  line = "result: fronts=" + std::to_string(arguments.front_count);
  add_count("schedules", sum.schedules);
  add_count("digests", sum.digests.size());
  line += digest;
  add_count("single_digest", is_single ? 1 : 0);
  add_count("broken", sum.broken);
  if (sum.broken > 0) {
    add_count("seed", arguments.options.seed);
    add_count("first_broken", sum.first_broken);
  }
  add_count("events", sum.event_count);
  add_count("virtual_s", sum.virtual_ms / 1000);
  add_count("versions", sum.counters.versions);
  add_count("versions_cut", sum.counters.versions_cut);
  add_count("updates", sum.counters.updates);
  add_count("resent", sum.counters.duplicates);
  add_count("batches", sum.counters.batches);
  add_count("cuts", sum.counters.cuts);
  add_count("conflicts", sum.counters.conflicts);
  add_count("unknowns", sum.counters.unknowns);
  add_count("judged_anew", sum.counters.judged_anew);
  add_count("terms", sum.counters.terms);
  for (size_t i = 0; i < kClusterFaultCount; ++i) {
    add_count(kClusterFaultNames[i], sum.faults[i]);
  }
  return line;
}

void say_fault(const Arguments& arguments, uint32_t schedule, const std::string& fault, const Say& say) {
  say("seed " + std::to_string(arguments.options.seed) + " schedule " + std::to_string(schedule) + ": " + fault);
}

// The same schedules with the plant and without it: some find it, each by a sentence that has to, and without it all
// are clean.
bool run_planted(const Arguments& arguments, uint32_t first, uint32_t count, const Say& say, std::string* line) {
  const ClusterOptions planted = cluster_options(arguments);
  ClusterOptions unplanted = planted;
  unplanted.plant = ClusterPlant::kNone;
  Sum sum, clean;
  for (uint32_t schedule = first; schedule < first + count; ++schedule) {
    const ClusterResult result = Cluster(planted, schedule).run();
    add(result, schedule, &sum);
    const bool is_found = is_finding(planted.plant, result.fault);
    sum.found += is_found ? 1 : 0;
    if (!is_found && !result.fault.empty()) {
      ++sum.found_else;
      say_fault(arguments, schedule, "another sentence than those that have to find the plant: " + result.fault, say);
    } else if (is_found && sum.found == 1) {
      say_fault(arguments, schedule, result.fault, say);
    }
    const ClusterResult other = Cluster(unplanted, schedule).run();
    add(other, schedule, &clean);
    if (!other.fault.empty()) {
      say_fault(arguments, schedule, "without the plant: " + other.fault, say);
    }
    if (sum.found_else + clean.broken >= kBrokenMax) {
      break;
    }
  }
  bool is_single = false;
  const bool holds = clean.broken == 0 && check_digests(arguments, clean, say, &is_single);
  *line = text_of(arguments, sum, is_single) + " planted_found=" + std::to_string(sum.found) +
          " found_by_others=" + std::to_string(sum.found_else) + " broken_without=" + std::to_string(clean.broken);
  return holds && sum.found > 0 && sum.found_else == 0;
}

}  // namespace

bool run_clusters(const Arguments& arguments, const Say& say, std::string* line) {
  const ClusterOptions options = cluster_options(arguments);
  const bool has_plant = options.plant != ClusterPlant::kNone;
  const uint32_t first = arguments.schedule.value_or(0);
  const uint32_t count = arguments.schedule.has_value() ? 1
                         : has_plant                    ? std::max(arguments.schedules, kPlantedSchedules)
                                                        : std::max(1U, arguments.schedules);
  if (has_plant) {
    return run_planted(arguments, first, count, say, line);
  }
  Sum sum;
  for (uint32_t schedule = first; schedule < first + count && sum.broken < kBrokenMax; ++schedule) {
    const ClusterResult result = Cluster(options, schedule).run();
    add(result, schedule, &sum);
    if (!result.fault.empty()) {
      say_fault(arguments, schedule, result.fault, say);
    }
  }
  bool is_single = false;
  bool holds = sum.broken == 0 && check_digests(arguments, sum, say, &is_single);
  holds = (count < kAllFaultsSchedules || check_faults(arguments, sum, say)) && holds;
  *line = text_of(arguments, sum, is_single);
  return holds;
}

}  // namespace gradstream

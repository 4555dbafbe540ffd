#include "sim/cluster_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>

#include "sim/cluster.h"
#include "sim/simulation.h"

namespace gradstream {
namespace {

// Schedules within which a planted fault must be found.
constexpr uint32_t kPlantedScheduleMax = 100;
// Broken schedules after which no further one is run.
constexpr uint32_t kBrokenMax = 10;
// From so many schedules on, each fault must have happened.
constexpr uint32_t kAllFaultsSchedules = 100;

struct Sum {
  ClusterCounters counters;
  ClusterFaultCounts faults = {};
  std::set<uint64_t> digests;
  uint64_t event_count = 0;
  uint64_t virtual_ms = 0;
  uint32_t schedules = 0;
  uint32_t broken = 0;
  uint32_t first_broken = 0;
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
  bool holds = true;
  for (size_t i = 0; i < kClusterFaultCount; ++i) {
    if ((arguments.options.fault_bits >> i & 1U) != 0 && sum.faults[i] == 0) {
      say(std::string(kClusterFaultNames[i]) + " was never injected");
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
  if (arguments.cluster_plant != "none") {
    add_count("planted_found", sum.broken > 0 ? 1 : 0);
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

}  // namespace

bool run_clusters(const Arguments& arguments, const Say& say, std::string* line) {
  const ClusterOptions options = cluster_options(arguments);
  const bool has_plant = options.plant != ClusterPlant::kNone;
  const uint32_t first = arguments.schedule.value_or(0);
  const uint32_t count = arguments.schedule.has_value() ? 1
                         : has_plant                    ? kPlantedScheduleMax
                                                        : std::max(1U, arguments.schedules);
  Sum sum;
  for (uint32_t schedule = first; schedule < first + count; ++schedule) {
    const ClusterResult result = Cluster(options, schedule).run();
    add(result, schedule, &sum);
    if (!result.fault.empty()) {
      say("seed " + std::to_string(arguments.options.seed) + " schedule " + std::to_string(schedule) + ": " +
          result.fault);
      if (has_plant || sum.broken >= kBrokenMax) {
        break;
      }
    }
  }
  bool is_single = false;
  bool holds = sum.broken > 0;
  if (!has_plant) {
    holds = sum.broken == 0 && check_digests(arguments, sum, say, &is_single);
    holds = (count < kAllFaultsSchedules || check_faults(arguments, sum, say)) && holds;
  }
  *line = text_of(arguments, sum, is_single);
  return holds;
}

}  // namespace gradstream

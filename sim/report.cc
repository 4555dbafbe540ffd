#include "sim/report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <span>

#include "sim/faults.h"
#include "sim/lies.h"

namespace gradstream {
namespace {

// Schedules within which a planted fault must be found.
constexpr uint32_t kPlantedMax = 100;

// Each with its name; of those whose bit is 0, nothing.
std::string counts_text(const char* prefix, std::span<const char* const> names, std::span<const uint64_t> counts,
                        uint32_t bits) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if ((bits >> i & 1U) != 0) {
      text += std::string(" ") + prefix + names[i] + "=" + std::to_string(counts[i]);
    }
  }
  return text;
}

void add(const SimResult& result, uint32_t schedule, Total* total) {
  ++total->schedules;
  total->sum.version = result.version;
  total->sum.shape = result.shape;
  total->sum.model = result.model;
  total->sum.event_count += result.event_count;
  total->sum.record_count += result.record_count;
  total->sum.dropped_count += result.dropped_count;
  total->sum.snapshot_count += result.snapshot_count;
  total->sum.log_count += result.log_count;
  total->sum.duplicate_count += result.duplicate_count;
  total->sum.late_count += result.late_count;
  total->sum.partial_count += result.partial_count;
  total->sum.line_count += result.line_count;
  total->sum.client_deadline_count += result.client_deadline_count;
  total->sum.session_deadline_count += result.session_deadline_count;
  total->sum.hold_count += result.hold_count;
  for (size_t i = 0; i < kFaultCount; ++i) {
    total->sum.faults[i] += result.faults[i];
  }
  for (size_t i = 0; i < kLieCount; ++i) {
    total->sum.lies[i] += result.lies[i];
  }
  total->sum.byzantine_field_count += result.byzantine_field_count;
  total->sum.byzantine_repeat_count += result.byzantine_repeat_count;
  if (result.fault.empty()) {
    total->digests.insert(result.digest);
    return;
  }
  total->first_broken = total->broken++ == 0 ? schedule : total->first_broken;
}

std::string byzantine_text(const SimOptions& options, const SimResult& sum) {
  return options.trust.is_byzantine ? " byzantine_fields=" + std::to_string(sum.byzantine_field_count) +
                                          " byzantine_repeats=" + std::to_string(sum.byzantine_repeat_count)
                                    : "";
}

}  // namespace

Total run_schedules(const Arguments& arguments, const Say& say) {
  Total total;
  const bool has_plant = is_planted(arguments.options);
  const uint32_t first = arguments.schedule.value_or(0);
  const uint32_t count = arguments.schedule.has_value() ? 1
                         : has_plant                    ? kPlantedMax
                                                        : std::max(1U, arguments.schedules);
  for (uint32_t schedule = first; schedule < first + count; ++schedule) {
    const SimResult result = Simulation(arguments.options, schedule).run();
    add(result, schedule, &total);
    if (!result.fault.empty()) {
      say("seed " + std::to_string(arguments.options.seed) + " schedule " + std::to_string(schedule) + ": " +
          result.fault);
      if (has_plant || total.broken >= 10) {
        break;
      }
    }
  }
  return total;
}

bool report(const Arguments& arguments, const Total& total, const Say& say, std::string* line) {
  const bool has_plant = is_planted(arguments.options);
  bool holds = has_plant ? total.broken > 0
                         : total.broken == 0 && (total.digests.size() == 1 || !has_one_digest(arguments.options));
  if (!has_plant && total.digests.size() > 1 && has_one_digest(arguments.options)) {
    say("the schedules end with " + std::to_string(total.digests.size()) +
        " digests in place of one: a loss or an aggregation of yours must be a function of its arguments");
  }
  if (arguments.schedules >= 100 && !has_plant) {
    const uint32_t wanted = arguments.options.fault_bits & ~(arguments.options.holds_pulls ? 0 : kHoldFaultBits);
    for (size_t i = 0; i < kFaultCount; ++i) {
      if ((wanted >> i & 1U) != 0 && total.sum.faults[i] == 0) {
        say(std::string(kFaultNames[i]) + " was never injected");
        holds = false;
      }
    }
  }
  const SimResult& sum = total.sum;
  const auto add_count = [line](const char* name, uint64_t count) {
    *line += std::string(" ") + name + "=" + std::to_string(count);
  };
  char digest[32];
  (void)std::snprintf(digest, sizeof digest, " digest=%016" PRIx64, total.digests.empty() ? 0 : *total.digests.begin());
  *line = "result: schedules=" + std::to_string(total.schedules);
  add_count("digests", total.digests.size());
  *line += digest;
  add_count("broken", total.broken);
  if (total.broken > 0) {
    add_count("seed", arguments.options.seed);
    add_count("first_broken", total.first_broken);
  }
  if (has_plant) {
    add_count("planted_found", total.broken > 0 ? 1 : 0);
  }
  add_count("events", sum.event_count);
  add_count("records", sum.record_count);
  add_count("dropped", sum.dropped_count);
  add_count("snapshots", sum.snapshot_count);
  add_count("logs", sum.log_count);
  add_count("resent", sum.duplicate_count);
  add_count("late", sum.late_count);
  add_count("partial", sum.partial_count);
  add_count("lines", sum.line_count);
  add_count("client_deadlines", sum.client_deadline_count);
  add_count("session_deadlines", sum.session_deadline_count);
  add_count("held", sum.hold_count);
  *line += counts_text("", kFaultNames, sum.faults, UINT32_MAX) +
           counts_text("lie_", kLieNames, sum.lies, arguments.options.trust.lie_bits) +
           byzantine_text(arguments.options, sum);
  return holds;
}

}  // namespace gradstream

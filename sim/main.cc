// gradstream-sim: a fleet in one thread and virtual time, from one seed.
//
// One run (default), or --schedules N runs of the same training under different faults, which must all end in one
// digest. Exit status 0: everything held; 1: an invariant was broken (the line names seed and schedule); 2: usage.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "sim/simulation.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

// Schedules within which a planted fault must be found.
constexpr uint32_t kPlantedMax = 100;

struct Arguments {
  SimOptions options;
  uint32_t schedules = 0;            // 0: one run
  std::optional<uint32_t> schedule;  // only this one
  bool is_verbose = false;
  bool wants_help = false;
};

const char kUsage[] =
    "usage: gradstream-sim [--devices N] [--rounds R] [--seed S] [--schedules COUNT] [--schedule INDEX]\n"
    "                      [--faults all|none|NAME,NAME...] [--stream scalar|tangent]\n"
    "                      [--encoding f32|bf16|int8] [--stragglers] [--planted-double-fold] [--verbose]\n"
    "  --schedules COUNT      run COUNT schedules of faults; all must end in one digest\n"
    "  --schedule INDEX       run one of them again\n"
    "  --stragglers           close rounds early, weigh late updates, accept partial work: one digest is not wanted\n"
    "  --planted-double-fold  fold repeated updates twice; must be found within 100 schedules\n";

bool parse_number(const char* text, uint32_t low, uint32_t high, uint32_t* out) {
  const char* end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, *out);
  return error == std::errc() && last == end && *out >= low && *out <= high;
}

bool parse_faults(const std::string& text, uint32_t* bits) {
  if (text == "all" || text == "none") {
    *bits = text == "all" ? (1U << kFaultCount) - 1 : 0;
    return true;
  }
  *bits = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    size_t index = 0;
    while (index < kFaultCount && name != kFaultNames[index]) {
      ++index;
    }
    if (index == kFaultCount) {
      return false;
    }
    *bits |= 1U << index;
    begin = end + 1;
  }
  return true;
}

bool parse_encoding(const std::string& text, Encoding* out) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    if (text == name_of(encoding)) {
      *out = encoding;
      return true;
    }
  }
  return false;
}

int usage(const std::string& fault) {
  std::fprintf(stderr, "gradstream-sim: %s\n%s", fault.c_str(), kUsage);
  for (const char* name : kFaultNames) {
    std::fprintf(stderr, " %s", name);
  }
  std::fprintf(stderr, "\n");
  std::printf("result: verb=simulate error=usage\n");
  return 2;
}

// Empty: fine.
std::string parse_value(const std::string& option, const char* value, Arguments* out) {
  uint32_t number = 0;
  if (option == "--devices" && parse_number(value, 1, 64, &out->options.device_count)) {
    return "";
  }
  if (option == "--rounds" && parse_number(value, 1, 10000, &out->options.round_count)) {
    return "";
  }
  if (option == "--seed" && parse_number(value, 0, UINT32_MAX, &out->options.seed)) {
    return "";
  }
  if (option == "--schedules" && parse_number(value, 1, 1000000, &out->schedules)) {
    return "";
  }
  if (option == "--schedule" && parse_number(value, 0, UINT32_MAX, &number)) {
    out->schedule = number;
    return "";
  }
  if (option == "--faults" && parse_faults(value, &out->options.fault_bits)) {
    return "";
  }
  if (option == "--stream" && (std::strcmp(value, "scalar") == 0 || std::strcmp(value, "tangent") == 0)) {
    out->options.stream = value[0] == 's' ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
    return "";
  }
  if (option == "--encoding" && parse_encoding(value, &out->options.encoding)) {
    return "";
  }
  return "unknown option or value: " + option + " " + value;
}

std::string parse(int argc, char** argv, Arguments* out) {
  bool has_faults = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--planted-double-fold") {
      out->options.plants_double_fold = true;
    } else if (option == "--help" || option == "-h") {
      out->wants_help = true;
    } else if (option == "--stragglers") {
      out->options.has_stragglers = true;
    } else if (option == "--verbose") {
      out->is_verbose = true;
    } else if (i + 1 == argc) {
      return "unknown option, or its value is missing: " + option;
    } else {
      has_faults = has_faults || option == "--faults";
      std::string fault = parse_value(option, argv[++i], out);
      if (!fault.empty()) {
        return fault;
      }
    }
  }
  const bool has_schedules = out->schedules > 0 || out->schedule.has_value() || out->options.plants_double_fold;
  if (!has_faults && has_schedules) {
    static_cast<void>(parse_faults("all", &out->options.fault_bits));
  }
  return "";
}

void print_log(uint64_t now_ms, const char* who, const std::string& text) {
  std::printf("%8llu %s %s\n", static_cast<unsigned long long>(now_ms), who, text.c_str());
}

std::string faults_text(const FaultCounts& counts) {
  std::string text;
  for (size_t i = 0; i < kFaultCount; ++i) {
    text += " " + std::string(kFaultNames[i]) + "=" + std::to_string(counts[i]);
  }
  return text;
}

struct Total {
  SimResult sum;
  std::set<uint64_t> digests;
  uint32_t schedules = 0;
  uint32_t broken = 0;
  uint32_t first_broken = 0;
};

void add(const SimResult& result, uint32_t schedule, Total* total) {
  ++total->schedules;
  total->sum.event_count += result.event_count;
  total->sum.record_count += result.record_count;
  total->sum.snapshot_count += result.snapshot_count;
  total->sum.log_count += result.log_count;
  total->sum.duplicate_count += result.duplicate_count;
  total->sum.late_count += result.late_count;
  total->sum.partial_count += result.partial_count;
  for (size_t i = 0; i < kFaultCount; ++i) {
    total->sum.faults[i] += result.faults[i];
  }
  if (result.fault.empty()) {
    total->digests.insert(result.digest);
    return;
  }
  total->first_broken = total->broken++ == 0 ? schedule : total->first_broken;
}

void run_schedules(const Arguments& arguments, Total* total) {
  const bool is_planted = arguments.options.plants_double_fold;
  const uint32_t first = arguments.schedule.value_or(0);
  const uint32_t count = arguments.schedule.has_value() ? 1
                         : is_planted                   ? kPlantedMax
                                                        : std::max(1U, arguments.schedules);
  for (uint32_t schedule = first; schedule < first + count; ++schedule) {
    const SimResult result = Simulation(arguments.options, schedule).run();
    add(result, schedule, total);
    if (!result.fault.empty()) {
      std::printf("seed %u schedule %u: %s\n", arguments.options.seed, schedule, result.fault.c_str());
      if (is_planted || total->broken >= 10) {
        return;
      }
    }
  }
}

int report(const Arguments& arguments, const Total& total) {
  const bool is_planted = arguments.options.plants_double_fold;
  bool holds = is_planted ? total.broken > 0
                          : total.broken == 0 && (total.digests.size() == 1 || arguments.options.has_stragglers);
  if (arguments.schedules >= 100 && !is_planted) {
    for (size_t i = 0; i < kFaultCount; ++i) {
      if ((arguments.options.fault_bits >> i & 1U) != 0 && total.sum.faults[i] == 0) {
        std::printf("%s was never injected\n", kFaultNames[i]);
        holds = false;
      }
    }
  }
  const unsigned long long digest = total.digests.empty() ? 0 : *total.digests.begin();
  std::printf("result: schedules=%u digests=%zu digest=%016llx broken=%u", total.schedules, total.digests.size(),
              digest, total.broken);
  if (total.broken > 0) {
    std::printf(" seed=%u first_broken=%u", arguments.options.seed, total.first_broken);
  }
  if (is_planted) {
    std::printf(" planted_found=%u", total.broken > 0 ? 1 : 0);
  }
  std::printf(
      " events=%llu records=%llu snapshots=%llu logs=%llu resent=%llu late=%llu partial=%llu%s\n",
      static_cast<unsigned long long>(total.sum.event_count), static_cast<unsigned long long>(total.sum.record_count),
      static_cast<unsigned long long>(total.sum.snapshot_count), static_cast<unsigned long long>(total.sum.log_count),
      static_cast<unsigned long long>(total.sum.duplicate_count), static_cast<unsigned long long>(total.sum.late_count),
      static_cast<unsigned long long>(total.sum.partial_count), faults_text(total.sum.faults).c_str());
  return holds ? 0 : 1;
}

int run(int argc, char** argv) {
  Arguments arguments;
  const std::string fault = parse(argc, argv, &arguments);
  if (!fault.empty()) {
    return usage(fault);
  }
  if (arguments.wants_help) {
    std::printf("%s", kUsage);
    std::printf("result: verb=simulate help=1\n");
    return 0;
  }
  const bool is_single = arguments.schedules == 0 && !arguments.options.plants_double_fold;
  if (is_single || arguments.is_verbose) {
    arguments.options.on_log = print_log;
  }
  Total total;
  run_schedules(arguments, &total);
  return report(arguments, total);
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run(argc, argv); }

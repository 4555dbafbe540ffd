#include "bench/parameters_plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "host/standard_files.h"

namespace gradstream {
namespace {

// Rounds of runs with a step set by hand. Reason: what a run ends at decides which class it is of, and 150 rounds do.
constexpr uint32_t kConstantRounds = 150;
// Steps of the grid, over the workload's unit: half decades.
constexpr double kGrid[] = {0.01, 0.0316, 0.1, 0.316, 1, 3.16, 10, 31.6, 100, 316, 1000};
// Of the grid what is judged, over its best step.
constexpr double kJudgedLeast = 0.09, kJudgedMost = 110;
constexpr double kSmoothings[] = {1e-6, 1e-4, 1e-3, 1e-2, 0.3, 1, 5};
// Seeds of the parts with bars of the worst seed, and of those with bars of shares.
constexpr uint32_t kSeedCount = 3, kShareSeedCount = 5;

// A run is bad when its gap is above so many times the best gap of the grid and above a level; good near the best.
constexpr double kBadFactor = 10, kBadGap = 5e-2, kGoodFactor = 3;
// By this round a bad run must be named, and at the other one a good run must not be.
constexpr uint32_t kNamedRound = 60, kStandingRound = 100;

// Exchanges before the first step: twice a direction and its trials; and three sums where units are taken out.
constexpr uint32_t kStepExchangeMax = 4, kUnitExchangeMax = 3;

struct Bars {
  double digits_150 = 1.5e-3, digits_300 = 1e-3;
  double kpca = 3e-2, kpca_median = 4e-3, kpca_liar = 4e-2;
  double least_squares = 3e-2, logistic = 1e-1;
  double missed_share = 0.1, alarm_share = 0.1, standing_share = 0.02;
  double wide_smoothing_share = 0.9, small_smoothing_share = 0.75;
};
constexpr Bars kBars;

bool is_prepared(const WorkloadRow& row) { return row.form != TableForm::kRaw; }

void bar(bool holds, const std::string& what, BenchFigures* figures) {
  print_format("bar %s: %s\n", holds ? "holds" : "MISSED", what.c_str());
  figures->missed_bars += holds ? 0 : 1;
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1e", value);
  return text;
}

// A number of a configuration.
std::string exact(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.8e", value);
  return text;
}

void bar_below(const std::string& what, double value, double most, BenchFigures* figures) {
  bar(value <= most, what + " " + text_of(value) + ", at most " + text_of(most), figures);
}

// A share of runs: count of all, within [least, most].
void bar_share(const std::string& what, size_t count, size_t all, double least, double most, BenchFigures* figures) {
  const double share = all == 0 ? least : static_cast<double>(count) / static_cast<double>(all);
  char range[64];
  std::snprintf(range, sizeof(range), least > 0 ? ", at least %.0f %%" : ", at most %.0f %%",
                100 * (least > 0 ? least : most));
  bar(share >= least && share <= most, what + " " + std::to_string(count) + " of " + std::to_string(all) + range,
      figures);
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += std::log(std::max(value, 1e-12));
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

using RowJobs = std::vector<const BenchJob*>;

// The jobs of each workload, in the order of the table.
std::vector<RowJobs> by_row(const std::vector<BenchJob>& jobs) {
  std::vector<RowJobs> rows;
  for (const BenchJob& job : jobs) {
    if (rows.empty() || rows.back().front()->row != job.row) {
      rows.emplace_back();
    }
    rows.back().push_back(&job);
  }
  return rows;
}

double worst_at(const RowJobs& jobs, uint32_t round) {
  double worst = 0;
  for (const BenchJob* job : jobs) {
    worst = std::max(worst, job->outcome.gap_at(round));
  }
  return worst;
}

std::string mean_at(const RowJobs& jobs, uint32_t round) {
  std::vector<double> gaps;
  for (const BenchJob* job : jobs) {
    gaps.push_back(job->outcome.gap_at(round));
  }
  return text_of(geometric_mean(gaps));
}

void print_faults(const RowJobs& jobs) {
  for (const BenchJob* job : jobs) {
    const BenchOutcome& outcome = job->outcome;
    if (!outcome.fault.empty() || !outcome.refusal.empty()) {
      print_format("  %s seed %u: %s%s%s\n", job->row->name, job->seed, outcome.fault.c_str(),
                   outcome.fault.empty() || outcome.refusal.empty() ? "" : "; ", outcome.refusal.c_str());
    }
  }
}

// ---- Steps by themselves -----------------------------------------------------------------------------------------

void report_auto(BenchPart part, const std::vector<RowJobs>& rows, BenchFigures* figures) {
  std::map<std::string, double> worst;  // by problem
  std::vector<double> kpca;
  uint32_t exchange_max = 0;
  print_format("%-20s %8s %8s %8s %8s  %s\n", "workload", "50", "100", "150", "300", "worst seed at 150");
  for (const RowJobs& jobs : rows) {
    const WorkloadRow& row = *jobs.front()->row;
    const double gap = worst_at(jobs, 150);
    print_format("%-20s %8s %8s %8s %8s  %8s\n", row.name, mean_at(jobs, 50).c_str(), mean_at(jobs, 100).c_str(),
                 mean_at(jobs, 150).c_str(), mean_at(jobs, 300).c_str(), text_of(gap).c_str());
    print_faults(jobs);
    double& of_problem = worst[row.problem];
    of_problem = std::max(of_problem, gap);
    if (row.is_kpca()) {
      kpca.push_back(gap);
    }
    for (const BenchJob* job : jobs) {
      exchange_max = std::max(exchange_max, job->outcome.exchange_count);
    }
    if (part == BenchPart::kAuto && std::string_view(row.name) == "digits_sorted") {
      figures->digits_150 = gap;
      figures->digits_300 = worst_at(jobs, 300);
      bar_below("digits_sorted at 150", figures->digits_150, kBars.digits_150, figures);
      bar_below("digits_sorted at 300", figures->digits_300, kBars.digits_300, figures);
    }
  }
  const std::string name = kBenchPartNames[static_cast<size_t>(part)];
  if (part == BenchPart::kLiar) {  // where a liar wins stands in the table; a bar is of kpca alone
    if (!kpca.empty()) {
      bar_below(name + ": worst kpca", worst["kpca"], kBars.kpca_liar, figures);
    }
    return;
  }
  if (!kpca.empty()) {
    std::nth_element(kpca.begin(), kpca.begin() + static_cast<std::ptrdiff_t>(kpca.size() / 2), kpca.end());
    bar_below(name + ": worst kpca", worst["kpca"], kBars.kpca, figures);
    bar_below(name + ": median kpca", kpca[kpca.size() / 2], kBars.kpca_median, figures);
  }
  for (const auto& [problem, most] : {std::pair{"least_squares", kBars.least_squares}, {"logistic", kBars.logistic}}) {
    if (worst.contains(problem)) {
      bar_below(name + ": worst " + problem, worst[problem], most, figures);
    }
  }
  bar(exchange_max <= kStepExchangeMax + kUnitExchangeMax,
      name + ": exchanges before the first step " + std::to_string(exchange_max) + ", at most " +
          std::to_string(kStepExchangeMax) + " and " + std::to_string(kUnitExchangeMax) + " for units",
      figures);
  if (part == BenchPart::kAuto) {
    const auto figure_of = [&](const char* problem) { return worst.contains(problem) ? worst[problem] : std::nan(""); };
    figures->worst_kpca = figure_of("kpca");
    figures->worst_least_squares = figure_of("least_squares");
    figures->worst_logistic = figure_of("logistic");
  }
}

// ---- Steps set by hand -------------------------------------------------------------------------------------------

bool is_named(const BenchOutcome& outcome, uint32_t round) {
  // A refusal ends the run, and names its numbers by itself.
  return outcome.has_event("not_improving", round) || outcome.has_event("diverged", round) || !outcome.fault.empty();
}

// Whether the last word that the run has said of itself by then is a bad one.
bool is_standing(const BenchOutcome& outcome, uint32_t round) {
  bool is_bad = !outcome.fault.empty();
  for (const BenchEvent& event : outcome.events) {
    const bool is_word = event.name == "settled" || event.name == "still_falling";
    if (event.round <= round && (is_word || event.name == "not_improving" || event.name == "diverged")) {
      is_bad = !is_word;
    }
  }
  return is_bad;
}

struct Counts {
  size_t all = 0;
  size_t named = 0;
  size_t standing = 0;
};

struct Watched {
  Counts too_long, too_short, good;
};

// The multiple of the grid with the least geometric mean at the last round.
double best_multiple(const RowJobs& jobs, std::string* gap) {
  std::map<double, RowJobs> by_value;
  for (const BenchJob* job : jobs) {
    if (job->value > 0) {
      by_value[job->value].push_back(job);
    }
  }
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const auto& [value, of_value] : by_value) {
    std::vector<double> gaps;
    for (const BenchJob* job : of_value) {
      gaps.push_back(job->outcome.gap_at(kConstantRounds));
    }
    if (geometric_mean(gaps) < least) {
      least = geometric_mean(gaps);
      best = value;
      *gap = mean_at(of_value, 100) + "/" + mean_at(of_value, kConstantRounds);
    }
  }
  return best;
}

void watch_row(const RowJobs& jobs, double best, Watched* out) {
  std::map<uint32_t, double> best_gaps;  // by seed
  for (const BenchJob* job : jobs) {
    const double gap = job->outcome.gap_at(kConstantRounds);
    const auto [entry, is_new] = best_gaps.try_emplace(job->seed, gap);
    entry->second = std::min(entry->second, gap);
  }
  for (const BenchJob* job : jobs) {
    if (job->value < kJudgedLeast * best || job->value > kJudgedMost * best) {
      continue;
    }
    const double gap = job->outcome.gap_at(kConstantRounds);
    const bool is_bad = gap > kBadFactor * best_gaps[job->seed] && gap > kBadGap;
    if (is_bad && job->value >= best) {
      ++out->too_long.all;
      out->too_long.named += is_named(job->outcome, kNamedRound) ? 1 : 0;
    } else if (is_bad) {
      ++out->too_short.all;
      out->too_short.named += job->outcome.has_event("still_falling", kNamedRound) ? 1 : 0;
    } else if (gap <= kGoodFactor * best_gaps[job->seed]) {
      ++out->good.all;
      out->good.named += is_named(job->outcome, kConstantRounds) ? 1 : 0;
      out->good.standing += is_standing(job->outcome, kStandingRound) ? 1 : 0;
    }
  }
}

void report_constant(const std::vector<RowJobs>& rows, BenchFigures* figures) {
  Watched all;
  print_format("%-20s %9s %17s %17s  %s\n", "workload", "best step", "gap at 100/150", "of step 0.1",
               "named: too long, too short, good");
  for (const RowJobs& jobs : rows) {
    RowJobs defaults;
    std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(defaults),
                 [](const BenchJob* job) { return job->value == kOldDefault; });
    std::string gap;
    const double best = best_multiple(jobs, &gap);
    Watched row;
    watch_row(jobs, best, &row);
    print_format("%-20s %9.3g %17s %17s  %zu/%zu %zu/%zu %zu/%zu\n", jobs.front()->row->name, best, gap.c_str(),
                 (mean_at(defaults, 100) + "/" + mean_at(defaults, kConstantRounds)).c_str(), row.too_long.named,
                 row.too_long.all, row.too_short.named, row.too_short.all, row.good.named, row.good.all);
    for (auto [from, to] :
         {std::pair{&row.too_long, &all.too_long}, {&row.too_short, &all.too_short}, {&row.good, &all.good}}) {
      to->all += from->all;
      to->named += from->named;
      to->standing += from->standing;
    }
  }
  bar_share("too long, named by round 60:", all.too_long.named, all.too_long.all, 1 - kBars.missed_share, 1, figures);
  bar_share("too short, still falling by round 60:", all.too_short.named, all.too_short.all, 1 - kBars.missed_share, 1,
            figures);
  bar_share("good, ever named:", all.good.named, all.good.all, 0, kBars.alarm_share, figures);
  bar_share("good, still named at round 100:", all.good.standing, all.good.all, 0, kBars.standing_share, figures);
  const size_t missed = all.too_long.all - all.too_long.named + all.too_short.all - all.too_short.named;
  figures->missed_bad_runs = std::to_string(missed) + "/" + std::to_string(all.too_long.all + all.too_short.all);
  figures->false_alarms = std::to_string(all.good.named) + "/" + std::to_string(all.good.all);
}

// ---- Smoothing ---------------------------------------------------------------------------------------------------

void report_smoothing(const std::vector<BenchJob>& jobs, BenchFigures* figures) {
  std::map<double, Counts> counts;
  for (const BenchJob& job : jobs) {
    ++counts[job.value].all;
    counts[job.value].named += job.outcome.has_event("smoothing", 0) ? 1 : 0;
  }
  for (const auto& [smoothing, count] : counts) {
    const std::string what = "smoothing " + text_of(smoothing) + ", named at version 0:";
    if (smoothing >= 0.3) {
      bar_share(what, count.named, count.all, kBars.wide_smoothing_share, 1, figures);
    } else if (smoothing < 1e-5) {
      bar_share(what, count.named, count.all, kBars.small_smoothing_share, 1, figures);
    } else {
      bar_share(what, count.named, count.all, 0, 0, figures);
    }
  }
}

std::vector<double> values_of(BenchPart part) {
  std::vector<double> values = {0};
  if (part == BenchPart::kSmoothing) {
    values.assign(std::begin(kSmoothings), std::end(kSmoothings));
  } else if (part == BenchPart::kConstant) {
    values.assign(std::begin(kGrid), std::end(kGrid));
    values.push_back(kOldDefault);
  }
  return values;
}

}  // namespace

std::vector<BenchJob> jobs_of(BenchPart part, const BenchChoice& choice) {
  std::vector<BenchJob> jobs;
  const bool is_constant = part == BenchPart::kConstant;
  for (const WorkloadRow& row : parameter_workloads()) {
    const bool is_chosen =
        choice.names.empty() || std::any_of(choice.names.begin(), choice.names.end(), [&](const std::string& name) {
          return std::string_view(row.name).find(name) != std::string_view::npos;
        });
    if (!is_chosen || (is_constant && !is_prepared(row))) {
      continue;  // a step by hand has no meaning in units that the run finds
    }
    const uint32_t first = choice.seed.value_or(1);
    const uint32_t last = choice.seed.value_or(is_constant ? kShareSeedCount : kSeedCount);
    for (uint64_t seed = first; seed <= last; ++seed) {
      for (const double value : values_of(part)) {
        const uint32_t round_count = part == BenchPart::kSmoothing ? 1
                                     : is_constant                 ? kConstantRounds
                                                                   : kMarkRounds.back();
        jobs.push_back({&row,
                        part,
                        static_cast<uint32_t>(seed),
                        choice.round_count.value_or(round_count),
                        value,
                        choice.keys,
                        {},
                        0});
      }
    }
  }
  return jobs;
}

void run_job(BenchJob* job) {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_constant = job->part == BenchPart::kConstant;
  const ParameterWorkload workload(*job->row, job->seed, !is_constant);
  BenchRun run;
  run.workload = &workload;
  run.seed = job->seed;
  run.round_count = job->round_count;
  run.has_liar = job->part == BenchPart::kLiar;
  if (is_constant) {
    const double step = job->value == kOldDefault ? 0.1 : job->value * workload.step_unit();
    run.keys = {"step_size = " + exact(step)};
    if (is_run_key("centre")) {
      run.keys.insert(run.keys.end(), {"centre = \"none\"", "scale = \"none\""});
    }
  } else if (job->part == BenchPart::kStream) {
    run.keys = {"solver = \"gradient_stream\"", "estimator = \"analytic_gradient\"", "correction_form = \"none\""};
  } else if (job->part == BenchPart::kSmoothing) {
    run.keys = {"smoothing = " + exact(job->value)};
  }
  run.is_automatic = !is_constant;
  run.keys.insert(run.keys.end(), job->keys.begin(), job->keys.end());
  job->outcome = run_bench(run);
  job->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(BenchPart part, const std::vector<BenchJob>& jobs, BenchFigures* figures) {
  print_format("\n==== %s ====\n", kBenchPartNames[static_cast<size_t>(part)]);
  for (const BenchJob& job : jobs) {
    figures->workloads.insert(job.row->name);
  }
  if (part == BenchPart::kConstant) {
    report_constant(by_row(jobs), figures);
  } else if (part == BenchPart::kSmoothing) {
    report_smoothing(jobs, figures);
  } else {
    report_auto(part, by_row(jobs), figures);
  }
}

}  // namespace gradstream

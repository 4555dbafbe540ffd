#include "sim/arguments.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <span>

#include <CLI/CLI.hpp>

#include "server/rules/aggregator.h"
#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "sim/faults.h"
#include "sim/lies.h"

namespace gradstream {
namespace {

// Devices of one simulation. Reason: each has an arena, a store and its links, and 100,000 take 1.6 GiB.
constexpr uint32_t kDeviceCountMax = 131'072;

// Devices of a fleet in virtual time, which have small arenas and one model.
constexpr uint32_t kFleetCountMax = 100'000;

// Bit n: the text has names[n], or is "all". what: one of them, in words.
uint32_t parse_names(const char* option, const char* what, std::span<const char* const> names,
                     const std::string& text) {
  if (text == "all" || text == "none") {
    return text == "all" ? (1U << names.size()) - 1 : 0;
  }
  uint32_t bits = 0;
  for (const std::string& name : CLI::detail::split(text, ',')) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw CLI::ValidationError(option, std::string("no ") + what + " is called '" + name + "'; known: all, none, " +
                                             CLI::detail::join(names, ", "));
    }
    bits |= 1U << (found - names.begin());
  }
  return bits;
}

void define_fleet(CLI::App& app, Arguments* out) {
  BigFleetOptions& fleet = out->fleet;
  const char* const group = "At fleet scale (with --fleet; --seed holds too, and --buffer, here by default 500)";
  const auto add = [&](const char* name, uint32_t* value, const char* text, uint32_t low, uint32_t high) {
    app.add_option(name, *value, text)->check(CLI::Range(low, high))->capture_default_str()->group(group);
  };
  add("--fleet", &out->fleet_count, "so many devices that train a small model in virtual time", 1, kFleetCountMax);
  app.add_option("--days", fleet.days, "virtual days")
      ->check(CLI::Range(0.001, 3650.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--speeds", out->speeds, "of local steps: constant, lognormal (sigma 1), mix (1:2:4:8)")
      ->check(CLI::IsMember({"constant", "lognormal", "mix"}))
      ->capture_default_str()
      ->group(group);
  add("--step-ms", &fleet.step_ms, "virtual time of the fastest device's local step", 1, 3'600'000);
  add("--silent", &fleet.silent_count, "devices that take tasks and never answer", 0, kFleetCountMax);
  add("--awake-minutes", &fleet.awake_minutes, "of each cycle, when a device has power; 0: always", 0, 525'600);
  add("--cycle-minutes", &fleet.cycle_minutes, "of a device's sleep and work", 1, 525'600);
  add("--loss-odds", &fleet.loss_odds, "a frame in so many takes its connection down; 0: none", 0, 1'000'000'000);
  add("--life-hours", &fleet.life_hours, "mean time until a device loses all that it holds; 0: never", 0, 100'000);
  add("--absence-hours", &fleet.absence_hours, "mean time until it is back", 1, 100'000);
  add("--round-minutes", &fleet.round_minutes, "--buffer 0: a round's end, with what is there", 1, 60'000);
  app.add_option("--update-share", fleet.update_share, "--buffer 0: of the devices, whose answers close a round")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  add("--retry-minutes", &fleet.retry_minutes, "when a device that has answered is back at the latest", 1, 60);
  app.add_option("--csv", out->csv, "file of gap, version and bytes by virtual time")->group(group);
}

void define_cluster(CLI::App& app, Arguments* out) {
  const char* const group = "Several nodes";
  app.add_option("--fronts", out->front_count,
                 "so many nodes over a simulated engine train the run together; --faults then names " +
                     CLI::detail::join(kClusterFaultNames, ","))
      ->check(CLI::Range(1U, kFrontCountMax))
      ->excludes("--verbose")
      ->group(group);
  app.add_option("--planted", out->cluster_plant,
                 "with --fronts: a fault that must be found in 100 schedules, by a sentence of its own")
      ->check(CLI::IsMember(std::vector<std::string>(kClusterPlantNames.begin(), kClusterPlantNames.end())))
      ->needs("--fronts")
      ->group(group);
}

// What would change nothing is refused: a fleet's option without --fleet, and with it one of schedules.
void refuse_idle_options(CLI::App& app) {
  CLI::Option* const fleet = app.get_option("--fleet");
  for (CLI::Option* const option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_group() == fleet->get_group() && option != fleet) {
      option->needs(fleet);
    } else if (option != fleet && option != app.get_help_ptr() && !option->check_lname("seed") &&
               !option->check_lname("buffer")) {
      option->excludes(fleet);
    }
  }
}

void define(CLI::App& app, Arguments* out) {
  app.description("A fleet in one thread and virtual time, from one seed.");
  SimOptions& options = out->options;
  app.add_option("--devices", options.device_count, "devices")->check(CLI::Range(1U, kDeviceCountMax));
  app.add_option("--rounds", options.round_count, "rounds of the run")->check(CLI::Range(1U, 10000U));
  app.add_option("--aggregators", options.aggregator_count,
                 "sums that a version's updates go to, each to one by its device; merged when the version closes, and "
                 "the digest is that of one sum");
  app.add_option("--seed", options.seed, "of everything");
  app.add_option("--schedules", out->schedules, "run so many schedules of faults; all must end in one digest")
      ->check(CLI::Range(1U, 1000000U));
  app.add_option("--schedule", out->schedule, "run this one of them again");
  app.add_option("--faults", out->faults, "all, none, or names with commas: " + CLI::detail::join(kFaultNames, ","));
  app.add_option("--lies", out->lies,
                 "that the last device tells, the same in every schedule: all, none, or names with commas: " +
                     CLI::detail::join(kLieNames, ","));
  app.add_flag("--byzantine", options.trust.is_byzantine,
               "while faults last, the last device lies in every field and repeats itself; schedules then differ");
  app.add_option("--clip", out->clip, "clip_norm of the run: what an update may be as long as, by default any length")
      ->check(CLI::IsMember({"none", "fixed", "median", "trailing"}));
  app.add_option("--stream", out->stream, "what devices upload: scalars, RFedAGS's tangents, mean gradients")
      ->check(CLI::IsMember({"scalar", "tangent", "mean"}));
  app.add_option("--correction", out->correction, "what steers devices and the step, of solver projection")
      ->check(CLI::IsMember({"none", "local", "memory", "unbiased"}));
  app.add_flag("--weigh-samples", options.memory_weighs_samples,
               "a device weighs by its samples, not like any other: with correction memory or unbiased, but not under "
               "scheme_2, and with a delay rule");
  app.add_option("--encoding", out->encoding, "of what travels")->check(CLI::IsMember({"f32", "bf16", "int8"}));
  app.add_flag("--feedback", options.error_feedback, "add what an encoding left out to the next upload: tangents");
  app.add_flag("--product", options.is_product, "the model is a point of a product of four manifolds");
  app.add_flag("--fixed-rank", options.is_fixed_rank, "the model is a matrix of rank 2, of which devices know entries");
  app.add_option("--solver", out->solver, "of tangent streams")
      ->check(CLI::IsMember({"gradient_stream", "tangent_mean", "svrg"}));
  app.add_flag("--auto-step", options.chooses_step,
               "the run finds its step itself; lost lines make it another, so that one digest is not wanted");
  app.add_flag("--centre", out->centres, "take the fleet's mean out of the samples first, of kpca");
  app.add_option("--scale", out->scale, "the samples first, of kpca, by sums that the devices send")
      ->check(CLI::IsMember({"none", "common", "deviation", "range"}));
  app.add_option("--participation", out->participation, "who is asked in a round")
      ->check(CLI::IsMember({"all", "scheme_1", "scheme_2"}));
  app.add_flag("--stragglers", options.has_stragglers,
               "close rounds early, weigh late updates, accept partial work: one digest is not wanted");
  app.add_flag("--timed", options.is_timed, "with --stragglers: ask each device for as many steps as it has time for");
  app.add_flag("--hold", options.holds_pulls,
               "three devices of four let the server hold their Pulls, and an Ack stand for the next one");
  app.add_option("--arrival-rate", options.arrival_rate, "devices a second that a version wakes; 0: all at once");
  app.add_option("--measured", options.asks_needed, "losses are measured, each with its answer at ask N; 0: computed");
  app.add_option("--buffer", options.buffer_size,
                 "no rounds: a version with every so many updates, 0: rounds; one digest is not wanted")
      ->check(CLI::Range(0U, kDeviceCountMax));
  app.add_option("--seen-versions", options.trust.seen_versions,
                 "a version waits for devices seen in so many versions before it, 0: for all; one digest is not wanted")
      ->check(CLI::Range(0U, kSeenVersionsMax))
      ->excludes("--stragglers", "--buffer", "--participation");
  app.add_option("--share-max", options.trust.device_share_max,
                 "the share that a device may give of the last versions' updates")
      ->check(CLI::Range(0.01F, 1.0F))
      ->needs("--buffer");
  app.add_flag("--planted-double-fold", options.plants.double_fold,
               "fold repeated updates twice; must be found within 100 schedules");
  app.add_flag("--planted-step", options.plants.step,
               "take server steps of another length than the run's; must be found within 100 schedules");
  define_fleet(app, out);
  app.add_flag("--verbose", out->is_verbose, "print what happens");
  define_cluster(app, out);
  refuse_idle_options(app);
  app.footer(
      "Exit status: 0 everything held; 1 an invariant was broken (the line names seed and schedule); 2 usage; "
      "8 or 10 standard output could not be written.");
}

// The words of the command line as options. Throws CLI::ValidationError.
void settle_names(Arguments* arguments) {
  arguments->options.stream = arguments->stream == "scalar" ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
  arguments->options.uploads_means = arguments->stream == "mean";
  for (const auto& [name, form] : names_of<CorrectionForm>()) {
    arguments->options.correction_form = arguments->correction == name ? form : arguments->options.correction_form;
  }
  arguments->options.tangent_solver = arguments->solver == "svrg"           ? SolverId::kSvrg
                                      : arguments->solver == "tangent_mean" ? SolverId::kTangentMean
                                                                            : SolverId::kGradientStream;
  arguments->options.centre = arguments->centres ? Centre::kFederated : Centre::kNone;
  arguments->options.trust.clip_norm = parse_name(arguments->clip, ClipNorm::kNone);
  arguments->options.scale = parse_name(arguments->scale, UnitScale::kNone);
  arguments->options.participation = arguments->participation == "all"        ? Participation::kAll
                                     : arguments->participation == "scheme_1" ? Participation::kSchemeOne
                                                                              : Participation::kSchemeTwo;
  arguments->options.encoding = arguments->encoding == "f32"    ? Encoding::kF32
                                : arguments->encoding == "bf16" ? Encoding::kBf16
                                                                : Encoding::kInt8;
}

// Throws CLI::ValidationError for what no server would run.
void settle_checks(Arguments* arguments) {
  const std::string obstacle = own_problem_obstacle(arguments->options);
  if (!obstacle.empty() || (arguments->options.own != nullptr && arguments->fleet_count > 0)) {
    throw CLI::ValidationError("a problem of the caller's",
                               obstacle.empty() ? "it goes with schedules, not with --fleet" : obstacle);
  }
  const bool is_delayed = sim_parameters(arguments->options).delay->delay_rule != DelayRule::kNone;
  if (arguments->options.memory_weighs_samples && !is_delayed &&
      (!sim_parameters(arguments->options).has_memory() || arguments->participation == "scheme_2")) {
    throw CLI::ValidationError("--weigh-samples",
                               "wants --correction memory or unbiased, and not scheme_2, or a run without rounds");
  }
  arguments->options.trust.lie_bits = parse_names("--lies", "lie", kLieNames, arguments->lies);
  const SimOptions& options = arguments->options;
  const bool has_liar = options.trust.lie_bits != 0 || options.trust.is_byzantine;
  if (has_liar && (options.chooses_step || options.centre != Centre::kNone || options.scale != UnitScale::kNone)) {
    throw CLI::ValidationError(options.trust.is_byzantine ? "--byzantine" : "--lies",
                               "the oracle knows what --auto-step, --centre and --scale ask of samples; "
                               "leave these options out");
  }
  const Objection objection =
      check_aggregator_count(sim_parameters(arguments->options), arguments->options.aggregator_count);
  if (objection) {
    throw CLI::ValidationError("--aggregators", objection.sentence);
  }
  const Objection refusal = check_parameters(sim_parameters(arguments->options));
  if (refusal && arguments->fleet_count == 0) {  // a fleet has parameters of its own
    throw CLI::ValidationError("no server would run this", refusal.sentence);
  }
  const bool is_cluster = arguments->front_count > 0;
  if (const std::string against = is_cluster ? cluster_obstacle(options) : ""; !against.empty()) {
    throw CLI::ValidationError("--fronts", against);
  }
  const bool has_schedules = arguments->schedules > 0 || arguments->schedule.has_value() ||
                             is_planted(arguments->options) || arguments->cluster_plant != "none";
  const std::string by_default = has_schedules ? "all" : "none";
  const std::string faults = arguments->faults.empty() ? by_default : arguments->faults;
  arguments->options.fault_bits = is_cluster ? parse_names("--faults", "fault", kClusterFaultNames, faults)
                                             : parse_names("--faults", "fault", kFaultNames, faults);
}

}  // namespace

bool is_planted(const SimOptions& options) { return options.plants.double_fold || options.plants.step; }

ClusterOptions cluster_options(const Arguments& arguments) {
  ClusterOptions options;
  options.sim = arguments.options;
  options.front_count = arguments.front_count;
  for (size_t i = 0; i < kClusterPlantNames.size(); ++i) {
    options.plant = arguments.cluster_plant == kClusterPlantNames[i] ? static_cast<ClusterPlant>(i) : options.plant;
  }
  return options;
}

std::optional<int> parse_arguments(int argc, const char* const* argv, const OwnProblem* own, std::ostream& out,
                                   std::ostream& err, Arguments* arguments) {
  CLI::App app;
  define(app, arguments);
  try {
    app.parse(argc, argv);
    arguments->has_buffer = app.count("--buffer") > 0;
    arguments->options.own = own;
    settle_names(arguments);
    settle_checks(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : 2;
  }
  return {};
}

}  // namespace gradstream

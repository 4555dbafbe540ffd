// What one device, or two of nine, can do to the model, and what the clip of norms leaves of it: the demo's problem and
// sizes through the product's coordinator and clients, whose own rule clips. Attackers agree and know every honest
// upload (poison_attack.h). What is measured is the relative gap of the honest devices' own problem.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "experiments/harness/compare.h"
#include "experiments/harness/experiment.h"
#include "experiments/papers/poison_attack.h"
#include "server/run/fold_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "sim/timed_fleet.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 9;
constexpr uint32_t kColumns = 4;
constexpr uint32_t kRoundCount = 300;
constexpr uint32_t kSeedCount = 5;  // of honest fleets
constexpr std::array<const char*, 2> kShards = {"sorted", "iid"};

// What the server does with updates.
struct Rule {
  ClipNorm clip = ClipNorm::kNone;
  uint32_t factor = 4;
  FoldWeight weight = FoldWeight::kUniform;
};
constexpr Rule kMean = {};
constexpr Rule kBySamples = {ClipNorm::kNone, 4, FoldWeight::kSampleCount};  // the mean, and who says more weighs more
constexpr Rule median(uint32_t factor) { return {ClipNorm::kMedian, factor}; }
constexpr Rule trailing(uint32_t factor) { return {ClipNorm::kTrailing, factor}; }

std::string rule_name(const Rule& rule) {
  if (rule.clip == ClipNorm::kNone) {
    return rule.weight == FoldWeight::kUniform ? "mean" : "by_samples";
  }
  return name_of(rule.clip) + std::to_string(rule.factor);
}

// Less the mean of the first ones, which hold as many samples each.
std::vector<Matrix> without_mean(std::vector<Matrix> parts, size_t count) {
  Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(parts.front().cols());
  for (size_t i = 0; i < count; ++i) {
    mean += parts[i].colwise().mean() / static_cast<double>(count);
  }
  for (Matrix& part : parts) {
    part.rowwise() -= mean;
  }
  return parts;
}

// All nine train; what is measured is the problem of the honest ones, the first.
class PoisonWorkload : public KpcaWorkload {
 public:
  PoisonWorkload(const std::vector<Matrix>& held, const std::vector<Matrix>& honest, uint32_t seed)
      : KpcaWorkload(held, ManifoldId::kStiefel, kColumns, seed),
        honest_(honest, ManifoldId::kStiefel, kColumns, seed) {}

  double optimum() const override { return honest_.optimum(); }
  Measures measure(const Matrix& model) const override { return honest_.measure(model); }

 private:
  KpcaWorkload honest_;
};

// One case before it is one.
struct Setting {
  const char* shards = kShards[0];
  Attack attack = Attack::kNone;
  uint32_t attacker_count = 0;
  Rule rule = kMean;
  uint32_t seed = 1;
  double gain = 1;          // of the first device's samples: its norm is as many times squared
  bool has_stages = false;  // the run finds units and steps itself
};

std::string key_of(const Setting& s) {
  std::string key = s.has_stages ? std::string("auto/") + s.shards : s.shards;
  key += s.attack == Attack::kNone ? "/honest" : std::string("/") + name_of(s.attack);
  key += s.attacker_count == 0 ? "" : "/" + std::to_string(s.attacker_count) + "of9";
  key += s.gain == 1 ? "" : "/gain" + figure(s.gain);
  return key + "/s" + std::to_string(s.seed) + "/" + rule_name(s.rule);
}

// The attacks of which a clip leaves little, each with its factor, and with `trailing` beside the median.
struct Bar {
  const char* field;
  const char* shards;
  Attack attack;
  uint32_t attacker_count;
  uint32_t factor;
  double gap_max;
};
// The last bar stands at three times the middle of eight draws, 1e-2, which lie between 2.2e-3 and 1.7e-2: two
// attackers cancel most of what seven honest devices pull, and draws decide how far the rest comes. Without a clip it
// is 0.99.
constexpr std::array<Bar, 7> kBars = {{{"zeros1_sorted", kShards[0], Attack::kZeros, 1, 4, 1e-3},
                                       {"zeros1_iid", kShards[1], Attack::kZeros, 1, 4, 1e-3},
                                       {"noise1_sorted", kShards[0], Attack::kNoise, 1, 4, 1.5e-2},
                                       {"noise1_iid", kShards[1], Attack::kNoise, 1, 4, 1.5e-2},
                                       {"noise2_sorted", kShards[0], Attack::kNoise, 2, 2, 6e-3},
                                       {"noise2_iid", kShards[1], Attack::kNoise, 2, 2, 6e-3},
                                       {"ipm2_iid", kShards[1], Attack::kIpm, 2, 1, 3e-2}}};
// Two of nine that agree: what no factor keeps out where data differ.
constexpr std::array<Attack, 4> kColluding = {Attack::kFlip, Attack::kIpm, Attack::kAlie, Attack::kMimic};
constexpr std::array<uint32_t, 2> kColludingFactors = {4, 1};
constexpr double kHonestRatioMax = 1.02, kGainRatioMax = 1.05, kTrailingRatioMax = 1.2;
constexpr double kSortedWorstMax = 0.3;  // at factor 1
constexpr double kStagesMax = 5e-2;

Setting bar_setting(const Bar& bar, const Rule& rule, uint32_t seed) {
  return {bar.shards, bar.attack, bar.attacker_count, rule, seed};
}

// Of honest fleets, five for each seed of the request: 1 to 5 for seed 1.
uint32_t honest_seed(const Request& request, uint32_t index) { return kSeedCount * (request.seed - 1) + index + 1; }

// parts: of the shards and the seed.
Case poison_case(const Setting& s, std::vector<Matrix> parts) {
  if (!s.has_stages) {
    parts = without_mean(std::move(parts), kDeviceCount);
  }
  parts.front() *= s.gain;
  const uint32_t honest_count = kDeviceCount - s.attacker_count;
  std::vector<Matrix> honest = s.has_stages ? without_mean(parts, honest_count) : parts;
  honest.resize(honest_count);
  const auto workload = std::make_shared<PoisonWorkload>(parts, honest, s.seed);
  const double largest = workload->eigenvalues()(workload->eigenvalues().size() - 1);
  Case out;
  out.key = key_of(s);
  out.seed = s.seed;
  out.workload = workload;
  out.parameters = gradient_stream_parameters(5, 0.2 / largest, kRoundCount);
  RunParameters& p = out.parameters;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->direction_count = 16;
  p.local->smoothing = static_cast<Real>(1e-2);
  p.local->batch_mode = BatchMode::kCommon;
  p.local->batch_size = 32;
  p.local->correction_form = CorrectionForm::kLocal;
  p.steps->step_decay = static_cast<Real>(0.1);
  p.fold->fold_weight = s.rule.weight;
  if (kIsDouble) {  // the clip and the product's own check want room in the fixed point, and its finest unit has none
    p.fold->fold_scale_log2 = RunParameters().fold->fold_scale_log2;
  }
  p.fold.keys().clip_norm = s.rule.clip;
  p.fold.keys().clip_factor = static_cast<float>(s.rule.factor);
  if (s.has_stages) {
    p.steps->step_size = 0;
    p.steps->step_decay = 0;
    p.units.keys().centre = Centre::kFederated;
    p.units.keys().scale = UnitScale::kCommon;
    p.trigger->report_deadline_ms = 3000;
  }
  if (s.attack != Attack::kNone) {
    out.may_lose_devices = true;
    out.hook = [s, honest_count](TimedFleet* fleet) {
      for (uint32_t i = honest_count; i < kDeviceCount; ++i) {
        fleet->slow_down(i, 1);
      }
      fleet->on_device_message = [attackers = Attackers(s.attack, s.attacker_count, kDeviceCount, s.seed)](
                                     uint32_t device, DeviceMessage* message) mutable {
        attackers.hear(device, message);
      };
    };
  }
  return out;
}

std::vector<Case> poison_cases(const Request& request) {
  std::vector<Setting> settings;
  const uint32_t seed = request.seed;
  for (const char* shards : kShards) {
    for (uint32_t i = 0; i < kSeedCount; ++i) {
      for (const double gain : {1.0, 2.0}) {
        settings.push_back({shards, Attack::kNone, 0, kMean, honest_seed(request, i), gain});
        settings.push_back({shards, Attack::kNone, 0, median(4), honest_seed(request, i), gain});
      }
    }
    settings.push_back({shards, Attack::kNone, 0, trailing(4), honest_seed(request, 0)});
    for (const Attack attack : kColluding) {
      for (const uint32_t factor : kColludingFactors) {
        if (shards == kShards[0] || attack != Attack::kIpm || factor != 1) {  // that one is among the bars
          settings.push_back({shards, attack, 2, median(factor), seed});
        }
      }
    }
    settings.push_back({shards, Attack::kNone, 0, median(4), seed, 1, true});
    settings.push_back({shards, Attack::kStages, 1, median(4), seed, 1, true});
  }
  for (const Bar& bar : kBars) {
    settings.push_back(bar_setting(bar, median(bar.factor), seed));
    settings.push_back(bar_setting(bar, trailing(bar.factor), seed));
  }
  // What they do where nothing is clipped.
  settings.push_back({kShards[0], Attack::kZeros, 1, kBySamples, seed});
  settings.push_back({kShards[0], Attack::kNoise, 1, kMean, seed});
  settings.push_back({kShards[1], Attack::kIpm, 2, kMean, seed});
  std::map<std::pair<std::string, uint32_t>, std::vector<Matrix>> parts;
  std::vector<Case> cases;
  for (const Setting& one : settings) {
    std::vector<Matrix>& held = parts[{one.shards, one.seed}];
    if (held.empty()) {
      held = zofl_parts("digits", one.shards == kShards[0], kDeviceCount, one.seed);
    }
    cases.push_back(poison_case(one, held));
  }
  return cases;
}

// Relative, of the last version.
double gap(const Curves& curves, const Setting& setting) {
  const Curve& curve = curves.at(key_of(setting));
  return curve.points.empty() ? std::nan("") : curve.points.back().measures.excess / std::fabs(curve.optimum);
}

// The larger one; what is no number stays, and is below no bar.
double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

void check_below(const std::string& field, const std::string& what, double value, double most, Judgement* judgement) {
  judgement->field(field, value);
  judgement->check(what + ": " + figure(value, 4) + ", at most " + figure(most), value <= most);
}

// The price of the clip where nobody attacks: quotients of the gaps with and without it, of each seed.
std::vector<double> clip_prices(const Curves& curves, const Request& request, const char* shards, double gain) {
  std::vector<double> prices;
  for (uint32_t i = 0; i < kSeedCount; ++i) {
    const uint32_t seed = honest_seed(request, i);
    prices.push_back(gap(curves, {shards, Attack::kNone, 0, median(4), seed, gain}) /
                     gap(curves, {shards, Attack::kNone, 0, kMean, seed, gain}));
  }
  return prices;
}

// A device whose norms are four times the others' stands at the radius. Whether one seed's draws take it beyond is
// chance, so that the middle of five seeds is judged, and the worst is told.
void judge_honest(const Curves& curves, const Request& request, Judgement* judgement) {
  double honest = 0;
  double gain_middle = 0;
  double gain_worst = 0;
  for (const char* shards : kShards) {
    for (const double price : clip_prices(curves, request, shards, 1)) {
      honest = larger(honest, price);
    }
    std::vector<double> prices = clip_prices(curves, request, shards, 2);
    for (const double price : prices) {
      gain_worst = larger(gain_worst, price);
    }
    std::nth_element(prices.begin(), prices.begin() + kSeedCount / 2, prices.end());
    gain_middle = larger(gain_middle, std::isnan(gain_worst) ? gain_worst : prices[kSeedCount / 2]);
  }
  check_below("honest_ratio", "nobody attacks: gap with the clip by the gap without, worst of five seeds", honest,
              kHonestRatioMax, judgement);
  check_below("gain2_ratio", "the same where one device has a gain of 2, middle of five seeds", gain_middle,
              kGainRatioMax, judgement);
  judgement->field("gain2_ratio_worst", gain_worst);
  judgement->note("one device has a gain of 2, worst of five seeds, sorted and iid: " + figure(gain_worst, 4));
}

void judge_attacks(const Curves& curves, const Request& request, Judgement* judgement) {
  const uint32_t seed = request.seed;
  double apart = 0;
  for (const char* shards : kShards) {
    const uint32_t first = honest_seed(request, 0);
    apart = larger(apart, gap(curves, {shards, Attack::kNone, 0, trailing(4), first}) /
                              gap(curves, {shards, Attack::kNone, 0, median(4), first}));
  }
  for (const Bar& bar : kBars) {
    const double at_median = gap(curves, bar_setting(bar, median(bar.factor), seed));
    const double at_trailing = gap(curves, bar_setting(bar, trailing(bar.factor), seed));
    apart = larger(apart, at_trailing / at_median);
    check_below(bar.field,
                std::string(bar.shards) + ", " + name_of(bar.attack) + " by " + std::to_string(bar.attacker_count) +
                    " of 9, factor " + std::to_string(bar.factor) + " (trailing " + figure(at_trailing) +
                    "), the worse of both",
                larger(at_median, at_trailing), bar.gap_max, judgement);
  }
  // Which draws come before a radius of older versions, and which after it, differs from seed to seed.
  judgement->field("trailing_ratio", apart);
  judgement->claim("a radius of the versions before is as good as one of the open version's own (ours)",
                   apart <= kTrailingRatioMax,
                   "gap with trailing by the gap with median, worst of all these: " + figure(apart) + ", asked for " +
                       figure(kTrailingRatioMax));
}

// Two of nine that agree, on data that differ, are no device's that could be told from an honest one.
void judge_colluding(const Curves& curves, const Request& request, Judgement* judgement) {
  judgement->note("| two of nine, gap at the end | flip | ipm10 | alie | mimic |");
  judgement->note("|---|---|---|---|---|");
  double worst = 0;
  for (const char* shards : kShards) {
    for (const uint32_t factor : kColludingFactors) {
      std::string line = std::string("| ") + shards + ", factor " + std::to_string(factor) + " |";
      for (const Attack attack : kColluding) {
        const double value = gap(curves, {shards, attack, 2, median(factor), request.seed});
        line += " " + figure(value) + " |";
        if (shards == kShards[0]) {
          judgement->field(std::string(name_of(attack)) + "_sorted_factor" + std::to_string(factor), value);
          worst = factor == 1 ? larger(worst, value) : worst;
        }
      }
      judgement->note(line);
    }
  }
  check_below("worst_sorted_factor1", "two of nine that agree, sorted, factor 1: the worst, which no clip keeps out",
              worst, kSortedWorstMax, judgement);
}

void judge_stages(const Curves& curves, const Request& request, Judgement* judgement) {
  for (const char* shards : kShards) {
    const Setting lying = {shards, Attack::kStages, 1, median(4), request.seed, 1, true};
    const std::string& refusal = curves.at(key_of(lying)).refusal;
    judgement->note(std::string("units and steps found by the run, ") + shards + ": honest " +
                    figure(gap(curves, {shards, Attack::kNone, 0, median(4), request.seed, 1, true})) +
                    "; refused: " + (refusal.empty() ? "nothing" : refusal));
    check_below(std::string("stages1_") + shards, std::string(shards) + ", one of nine lies in sums, trials and lines",
                gap(curves, lying), kStagesMax, judgement);
  }
}

void poison_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  judge_honest(curves, request, judgement);
  judge_attacks(curves, request, judgement);
  judge_colluding(curves, request, judgement);
  judge_stages(curves, request, judgement);
  const double by_samples = gap(curves, {kShards[0], Attack::kZeros, 1, kBySamples, request.seed});
  const double noise = gap(curves, {kShards[0], Attack::kNoise, 1, kMean, request.seed});
  const double ipm = gap(curves, {kShards[1], Attack::kIpm, 2, kMean, request.seed});
  judgement->claim("without uniform weights and a clip one device undoes the model (ours)",
                   std::min({by_samples, noise, ipm}) > 0.5,
                   "zeros that claim 65,535 samples, weights by samples " + figure(by_samples) +
                       "; noise100 by 1 of 9 " + figure(noise) + "; ipm10 by 2 of 9, iid " + figure(ipm));
  const bool ends = std::all_of(curves.begin(), curves.end(), [](const auto& one) {
    return one.second.fault.empty() && one.second.points.back().round >= kRoundCount;
  });
  judgement->check("every run comes to its end", ends);
}

}  // namespace

const Experiment kPoison = {"poison", "What a lying device does to the model, with and without a clip", poison_cases,
                            poison_judge};

}  // namespace gradstream

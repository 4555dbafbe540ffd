// Federated learning by projection (003, section 5.2): a universal attack on a frozen network by forward passes alone.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>

#include "experiments/harness/compare.h"
#include "experiments/harness/experiment.h"
#include "experiments/workloads/data_attack.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// The local step is the same for all counts of steps, so that a round with more of them goes farther.
constexpr double kStepSize = 0.005;
constexpr uint32_t kRoundCount = 15;
constexpr uint32_t kDoubleRoundCount = 4;
constexpr double kReferenceError = 1e-2;  // relative, of a float's loss at each listed round
constexpr double kStepGain = 1.5;         // of 4 local steps over 1, and of 8 over 4, in loss
constexpr double kSuccessMin = 0.6;
constexpr double kSeedFactor = 1.25;  // how far single seeds lie from their mean

struct AttackCase {
  const char* key;
  uint32_t device_count;
  uint32_t direction_count;
  uint32_t step_count;
  bool is_shared;    // directions are the same on all devices
  double mean_loss;  // of the reference at round 15, geometric mean of seeds 1 to 5
};

constexpr std::array<AttackCase, 8> kCases = {{{"base", 10, 10, 4, false, 0.253},
                                               {"n5", 5, 10, 4, false, 0.278},
                                               {"n20", 20, 10, 4, false, 0.244},
                                               {"m5", 10, 5, 4, false, 0.275},
                                               {"m20", 10, 20, 4, false, 0.247},
                                               {"tau1", 10, 10, 1, false, 0.792},
                                               {"tau8", 10, 10, 8, false, 0.110},
                                               {"shared", 10, 10, 4, true, 0.416}}};

Case attack_case(const AttackCase& one, const std::shared_ptr<const AttackImages>& images) {
  Case out;
  out.key = one.key;
  out.has_client_problem = false;
  out.parameters = gradient_stream_parameters(one.step_count, kStepSize, kRoundCount);
  RunParameters& p = out.parameters;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->directions = DirectionKind::kSign;
  p.local->direction_count = one.direction_count;
  p.local->group_count = one.is_shared ? 1 : 0;
  p.local->smoothing = static_cast<Real>(1e-2);
  p.local->batch_mode = BatchMode::kCommon;
  p.local->batch_size = 25;
  p.local->correction_form = CorrectionForm::kLocal;
  p.steps->step_rule = StepRule::kFixed;
  out.workload = make_attack(images, one.device_count);
  return out;
}

std::vector<Case> x12_cases(const Request& request) {
  std::vector<Case> cases;
  const std::shared_ptr<const AttackImages> images = read_attack_images(request.data_folder, request.seed);
  if (images == nullptr) {
    return cases;
  }
  if (kIsDouble) {  // a replay
    Case& one = cases.emplace_back(attack_case(kCases[0], images));
    one.key = "base_f64";
    one.parameters.trigger->round_count = kDoubleRoundCount;
    return cases;
  }
  for (const AttackCase& one : kCases) {
    cases.push_back(attack_case(one, images));
  }
  return cases;
}

// How far the losses of the curve are from a reference at its rounds, the worst, relative.
double worst_deviation(const ReferenceCurve& reference, const Curve& curve) {
  double worst = 0;
  for (const ReferenceCurve::Point& point : reference.points) {
    const double apart = std::fabs(curve.excess_at(point.round) / point.value - 1);
    worst = apart <= worst ? worst : apart;  // not a number stays one
  }
  return worst;
}

// The comparison of every experiment looks at values above ten times the last one; this one at all of them.
void judge_references(const Curves& curves, uint32_t seed, Judgement* judgement) {
  for (const ReferenceCurve& reference : read_references("X12")) {
    if (reference.seed == seed && reference.measure == "excess" && curves.contains(reference.key)) {
      const double worst = worst_deviation(reference, curves.at(reference.key));
      judgement->check(reference.key + ": loss within 1 % of the reference at each of its rounds: " + figure(worst),
                       worst <= kReferenceError);
    }
  }
}

// The criterion that every version was on the sphere: the workload gives no loss to another, which ends the run.
void judge_sphere(const Curves& curves, Judgement* judgement) {
  const uint32_t last = kIsDouble ? kDoubleRoundCount : kRoundCount;
  const bool holds = std::all_of(curves.begin(), curves.end(), [&](const auto& named) {
    const std::vector<CurvePoint>& points = named.second.points;
    return points.size() == last + 1 &&
           std::all_of(points.begin(), points.end(), [](const auto& p) { return std::isfinite(p.measures.excess); });
  });
  judgement->check("every version is on the sphere to 1e-6: the disturbance is as long as it may be", holds);
}

void note_figures(const Curves& curves, Judgement* judgement) {
  for (const auto& [key, curve] : curves) {
    const Measures& last = curve.points.back().measures;
    judgement->note("figure     " + key + " at round " + std::to_string(curve.points.back().round) + ": loss " +
                    figure(last.excess) + ", misclassified " + figure(last.other) + ", of deer that no device holds " +
                    figure(last.refitted));
  }
}

void judge_claims(const Curves& curves, uint32_t seed, Judgement* judgement) {
  const auto at = [&](const char* key) { return curves.at(key).excess_at(kRoundCount); };
  const auto evidence = [&](const char* what, const char* a, const char* b, const char* c) {
    return std::string("loss at round 15 for ") + what + ": " + figure(at(a)) + ", " + figure(at(b)) + ", " +
           figure(at(c));
  };
  const std::string steps = evidence("1, 4, 8 local steps", "tau1", "base", "tau8");
  const std::string devices = evidence("5, 10, 20 devices", "n5", "base", "n20");
  const std::string directions = evidence("5, 10, 20 directions", "m5", "base", "m20");
  judgement->check("4 local steps bring the loss 1.5 times below 1, and 8 below 4; " + steps,
                   at("tau1") > kStepGain * at("base") && at("base") > kStepGain * at("tau8"));
  judgement->check("10 devices come lower than 5; " + devices, at("n5") > at("base"));
  judgement->claim("more local steps are faster", at("tau1") > at("base") && at("base") > at("tau8"), steps);
  judgement->claim("more devices are faster", at("n5") > at("base") && at("base") > at("n20"), devices);
  judgement->claim("more directions are faster", at("m5") > at("base") && at("base") > at("m20"), directions);
  judgement->claim("directions that all devices share cost nothing", at("shared") <= 1.1 * at("base"),
                   "loss at round 15: shared " + figure(at("shared")) + ", a device's own " + figure(at("base")));
  judgement->check_mean_order(seed, "loss with 10 devices over that with 20", at("base") / at("n20"));
  judgement->check_mean_order(seed, "loss with 5 directions over that with 10", at("m5") / at("base"));
  judgement->check_mean_order(seed, "loss with 10 directions over that with 20", at("base") / at("m20"));
}

// The work's figure 3: what is disturbed little, and taken for something else.
void judge_pictures(const Curves& curves, const Request& request, Judgement* judgement) {
  constexpr double kDistanceMax = 0.05;  // of an image's length
  const Curve& base = curves.at("base");
  const std::vector<AttackedDeer> deer = read_attacked_deer(request.data_folder, base.last_model);
  double missed = 0;
  double length = 0;
  std::array<uint32_t, kImageClassCount> counts = {};
  for (const AttackedDeer& one : deer) {
    ++counts[one.attacked_class];
    missed += one.attacked_class == kDeerClass ? 0 : 1;
    length += std::sqrt(std::inner_product(one.original.begin(), one.original.end(), one.original.begin(), 0.0));
  }
  std::string classes;
  for (uint32_t c = 0; c < kImageClassCount; ++c) {
    if (counts[c] > 0) {
      classes += std::string(classes.empty() ? "" : ", ") + std::to_string(counts[c]) + " " + image_class_name(c);
    }
  }
  const auto count = static_cast<double>(deer.size());
  const Measures& last = base.points.back().measures;
  judgement->check("of " + std::to_string(deer.size()) +
                       " deer that no device holds the network misses as many by their pixels, " + figure(missed) +
                       ", as by the sums that runs are measured with, but for one",
                   count > 0 && std::fabs(missed / count - last.refitted) <= 1.001 / count);
  const double distance = kAttackRadius / (length / count);
  judgement->claim("images that are disturbed little are taken for something else (Fig. 3)",
                   last.other > 0.5 && last.refitted > 0.5 && distance < kDistanceMax,
                   "success " + figure(last.other) + ", with deer that no device holds " + figure(last.refitted) +
                       "; distance " + figure(kAttackRadius) + " of a mean length of " + figure(length / count) + ", " +
                       figure(255 * kAttackRadius / std::sqrt(kImageSize)) +
                       " of 255 a pixel; the latter become: " + classes);
}

// ---- The picture ----

constexpr uint32_t kDeerCount = 6;  // drawn
constexpr uint32_t kPitch = 36;     // pixels from one image to the next
constexpr uint32_t kDrop = 42;      // from one row of images to the next
constexpr double kGain = 10;        // of the disturbance, which is grey where it is 0

// A line of the picture for each of its pixels: image i of the row, 0 or 1.
void write_image(uint32_t i, uint32_t row, const std::vector<double>& planes, std::ofstream* file) {
  constexpr uint32_t kPlaneSize = kImageSide * kImageSide;
  for (uint32_t p = 0; p < kPlaneSize; ++p) {
    *file << i * kPitch + p % kImageSide << ',' << -static_cast<int>(row * kDrop + p / kImageSide);
    for (uint32_t colour = 0; colour < 3; ++colour) {
      *file << ',' << std::lround(255 * std::clamp(planes[colour * kPlaneSize + p], 0.0, 1.0));
    }
    *file << '\n';
  }
}

std::string label_of(const std::string& text, uint32_t i, uint32_t row) {
  return "set label '" + text + "' at " + std::to_string(i * kPitch + kImageSide / 2) + "," +
         std::to_string(4 - static_cast<int>(row * kDrop)) + " center\n";
}

// deer.csv (column,row,red,green,blue) and deer.gp: the disturbance, then deer above and what became of them below.
bool write_deer(const std::string& folder, const Request& request, const Curves& curves) {
  const auto base = curves.find("base");
  if (base == curves.end() || base->second.last_model.size() != kImageSize) {
    return true;  // another case, or a replay in double
  }
  const Matrix& x = base->second.last_model;
  const std::vector<AttackedDeer> deer = read_attacked_deer(request.data_folder, x);
  const auto planes_of = [](const auto& values, auto of) {
    std::vector<double> planes(kImageSize);
    std::transform(values, values + kImageSize, planes.begin(), of);
    return planes;
  };
  const auto as_it_is = [](Real v) { return static_cast<double>(v); };
  std::ofstream table(folder + "/deer.csv");
  table << "column,row,red,green,blue\n";
  write_image(0, 0, planes_of(x.data(), [](double v) { return 0.5 + kGain * kAttackRadius * v; }), &table);
  std::string plots = "plot for [i = 0:" + std::to_string(2 * std::min<size_t>(kDeerCount, deer.size())) +
                      "] 'deer.csv' skip 1 every ::(1024 * i)::(1024 * i + 1023) using 1:2:3:4:5 with rgbimage\n";
  std::string labels = label_of(figure(kGain) + " x disturbance", 0, 0);
  for (uint32_t i = 0; i < std::min<size_t>(kDeerCount, deer.size()); ++i) {
    write_image(i + 1, 0, planes_of(deer[i].original.data(), as_it_is), &table);
    write_image(i + 1, 1, planes_of(deer[i].attacked.data(), as_it_is), &table);
    labels += label_of("deer", i + 1, 0) + label_of(image_class_name(deer[i].attacked_class), i + 1, 1);
  }
  table.flush();
  std::ofstream script(folder + "/deer.gp");
  script << "set terminal svg size 940,340 noenhanced background 'white' font 'sans,12'\nset output 'X12_deer.svg'\n"
            "set datafile separator ','\nset margins 0,0,0,0\nunset border\nunset tics\nunset key\n"
            "set size ratio -1\nset xrange [-2:"
         << (kDeerCount + 1) * kPitch << "]\nset yrange [-" << 2 * kDrop << ":8]\n"
         << labels << plots;
  script.flush();
  return table.good() && script.good();
}

void x12_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  judge_sphere(curves, judgement);
  note_figures(curves, judgement);
  if (kIsDouble) {
    const Curve& base = curves.at("base_f64");
    judgement->check(
        "the loss falls: " + figure(base.excess_at(0)) + " to " + figure(base.excess_at(kDoubleRoundCount)),
        base.excess_at(kDoubleRoundCount) < base.excess_at(0));
    return;
  }
  judge_references(curves, request.seed, judgement);
  const double success = curves.at("base").at(kRoundCount).measures.other;
  judgement->check("the base run makes the network miss more than 0.6 of the images: " + figure(success),
                   success > kSuccessMin);
  judge_claims(curves, request.seed, judgement);
  judge_pictures(curves, request, judgement);
  for (const AttackCase& one : kCases) {
    judgement->check_mean(request.seed, std::string("loss at round 15, ") + one.key,
                          curves.at(one.key).excess_at(kRoundCount), one.mean_loss, kSeedFactor);
  }
}

}  // namespace

const Experiment kX12 = {
    "X12",     "A universal attack on a frozen network by forward passes", x12_cases, x12_judge, "cifar10",
    "excess",  "@(base|tau*) @(base|n*) @(base|m*) @(base|shared)",        "round",   false,     nullptr,
    write_deer};

}  // namespace gradstream

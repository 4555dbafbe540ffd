#include "experiments/papers/asynchronous_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/harness/harness.h"
#include "experiments/harness/interval.h"
#include "experiments/papers/asynchronous_formulas.h"
#include "runtime/base/products.h"
#include "runtime/training/curve.h"
#include "server/rules/curve_step.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

using Network = std::shared_ptr<const NetworkWorkload>;

constexpr double kProbability = 0.99;  // of the intervals, the report's

// ---- Ways to correct the control point ----

struct End {
  const char* name;
  const char* rule;
};
constexpr End kEnds[] = {{"gradient", "OrthoGrad"}, {"position", "OrthoPos"}};

struct Way {
  const char* name = nullptr;
  std::optional<CurveControl> control;  // none: the middle of the ends
};
constexpr Way kWays[] = {{"none", CurveControl::kNone},
                         {"translate", CurveControl::kTranslate},
                         {"rotate", CurveControl::kRotate},
                         {"line", std::nullopt}};

// Inner points of a curve that are measured, at equal steps of its parameter.
constexpr uint32_t kInnerCount = 3;

const char* const kBases[] = {"FedAsync", "AsyncCurve"};

std::string control_key(const AsyncSpeeds& speeds, const std::string& base, const End& end, const Way& way) {
  return std::string("control/") + speeds.name + "/from-" + base + "/" + end.name + "/" + way.name;
}

// Of the rule's whole step.
RunParameters whole_step(const RunParameters& parameters, const End& end) {
  RunParameters p = under_rule(parameters, async_rule(end.rule));
  p.steps->server_step = 1;
  return p;
}

AsyncValues control_of(const Way& way, const AsyncStep& at, const AsyncValues& end) {
  const size_t size = at.model.size();
  const auto middle = at.update.begin() + static_cast<std::ptrdiff_t>(size);
  const AsyncValues displacement(at.update.begin(), middle);
  const AsyncValues control(middle, at.update.end());
  AsyncValues placed(size);
  if (way.control) {
    place_control(*way.control, {at.job.base, displacement, control, at.model, end}, &placed);
    return placed;
  }
  for (size_t e = 0; e < size; ++e) {
    placed[e] = (at.model[e] + end[e]) / 2;
  }
  return placed;
}

// Watches the inner points of the curve of one saved step, each held to the report's formulas. False: enough.
bool watch_curve(const NetworkWorkload& network, const RunParameters& parameters, const Way& way, const AsyncStep& at,
                 const Case::Watcher& watch) {
  const AsyncValues end = stepped_once(network, parameters, at);
  const AsyncValues control = control_of(way, at, end);
  const FormulaValues from = formula_values(at.model);
  const FormulaValues to = step_by_formula(parameters, at);
  const FormulaValues bend = control_by_formula(way.name, at, to);
  AsyncValues point(at.model.size());
  for (uint32_t inner = 1; inner <= kInnerCount; ++inner) {
    const Real l = static_cast<Real>(inner) / static_cast<Real>(kInnerCount + 1);
    curve_point(point.size(), l, at.model.data(), control.data(), end.data(), point.data());
    expect_formula("point " + std::to_string(inner) + " of the curve of step " + std::to_string(at.step), point,
                   curve_by_formula(static_cast<double>(l), from, bend, to), from);
    if (!watch(at.step + inner, point.data())) {
      return false;
    }
  }
  return true;
}

// The mean of the inner points, by saved step.
std::vector<double> mean_losses(const Curve& curve) {
  std::vector<double> means;
  for (size_t first = 0; first + kInnerCount <= curve.points.size(); first += kInnerCount) {
    double sum = 0;
    for (size_t inner = 0; inner < kInnerCount; ++inner) {
      sum += curve.points[first + inner].measures.excess;
    }
    means.push_back(sum / kInnerCount);
  }
  return means;
}

// a / b, entry by entry.
std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out(a.size());
  std::transform(a.begin(), a.end(), b.begin(), out.begin(), [](double x, double y) { return x / y; });
  return out;
}

void judge_end(const Curves& curves, const AsyncSpeeds& speeds, const char* base, const End& end,
               Judgement* judgement) {
  std::array<std::vector<double>, std::size(kWays)> losses;
  for (size_t way = 0; way < std::size(kWays); ++way) {
    losses[way] = mean_losses(curves.at(control_key(speeds, base, end, kWays[way])));
  }
  const std::string where = std::string(", ") + speeds.name + ", from " + base + ", end by " + end.name;
  const bool is_whole = std::all_of(losses.begin(), losses.end(), [&](const std::vector<double>& own) {
    return !own.empty() && own.size() == losses[0].size();
  });
  if (!is_whole) {
    judgement->note("control" + where + ": left out, since a curve ended early");
    return;
  }
  std::string line = std::string("| ") + speeds.name + " | " + base + " | " + end.name + " |";
  std::array<double, 3> means = {};
  for (size_t way = 0; way < means.size(); ++way) {
    means[way] = interval_of_mean(quotients(losses[way], losses[3]), kProbability).mean;
    line += " " + figure(means[way], 4) + " |";
  }
  judgement->note(line);
  judgement->claim("the rotated control point has the least loss of the three" + where,
                   means[2] < means[0] && means[2] < means[1],
                   figure(means[2], 4) + " : " + figure(means[0], 4) + " as it is, " + figure(means[1], 4) +
                       " translated, by the line's");
  const Interval q = interval_of_mean(quotients(losses[3], losses[2]), kProbability);
  judgement->claim("curvature transference: after a delay the curve has a lower loss than the line" + where,
                   q.low() > 1,
                   "Q = " + text_of(q) + " (99 % of the mean), of " + std::to_string(losses[3].size()) + " curves");
}

// ---- The plane of a learned curve ----

constexpr uint32_t kPlaneEpochs[] = {10, 250};  // the report's
constexpr uint32_t kAlongCount = 17;            // points from -0.5 to 1.5 of the way from base to result
constexpr uint32_t kBendCount = 25;             // points from -1 to 2 of the control point's distance from the middle
constexpr double kGridStep = 0.125;
constexpr double kAlongLeast = -0.5;
constexpr double kBendLeast = -1;

std::string plane_key(uint32_t epoch_count, bool is_train) {
  return "plane/" + std::to_string(epoch_count) + (is_train ? "/train" : "/test");
}

// A network measured by the samples of one device.
class OwnLoss : public Workload {
 public:
  OwnLoss(Network network, uint32_t device) : network_(std::move(network)), device_(device) {}
  ManifoldId manifold() const override { return network_->manifold(); }
  Shape shape() const override { return network_->shape(); }
  uint32_t device_count() const override { return network_->device_count(); }
  Problem problem(uint32_t device) const override { return network_->problem(device); }
  Matrix start() const override { return network_->start(); }
  double optimum() const override { return 0; }
  bool measures_gradient() const override { return false; }
  Measures measure(const Matrix& model) const override {
    const Problem problem = network_->problem(device_);
    std::vector<Real> x(static_cast<size_t>(model.size()));
    std::transform(model.data(), model.data() + model.size(), x.begin(), [](double v) { return static_cast<Real>(v); });
    std::vector<uint64_t> memory(problem.ops->scratch_size(problem.context, shape()) / sizeof(uint64_t) + 1);
    Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
    const Batch all{nullptr, problem.ops->sample_count(problem.context)};
    const Result<Real> loss = problem.ops->loss(problem.context, shape(), x.data(), all, arena);
    Measures measures;
    measures.excess = loss.ok() ? static_cast<double>(loss.value()) : std::numeric_limits<double>::quiet_NaN();
    measures.grad_norm = std::numeric_limits<double>::quiet_NaN();
    return measures;
  }

 private:
  Network network_;
  uint32_t device_;
};

// Point row * kAlongCount + column is base + along (result - base) + bend (control point - middle).
void watch_plane(const AsyncValues& base, const AsyncValues& update, const Case::Watcher& watch) {
  const size_t size = base.size();
  AsyncValues point(size);
  const FormulaValues start = formula_values(base);
  FormulaValues control = start;
  FormulaValues end = start;
  for (size_t e = 0; e < size; ++e) {
    end[e] += static_cast<double>(update[e]);
    control[e] += static_cast<double>(update[size + e]);
  }
  for (uint32_t number = 0; number < kAlongCount * kBendCount; ++number) {
    const auto along = static_cast<Real>(kAlongLeast + kGridStep * (number % kAlongCount));
    const uint32_t row = number / kAlongCount;
    const auto bend = static_cast<Real>(kBendLeast + kGridStep * row);
    for (size_t e = 0; e < size; ++e) {
      point[e] = base[e] + along * update[e] + bend * (update[size + e] - update[e] / 2);
    }
    // The curve itself goes through the grid at its ends, at its middle and at both quarters.
    const auto l = static_cast<double>(along);
    if (l >= 0 && l <= 1 && static_cast<double>(bend) == 2 * l * (1 - l)) {
      expect_formula("the plane at " + figure(l) + " of its curve", point, curve_by_formula(l, start, control, end),
                     start);
    }
    if (!watch(number, point.data())) {
      return;
    }
  }
}

// The loss at a point of the grid.
double at_plane(const Curve& plane, double along, double bend) {
  const auto column = static_cast<uint32_t>(std::lround((along - kAlongLeast) / kGridStep));
  const auto row = static_cast<uint32_t>(std::lround((bend - kBendLeast) / kGridStep));
  return plane.excess_at(row * kAlongCount + column);
}

}  // namespace

void add_async_controls(const AsyncPlan& plan, const Network& network, const AsyncBase& base,
                        std::vector<Case>* cases) {
  if (plan.control_every == 0) {
    return;
  }
  for (const End& end : kEnds) {
    for (const Way& way : kWays) {
      Case& one = cases->emplace_back(
          async_case(control_key(*base.speeds, base.method, end, way), network, async_parameters(plan.step_count)));
      one.train = [&, network, saved = base.run](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
        for (const AsyncStep& at : saved->steps(p)) {
          const bool is_wanted = at.step % plan.control_every == 0 && !at.update.empty();
          if (is_wanted && !watch_curve(*network, whole_step(p, end), way, at, watch)) {
            return;
          }
        }
      };
    }
  }
}

void add_async_planes(const Network& network, uint32_t seed, std::vector<Case>* cases) {
  const uint32_t device = network->device_count() - 1;
  const auto own = std::make_shared<OwnLoss>(network, device);
  for (const uint32_t epoch_count : kPlaneEpochs) {
    for (const bool is_train : {true, false}) {
      Case& one = cases->emplace_back(async_case(plane_key(epoch_count, is_train), network, async_parameters(1)));
      if (is_train) {
        one.workload = own;
      }
      one.train = [=](const RunParameters&, const Workload&, const Case::Watcher& watch) {
        const AsyncValues base = start_of(*network);
        watch_plane(base, train_async_curve(*network, seed, epoch_count, {device, 0, 0, base}), watch);
      };
    }
  }
}

bool write_async_planes(const std::string& folder, const Curves& curves) {
  std::ofstream table(folder + "/plane.csv");
  table << "epochs,set,along,bend,loss\n";
  std::string plots;
  for (const uint32_t epoch_count : kPlaneEpochs) {
    for (const bool is_train : {true, false}) {
      const auto found = curves.find(plane_key(epoch_count, is_train));
      if (found == curves.end()) {
        continue;
      }
      const std::string epochs = std::to_string(epoch_count);
      const char* const set = is_train ? "train" : "test";
      for (const CurvePoint& point : found->second.points) {
        const uint32_t row = point.round / kAlongCount;
        table << epochs << ',' << set << ',' << kAlongLeast + kGridStep * (point.round % kAlongCount) << ','
              << kBendLeast + kGridStep * row << ',' << figure(point.measures.excess, 9) << '\n';
      }
      plots += "set title '" + epochs + " pairs of epochs, " + set + "'\nplot '" + case_file_name(found->first) +
               ".csv' skip 1 using (along($1)):(bend($1)):2 with image pixels notitle, 0 <= x && x <= 1 ? 2 * x * (1 - "
               "x) : NaN "
               "with lines linewidth 2 linecolor rgb '#d55e00' title 'curve', 0 <= x && x <= 1 ? 0 : NaN with lines "
               "linewidth 2 dashtype 2 linecolor rgb '#ffffff' title 'line'\n";
    }
  }
  table.flush();
  if (plots.empty()) {
    return table.good();
  }
  std::ofstream script(folder + "/plane.gp");
  char grid[160];
  std::snprintf(grid, sizeof(grid), "along(n) = %g + %g * (int(n) %% %u)\nbend(n) = %g + %g * (int(n) / %u)\n",
                kAlongLeast, kGridStep, kAlongCount, kBendLeast, kGridStep, kAlongCount);
  script << "set terminal svg size 940,840 noenhanced background 'white' font 'sans,12'\nset output 'X14_plane.svg'\n"
            "set datafile separator ','\nset samples 401\nset xrange [-0.5625:1.5625]\n"
            "set yrange [-1.0625:2.0625]\nset logscale cb\nset palette defined (0 '#440154', 1 '#31688e', 2 '#35b779', "
            "3 '#fde725')\nset xlabel 'share of the way from base to result'\nset ylabel 'share of the bend'\n"
            "set multiplot layout 2,2 title 'X14: loss over the plane of a learned curve'\n"
         << grid << plots << "unset multiplot\n";
  script.flush();
  return table.good() && script.good();
}

void judge_async_controls(const Curves& curves, Judgement* judgement) {
  judgement->note("control: mean loss of the curve by the line's; as it is, translated, rotated");
  for (const AsyncSpeeds& speeds : kAsyncSpeeds) {
    for (const char* base : kBases) {
      for (const End& end : kEnds) {
        judge_end(curves, speeds, base, end, judgement);
      }
    }
  }
}

void judge_async_planes(const Curves& curves, Judgement* judgement) {
  // Whoever learns the curve, and whatever it is measured on, the plane has the start at its corner.
  const auto is_same = [](double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); };
  const double start = curves.at("curve/FedAvg").excess_at(0);
  const double first_train = at_plane(curves.at(plane_key(kPlaneEpochs[0], true)), 0, 0);
  for (const uint32_t epoch_count : kPlaneEpochs) {
    for (const bool is_train : {true, false}) {
      const std::string key = plane_key(epoch_count, is_train);
      const Curve& plane = curves.at(key);
      if (plane.points.size() < size_t{kAlongCount} * kBendCount) {
        judgement->note(key + " left out: a point of it has no loss");
        continue;
      }
      const double bent = at_plane(plane, 0.5, 0.5);
      const double straight = at_plane(plane, 0.5, 0);
      const double base = at_plane(plane, 0, 0);
      const double result = at_plane(plane, 1, 0);
      judgement->check(key + " has the start at its corner: " + figure(base, 6) + " and " +
                           figure(is_train ? first_train : start, 6),
                       is_same(base, is_train ? first_train : start));
      judgement->check(
          key + " has learned: the result is below the base, " + figure(result, 4) + " : " + figure(base, 4),
          result < base);
      const std::string what = "the learned curve is lower than the line in its middle, " + key;
      const std::string evidence =
          figure(bent, 4) + " : " + figure(straight, 4) + "; base " + figure(base, 4) + ", result " + figure(result, 4);
      if (is_train) {  // what the control point was trained for
        judgement->check(std::string(what).append(": ").append(evidence), bent < straight);
      }
      judgement->claim(what, bent < straight, evidence);
    }
  }
}

}  // namespace gradstream

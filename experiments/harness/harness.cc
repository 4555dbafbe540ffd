#include "experiments/harness/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fnmatch.h>

#include "experiments/harness/tube.h"
#include "server/run/check_parameters.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "server/run/step_keys.h"
#include "sim/timed_fleet.h"

namespace gradstream {
namespace {

Matrix matrix_of(Shape shape, const Real* model) {
  using Model = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Model>(model, shape.rows, shape.cols).cast<double>();
}

// Points of one curve in a picture, about. Reason: pictures of the documentation stay small.
constexpr size_t kPointCountMax = 60;

// Seventeen digits: the double read back is the one that was measured.
std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

// Another workload's, but for one entry of its start, or each, which is the next Real.
class NudgedWorkload : public Workload {
 public:
  NudgedWorkload(std::shared_ptr<const Workload> workload, uint32_t entry)
      : workload_(std::move(workload)), entry_(entry) {}

  ManifoldId manifold() const override { return workload_->manifold(); }
  Shape shape() const override { return workload_->shape(); }
  uint32_t device_count() const override { return workload_->device_count(); }
  Problem problem(uint32_t device) const override { return workload_->problem(device); }
  Matrix start() const override {
    Matrix start = workload_->start();
    const auto size = static_cast<uint32_t>(start.size());
    const uint32_t first = entry_ == kNudgeAll ? 0 : std::min(entry_, size);
    const uint32_t last = entry_ == kNudgeAll ? size : std::min(first + 1, size);
    for (uint32_t i = first; i < last; ++i) {
      const Real to =
          (i - first) % 2 == 0 ? std::numeric_limits<Real>::infinity() : -std::numeric_limits<Real>::infinity();
      start.data()[i] = static_cast<double>(std::nextafter(static_cast<Real>(start.data()[i]), to));
    }
    return start;
  }
  double optimum() const override { return workload_->optimum(); }
  Measures measure(const Matrix& model) const override { return workload_->measure(model); }
  bool measures_gradient() const override { return workload_->measures_gradient(); }
  double optimality(const Matrix& model, double step) const override { return workload_->optimality(model, step); }

 private:
  std::shared_ptr<const Workload> workload_;
  uint32_t entry_;
};

// Measures a published version. Whether the run goes on.
bool watch(const Case& one, const RunParameters& parameters, uint32_t version, const Real* model,
           const TimedCounts& counts, Curve* curve) {
  if (version % parameters.phase_count() != 0) {
    return true;  // amid a round: the model has not moved
  }
  CurvePoint& point = curve->points.emplace_back();
  point.round = version / parameters.phase_count();
  if (one.arrive) {
    one.arrive(point.round);
  }
  const Matrix at = matrix_of(parameters.model->shape, model);
  point.measures = one.workload->measure(at);
  curve->last_model = at;
  if (parameters.local->solver == SolverId::kProjection) {
    const double step = static_cast<double>(server_step_at(parameters, version) * parameters.step_size_at(version));
    point.measures.optimality = one.workload->optimality(at, step * parameters.local->local_step_count);
  }
  point.bytes_up = counts.bytes_up;
  point.bytes_down = counts.bytes_down;
  point.device_seconds = counts.device_seconds;
  if (!one.workload->measures_gradient()) {
    return std::isfinite(point.measures.excess);
  }
  return std::isfinite(point.measures.grad_norm) && point.measures.grad_norm > one.stop_below;
}

void train_calmly(const Case& one, const RunParameters& parameters, Curve* curve) {
  std::vector<Problem> problems;
  for (uint32_t i = 0; i < parameters.trigger->device_count; ++i) {
    problems.push_back(one.workload->problem(i));
  }
  TimedFleet fleet(parameters, problems, start_of(*one.workload));
  fleet.use_manifolds(counting_manifolds());
  if (one.times_devices) {
    fleet.use_device_clock(thread_seconds);
  }
  if (one.may_lose_devices) {
    fleet.tolerate_refusals();
  }
  if (one.hook) {
    one.hook(&fleet);
  }
  curve->fault = fleet.run(TimedFleet::kNoEndMs, [&](uint64_t, uint32_t version, const Real* model) {
    return watch(one, parameters, version, model, fleet.counts(), curve);
  });
  curve->refusal = fleet.refusal();
  curve->digest = fleet.server().model().digest();
}

}  // namespace

RunParameters complete_parameters(const Case& one, const Request& request) {
  RunParameters p = one.parameters;
  p.name = "experiment";
  p.seed = one.seed == 0 ? request.seed : one.seed;
  p.model->manifold = one.workload->manifold();
  p.model->shape = one.workload->shape();
  if (!p.model->matrix.empty()) {
    set_parts(&p);
  }
  p.model->problem = one.workload->problem(0).ops->name;
  p.trigger->device_count = one.workload->device_count();
  return p;
}

std::vector<Real> start_of(const Workload& workload) {
  const Matrix start = workload.start();
  std::vector<Real> values(static_cast<size_t>(start.size()));
  std::transform(start.data(), start.data() + start.size(), values.begin(),
                 [](double v) { return static_cast<Real>(v); });
  return values;
}

Curve run_case(const Case& as_given, const HarnessOptions& options) {
  Case one = as_given;
  if (options.nudged_entry != kNudgeNone) {
    one.workload = std::make_shared<NudgedWorkload>(as_given.workload, options.nudged_entry);
  }
  const double begin = thread_seconds();
  tube_counts() = TubeCounts();
  Curve curve;
  curve.optimum = one.workload->optimum();
  RunParameters parameters = complete_parameters(one, options.request);
  parameters.trigger->round_count = std::min(parameters.trigger->round_count, options.round_count_max);
  curve.fault = check_parameters(parameters).sentence;
  if (curve.fault.empty()) {
    if (one.tabulate) {
      curve.points = one.tabulate();
    } else if (one.train) {
      try {
        one.train(parameters, *one.workload, [&](uint32_t version, const Real* model) {
          return watch(one, parameters, version, model, {}, &curve);
        });
      } catch (const std::runtime_error& fault) {
        curve.fault = fault.what();
      }
    } else {
      train_calmly(one, parameters, &curve);
    }
  }
  curve.is_fault_expected = !one.expected_fault.empty() && curve.fault.find(one.expected_fault) != std::string::npos;
  curve.tube = tube_counts();
  curve.seconds = thread_seconds() - begin;
  return curve;
}

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string case_file_name(std::string key) {
  std::replace(key.begin(), key.end(), '/', '_');
  return key;
}

bool write_csv(const std::string& folder, const std::string& key, const Curve& curve, const char* axis) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream file(folder + "/" + case_file_name(key) + ".csv");
  file << axis << ",excess,grad_norm,bytes_up,bytes_down\n";
  for (const CurvePoint& point : curve.points) {
    file << point.round << ',' << exact(point.measures.excess) << ',' << exact(point.measures.grad_norm) << ','
         << point.bytes_up << ',' << point.bytes_down << '\n';
  }
  file.flush();
  return file.good();
}

namespace {

// Curves of a picture whose colours alone tell them apart.
constexpr size_t kColourCount = 8;
constexpr const char* kColours[kColourCount] = {"#000000", "#0072b2", "#d55e00", "#009e73",
                                                "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f"};
constexpr size_t kDashCount = 5;                     // what lies below a dashed curve shows
constexpr int kMarkers[] = {4, 6, 8, 10, 12, 1, 2};  // open shapes first: what lies below shows
constexpr int kPanelWidth = 470;                     // where there are several
constexpr int kPanelHeight = 400;

bool is_excess(const Experiment& experiment) { return std::string(experiment.measure) == "excess"; }

// The words that all keys begin with, with their last slash.
std::string common_words(const std::vector<std::string>& keys) {
  std::string common = keys.front();
  for (const std::string& key : keys) {
    const auto apart = std::mismatch(common.begin(), common.end(), key.begin(), key.end()).first;
    common.erase(apart, common.end());
  }
  return common.substr(0, common.rfind('/') + 1);  // npos + 1 is 0
}

// Of the n-th name: colour and dash come round together after 8 * 5 names, with the marker after 8 * 5 * 7.
std::string style_of(size_t n, bool has_markers) {
  std::string style = has_markers ? "linespoints pointinterval 8 pointsize 0.6 pointtype " +
                                        std::to_string(kMarkers[n % std::size(kMarkers)])
                                  : "lines";
  style += " linewidth 1.5 dashtype " + std::to_string(1 + n % kDashCount);
  return style + " linecolor rgb '" + kColours[n % kColourCount] + "'";
}

// One style for a name in all panels.
using Names = std::map<std::string, size_t>;

std::string plot_of(const Panel& panel, const Experiment& experiment, const Curves& curves, const Names& names) {
  const std::string title = panel.prefix.substr(0, panel.prefix.find_last_not_of('/') + 1);
  std::string text = "set title '" + title + "' noenhanced\nplot ";
  const char* separator = "";
  for (const std::string& key : panel.keys) {
    const std::string name = key.substr(panel.prefix.size());
    text += std::string(separator) + "'" + case_file_name(key) + ".csv' skip 1 every " +
            std::to_string(1 + curves.at(key).points.size() / kPointCountMax) + " using " +
            (experiment.along_bytes ? "($4/1000):" : "1:") + (is_excess(experiment) ? "2" : "3") + " with " +
            style_of(names.at(name), names.size() > kColourCount) + " title '" + name + "'";
    separator = ", \\\n     ";
  }
  return text + "\n";
}

}  // namespace

std::vector<Panel> panels_of(const Experiment& experiment, const std::vector<std::string>& keys) {
  std::vector<Panel> panels;
  std::istringstream globs(experiment.shown);
  for (std::string glob; globs >> glob;) {
    Panel panel;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(panel.keys),
                 [&](const std::string& key) { return fnmatch(glob.c_str(), key.c_str(), FNM_EXTMATCH) == 0; });
    if (!panel.keys.empty()) {
      panels.push_back(std::move(panel));
    }
  }
  if (panels.empty()) {
    panels.push_back({keys, ""});
  }
  for (Panel& panel : panels) {
    panel.prefix = panel.keys.empty() ? "" : common_words(panel.keys);
  }
  return panels;
}

bool write_picture(const std::string& folder, const Experiment& experiment, const Curves& curves) {
  std::ofstream other(folder + "/other.csv");
  other << "case," << experiment.axis << ",value\n";
  std::vector<std::string> keys;
  for (const auto& [key, curve] : curves) {
    keys.push_back(key);
    for (const CurvePoint& point : curve.points) {
      if (std::isfinite(point.measures.other)) {
        other << key << ',' << point.round << ',' << exact(point.measures.other) << '\n';
      }
    }
  }
  const std::vector<Panel> panels = panels_of(experiment, keys);
  Names names;
  for (const Panel& panel : panels) {
    for (const std::string& key : panel.keys) {
      names.try_emplace(key.substr(panel.prefix.size()), names.size());
    }
  }
  const size_t column_count = panels.size() > 1 ? 2 : 1;
  const size_t row_count = (panels.size() + column_count - 1) / column_count;
  const std::string along = experiment.along_bytes ? "kB up, all devices" : experiment.axis;
  std::ofstream script(folder + "/picture.gp");
  script << "set terminal svg size " << 2 * kPanelWidth << "," << static_cast<int>(row_count) * kPanelHeight + 40
         << " noenhanced dashlength 0.6 background 'white' font 'sans,12'\nset output '" << experiment.name
         << ".svg'\nset datafile separator ','\nset logscale y\nset format y '%.0e'\nset grid\nset ylabel '"
         << (is_excess(experiment) ? "excess F(x) - F*" : "norm of the gradient") << "'\nset key noenhanced "
         << (panels.size() > 1 ? "outside below center horizontal" : "outside right") << "\n"
         << (experiment.along_bytes ? "set logscale x\n" : "");
  script << "set multiplot layout " << row_count << "," << column_count << " title \"" << experiment.title << ", by "
         << along << "\" noenhanced\n";
  for (const Panel& panel : panels) {
    script << plot_of(panel, experiment, curves, names);
  }
  script << "unset multiplot\n";
  script.flush();
  other.flush();
  return script.good() && other.good();
}

}  // namespace gradstream

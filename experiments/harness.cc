#include "experiments/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

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

// Another workload's, but for one entry of its start, which is the next larger Real.
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
    if (static_cast<Eigen::Index>(entry_) < start.size()) {
      double& entry = start.data()[entry_];
      entry = static_cast<double>(std::nextafter(static_cast<Real>(entry), std::numeric_limits<Real>::infinity()));
    }
    return start;
  }
  double optimum() const override { return workload_->optimum(); }
  Measures measure(const Matrix& model) const override { return workload_->measure(model); }

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
  point.measures = one.workload->measure(matrix_of(parameters.shape, model));
  point.bytes_up = counts.bytes_up;
  point.bytes_down = counts.bytes_down;
  return std::isfinite(point.measures.grad_norm) && point.measures.grad_norm > one.stop_below;
}

void train_calmly(const Case& one, const RunParameters& parameters, Curve* curve) {
  std::vector<Problem> problems;
  for (uint32_t i = 0; i < parameters.device_count; ++i) {
    problems.push_back(one.workload->problem(i));
  }
  TimedFleet fleet(parameters, problems, start_of(*one.workload));
  if (one.may_lose_devices) {
    fleet.tolerate_refusals();
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
  p.manifold = one.workload->manifold();
  p.shape = one.workload->shape();
  p.problem = one.workload->problem(0).ops->name;
  p.device_count = one.workload->device_count();
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
  if (options.nudged_entry != UINT32_MAX) {
    one.workload = std::make_shared<NudgedWorkload>(as_given.workload, options.nudged_entry);
  }
  const auto begin = std::chrono::steady_clock::now();
  Curve curve;
  curve.optimum = one.workload->optimum();
  RunParameters parameters = complete_parameters(one, options.request);
  parameters.round_count = std::min(parameters.round_count, options.round_count_max);
  curve.fault = check_parameters(parameters);
  if (curve.fault.empty()) {
    if (one.tabulate) {
      curve.points = one.tabulate();
    } else if (one.train) {
      one.train(parameters, *one.workload, [&](uint32_t version, const Real* model) {
        return watch(one, parameters, version, model, {}, &curve);
      });
    } else {
      train_calmly(one, parameters, &curve);
    }
  }
  curve.is_fault_expected = !one.expected_fault.empty() && curve.fault.find(one.expected_fault) != std::string::npos;
  curve.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return curve;
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

bool write_picture(const std::string& folder, const Experiment& experiment, const Curves& curves) {
  std::ofstream other(folder + "/other.csv");
  other << "case," << experiment.axis << ",value\n";
  std::ofstream script(folder + "/picture.gp");
  const bool is_excess = std::string(experiment.measure) == "excess";
  script << "set terminal svg size 900,560 noenhanced background 'white' font 'sans,13'\n"
         << "set output '" << experiment.name << ".svg'\nset datafile separator ','\nset logscale y\n"
         << "set format y '%.0e'\nset grid\nset key outside right noenhanced\nset xlabel '" << experiment.axis
         << "'\nset ylabel '" << (is_excess ? "excess F(x) - F*" : "norm of the gradient") << "'\nset title \""
         << experiment.title << "\" noenhanced\nplot ";
  const auto is_shown = [&](const std::string& key) { return key.find(experiment.shown) != std::string::npos; };
  const bool shows_all = std::none_of(curves.begin(), curves.end(), [&](const auto& c) { return is_shown(c.first); });
  const char* separator = "";
  for (const auto& [key, curve] : curves) {
    if (shows_all || is_shown(key)) {
      script << separator << "'" << case_file_name(key) << ".csv' skip 1 every "
             << 1 + curve.points.size() / kPointCountMax << " using 1:" << (is_excess ? 2 : 3) << " with lines title '"
             << key << "'";
      separator = ", \\\n     ";
    }
    for (const CurvePoint& point : curve.points) {
      if (std::isfinite(point.measures.other)) {
        other << key << ',' << point.round << ',' << exact(point.measures.other) << '\n';
      }
    }
  }
  script << "\n";
  script.flush();
  other.flush();
  return script.good() && other.good();
}

}  // namespace gradstream

#include "sim/oracle_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/problem/holdout.h"
#include "server/rules/step_decision.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint32_t kTrials = 32;
// Between two ways to compute one number, relative. Reason: d is summed in another order, in double.
constexpr double kTolerance = 1e-4;
// And between numbers that come of the same ones by few operations.
constexpr double kTightTolerance = 1e-9;

bool is_near(double a, double b, double tolerance) {
  return a == b || std::fabs(a - b) <= tolerance * std::max(std::fabs(a), std::fabs(b));
}

double norm_square(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

// Without the max(1, n / 5) lowest and as many highest, from 5 on.
double mean_of_middle(std::vector<std::pair<double, double>> values_and_weights) {
  std::stable_sort(values_and_weights.begin(), values_and_weights.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const size_t n = values_and_weights.size();
  const size_t cut = n < 5 ? 0 : std::max<size_t>(1, n / 5);
  double sum = 0, weights = 0;
  for (size_t i = cut; i < n - cut; ++i) {
    sum += values_and_weights[i].first * values_and_weights[i].second;
    weights += values_and_weights[i].second;
  }
  return sum / weights;
}

bool is_compact(const RunParameters& run) {
  const ManifoldId id = run.model->manifold;
  return id == ManifoldId::kStiefel || id == ManifoldId::kGrassmann || id == ManifoldId::kSphere ||
         id == ManifoldId::kOblique;
}

double scale_of(const RunParameters& run, const std::vector<Real>& model) {
  if (is_compact(run)) {
    return std::sqrt(static_cast<double>(run.model->shape.cols));
  }
  double square = 0;
  for (const Real x : model) {
    square += static_cast<double>(x) * static_cast<double>(x);
  }
  return 1 + std::sqrt(square);
}

float float_at(const std::vector<uint8_t>& bytes, size_t index) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    word |= uint32_t{bytes[4 * index + i]} << (8 * i);
  }
  return std::bit_cast<float>(word);
}

}  // namespace

double kpca_loss(const RunParameters& parameters, const HeldSamples& held, const std::vector<UnitsColumn>& units,
                 const std::vector<Real>& model) {
  const Shape shape = parameters.model->shape;
  const auto holdout = static_cast<uint32_t>(std::lround(parameters.quality->holdout_share * 65536));
  double sum = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < held.count && count < kEvaluationSampleMax; ++i) {
    if (is_held_out(i, holdout)) {
      continue;
    }
    ++count;
    for (uint32_t c = 0; c < shape.cols; ++c) {
      double product = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) {
        double z = static_cast<double>(held.values[i * held.columns + r]);
        z = units.empty() ? z : (z - static_cast<double>(units[r].mean)) * static_cast<double>(units[r].factor);
        product += z * static_cast<double>(model[r * shape.cols + c]);
      }
      sum += product * product;
    }
  }
  return -sum / 2 / count;
}

void OracleSteps::add(const JournalRecord& record, TaskStage stage) {
  const double weight = record.weight();
  if (stage == TaskStage::kTrials) {
    Trial& trial = trials_[record.device()];
    trial.weight = weight;
    for (size_t q = 0; q < kTrials; ++q) {
      const auto change = static_cast<double>(float_at(record.payload(), q));
      trial.changes[q] = change < 1e30 ? change : 1e30;
    }
  }
  if (stage != TaskStage::kTrain) {
    return;
  }
  weight_total_ += weight;
  const UpdateNotes notes = record.notes();
  const Move& move = record.staleness() == 0 ? newest_ : before_;
  if (!notes.line || record.staleness() > 1 || move.length == 0) {
    return;
  }
  const auto kept = lines_.find(record.device());
  if (kept == lines_.end() || kept->second.staleness >= record.staleness()) {
    lines_[record.device()] = {static_cast<double>(notes.line->slope) / move.length / move.square,
                               static_cast<double>(notes.line->curvature) / move.length / move.length / move.square,
                               weight, record.staleness()};
  }
}

std::string OracleSteps::check_start(const VersionRecord& record, const Close& close) {
  const std::vector<Real>& d = *close.direction;
  double square = 0, apart = 0;
  std::vector<Real> said(d.size());
  if (read_model(parameters_->model->shape, record.stage.direction, said.data()) != Status::kOk) {
    return "the stage START has made no direction";
  }
  for (size_t e = 0; e < d.size(); ++e) {
    square += static_cast<double>(said[e]) * static_cast<double>(said[e]);
    apart += std::pow(static_cast<double>(said[e]) - static_cast<double>(d[e]), 2);
  }
  if (!(std::sqrt(apart) <= kTolerance * std::sqrt(square))) {
    return "the direction of the stage START is not that of its updates";
  }
  const double longest = (is_compact(*parameters_) ? 2 : 16) * scale_of(*parameters_, *close.model);
  trial_length_ = static_cast<double>(static_cast<float>(longest / std::sqrt(square)));
  return "";
}

void OracleSteps::close_trials() {
  double best = 0, least = 0;
  for (uint32_t q = 0; q < kTrials; ++q) {
    std::vector<std::pair<double, double>> changes;
    for (const auto& [device, trial] : trials_) {
      changes.emplace_back(trial.changes[q], trial.weight);
    }
    const double mean = mean_of_middle(changes);
    if (mean < least) {
      least = mean;
      best = std::ldexp(trial_length_, -static_cast<int>(q));
    }
  }
  best_.push_back(best);
  if (best_.size() < 2) {
    return;
  }
  std::vector<double> good;
  std::copy_if(best_.begin(), best_.end(), std::back_inserter(good), [](double length) { return length > 0; });
  const double chosen =
      good.empty() ? std::ldexp(trial_length_, -31) : *std::min_element(good.begin(), good.end());  // of two
  first_ = step_ =
      chosen / 4 / (static_cast<double>(parameters_->steps->server_step) * parameters_->local->local_step_count);
  trial_length_ = 0;
}

void OracleSteps::close_round(const VersionRecord& record, const Close& close) {
  std::vector<std::pair<double, double>> slopes, curvatures;
  double weight = 0;
  size_t worse = 0;
  for (const auto& [device, line] : lines_) {
    slopes.emplace_back(line.slope, line.weight);
    curvatures.emplace_back(line.curvature, line.weight);
    weight += line.weight;
    const Move& move = line.staleness == 0 ? newest_ : before_;
    worse += line.slope * move.length + line.curvature * move.length * move.length > 0 ? 1 : 0;
  }
  const bool is_enough = !lines_.empty() && lines_.size() >= std::min<size_t>(3, close.asked_count) &&
                         weight * 4 >= weight_total_ && newest_.length > 0;
  const double before = step_;
  if (is_enough) {
    const double s = mean_of_middle(slopes), h = mean_of_middle(curvatures);
    const double keep = std::min(0.9, 1 - 1.0 / ++count_);
    slope_ = keep * slope_ + (1 - keep) * s;
    curvature_ = std::max(keep * curvature_ + (1 - keep) * h, h);
    const double reach = newest_.reach;
    double wanted = slope_ < 0 ? std::numeric_limits<double>::infinity() : 0;
    if (curvature_ > 0) {
      wanted = std::max(-slope_, 0.0) / (2 * curvature_ * reach);
    }
    step_ = std::clamp(wanted, step_ / 1.5, step_ * 1.1);
    if (worse * 4 >= lines_.size() * 3) {
      step_ = std::min(step_, newest_.length / reach / 2);
    }
    step_ = std::clamp(step_, 1e-4 * first_, 1e3 * first_);
    step_ = std::min(step_, scale_of(*parameters_, *close.model) / 2 / std::sqrt(newest_.square) / reach);
  }
  Move made;
  if (close.direction != nullptr) {
    made.direction.assign(close.direction->begin(), close.direction->end());
    made.square = norm_square(made.direction);
  }
  if (made.square > 0 && record.step_scale > 0) {
    const bool has_step = parameters_->local->solver == SolverId::kProjection;
    const double task_step = static_cast<double>(static_cast<float>(before));
    made.length = static_cast<double>(record.step_scale) * (has_step ? 1 : task_step);
    made.reach = static_cast<double>(record.step_scale) / (has_step ? task_step : 1);
  } else {
    made = Move();
  }
  before_ = newest_;
  newest_ = made;
  weight_total_ = 0;
  lines_.clear();
}

std::string OracleSteps::check(const VersionRecord& record, const Close& close) {
  StepDecision said;
  if (decode_decision(record.stage.decision, &said) != Status::kOk) {
    return "the decision of a step does not decode";
  }
  const bool is_train = close.stage == TaskStage::kTrain;
  const bool decides = is_train || !is_of_units(close.stage);
  if (record.stage.decision.empty() == decides) {
    return "a version decides a step, or none, in the wrong stage";
  }
  if (!decides) {
    return "";
  }
  const size_t line_count = lines_.size();
  if (close.stage == TaskStage::kStart) {
    if (std::string fault = check_start(record, close); !fault.empty()) {
      return fault;
    }
  } else if (close.stage == TaskStage::kTrials) {
    close_trials();
    trials_.clear();
  } else {
    close_round(record, close);
  }
  const bool is_same_move = is_near(said.move.length, newest_.length, kTightTolerance) &&
                            is_near(said.move.reach, newest_.reach, kTightTolerance) &&
                            is_near(said.move.square, newest_.square, 2 * kTolerance);
  if (is_train && (!is_same_move || said.line_count != line_count)) {
    return "a version says another move, or another number of lines, than that of its updates";
  }
  const double tolerance = kTightTolerance;
  if (!is_near(said.state.step, step_, tolerance) || !is_near(said.state.first, first_, tolerance) ||
      !is_near(said.state.slope, slope_, tolerance) || !is_near(said.state.curvature, curvature_, tolerance) ||
      said.state.count != count_ || !is_near(said.trial_length, trial_length_, 1e-6)) {
    return "the step of a version is not what the lines of its updates come to: " + std::to_string(said.state.step) +
           ", not " + std::to_string(step_);
  }
  // What differs in the last bits goes on from the record's, so that no difference grows.
  step_ = said.state.step;
  first_ = said.state.first;
  slope_ = said.state.slope;
  curvature_ = said.state.curvature;
  trial_length_ = said.trial_length;
  newest_.length = said.move.length;
  newest_.square = said.move.square;
  newest_.reach = said.move.reach;
  return "";
}

}  // namespace gradstream

#include "runtime/base/no_contraction.h"

#include "server/rules/step_decision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

// The longest trial step that a task can name. Reason: it is sent as a float.
constexpr double kTrialLengthMax = 1e30;

// visit(number) for the floats of a decision, in the order of their bytes.
template <typename Decision, typename Visit>
void visit_numbers(Decision& d, Visit&& visit) {
  for (auto* number : {&d.state.step, &d.state.first, &d.state.slope, &d.state.curvature, &d.move.length,
                       &d.move.square, &d.move.reach, &d.trial_length, &d.square}) {
    visit(*number);
  }
  for (auto& best : d.best) {
    visit(best);
  }
  visit(d.slope);
  visit(d.curvature);
}
// The same for its counts, which stand behind.
template <typename Decision, typename Visit>
void visit_counts(Decision& d, Visit&& visit) {
  for (auto* count : {&d.state.count, &d.draw_count, &d.line_count, &d.worse_count}) {
    visit(*count);
  }
}

void put_bytes(uint64_t value, size_t size, std::vector<uint8_t>* out) {
  for (size_t i = 0; i < size; ++i) {
    out->push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
}

uint64_t take_bytes(std::span<const uint8_t>* rest, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= uint64_t{(*rest)[i]} << (8 * i);
  }
  *rest = rest->subspan(size);
  return value;
}

bool is_bounded(ManifoldId id) {
  return id == ManifoldId::kSphere || id == ManifoldId::kStiefel || id == ManifoldId::kOblique ||
         id == ManifoldId::kGrassmann;
}

double square_of(std::span<const Real> values) {
  double sum = 0;
  for (const Real value : values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

double shortest_trial(double longest) { return std::ldexp(longest, 1 - static_cast<int>(kTrialCount)); }

}  // namespace

std::vector<uint8_t> encode_decision(const StepDecision& decision) {
  std::vector<uint8_t> out;
  visit_numbers(decision, [&](double value) { put_bytes(std::bit_cast<uint64_t>(value), sizeof(value), &out); });
  visit_counts(decision, [&](uint32_t value) { put_bytes(value, sizeof(value), &out); });
  out.push_back(static_cast<uint8_t>(decision.bound));
  return out;
}

Status decode_decision(std::span<const uint8_t> bytes, StepDecision* decision) {
  *decision = StepDecision();
  if (bytes.empty()) {
    return Status::kOk;
  }
  if (bytes.size() != kStepDecisionSize) {
    return Status::kDataCorrupt;
  }
  bool is_good = true;
  visit_numbers(*decision, [&](double& value) {
    value = std::bit_cast<double>(take_bytes(&bytes, sizeof(value)));
    is_good = is_good && std::isfinite(value);
  });
  visit_counts(*decision, [&](uint32_t& value) { value = static_cast<uint32_t>(take_bytes(&bytes, sizeof(value))); });
  is_good = is_good && bytes[0] < kStepBoundCount && decision->draw_count <= kStartDrawCount &&
            decision->state.step >= 0 && decision->state.first >= 0 && decision->trial_length >= 0 &&
            decision->move.length >= 0;
  if (!is_good) {
    return Status::kDataCorrupt;
  }
  decision->bound = static_cast<StepBound>(bytes[0]);
  return Status::kOk;
}

double model_scale_of(const RunParameters& parameters, std::span<const Real> model) {
  return model_scale(is_bounded(parameters.model->manifold), parameters.model->shape.cols, std::sqrt(square_of(model)));
}

StepDecision after_stage(const StepDecision& before) {
  StepDecision next = before;
  next.move = {};
  next.bound = StepBound::kNone;
  next.slope = next.curvature = 0;
  next.line_count = next.worse_count = 0;
  return next;
}

StepDecision after_start(const RunParameters& parameters, const StepDecision& before, std::span<const Real> direction,
                         std::span<const Real> model) {
  StepDecision next = after_stage(before);
  next.square = square_of(direction);
  const double longest = longest_move(is_bounded(parameters.model->manifold), model_scale_of(parameters, model));
  // Without a direction every trial step is as bad as the next.
  const double length = next.square > 0 ? longest / std::sqrt(next.square) : longest;
  next.trial_length = static_cast<double>(static_cast<Real>(std::min(length, kTrialLengthMax)));
  return next;
}

StepDecision after_trials(const RunParameters& parameters, const StepDecision& before,
                          std::span<const TrialAnswer> answers) {
  GS_ASSERT(!answers.empty() && before.draw_count < kStartDrawCount);
  StepDecision next = after_stage(before);
  const BestRung rung = best_rung(before.trial_length, answers);
  next.best[next.draw_count++] = rung.is_bad ? 0 : rung.length;
  if (next.draw_count < kStartDrawCount) {
    return next;
  }
  std::vector<double> good;
  std::copy_if(next.best.begin(), next.best.end(), std::back_inserter(good), [](double length) { return length > 0; });
  if (good.empty()) {
    good.push_back(shortest_trial(before.trial_length));
  }
  const double reach = static_cast<double>(parameters.steps->server_step) * parameters.local->local_step_count;
  next.state = begin_steps(first_step(good, reach));
  next.trial_length = 0;
  return next;
}

}  // namespace gradstream

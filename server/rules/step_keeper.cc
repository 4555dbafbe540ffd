#include "runtime/base/no_contraction.h"

#include "server/rules/step_keeper.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/run/run_core.h"

namespace gradstream {

Status StepKeeper::follow(std::span<const uint8_t> bytes) {
  StepDecision next = after_stage(decision_);
  if (!bytes.empty()) {
    GS_TRY(decode_decision(bytes, &next));
  }
  previous_move_ = decision_.move;
  decision_ = next;
  weight_total_ = 0;
  lines_.clear();
  return Status::kOk;
}

bool StepKeeper::add_line(uint32_t device, uint32_t staleness, float slope, float curvature, double weight) {
  const StepMove& move = staleness == 0 ? decision_.move : previous_move_;
  if (staleness > 1 || !(move.length > 0)) {
    return false;
  }
  const auto kept = lines_.find(device);
  if (kept != lines_.end() && kept->second.staleness < staleness) {
    return false;
  }
  lines_[device] = {StepLine::along(static_cast<double>(slope), static_cast<double>(curvature), weight, move),
                    staleness};
  return true;
}

StepDecision StepKeeper::after_round(const FoldedMove& folded) const {
  StepDecision next = after_stage(decision_);
  std::vector<StepLine> lines;
  for (const auto& [device, kept] : lines_) {
    lines.push_back(kept.line);
  }
  next.line_count = static_cast<uint32_t>(lines.size());
  next.worse_count = static_cast<uint32_t>(
      std::count_if(lines.begin(), lines.end(), [](const StepLine& line) { return line.is_worse; }));
  if (decision_.move.length > 0) {
    const bool is_enough = has_enough_lines(lines, weight_total_, folded.asked_count);
    const FoldedLines means =
        is_enough ? fold_lines(lines, decision_.move, folded.model_scale, &next.state) : FoldedLines();
    next.bound = means.bound;
    next.slope = means.slope;
    next.curvature = means.curvature;
  }
  double square = 0;
  for (const Real value : folded.direction) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto scale = static_cast<double>(folded.step_scale);
  const auto step = static_cast<double>(step_size());
  if (square > 0 && std::isfinite(square) && scale > 0 && step > 0) {
    // A tangent stream has the devices' step inside its values.
    const bool has_step = parameters_->local->solver == SolverId::kProjection;
    next.move = {has_step ? scale : scale * step, square, has_step ? scale / step : scale};
  }
  return next;
}

void StepKeeper::exchange(StateArchive& io) {
  StepDecision& d = decision_;
  io.values(d.state.step, d.state.first, d.state.slope, d.state.curvature, d.state.count);
  for (StepMove* const move : {&d.move, &previous_move_}) {
    io.values(move->length, move->square, move->reach);
  }
  io.values(d.trial_length, d.square, d.draw_count);
  io.numbers(std::span<double>(d.best));
  io.values(d.bound, d.slope, d.curvature, d.line_count, d.worse_count);
  if (static_cast<uint8_t>(d.bound) >= kStepBoundCount) {
    io.fail();
  }
  if (io.is_reading()) {
    weight_total_ = 0;
    lines_.clear();
  }
}

std::string StepKeeper::text() const {
  double slopes = 0;
  double curvatures = 0;
  for (const auto& [device, kept] : lines_) {
    slopes += kept.line.slope * (device + 1);
    curvatures += kept.line.curvature * (device + 1);
  }
  return "step=" + std::to_string(decision_.state.step) + " count=" + std::to_string(decision_.state.count) +
         " lines=" + std::to_string(lines_.size()) + " weight=" + std::to_string(weight_total_) +
         " slopes=" + std::to_string(slopes) + " curvatures=" + std::to_string(curvatures) +
         " previous=" + std::to_string(previous_move_.length) + "\n";
}

}  // namespace gradstream

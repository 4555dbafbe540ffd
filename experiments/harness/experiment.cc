#include "experiments/harness/experiment.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "server/rules/fold.h"
#include "server/run/run_core.h"

namespace gradstream {

const CurvePoint& Curve::at(uint32_t round) const {
  GS_ASSERT(!points.empty());  // a run publishes version 0 before anything can end it
  const auto after = std::find_if(points.begin(), points.end(), [&](const CurvePoint& p) { return p.round > round; });
  return after == points.begin() ? points.front() : *(after - 1);
}

double Curve::mean_excess(uint32_t count) const {
  GS_ASSERT(!points.empty() && count > 0);
  double sum = 0;
  uint32_t added = 0;
  for (auto point = points.rbegin(); point != points.rend() && added < count; ++point, ++added) {
    sum += point->measures.excess;
  }
  return sum / added;
}

uint32_t Curve::rounds_to(double bound) const {
  const auto found =
      std::find_if(points.begin(), points.end(), [&](const CurvePoint& p) { return p.measures.grad_norm <= bound; });
  return found == points.end() ? std::numeric_limits<uint32_t>::max() : found->round;
}

std::span<const Experiment* const> all_experiments() {
  static constexpr const Experiment* kAll[] = {
      &kX1,  &kX2,  &kX3,  &kX4,  &kX5,   &kX6,    &kX7,     &kX8,         &kX9,         &kX10,    &kX11,   &kX12,
      &kX13, &kX14, &kX15, &kX16, &kZofl, &kBytes, &kMemory, &kStragglers, &kCompletion, &kOnline, &kPoison};
  return kAll;
}

const Experiment* find_experiment(const std::string& name) {
  const auto all = all_experiments();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Experiment* e) { return e->name == name; });
  return found == all.end() ? nullptr : *found;
}

RunParameters gradient_stream_parameters(uint32_t local_step_count, double step_size, uint32_t round_count) {
  RunParameters p;
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->batch_mode = BatchMode::kAll;
  p.local->correction_form = CorrectionForm::kNone;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.wire->upload_encoding = kRealEncoding;
  p.wire->record_encoding = kRealEncoding;
  if (sizeof(Real) == sizeof(double)) {
    p.fold->fold_scale_log2 = kFoldScaleLog2Max;  // only the unit of a mean that goes down: sums are plain there
  }
  p.local->local_step_count = local_step_count;
  p.steps->step_size = static_cast<Real>(step_size);
  p.trigger->round_count = round_count;
  return p;
}

std::string figure(double value, int digit_count) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.*g", digit_count, value);
  return text;
}

void Judgement::check(const std::string& what, bool holds) {
  ++check_count_;
  failed_count_ += holds ? 0 : 1;
  lines_.push_back(std::string("criterion  ") + (holds ? "holds          " : "DOES NOT HOLD  ") + what);
}

void Judgement::field(const std::string& name, double value) { fields_ += " " + name + "=" + figure(value, 4); }

void Judgement::check_near(const std::string& what, double value, double wanted, double factor) {
  const double ratio = value / wanted;
  check(what + ": " + figure(value) + ", wanted " + figure(wanted) + " within a factor of " + figure(factor, 6),
        ratio >= 1 / factor && ratio <= factor);
}

void Judgement::check_seeds(uint32_t seed, uint32_t seed_max, const std::string& what, double value, double wanted,
                            double factor) {
  if (seed <= seed_max) {
    check_near(what, value, wanted, factor);
  } else {
    note("evidence   " + what + ": " + figure(value) + "; of seeds 1 to " + std::to_string(seed_max) + " " +
         figure(wanted) + " within a factor of " + figure(factor));
  }
}

void Judgement::check_mean(uint32_t seed, const std::string& what, double value, double wanted, double factor) {
  check_seeds(seed, kMeanSeedCount, what, value, wanted, factor);
  mean_parts_.push_back({what, value, wanted});
}

void Judgement::check_mean_order(uint32_t seed, const std::string& what, double quotient) {
  note("evidence   " + what + ": " + figure(quotient) + "; its geometric mean over seeds 1 to " +
       std::to_string(kMeanSeedCount) + " must be above 1 (--means)");
  if (seed <= kMeanSeedCount) {
    mean_parts_.push_back({what, quotient, 1, true});
  }
}

void Judgement::claim(const std::string& what, bool is_confirmed, const std::string& evidence) {
  lines_.push_back(std::string("claim      ") + (is_confirmed ? "confirmed      " : "not confirmed  ") + what + ": " +
                   evidence);
}

void Judgement::claim_seeds(const std::string& what, const std::vector<bool>& holds) {
  const auto count = static_cast<size_t>(std::count(holds.begin(), holds.end(), true));
  claim(what, count == holds.size() && !holds.empty(),
        std::to_string(count) + " of " + std::to_string(holds.size()) + " seeds; all of them are wanted");
}

void check_means(const std::vector<MeanPart>& parts, Judgement* judgement) {
  struct Mean {
    double wanted = 0;
    double log_sum = 0;
    uint32_t count = 0;
    bool is_order = false;
  };
  std::map<std::string, Mean> means;
  for (const MeanPart& part : parts) {
    Mean& mean = means[part.what];
    mean.wanted = part.wanted;
    mean.is_order = part.is_order;
    mean.log_sum += std::log(part.value);
    ++mean.count;
  }
  for (const auto& [what, mean] : means) {
    if (mean.count != kMeanSeedCount) {
      judgement->check(what + ": " + std::to_string(mean.count) + " of " + std::to_string(kMeanSeedCount) + " seeds",
                       false);
      continue;
    }
    const std::string named = what + ", geometric mean of seeds 1 to " + std::to_string(kMeanSeedCount);
    const double value = std::exp(mean.log_sum / mean.count);
    if (mean.is_order) {
      judgement->check(named + ": " + figure(value, 4) + ", wanted above " + figure(mean.wanted), value > mean.wanted);
    } else {
      judgement->check_near(named, value, mean.wanted, kMeanFactor);
    }
  }
}

}  // namespace gradstream

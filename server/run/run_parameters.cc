#include "server/run/run_parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"
#include "server/run/average_keys.h"
#include "server/run/constant_keys.h"
#include "server/run/delay_keys.h"
#include "server/run/fold_keys.h"
#include "server/run/local_keys.h"
#include "server/run/model_keys.h"
#include "server/run/pace_keys.h"
#include "server/run/participation_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_stages.h"
#include "server/run/step_keys.h"
#include "server/run/trigger_keys.h"
#include "server/run/units_keys.h"
#include "server/run/wire_keys.h"

namespace gradstream {

template <typename Keys, typename Core>
KeyGroup<Keys, Core>::KeyGroup() : keys_(std::make_unique<Keys>()), core_(keys_.get()) {}
template <typename Keys, typename Core>
KeyGroup<Keys, Core>::KeyGroup(const KeyGroup& other)
    : keys_(std::make_unique<Keys>(*other.keys_)), core_(keys_.get()) {}
template <typename Keys, typename Core>
KeyGroup<Keys, Core>& KeyGroup<Keys, Core>::operator=(const KeyGroup& other) {
  if (this != &other) {
    *keys_ = *other.keys_;
  }
  return *this;
}
template <typename Keys, typename Core>
KeyGroup<Keys, Core>::~KeyGroup() = default;

template class KeyGroup<ModelKeys, ModelCore>;
template class KeyGroup<LocalKeys, LocalCore>;
template class KeyGroup<StepKeys, StepCore>;
template class KeyGroup<WireKeys, WireCore>;
template class KeyGroup<FoldKeys, FoldCore>;
template class KeyGroup<ParticipationKeys, ParticipationCore>;
template class KeyGroup<TriggerKeys, TriggerCore>;
template class KeyGroup<DelayKeys, DelayCore>;
template class KeyGroup<AverageKeys>;
template class KeyGroup<ConstantKeys>;
template class KeyGroup<PaceKeys>;
template class KeyGroup<UnitsKeys>;
template class KeyGroup<QualityKeys>;

bool has_scalars(EstimatorId id) {
  return id == EstimatorId::kProjectionOneSided || id == EstimatorId::kProjectionTwoSided;
}

bool is_embedded(ManifoldId id) {
  return id == ManifoldId::kEuclidean || id == ManifoldId::kSphere || id == ManifoldId::kStiefel ||
         id == ManifoldId::kOblique;
}

bool is_delay_rule_defined(DelayRule rule, ManifoldId manifold) {
  const bool has_entries = rule == DelayRule::kDcAsgd || rule == DelayRule::kDcAdaptive;
  return !has_entries || is_embedded(manifold);
}

uint32_t RunParameters::kept_model_count() const {
  const bool has_tangents =
      delay->delay_rule != DelayRule::kNone ||
      (!has_memory() && (local->solver == SolverId::kGradientStream || local->solver == SolverId::kTangentMean));
  return has_tangents && trigger->late == LatePolicy::kWeight ? trigger->staleness_max + 1 : 0;
}

uint64_t RunParameters::network_digest() const {
  constexpr size_t kDigits = 16;
  uint64_t digest = 0;
  for (const char c : model->network) {
    const int digit = hex_digit(c);
    if (model->network.size() != kDigits || digit < 0) {
      return 0;
    }
    digest = digest << 4 | static_cast<uint64_t>(digit);
  }
  return digest;
}

const ManifoldOps* server_manifold(const RunParameters& parameters) {
  return find_manifold(all_manifolds(), parameters.model->manifold, parameters.model->retraction,
                       parameters.model->transport);
}

uint32_t RunParameters::model_parts() const {
  if (local->solver != SolverId::kSvrg) {
    return 0;
  }
  return part_bit(ModelPart::kMeanGradient) |
         (local->barzilai_borwein != BarzilaiBorwein::kNone ? part_bit(ModelPart::kPreviousModel) : 0);
}

StreamKind RunParameters::stream() const {
  const bool is_scalar = local->solver == SolverId::kProjection && has_scalars(local->estimator) &&
                         wire->upload_stream != StreamKind::kTangentBlock;
  return is_scalar ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
}

uint32_t RunParameters::drawn_count() const {
  const double count =
      static_cast<double>(static_cast<float>(cohort->cohort_size) * static_cast<float>(cohort->over_selection));
  // 10 times 1.1 are 11, whatever the last bit of 1.1 says.
  // In a large cohort the last bit is many devices; it never takes from those that are wanted.
  return std::max(cohort->cohort_size,
                  static_cast<uint32_t>(std::min(std::ceil(count * (1 - 1e-6)), static_cast<double>(UINT32_MAX))));
}

uint32_t RunParameters::owner_of(uint32_t client_index) const {
  return shared_directions() ? client_index % local->group_count : client_index;
}

Real RunParameters::step_size_at(uint32_t round) const {
  const auto k = static_cast<Real>(round);
  const uint32_t stage = round / steps->step_period;
  switch (steps->step_rule) {
    case StepRule::kInverse:
      return steps->step_size / (1 + steps->step_decay * k);
    case StepRule::kPrinted:
      return round == 0 ? steps->step_size : steps->step_size / (steps->step_offset + static_cast<Real>(stage));
    case StepRule::kCode:
      return stage == 0 ? steps->step_size : steps->step_size / (steps->step_offset + static_cast<Real>(stage));
    case StepRule::kHarmonic:
      return steps->step_size / (steps->step_offset + k);
    case StepRule::kFixed:
    case StepRule::kBarzilaiBorwein:  // only the aggregation rule knows the models that it is made of
      break;
  }
  return steps->step_size;
}

bool RunParameters::shared_directions() const { return local->group_count > 0; }

bool RunParameters::has_memory() const {
  return local->correction_form == CorrectionForm::kMemory || local->correction_form == CorrectionForm::kUnbiased;
}

bool RunParameters::memory_weighs_samples() const {
  return has_memory() && fold->fold_weight == FoldWeight::kSampleCount;
}

bool RunParameters::has_mean() const {
  return has_memory() || (local->correction_form == CorrectionForm::kLocal && stream() == StreamKind::kTangentBlock);
}

bool RunParameters::waits_for_all() const {
  return trigger->buffer_size == 0 && trigger->update_goal == 0 && trigger->update_min == 0 &&
         cohort->over_selection == 1;
}

uint32_t RunParameters::phase_count() const { return local->solver == SolverId::kSvrg ? 2 : 1; }

uint32_t RunParameters::version_count() const {
  return trigger->round_count * phase_count() + stage_version_count(*this);
}

uint32_t RunParameters::least_steps() const {
  return trigger->steps_min == 0 ? local->local_step_count : trigger->steps_min;
}

std::vector<Real> parse_numbers(const std::string& text) {
  std::vector<Real> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    Real number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || !std::isfinite(number) || (stop != end && *stop != ' ')) {
      return {};
    }
    numbers.push_back(number);
    at = stop;
  }
  return numbers;
}

std::vector<uint32_t> batch_schedule(const RunParameters& parameters) {
  std::vector<uint32_t> sizes;
  for (const Real size : parse_numbers(parameters.local->batch_sizes)) {
    sizes.push_back(static_cast<uint32_t>(size));
  }
  return sizes;
}

uint32_t RunParameters::value_count() const {
  return stream() == StreamKind::kScalarStream
             ? local->local_step_count * local->direction_count
             : static_cast<uint32_t>(tangent_value_count(local->solver, model->shape));
}

}  // namespace gradstream

#include "server/run/run_parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"

namespace gradstream {

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
      delay_rule != DelayRule::kNone ||
      (!has_memory() && (solver == SolverId::kGradientStream || solver == SolverId::kTangentMean));
  return has_tangents && late == LatePolicy::kWeight ? staleness_max + 1 : 0;
}

uint64_t RunParameters::network_digest() const {
  constexpr size_t kDigits = 16;
  uint64_t digest = 0;
  for (const char c : network) {
    const int digit = hex_digit(c);
    if (network.size() != kDigits || digit < 0) {
      return 0;
    }
    digest = digest << 4 | static_cast<uint64_t>(digit);
  }
  return digest;
}

const ManifoldOps* server_manifold(const RunParameters& parameters) {
  return find_manifold(all_manifolds(), parameters.manifold, parameters.retraction, parameters.transport);
}

uint32_t RunParameters::model_parts() const {
  if (solver != SolverId::kSvrg) {
    return 0;
  }
  return part_bit(ModelPart::kMeanGradient) |
         (barzilai_borwein != BarzilaiBorwein::kNone ? part_bit(ModelPart::kPreviousModel) : 0);
}

StreamKind RunParameters::stream() const {
  const bool is_scalar =
      solver == SolverId::kProjection && has_scalars(estimator) && upload_stream != StreamKind::kTangentBlock;
  return is_scalar ? StreamKind::kScalarStream : StreamKind::kTangentBlock;
}

uint32_t RunParameters::drawn_count() const {
  const double count = static_cast<double>(static_cast<float>(cohort_size) * static_cast<float>(over_selection));
  // 10 times 1.1 are 11, whatever the last bit of 1.1 says.
  return static_cast<uint32_t>(std::min(std::ceil(count * (1 - 1e-6)), static_cast<double>(UINT32_MAX)));
}

uint32_t RunParameters::owner_of(uint32_t client_index) const {
  return shared_directions() ? client_index % group_count : client_index;
}

Real RunParameters::step_size_at(uint32_t round) const {
  const auto k = static_cast<Real>(round);
  const uint32_t stage = round / step_period;
  switch (step_rule) {
    case StepRule::kInverse:
      return step_size / (1 + step_decay * k);
    case StepRule::kPrinted:
      return round == 0 ? step_size : step_size / (step_offset + static_cast<Real>(stage));
    case StepRule::kCode:
      return stage == 0 ? step_size : step_size / (step_offset + static_cast<Real>(stage));
    case StepRule::kHarmonic:
      return step_size / (step_offset + k);
    case StepRule::kFixed:
    case StepRule::kBarzilaiBorwein:  // only the aggregation rule knows the models that it is made of
      break;
  }
  return step_size;
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
  for (const Real size : parse_numbers(parameters.batch_sizes)) {
    sizes.push_back(static_cast<uint32_t>(size));
  }
  return sizes;
}

uint32_t RunParameters::value_count() const {
  return stream() == StreamKind::kScalarStream ? local_step_count * direction_count
                                               : static_cast<uint32_t>(tangent_value_count(solver, shape));
}

}  // namespace gradstream

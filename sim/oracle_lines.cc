// What devices of a run with step_size "auto" say of their losses, again from their samples, and the direction of each
// record.
#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/problem/problem.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "sim/oracle.h"

namespace gradstream {
namespace {

// Of a loss, absolute and relative. Reason: devices compute it in float.
constexpr double kLossTolerance = 2e-5;

bool is_near_loss(double said, double own, double size) {
  return std::fabs(said - own) <= kLossTolerance * (1 + std::fabs(size));
}

float float_of(const std::vector<uint8_t>& bytes, size_t index) {
  uint32_t word = 0;
  for (size_t i = 0; i < sizeof(word); ++i) {
    word |= uint32_t{bytes[sizeof(word) * index + i]} << (8 * i);
  }
  return std::bit_cast<float>(word);
}

}  // namespace

// Other problems' losses are not computed again.
bool Oracle::has_kpca() const { return parameters_.model->problem == kKpcaOps.name; }

// f(P(X - a 2^-q d)) - f(X) by the map of the server's step.
std::string Oracle::check_trials(const JournalRecord& record) {
  stages_.answered.push_back(record.device());
  const auto held = stages_.samples.find(record.device());
  if (held == stages_.samples.end() || !has_kpca()) {
    return "";
  }
  const Shape shape = parameters_.model->shape;
  const std::vector<Real> x(replica_.model(), replica_.model() + shape.size());
  const double start = kpca_loss(parameters_, held->second, stages_.units, x);
  const Real* const d = replica_.part(ModelPart::kDirection);
  if (d == nullptr) {
    return "a version of trials has no direction";
  }
  for (uint32_t q = 0; q < kTrialCount; ++q) {
    const auto step = static_cast<Real>(std::ldexp(steps_->trial_length(), -static_cast<int>(q)));
    std::vector<Real> point(d, d + shape.size());
    const Status status = parameters_.local->solver == SolverId::kProjection
                              ? replica_.gradient_step(point.data(), step, point.data(), arena_)
                              : replica_.tangent_step(point.data(), -step, point.data(), arena_);
    const double loss = status == Status::kOk ? kpca_loss(parameters_, held->second, stages_.units, point) : 0;
    const auto said = static_cast<double>(float_of(record.payload(), q));
    if (status == Status::kOk && !is_near_loss(said, loss - start, std::max(std::fabs(loss), std::fabs(start)))) {
      return "a trial step is not what its device's samples say";
    }
  }
  return "";
}

// The line of an update is along the record that made its base version.
std::string Oracle::check_line(const JournalRecord& record) const {
  const auto held = stages_.samples.find(record.device());
  const UpdateNotes notes = record.notes();
  if (stages_.open != TaskStage::kTrain || !notes.line || held == stages_.samples.end() || !has_kpca()) {
    return "";
  }
  const auto before = models_.find(record.base_version() - 1), after = models_.find(record.base_version());
  const auto half = halves_.find(record.base_version());
  if (half == halves_.end()) {
    return forgets_ ? "" : "an update has a line, and no record made its version";
  }
  if (before == models_.end() || after == models_.end()) {
    return "";
  }
  const auto loss = [&](const std::vector<Real>& x) { return kpca_loss(parameters_, held->second, stages_.units, x); };
  const double f0 = loss(before->second), fh = loss(half->second), f1 = loss(after->second);
  const double size = std::max({std::fabs(f0), std::fabs(fh), std::fabs(f1)});
  const double curvature = 2 * (f1 - 2 * fh + f0);
  const auto said = static_cast<double>(notes.line->curvature);
  const bool is_good = is_near_loss(said + static_cast<double>(notes.line->slope), f1 - f0, size) &&
                       is_near_loss(said / 8, curvature / 8, size);  // 8 roundings of losses are in it
  return is_good ? "" : "the line of an update is not what its device's samples say";
}

// eta of the open version's tasks, as they name it.
Real Oracle::open_step() const {
  return steps_.has_value() ? static_cast<Real>(steps_->step()) : parameters_.step_size_at(round_);
}

// d of the open version's updates, in units of a gradient; empty where they make none.
std::vector<Real> Oracle::direction() const {
  const Shape shape = parameters_.model->shape;
  if (shares_.empty() || parameters_.stream() != StreamKind::kScalarStream) {
    std::vector<Real> d = shares_.empty() ? std::vector<Real>() : fold_all(shape.size());
    if (!is_mean_run()) {
      const Real unit = stages_.open == TaskStage::kStart || is_anchor_phase() ? Real{1} : open_step();
      std::transform(d.begin(), d.end(), d.begin(), [unit](Real x) { return -x / unit; });
    }
    return d;
  }
  size_t longest = 0;
  for (const Share& share : shares_) {
    longest = std::max(longest, share.values.size());
  }
  std::vector<double> sum(shape.size());
  std::vector<Real> u(shape.size());
  const int64_t divisor = fold_divisor();
  for (const auto& [key, shares] : shares_by_block()) {
    std::vector<Real> means = fold(shares, divisor, longest);
    std::vector<uint8_t> bytes(encoded_size(parameters_.wire->record_encoding, means.size()));
    static_cast<void>(encode_values(parameters_.wire->record_encoding, means.size(), means.data(), bytes.data()));
    static_cast<void>(
        decode_values(parameters_.wire->record_encoding, means.size(), bytes.data(), bytes.size(), means.data()));
    const DirectionSpec spec = direction_spec(parameters_, key.first, key.second);
    for (uint32_t q = 0; q < means.size(); ++q) {
      fill_direction(spec, shape, q / spec.direction_count, q % spec.direction_count, u.data());
      for (size_t e = 0; e < u.size(); ++e) {
        sum[e] += static_cast<double>(means[q]) * static_cast<double>(u[e]);
      }
    }
  }
  const auto factor = static_cast<double>(estimate_factor(shape, parameters_.local->direction_count));
  std::vector<Real> d(sum.size());
  std::transform(sum.begin(), sum.end(), d.begin(), [factor](double x) { return static_cast<Real>(factor * x); });
  return d;
}

std::string Oracle::check_steps(const VersionRecord& record, const std::vector<Real>& direction) {
  const std::vector<uint32_t>& members = cohorts_[version()].members;
  OracleSteps::Close close;
  close.stage = stages_.open;
  close.direction = direction.empty() ? nullptr : &direction;
  close.model = &models_.at(version());
  close.asked_count = members.empty() ? parameters_.trigger->device_count : static_cast<uint32_t>(members.size());
  std::string fault = steps_->check(record, close);
  if (fault.empty() && record.has_anchor() && record.local_step != open_step()) {
    fault = "an anchor phase says another step than that of its lines";
  }
  return fault;
}

// After the record has made version().
void Oracle::keep_half(const VersionRecord& record) {
  const std::vector<Real>& before = models_.at(version() - 1);
  const std::vector<Real>& after = models_.at(version());
  const std::vector<double>& d = steps_->direction();
  std::vector<Real> half(before.size());
  const bool has_direction = !record.blocks.empty() && d.size() == half.size();
  for (size_t e = 0; e < half.size(); ++e) {
    half[e] = has_direction ? static_cast<Real>(static_cast<double>(before[e]) - steps_->length() / 2 * d[e])
                            : (before[e] + after[e]) / 2;
  }
  if (replica_.manifold().project_point(parameters_.model->shape, half.data(), half.data(), arena_) == Status::kOk) {
    halves_[version()] = half;
  }
}

}  // namespace gradstream

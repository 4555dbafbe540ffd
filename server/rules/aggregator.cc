#include "runtime/base/no_contraction.h"

#include "server/rules/aggregator.h"

#include <array>

#include "server/rules/fold.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Which rule serves a run: by its devices' solver and what they upload.
struct Rule {
  SolverId solver;
  StreamKind stream;
  std::unique_ptr<Aggregator> (*make)(const AggregatorContext& context);
};

constexpr std::array<Rule, 5> kRules = {{
    {SolverId::kProjection, StreamKind::kScalarStream, make_aggregator_projection},
    {SolverId::kProjection, StreamKind::kTangentBlock, make_aggregator_mean_gradient},
    {SolverId::kGradientStream, StreamKind::kTangentBlock, make_aggregator_gradient_stream},
    {SolverId::kTangentMean, StreamKind::kTangentBlock, make_aggregator_gradient_stream},
    {SolverId::kSvrg, StreamKind::kTangentBlock, make_aggregator_svrg},
}};

const Rule& rule_of(const RunParameters& parameters) {
  const StreamKind stream = parameters.stream();
  static constexpr Rule kMemory = {SolverId::kProjection, StreamKind::kNone, make_aggregator_memory};
  static constexpr Rule kDelayed = {SolverId::kNone, StreamKind::kTangentBlock, make_aggregator_delayed};
  if (parameters.delay->delay_rule != DelayRule::kNone) {
    return kDelayed;
  }
  if (parameters.has_memory()) {
    return kMemory;
  }
  for (const Rule& rule : kRules) {
    if (rule.solver == parameters.local->solver && rule.stream == stream) {
      return rule;
    }
  }
  assert_failed(__FILE__, __LINE__);
}

}  // namespace

void ModelRing::push(uint32_t version, std::span<const Real> model, std::span<const FixedWord> mean) {
  if (capacity_ == 0) {
    return;
  }
  if (entries_.size() == capacity_) {
    entries_.pop_front();
  }
  entries_.push_back({version, {model.begin(), model.end()}, {mean.begin(), mean.end()}});
}

const Real* ModelRing::find(uint32_t version) const {
  for (const Entry& entry : entries_) {
    if (entry.version == version) {
      return entry.model.data();
    }
  }
  return nullptr;
}

Real open_step_size(const AggregatorContext& context) {
  return context.open != nullptr ? context.open->step_size
                                 : context.parameters->step_size_at(context.replica->version());
}

VersionRecord first_record(const RunParameters& parameters, uint32_t weight_total, const Real* point) {
  VersionRecord record;
  record.model = model_bytes(parameters.model->shape, point);
  record.digest = digest_values(kDigestStart, parameters.model->shape.size(), point);
  if (parameters.delay->delay_switch_by != DelaySwitchBy::kVersion) {
    record.delay_switch = DelaySwitch();
  }
  if (parameters.has_mean()) {
    const std::vector<FixedWord> zero(parameters.model->shape.size());
    record.mean = mean_bytes(parameters.model->shape, zero.data());
    record.digest = digest_words(record.digest, zero.size(), zero.data());
    // Whose samples count nobody knows before the first updates.
    record.weight_total = parameters.memory_weighs_samples() ? 0 : weight_total;
  }
  return record;
}

const FixedWord* ModelRing::find_mean(uint32_t version) const {
  for (const Entry& entry : entries_) {
    if (entry.version == version && !entry.mean.empty()) {
      return entry.mean.data();
    }
  }
  return nullptr;
}

std::unique_ptr<Aggregator> make_aggregator(const AggregatorContext& context) {
  const Rule& rule = rule_of(*context.parameters);
  std::unique_ptr<Aggregator> inner = rule.make(context);
  return context.parameters->fold->weight_share_max < 1
             ? make_aggregator_capped(*context.parameters->fold, std::move(inner))
             : std::move(inner);
}

bool WeightSum::is_full() const { return update_count_ == kFoldUpdateCountMax; }

void WeightSum::add(uint16_t weight, uint32_t steps_done) {
  total_ += weight;
  weighted_steps_ += static_cast<uint64_t>(weight) * steps_done;
  ++update_count_;
}

Real WeightSum::effective_steps() const {
  return static_cast<Real>(static_cast<double>(weighted_steps_) / static_cast<double>(total_));
}

Status check_quotients(const RunParameters& parameters, std::span<const Real> values, Real divisor) {
  for (const Real value : values) {
    GS_TRY(check_fold_value(value / divisor, parameters.fold->fold_scale_log2));
  }
  return Status::kOk;
}

}  // namespace gradstream

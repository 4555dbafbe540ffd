#include "runtime/base/no_contraction.h"

#include "server/rules/aggregator.h"

#include <array>
#include <string>

#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "server/run/step_keys.h"

namespace gradstream {
namespace {

// Which rule serves a run: by its devices' solver and what they upload.
struct Rule {
  SolverId solver;
  StreamKind stream;
  MakeAggregator make;
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

void ModelRing::exchange(StateArchive& io, size_t size) {
  io.list(entries_, [&io, size](Entry& entry) {
    io.values(entry.version);
    io.numbers(entry.model);
    io.numbers(entry.mean);
    if (entry.model.size() != size || (!entry.mean.empty() && entry.mean.size() != size)) {
      io.fail();
    }
  });
  if (entries_.size() > capacity_) {
    io.fail();
  }
}

Real open_step_size(const AggregatorContext& context) {
  return context.open != nullptr ? context.open->step_size
                                 : context.parameters->step_size_at(context.replica->version());
}

Real open_server_step(const AggregatorContext& context) {
  return server_step_at(*context.parameters,
                        context.open != nullptr ? context.open->round : context.replica->version());
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

namespace {

std::unique_ptr<Aggregator> make_unclipped(const AggregatorContext& context) {
  const Rule& rule = rule_of(*context.parameters);
  if (context.aggregator_count != 1) {
    GS_ASSERT(!check_aggregator_count(*context.parameters, context.aggregator_count));
    return make_aggregator_split(context, rule.make);
  }
  std::unique_ptr<Aggregator> inner = rule.make(context);
  return context.parameters->fold->weight_share_max < 1
             ? make_aggregator_capped(*context.parameters->fold, std::move(inner))
             : std::move(inner);
}

}  // namespace

std::unique_ptr<Aggregator> make_aggregator(const AggregatorContext& context) {
  if (context.parameters->fold.keys().own_rule != nullptr) {
    return make_aggregator_own(context);
  }
  std::unique_ptr<Aggregator> inner = make_unclipped(context);
  return context.parameters->fold.keys().clip_norm == ClipNorm::kNone
             ? std::move(inner)
             : make_aggregator_clipped(context, std::move(inner));
}

Objection check_aggregator_count(const RunParameters& parameters, uint32_t count) {
  const std::string what = std::to_string(count) + " aggregators: ";
  if (count == 0 || count > kAggregatorCountMax) {
    return what + "a version's updates go to 1 to " + std::to_string(kAggregatorCountMax) +
           " sums; give a number in that range";
  }
  if (count == 1) {
    return {};
  }
  if (parameters.fold.keys().own_rule != nullptr) {
    return what + "a rule of the simulation's caller keeps all updates of a version; take 1 aggregator";
  }
  if (parameters.delay->delay_rule != DelayRule::kNone) {
    return what +
           "with a delay_rule the step depends on the order of the updates, so that nothing can be added up "
           "apart; take 1 aggregator, or set delay_rule to none";
  }
  if (parameters.has_memory()) {
    return what +
           "with correction_form memory or unbiased the server keeps the last update of every device, and no "
           "sum stands for them; take 1 aggregator, or set correction_form to local";
  }
  if (parameters.fold->weight_share_max < 1) {
    return what +
           "with weight_share_max below 1 the weights depend on all updates of the version, which are kept until "
           "it closes; take 1 aggregator, or set weight_share_max to 1";
  }
  if (parameters.fold.keys().clip_norm == ClipNorm::kMedian) {
    return what +
           "with clip_norm median the radius depends on all updates of the version, which are kept until it closes; "
           "take 1 aggregator, or set clip_norm to trailing";
  }
  return {};
}

Status check_quotients(const RunParameters& parameters, std::span<const Real> values, Real divisor) {
  for (const Real value : values) {
    GS_TRY(check_fold_value(value / divisor, parameters.fold->fold_scale_log2));
  }
  return Status::kOk;
}

}  // namespace gradstream

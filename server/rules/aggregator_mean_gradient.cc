// A10 and the dense form of A9 (docs/algorithms.md): Gbar_i is the mean of a device's k_i estimates, an ambient tensor,
//   d = sum_i W_i Gbar_i / sum_i W_i;  X <- P_M(X - eta_g eta_k K_eff d),  K_eff = sum W k / sum W
// A late Gbar_i needs no transport: P_M takes its normal part off. Where devices correct themselves (`local`), d goes
// down beside X.
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "server/rules/aggregator.h"
#include "server/rules/fold.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {
namespace {

class AggregatorMeanGradient : public Aggregator {
 public:
  explicit AggregatorMeanGradient(const AggregatorContext& context)
      : context_(context),
        slots_(context.parameters->model->shape.size()),
        terms_(slots_.size()),
        fold_(slots_, context.parameters->fold->fold_scale_log2) {}

  Status finish(VersionRecord* record) const override {
    *record = stand_still();
    record->step_scale = open_server_step(context_) * open_step_size(context_) * weights_.effective_steps();
    std::vector<Real> v(parameters().model->shape.size());
    GS_TRY(fold_.finish(weights_.total(), v.data()));
    if (chooses_step(parameters())) {
      record->mean_direction = v;
    }
    record->promise.value = static_cast<double>(record->step_scale) * square_sum(v);
    GS_TRY(context_.replica->gradient_step(v.data(), record->step_scale, v.data(), *context_.arena));
    record->model = model_bytes(parameters().model->shape, v.data());
    return Status::kOk;
  }

  VersionRecord stand_still() const override {
    VersionRecord record;
    record.version = context_.replica->version() + 1;
    record.model = model_bytes(parameters().model->shape, context_.replica->model());
    if (parameters().has_mean()) {
      record.mean = mean_bytes(parameters().model->shape, mean_words().data());
    }
    return record;
  }

  UpdateClip prepared_clip() const override { return prepared_clip_; }
  bool is_mergeable() const override { return true; }
  PartialSum partial() const override { return one_partial(opened(), fold_, weights_); }

 private:
  PartialSum opened() const { return open_partial(context_, PartialRule::kMeanGradient, 0, 0); }
  void open_version() override {
    fold_.clear();
    weights_.clear();
  }

  Status work_out(const FoldInput& input, FoldSource) override {
    if (input.weight == 0 || input.steps_done == 0 || input.values.size() != parameters().model->shape.size()) {
      return Status::kInvalidArgument;
    }
    if (weights_.is_full()) {
      return Status::kOutOfRange;
    }
    const uint32_t scale_log2 = parameters().fold->fold_scale_log2;
    GS_TRY(measure_clip(input.values, 1, input.steps_done, scale_log2, input.clip_radius, &prepared_clip_));
    GS_TRY(make_terms(input.values, 1, input.weight, scale_log2, terms_.data(), prepared_clip_.scale));
    prepared_weight_ = input.weight;
    prepared_steps_ = input.steps_done;
    return fold_.check_terms(terms_);
  }

  void take_in() override {
    fold_.add_terms(terms_);
    weights_.add(prepared_weight_, prepared_steps_);
  }

  Status merge_in(const PartialSum& sum) override { return merge_one(opened(), sum, &fold_, &weights_); }

  // d as it goes down: whole units of the fold's fixed point. In double the words are longer than those of to_fixed();
  // what is beyond them goes as 0.
  std::vector<FixedWord> mean_words() const {
    std::vector<Real> d(slots_.size());
    std::vector<FixedWord> words(slots_.size());
    if (fold_.finish(weights_.total(), d.data()) != Status::kOk) {
      return words;
    }
    const Real unit = std::ldexp(Real{1}, static_cast<int>(parameters().fold->fold_scale_log2));
    const Real least_outside = std::ldexp(Real{1}, std::numeric_limits<FixedWord>::digits);
    for (size_t e = 0; e < d.size(); ++e) {
      const Real scaled = std::round(d[e] * unit);
      words[e] = std::fabs(scaled) < least_outside ? static_cast<FixedWord>(scaled) : 0;
    }
    return words;
  }

  const RunParameters& parameters() const { return *context_.parameters; }

  AggregatorContext context_;
  std::vector<FoldSlot> slots_;
  std::vector<FoldTerm> terms_;  // of the update that was prepared
  Fold fold_;
  WeightSum weights_;
  UpdateClip prepared_clip_;
  uint16_t prepared_weight_ = 0;
  uint32_t prepared_steps_ = 0;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_mean_gradient(const AggregatorContext& context) {
  return std::make_unique<AggregatorMeanGradient>(context);
}

}  // namespace gradstream

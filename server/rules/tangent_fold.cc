#include "runtime/base/no_contraction.h"

#include "server/rules/tangent_fold.h"

#include "runtime/base/products.h"
#include "server/run/participation.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/weights.h"

namespace gradstream {

TangentFold::TangentFold(const AggregatorContext& context)
    : context_(context),
      slots_(context.parameters->model->shape.size()),
      fold_(slots_, context.parameters->fold->fold_scale_log2),
      terms_(slots_.size()) {}

void TangentFold::begin(const VersionRecord& opened) {
  forget_sums();
  population_ = opened.cohort.population;
}

void TangentFold::forget_sums() {
  fold_.clear();
  weights_.clear();
}

// Of the terms of T(zeta) / (k_i q_i).
Status TangentFold::prepare(const FoldInput& input) {
  const RunParameters& parameters = *context_.parameters;
  const Shape shape = parameters.model->shape;
  if (input.weight == 0 || input.steps_done == 0 || input.values.size() != shape.size()) {
    return Status::kInvalidArgument;
  }
  if (weights_.is_full()) {
    return Status::kOutOfRange;
  }
  const Replica& replica = *context_.replica;
  std::span<const Real> zeta = input.values;
  if (input.base_version != replica.version()) {
    const Real* base = context_.models->find(input.base_version);
    if (base == nullptr) {
      return Status::kSingular;
    }
    transported_.assign(zeta.begin(), zeta.end());
    GS_TRY(replica.manifold().transport(shape, base, replica.model(), transported_.data(), transported_.data(),
                                        *context_.arena));
    zeta = transported_;
  }
  const auto steps = static_cast<Real>(input.steps_done);
  const uint32_t scale_log2 = parameters.fold->fold_scale_log2;
  GS_TRY(measure_clip(zeta, steps, input.steps_done, scale_log2, input.clip_radius, &prepared_clip_));
  GS_TRY(make_terms(zeta, steps / input.inverse_participation, input.weight, scale_log2, terms_.data(),
                    prepared_clip_.scale));
  prepared_weight_ = input.weight;
  prepared_steps_ = input.steps_done;
  return fold_.check_terms(terms_);
}

void TangentFold::commit() {
  fold_.add_terms(terms_);
  weights_.add(prepared_weight_, prepared_steps_);
}

Status TangentFold::finish(std::vector<Real>* mean) const {
  mean->resize(slots_.size());
  return fold_.finish(divisor(), mean->data());
}

// A phase that everyone is asked in has no population.
bool TangentFold::divides_by_population() const { return is_unbiased(*context_.parameters->cohort) && population_ > 0; }

uint64_t TangentFold::divisor() const {
  return divides_by_population() ? uint64_t{population_} * kStalenessOne : weights_.total();
}

VersionRecord stand_still_record(const AggregatorContext& context) {
  VersionRecord record;
  record.version = context.replica->version() + 1;
  record.model = model_bytes(context.parameters->model->shape, context.replica->model());
  return record;
}

Status finish_tangent_step(const AggregatorContext& context, const TangentFold& fold, Real local_step,
                           VersionRecord* record) {
  record->step_scale = open_server_step(context) * fold.effective_steps();
  std::vector<Real> v;
  GS_TRY(fold.finish(&v));
  if (chooses_step(*context.parameters)) {
    record->mean_direction = v;  // -eta d
    scale(v.size(), -1 / local_step, record->mean_direction.data());
  }
  // The mean is -eta d, and the step eta_g eta K_eff.
  record->promise.value = static_cast<double>(record->step_scale) * square_sum(v) / static_cast<double>(local_step);
  GS_TRY(context.replica->tangent_step(v.data(), record->step_scale, v.data(), *context.arena));
  record->model = model_bytes(context.parameters->model->shape, v.data());
  return Status::kOk;
}

}  // namespace gradstream

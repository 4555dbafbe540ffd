// A rule of a simulation's caller (server/rules/aggregator_own.h) over the tangents of A1 to A3,
//   X <- R_X(eta_g K_eff v),      v what the rule makes of T_{X_b -> X}(zeta_i) / k_i
// K_eff as server/rules/tangent_fold.h has it.
#include "runtime/base/no_contraction.h"

#include "server/rules/aggregator_own.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/base/products.h"
#include "server/rules/aggregator.h"
#include "server/rules/tangent_fold.h"
#include "server/rules/weight_sum.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

class AggregatorOwn : public Aggregator {
 public:
  explicit AggregatorOwn(const AggregatorContext& context)
      : context_(context), rule_(*context.parameters->fold.keys().own_rule) {}

  Status finish(VersionRecord* record) const override {
    *record = stand_still();
    record->step_scale = open_server_step(context_) * weights_.effective_steps();
    const Shape shape = context_.parameters->model->shape;
    std::vector<OwnUpdate> updates = updates_;
    std::sort(updates.begin(), updates.end(), [](const OwnUpdate& a, const OwnUpdate& b) {
      return std::tie(a.device, a.base_version) < std::tie(b.device, b.base_version);
    });
    std::vector<Real> v(shape.size());
    if (!rule_.combine(context_.replica->version(), context_.replica->model(), updates, v.data()) ||
        !all_finite(v.size(), v.data())) {
      return Status::kNotFinite;
    }
    GS_TRY(context_.replica->tangent_step(v.data(), record->step_scale, v.data(), *context_.arena));
    record->model = model_bytes(shape, v.data());
    return Status::kOk;
  }
  VersionRecord stand_still() const override { return stand_still_record(context_); }

 private:
  void open_version() override {
    updates_.clear();
    weights_.clear();
  }

  Status work_out(const FoldInput& input, FoldSource) override {
    const Shape shape = context_.parameters->model->shape;
    if (input.weight == 0 || input.steps_done == 0 || input.values.size() != shape.size()) {
      return Status::kInvalidArgument;
    }
    if (weights_.is_full()) {
      return Status::kOutOfRange;
    }
    prepared_ = {input.device, input.base_version, input.steps_done, input.weight, {}};
    prepared_.values.assign(input.values.begin(), input.values.end());
    Real* const values = prepared_.values.data();
    const Replica& replica = *context_.replica;
    if (input.base_version != replica.version()) {
      const Real* base = context_.models->find(input.base_version);
      if (base == nullptr) {
        return Status::kSingular;
      }
      GS_TRY(replica.manifold().transport(shape, base, replica.model(), values, values, *context_.arena));
    }
    for (Real& value : prepared_.values) {
      value /= static_cast<Real>(input.steps_done);
    }
    return all_finite(shape.size(), values) ? Status::kOk : Status::kNotFinite;
  }

  void take_in() override {
    weights_.add(prepared_.weight, prepared_.steps_done);
    updates_.push_back(std::move(prepared_));
  }

  AggregatorContext context_;
  const OwnRule& rule_;
  std::vector<OwnUpdate> updates_;
  WeightSum weights_;
  OwnUpdate prepared_;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_own(const AggregatorContext& context) {
  return std::make_unique<AggregatorOwn>(context);
}

}  // namespace gradstream

// A1, RFedAGS (docs/algorithms.md): zeta_i is the stream of a device, a tangent at its base model X_b,
//   mean = sum_i W_i T_{X_b -> X}(zeta_i) / k_i / sum_i W_i;  X <- R_X(eta_g K_eff mean),  K_eff = sum W k / sum W
// The devices' steps are inside zeta. A late tangent is transported to the open version's model before it is folded.
#include "server/aggregator.h"
#include "server/fold.h"

namespace gradstream {
namespace {

class AggregatorGradientStream : public Aggregator {
 public:
  explicit AggregatorGradientStream(const AggregatorContext& context)
      : context_(context),
        slots_(context.parameters->shape.size()),
        fold_(slots_, context.parameters->fold_scale_log2) {}

  void begin() override {
    fold_.clear();
    weights_.clear();
  }

  Status check(const FoldInput& input) const override {
    std::vector<Real> shares;
    return shares_of(input, &shares);
  }

  Status add(const FoldInput& input) override {
    std::vector<Real> shares;
    GS_TRY(shares_of(input, &shares));
    GS_TRY(fold_.add(shares.data(), shares.size(), input.weight, 0));
    weights_.add(input.weight, input.steps_done);
    return Status::kOk;
  }

  Status finish(VersionRecord* record) const override {
    const Replica& replica = *context_.replica;
    const Shape shape = parameters().shape;
    *record = stand_still();
    record->step_scale = parameters().server_step * weights_.effective_steps();
    std::vector<Real> v(shape.size());
    GS_TRY(fold_.finish(weights_.total(), v.data()));
    GS_TRY(replica.tangent_step(v.data(), record->step_scale, v.data(), *context_.arena));
    record->model = model_bytes(shape, v.data());
    return Status::kOk;
  }

  VersionRecord stand_still() const override {
    VersionRecord record;
    record.version = context_.replica->version() + 1;
    record.model = model_bytes(parameters().shape, context_.replica->model());
    return record;
  }

 private:
  const RunParameters& parameters() const { return *context_.parameters; }

  // T(zeta) / k_i, each within the fold's range.
  Status shares_of(const FoldInput& input, std::vector<Real>* shares) const {
    const Shape shape = parameters().shape;
    if (input.weight == 0 || input.steps_done == 0 || input.values.size() != shape.size()) {
      return Status::kInvalidArgument;
    }
    if (weights_.is_full()) {
      return Status::kOutOfRange;
    }
    const Replica& replica = *context_.replica;
    std::vector<Real> zeta(input.values.begin(), input.values.end());
    if (input.base_version != replica.version()) {
      const Real* base = context_.models->find(input.base_version);
      if (base == nullptr) {
        return Status::kSingular;
      }
      GS_TRY(replica.manifold().transport(shape, base, replica.model(), zeta.data(), zeta.data(), *context_.arena));
    }
    return divide_checked(parameters(), zeta, static_cast<Real>(input.steps_done), shares);
  }

  AggregatorContext context_;
  std::vector<FoldSlot> slots_;
  Fold fold_;
  WeightSum weights_;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_gradient_stream(const AggregatorContext& context) {
  return std::make_unique<AggregatorGradientStream>(context);
}

}  // namespace gradstream

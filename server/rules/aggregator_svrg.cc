// A4 to A6, the variance-reduced algorithms (002; docs/algorithms.md). A round has two phases, each a version:
//
//   anchors  every device uploads -grad f_i(X), one step of RFedAGS with step 1. The phase closes without a step
//            (step_scale 0). Its record carries g = mean grad f_i(X) to the devices. With a Barzilai-Borwein form it
//            also carries X of the round before, the curvature b and the local step.
//   steps    the round's cohort uploads zeta_i = L_X(x_i) of its local work; X <- R_X(eta_g K_eff mean zeta_i / k_i)
//
// Kept from round to round: the models and mean gradients of this round and the one before. All of it comes from the
// records of the anchor phases, so that recovery has it again.
#include "runtime/base/no_contraction.h"

#include <algorithm>

#include "runtime/base/products.h"
#include "runtime/training/secant.h"
#include "server/rules/aggregator.h"
#include "server/rules/tangent_fold.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {
namespace {

class AggregatorSvrg : public Aggregator {
 public:
  explicit AggregatorSvrg(const AggregatorContext& context) : context_(context), fold_(context) {}

  Status finish(VersionRecord* record) const override {
    *record = stand_still();
    return is_anchor_phase_ ? finish_anchors(record) : finish_tangent_step(context_, fold_, opened_step_, record);
  }
  // After a phase that made nothing the anchors are asked for anew.
  VersionRecord stand_still() const override { return stand_still_record(context_); }
  void exchange(StateArchive& io) override {
    fold_.exchange(io);
    io.values(is_anchor_phase_, opened_step_, round_);
    io.numbers(last_model_);
    io.numbers(last_gradient_);
    const size_t size = context_.parameters->model->shape.size();
    if ((!last_model_.empty() && last_model_.size() != size) || last_gradient_.size() != last_model_.size()) {
      io.fail();
    }
  }
  bool is_mergeable() const override { return true; }
  PartialSum partial() const override { return fold_.partial(PartialRule::kSvrg, phase()); }

 private:
  uint8_t phase() const { return is_anchor_phase_ ? 0 : 1; }
  void open_version() override { fold_.begin({}); }
  Status follow_record(const VersionRecord& opened) override {
    fold_.begin(opened);
    is_anchor_phase_ = !opened.has_anchor();
    opened_step_ = opened.local_step;
    if (is_anchor_phase_) {
      round_ += opened.version == 0 || opened.stage.keeps_model ? 0 : 1;
      return Status::kOk;
    }
    const Shape shape = context_.parameters->model->shape;
    last_model_.assign(context_.replica->model(), context_.replica->model() + shape.size());
    last_gradient_.resize(shape.size());
    return read_model(shape, opened.mean_gradient, last_gradient_.data());
  }
  Status work_out(const FoldInput& input, FoldSource) override { return fold_.prepare(input); }
  void take_in() override { fold_.commit(); }
  Status merge_in(const PartialSum& sum) override { return fold_.merge(PartialRule::kSvrg, phase(), sum); }
  void forget_sums() override { fold_.forget_sums(); }

  Status finish_anchors(VersionRecord* record) const {
    const RunParameters& parameters = *context_.parameters;
    const Replica& replica = *context_.replica;
    std::vector<Real> g;
    GS_TRY(fold_.finish(&g));
    scale(g.size(), -1, g.data());
    GS_TRY(replica.manifold().project_tangent(parameters.model->shape, replica.model(), g.data(), g.data(),
                                              *context_.arena));
    if (!all_finite(g.size(), g.data())) {
      return Status::kNotFinite;
    }
    record->mean_gradient = model_bytes(parameters.model->shape, g.data());
    if (chooses_step(parameters)) {
      record->mean_direction = g;
    }
    Secant secant;
    if (parameters.local->barzilai_borwein != BarzilaiBorwein::kNone && !last_model_.empty()) {
      record->previous_model = model_bytes(parameters.model->shape, last_model_.data());
      // If the models are too far apart the secant stays as it is: no curvature, the largest step.
      static_cast<void>(find_secant(replica.manifold(), parameters.model->shape, last_model_.data(), replica.model(),
                                    last_gradient_.data(), g.data(), &secant, *context_.arena));
    }
    record->curvature = curvature_of(parameters.local->barzilai_borwein, secant);
    if (record->curvature == 0) {
      record->previous_model.clear();  // of no use to anybody
    }
    record->local_step = local_step(secant);
    return Status::kOk;
  }

  // eta of A4 and A5, eta_t / tau of A6. 002 does not give eta_0: it is step_size.
  Real local_step(const Secant& secant) const {
    const RunParameters& parameters = *context_.parameters;
    if (parameters.steps->step_rule != StepRule::kBarzilaiBorwein) {
      return parameters.step_size_at(round_);
    }
    const Real step = last_model_.empty()
                          ? parameters.steps->step_size
                          : barzilai_borwein_step(parameters.local->barzilai_borwein, secant,
                                                  parameters.steps->step_min, parameters.steps->step_max);
    return step / static_cast<Real>(parameters.local->local_step_count);
  }

  AggregatorContext context_;
  TangentFold fold_;
  bool is_anchor_phase_ = true;
  Real opened_step_ = 0;          // eta of the open version's local steps
  uint32_t round_ = 0;            // as RunLedger::round()
  std::vector<Real> last_model_;  // of the last round whose anchors came together; empty: none yet
  std::vector<Real> last_gradient_;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_svrg(const AggregatorContext& context) {
  return std::make_unique<AggregatorSvrg>(context);
}

}  // namespace gradstream

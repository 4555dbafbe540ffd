// A1, RFedAGS, and the tangent means A2 and A3 (docs/algorithms.md): zeta_i is the stream of a device, a tangent at its
// base model,
//   X <- R_X(eta_g K_eff mean),      mean and K_eff as server/rules/tangent_fold.h
// The devices' steps are inside zeta.
#include "runtime/base/no_contraction.h"

#include "server/rules/aggregator.h"
#include "server/rules/tangent_fold.h"

namespace gradstream {
namespace {

class AggregatorGradientStream : public Aggregator {
 public:
  explicit AggregatorGradientStream(const AggregatorContext& context) : context_(context), fold_(context) {}

  Status finish(VersionRecord* record) const override {
    *record = stand_still();
    return finish_tangent_step(context_, fold_, open_step_size(context_), record);
  }
  VersionRecord stand_still() const override { return stand_still_record(context_); }
  void exchange(StateArchive& io) override { fold_.exchange(io); }
  UpdateClip prepared_clip() const override { return fold_.prepared_clip(); }
  bool is_mergeable() const override { return true; }
  PartialSum partial() const override { return fold_.partial(PartialRule::kGradientStream, 0); }

 private:
  void open_version() override { fold_.begin({}); }
  Status follow_record(const VersionRecord& record) override {
    fold_.begin(record);
    return Status::kOk;
  }
  Status work_out(const FoldInput& input, FoldSource) override { return fold_.prepare(input); }
  void take_in() override { fold_.commit(); }
  Status merge_in(const PartialSum& sum) override { return fold_.merge(PartialRule::kGradientStream, 0, sum); }
  void forget_sums() override { fold_.forget_sums(); }

  AggregatorContext context_;
  TangentFold fold_;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_gradient_stream(const AggregatorContext& context) {
  return std::make_unique<AggregatorGradientStream>(context);
}

}  // namespace gradstream

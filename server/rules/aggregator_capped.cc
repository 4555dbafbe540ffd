// A rule whose devices weigh at most a share of each version. It keeps a version's updates as they came, because the
// cap depends on all of them. When the version closes it gives them to the run's own rule with capped weights.
//
//   add -> kept updates          finish: weights -> cap_weights() -> the inner rule -> its record
//
// Memory: the updates of one version, at most kKeptUpdateCountMax. Inner rules are those without a state beyond a
// version.
#include "runtime/base/no_contraction.h"

#include <utility>

#include "server/rules/aggregator.h"
#include "server/run/limits.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

class AggregatorCapped : public Aggregator {
 public:
  AggregatorCapped(const FoldCore& keys, std::unique_ptr<Aggregator> inner) : keys_(keys), inner_(std::move(inner)) {
    inner_->begin();
  }

  Status finish(VersionRecord* record) const override {
    std::vector<uint16_t> weights;
    for (const Kept& kept : kept_) {
      weights.push_back(kept.input.weight);
    }
    cap_weights(keys_, weights);
    const Status status = fold_kept(weights, record);
    inner_->begin();
    return status;
  }
  VersionRecord stand_still() const override { return inner_->stand_still(); }
  void exchange(StateArchive& io) override { inner_->exchange(io); }
  UpdateClip prepared_clip() const override { return inner_->prepared_clip(); }

 private:
  struct Kept {
    FoldInput input;
    std::vector<Real> values;
  };

  void open_version() override {
    kept_.clear();
    inner_->begin();
  }
  Status follow_record(const VersionRecord& record) override {
    kept_.clear();
    return inner_->follow(record);
  }
  Status work_out(const FoldInput& input, FoldSource source) override {
    if (kept_.size() >= kKeptUpdateCountMax) {
      return Status::kOutOfRange;
    }
    GS_TRY(inner_->prepare(input, source));
    prepared_ = {input, {input.values.begin(), input.values.end()}};
    return Status::kOk;
  }
  void take_in() override {
    Kept& kept = kept_.emplace_back(std::move(prepared_));
    kept.input.values = kept.values;
  }

  Status fold_kept(std::span<const uint16_t> weights, VersionRecord* record) const {
    for (size_t i = 0; i < kept_.size(); ++i) {
      FoldInput input = kept_[i].input;
      input.weight = weights[i];
      GS_TRY(inner_->add(input));
    }
    return inner_->finish(record);
  }

  const FoldCore& keys_;
  std::unique_ptr<Aggregator> inner_;  // between calls nothing is added to it
  std::deque<Kept> kept_;              // whose values stay where they are
  Kept prepared_;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_capped(const FoldCore& keys, std::unique_ptr<Aggregator> inner) {
  return std::make_unique<AggregatorCapped>(keys, std::move(inner));
}

}  // namespace gradstream

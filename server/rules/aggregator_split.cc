// A rule whose updates go to several sums, as if several servers had taken them, and which merges these when the
// version closes.
//
//   update -> sum[device mod N]          finish: each partial() -> bytes -> merge() into a new instance -> its record
//
// The sums go through their bytes, so that each close tries what servers would send each other. The record is that of
// one sum, bit for bit, in the build with whole numbers.
#include "runtime/base/no_contraction.h"

#include <utility>
#include <vector>

#include "server/rules/aggregator.h"
#include "server/run/limits.h"

namespace gradstream {
namespace {

class AggregatorSplit : public Aggregator {
 public:
  AggregatorSplit(const AggregatorContext& context, MakeAggregator make) : context_(context), make_(make) {
    context_.aggregator_count = 1;
    for (uint32_t i = 0; i < context.aggregator_count; ++i) {
      parts_.push_back(make_(context_));
      GS_ASSERT(parts_.back()->is_mergeable());  // check_aggregator_count() has seen to it
    }
  }

  Status finish(VersionRecord* record) const override {
    const std::unique_ptr<Aggregator> root = make_root();
    for (const auto& part : parts_) {
      GS_TRY(merge_bytes(encode_partial(part->partial()), root.get()));
    }
    return root->finish(record);
  }
  VersionRecord stand_still() const override { return merged()->stand_still(); }

  UpdateClip prepared_clip() const override { return chosen_ == nullptr ? UpdateClip() : chosen_->prepared_clip(); }
  bool is_mergeable() const override { return true; }
  PartialSum partial() const override { return merged()->partial(); }

  // All parts know the same.
  void exchange(StateArchive& io) override {
    parts_.front()->exchange(io);
    if (io.is_reading() && io.is_sound()) {
      for (const auto& part : parts_) {
        copy_state(part.get());
      }
    }
  }

 private:
  void open_version() override {
    update_count_ = 0;
    for (const auto& part : parts_) {
      part->begin();
    }
  }
  void forget_sums() override {
    update_count_ = 0;
    for (const auto& part : parts_) {
      static_cast<void>(part->take_partial());
    }
  }
  Status follow_record(const VersionRecord& record) override {
    update_count_ = 0;
    for (const auto& part : parts_) {
      GS_TRY(part->follow(record));
    }
    return Status::kOk;
  }

  Status work_out(const FoldInput& input, FoldSource source) override {
    if (update_count_ >= kFoldUpdateCountMax) {
      return Status::kOutOfRange;
    }
    chosen_ = parts_[input.device % parts_.size()].get();
    return chosen_->prepare(input, source);
  }
  void take_in() override {
    chosen_->commit();
    ++update_count_;
  }
  Status merge_in(const PartialSum& sum) override {
    if (sum.weights.update_count() > kFoldUpdateCountMax - update_count_) {
      return Status::kOutOfRange;
    }
    GS_TRY(parts_.front()->merge(sum));
    update_count_ += sum.weights.update_count();
    return Status::kOk;
  }

  // Gives `other` what the first part knows beyond the open version.
  void copy_state(Aggregator* other) const {
    StateArchive out;
    parts_.front()->exchange(out);
    const std::vector<uint8_t> bytes = out.take_bytes();
    StateArchive in(bytes);
    other->exchange(in);
    GS_ASSERT(in.is_sound() && in.is_at_end());
  }

  // An instance at the open version to which nothing was added.
  std::unique_ptr<Aggregator> make_root() const {
    std::unique_ptr<Aggregator> root = make_(context_);
    root->begin();
    copy_state(root.get());
    return root;
  }
  static Status merge_bytes(const std::vector<uint8_t>& bytes, Aggregator* root) {
    PartialSum sum;
    GS_TRY(decode_partial(bytes, &sum));
    return root->merge(sum);
  }
  // With all that was added. What the parts have taken, one sum takes too.
  std::unique_ptr<Aggregator> merged() const {
    std::unique_ptr<Aggregator> root = make_root();
    for (const auto& part : parts_) {
      const Status status = root->merge(part->partial());
      GS_ASSERT(status == Status::kOk);
    }
    return root;
  }

  AggregatorContext context_;  // of each part
  MakeAggregator make_;
  std::vector<std::unique_ptr<Aggregator>> parts_;  // one at least
  uint32_t update_count_ = 0;                       // of all parts
  Aggregator* chosen_ = nullptr;                    // of the update that was prepared
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_split(const AggregatorContext& context, MakeAggregator make) {
  return std::make_unique<AggregatorSplit>(context, make);
}

}  // namespace gradstream

// A rule around another one, in which an update that is longer than a radius counts as long as the radius
// (docs/algorithms.md, "The clip"). N_i is the norm of update i, by server/rules/norm_clip.h:
//
//   fixed     R is a key's                                             an update is clipped when it comes
//   trailing  R = factor * median N of the last closed versions        an update is clipped when it comes
//   median    R = factor * median N of these and of the open version   updates are kept, and clipped at the close
//
// In the first version `trailing` has no norms, and clips nothing. All numbers are whole, and a median knows no order:
// the record is the same in any order of arrival, and where several instances have added up the updates apart.
//
// Who decides: the record that closes a version has the radius (VersionClip). Of `trailing` it is that of the version
// it opens, so that a replay clips by the journal's number and computes none.
//
// Memory: a norm of 8 bytes for each update of clip_window versions and the open one, and the values of the open
// version's updates, at most kClipKeptUpdateCountMax and about kClipKeptBytesMax. `median` folds these at the close.
// The others have folded them by then, and show where they point; of a version that is larger they keep none. Stages
// before training are passed through: their answers are no updates.
#include "runtime/base/no_contraction.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "server/rules/aggregator.h"
#include "server/rules/norm_clip.h"
#include "server/rules/update_cosine.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

class AggregatorClipped : public Aggregator {
 public:
  AggregatorClipped(const AggregatorContext& context, std::unique_ptr<Aggregator> inner)
      : context_(context), inner_(std::move(inner)) {
    inner_->begin();
  }

  Status finish(VersionRecord* record) const override {
    const bool folds_kept = folds_at_close() && !kept_.empty();
    const Status status = folds_kept ? fold_kept(record) : inner_->finish(record);
    note(record);
    return status;
  }
  VersionRecord stand_still() const override {
    VersionRecord record = inner_->stand_still();
    note(&record);
    return record;
  }

  void exchange(StateArchive& io) override {
    io.values(radius_);
    io.list(window_, [&io](std::vector<uint64_t>& norms) {
      io.numbers(norms);
      if (norms.empty()) {
        io.fail();
      }
    });
    if (window_.size() > keys().clip_window) {
      io.fail();
    }
    inner_->exchange(io);
  }
  std::optional<uint32_t> stamp(uint32_t device) const override { return inner_->stamp(device); }
  uint32_t remembered_clip(uint32_t device, uint32_t base_version) const override {
    return inner_->remembered_clip(device, base_version);
  }

  ClipTally clip_tally() const override {
    ClipTally tally;
    tally.norms = norms_;
    if (!norms_.empty()) {
      tally.median = median_of(keys().clip_window, true);
      tally.radius = open_radius();
    }
    return tally;
  }
  // Of updates in time; where directions are shared within groups, to their group's part of the step.
  void add_cosines(ClipTally* tally) const override {
    std::map<uint32_t, CosineSum> sums;  // by the owner of the directions
    const auto visit = [&](auto take) {
      for (size_t i = 0; i < kept_.size(); ++i) {
        if (!kept_[i].is_late) {
          const bool is_scalar = context_.parameters->stream() == StreamKind::kScalarStream;
          take(&sums[is_scalar ? kept_[i].input.owner : 0], kept_[i].input, &tally->norms[i]);
        }
      }
    };
    visit([&](CosineSum* sum, const FoldInput& input, const ClipTally::Norm* one) {
      const double scale = static_cast<double>(clip_scale(one->norm, tally->radius)) / kClipScaleOne;
      sum->add(input.values, static_cast<Real>(scale * weight_of(input)));
    });
    for (auto& [owner, sum] : sums) {
      sum.close();
    }
    visit([&](const CosineSum* sum, const FoldInput& input, ClipTally::Norm* one) {
      one->cosine = sum->cosine(input.values, length_of(input, one->norm));
    });
  }
  UpdateClip prepared_clip() const override { return prepared_clip_; }

  bool is_mergeable() const override { return !folds_at_close() && inner_->is_mergeable(); }
  PartialSum partial() const override {
    PartialSum sum = inner_->partial();
    sum.clip_radius = sum_radius();
    for (const ClipTally::Norm& one : norms_) {
      sum.norms.push_back(one.norm);
    }
    std::sort(sum.norms.begin(), sum.norms.end());
    return sum;
  }

 private:
  struct Kept {
    FoldInput input;
    std::vector<Real> values;
    bool is_late = false;  // of an older version than the open one
  };

  const FoldKeys& keys() const { return context_.parameters->fold.keys(); }
  bool folds_at_close() const { return keys().clip_norm == ClipNorm::kMedian; }
  // Values are kept: to be folded, or to be shown where the last version and this one fit. Reason: a version that turns
  // out to be too large has copied its updates in vain.
  bool keeps_values() const {
    return is_clipping() && (folds_at_close() || (is_shown_ && (window_.empty() || fits(window_.back().size()))));
  }
  bool fits(size_t count) const { return count <= clip_kept_count_max(*context_.parameters); }
  bool is_clipping() const { return context_.open == nullptr || context_.open->is_training; }

  void open_version() override {
    forget_updates();
    inner_->begin();
  }
  // The norms of a version that trained go into the window; a stage before training has left none.
  Status follow_record(const VersionRecord& record) override {
    if (!norms_.empty()) {
      std::vector<uint64_t>& closed = window_.emplace_back();
      for (const ClipTally::Norm& one : norms_) {
        closed.push_back(one.norm);
      }
      if (window_.size() > keys().clip_window) {
        window_.pop_front();
      }
    }
    const bool is_told = keys().clip_norm == ClipNorm::kTrailing && record.clip.has_value();
    radius_ = is_told ? record.clip->radius : radius_;
    forget_updates();
    return inner_->follow(record);
  }
  void forget_sums() override {
    forget_updates();
    forget_inner();
  }
  void forget_updates() {
    norms_.clear();
    kept_.clear();
    is_shown_ = true;
  }
  // The open version's updates have no cosines.
  void show_none() {
    is_shown_ = folds_at_close();
    if (!is_shown_) {
      kept_.clear();
    }
  }

  Status work_out(const FoldInput& input, FoldSource source) override {
    FoldInput measured = input;
    prepared_clip_ = UpdateClip();
    if (is_clipping()) {
      if (norms_.size() >= clip_update_count_max(*context_.parameters)) {
        return Status::kOutOfRange;
      }
      measured.clip_radius = folds_at_close() ? kNoClipRadius : open_radius();
    }
    GS_TRY(inner_->prepare(measured, source));
    prepared_clip_ = inner_->prepared_clip();
    prepared_ = input;
    if (keeps_values()) {
      prepared_values_.assign(input.values.begin(), input.values.end());
    }
    return Status::kOk;
  }
  void take_in() override {
    if (is_clipping()) {
      norms_.push_back({prepared_.device, prepared_clip_.norm});
    }
    if (!is_clipping() || !folds_at_close()) {
      inner_->commit();
    }
    if (!fits(norms_.size())) {
      show_none();
    }
    if (!keeps_values()) {
      return;
    }
    const bool is_late = prepared_.base_version != context_.replica->version();
    Kept& kept = kept_.emplace_back(Kept{prepared_, std::move(prepared_values_), is_late});
    kept.input.values = kept.values;
  }

  Status merge_in(const PartialSum& sum) override {
    if (folds_at_close()) {
      return Status::kUnimplemented;
    }
    if (sum.clip_radius != sum_radius()) {
      return Status::kProtocolError;
    }
    if (sum.norms.size() != (is_clipping() ? sum.weights.update_count() : 0) ||
        !std::is_sorted(sum.norms.begin(), sum.norms.end())) {
      return Status::kDataCorrupt;
    }
    if (sum.norms.size() > clip_update_count_max(*context_.parameters) - norms_.size()) {
      return Status::kOutOfRange;
    }
    PartialSum plain = sum;
    plain.clip_radius = kNoClipRadius;
    plain.norms.clear();
    GS_TRY(inner_->merge(plain));
    show_none();  // of the sum's updates nobody has the values
    for (const uint64_t norm : sum.norms) {
      norms_.push_back({ClipTally::kNobody, norm});
    }
    return Status::kOk;
  }

  // The lower median of the last `count` closed versions, and of the open one where it `has_open`. Zeros say nothing of
  // how long an update is: half a fleet that sends them would clip all others to nothing. 0: there is no other norm.
  uint64_t median_of(size_t count, bool has_open) const {
    std::vector<uint64_t> norms;
    for (size_t i = window_.size() - std::min(count, window_.size()); i < window_.size(); ++i) {
      norms.insert(norms.end(), window_[i].begin(), window_[i].end());
    }
    for (size_t i = 0; has_open && i < norms_.size(); ++i) {
      norms.push_back(norms_[i].norm);
    }
    std::erase(norms, 0);
    return norms.empty() ? 0 : lower_median(norms);
  }
  // By which the open version's updates count.
  uint64_t open_radius() const {
    switch (keys().clip_norm) {
      case ClipNorm::kFixed:
        return fixed_clip_radius(keys());
      case ClipNorm::kMedian:
        return clip_radius(median_of(keys().clip_window, true), clip_factor256(keys()));
      case ClipNorm::kTrailing:
      case ClipNorm::kNone:
        break;
    }
    return radius_;
  }

  // What the values are divided by in the fold.
  double divisor_of(const FoldInput& input) const {
    const bool is_mean = context_.parameters->local->solver == SolverId::kProjection &&
                         context_.parameters->stream() == StreamKind::kTangentBlock;
    return is_mean ? 1 : input.steps_done;
  }
  // What a unit of the update's values counts in the fold.
  double weight_of(const FoldInput& input) const {
    return static_cast<double>(input.weight) * static_cast<double>(input.inverse_participation) / divisor_of(input);
  }
  // Of the values, whose norm is known.
  double length_of(const FoldInput& input, uint64_t norm) const {
    return std::ldexp(static_cast<double>(norm), -static_cast<int>(keys().fold_scale_log2)) * divisor_of(input) /
           std::sqrt(static_cast<double>(input.steps_done));
  }

  uint64_t sum_radius() const { return is_clipping() ? open_radius() : kNoClipRadius; }

  void note(VersionRecord* record) const {
    if (!is_clipping() || norms_.empty()) {
      return;
    }
    const uint64_t radius = open_radius();
    const auto is_longer = [radius](const ClipTally::Norm& one) { return one.norm > radius; };
    VersionClip& clip = record->clip.emplace();
    clip.clipped_count = static_cast<uint32_t>(std::count_if(norms_.begin(), norms_.end(), is_longer));
    // The open version is the last of the closed ones for the next.
    clip.radius = keys().clip_norm == ClipNorm::kTrailing
                      ? clip_radius(median_of(keys().clip_window - 1, true), clip_factor256(keys()))
                      : radius;
  }

  Status fold_kept(VersionRecord* record) const {
    const uint64_t radius = open_radius();
    Status status = Status::kOk;
    for (const Kept& kept : kept_) {
      FoldInput input = kept.input;
      input.clip_radius = radius;
      status = status == Status::kOk ? inner_->add(input) : status;
    }
    status = status == Status::kOk ? inner_->finish(record) : status;
    forget_inner();
    return status;
  }
  // The inner rule's open version stays what it is.
  void forget_inner() const {
    if (inner_->is_mergeable()) {
      static_cast<void>(inner_->take_partial());
    } else {
      inner_->begin();
    }
  }

  AggregatorContext context_;
  std::unique_ptr<Aggregator> inner_;         // of `median`: between calls nothing is added to it
  std::deque<std::vector<uint64_t>> window_;  // norms of closed versions that trained, oldest first
  uint64_t radius_ = kNoClipRadius;           // of `trailing`, as the last record says
  std::vector<ClipTally::Norm> norms_;        // of the open version
  std::deque<Kept> kept_;                     // of norms_, the same order; values stay where they are
  bool is_shown_ = true;                      // the open version's updates are all kept, or will be
  FoldInput prepared_;
  std::vector<Real> prepared_values_;
  UpdateClip prepared_clip_;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_clipped(const AggregatorContext& context,
                                                    std::unique_ptr<Aggregator> inner) {
  return std::make_unique<AggregatorClipped>(context, std::move(inner));
}

}  // namespace gradstream

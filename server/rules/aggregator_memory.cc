// A9 and A10 with a memory (docs/algorithms.md, "Forms of the correction"). The server remembers the last accepted
// update of every device i, h_i = Gbar_i of it, and h = sum_i w_i h_i. A version with the accepted updates A does, with
// V_i = Gbar_i - h_i:
//   d = h + sum_A a_i om_i V_i;  X <- P_M(X - eta_g eta_k K_eff d);  h <- h + sum_A w_i V_i
// a_i is w_i (memory) or w_i/pi_i (unbiased). om_i is the staleness weight of a late update, K_eff the mean of the k_i
// by w_i. pi_i is |A|/n of the n devices among which the weights are shared. Where devices are drawn with
// probabilities, pi_i is the q_i of server/run/participation.h.
//
// w_i is 1/n of the enrolled devices, or N_i / N where samples weigh. N is then the sum over the devices that have had
// an update, because the samples of the others are not known. A version in which N changes shares h anew before its
// step: its record is dense, and replicas need not know any weight.
//
// All numbers are whole. A share (s / k_i, or an entry of a dense Gbar_i) becomes fixed point once. Its coefficient is
// the share times w_i, rounded; h is the sum of the coefficients times their signs. The number that is taken out of h
// is the very number that was put in, so that h has no drift and does not depend on any order. A device may have two
// updates in a version, a late one and then one on time: the second replaces the first.
#include "runtime/base/no_contraction.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "server/rules/aggregator.h"
#include "server/rules/fold.h"
#include "server/rules/kept_update.h"
#include "server/rules/memory_blocks.h"
#include "server/run/fold_keys.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

using Entry = MemoryEntry;
using Blocks = MemoryBlocks;
using BlockKey = MemoryBlockKey;

struct Added {
  uint32_t device = 0;
  uint32_t steps_done = 0;
  uint32_t staleness_weight = 0;  // of kStalenessOne
  double inverse_participation = 1;
  Entry entry;
  std::optional<Entry> replaced;
};

using Tensor = std::vector<int64_t>;
using Entries = std::map<uint32_t, Entry>;  // by device
// The last update of each device, by ascending device. It points into the entries: copies of them cost more than the
// rest of a version where a fleet is large and a version small.
using LastUpdates = std::vector<std::pair<uint32_t, const Entry*>>;

bool fits(const Tensor& sum) {
  return std::all_of(sum.begin(), sum.end(), [](int64_t value) {
    return value <= std::numeric_limits<FixedWord>::max() && value >= std::numeric_limits<FixedWord>::min();
  });
}

class AggregatorMemory : public Aggregator, public UpdateKeeper {
 public:
  explicit AggregatorMemory(const AggregatorContext& context) : context_(context), h_(size()), next_h_(size()) {
    weight_total_ = weighs_samples() ? 0 : parameters().trigger->device_count;
  }

  Status finish(VersionRecord* record) const override {
    GS_ASSERT(is_here_);
    const Real step_size = open_server_step(context_) * open_step_size(context_);
    return make_record(step_size * effective_steps(), record);
  }

  // The updates count in h all the same: their devices have been told so.
  VersionRecord stand_still() const override {
    GS_ASSERT(is_here_);
    VersionRecord record;
    const Status status = make_record(0, &record);
    GS_ASSERT(status == Status::kOk);  // the model is where it was
    return record;
  }

  std::optional<uint32_t> stamp(uint32_t device) const override {
    const auto entry = entries_.find(device);
    return entry == entries_.end() ? std::nullopt : std::optional(entry->second.stamp);
  }

  uint32_t remembered_clip(uint32_t device, uint32_t base_version) const override {
    const Entry* const last = last_of(device);
    return last != nullptr && last->stamp == base_version ? last->clip_scale : kClipScaleOne;
  }

  UpdateClip prepared_clip() const override { return prepared_clip_; }

  // Where the memory is stored outside, a state is without it.
  void exchange(StateArchive& io) override {
    io.values(weight_total_);
    if (is_shared_) {
      if (io.is_reading()) {
        share();
      }
      return;
    }
    io.map(entries_, [this, &io](Entry& entry) {
      io.values(entry.stamp, entry.owner, entry.samples);
      if (parameters().fold.keys().clip_norm != ClipNorm::kNone) {
        io.values(entry.clip_scale);
      }
      io.numbers(entry.shares);
      if (entry.shares.empty() || entry.shares.size() > (is_scalar() ? parameters().value_count() : size())) {
        io.fail();
      }
    });
    io.numbers(std::span<int64_t>(h_));
    if (io.is_reading()) {
      open_version();
    }
  }

  UpdateKeeper* keeper() override { return this; }

  void share() override {
    is_shared_ = true;
    is_here_ = false;
    entries_.clear();
    open_version();
  }

  bool has_memory() const override { return is_here_; }

  std::vector<KeptUpdate> take_updates() override {
    std::vector<KeptUpdate> updates;
    for (const Added& added : added_) {
      updates.push_back(kept_of(added.device, added.entry, added.steps_done, added.staleness_weight));
    }
    std::sort(updates.begin(), updates.end(), [](const KeptUpdate& a, const KeptUpdate& b) {
      return std::tie(a.device, a.base_version) < std::tie(b.device, b.base_version);
    });
    open_version();
    return updates;
  }

  Status remember(const KeptUpdate& update) override {
    GS_ASSERT(is_shared_ && !is_here_);
    const bool is_next = entries_.empty() || entries_.rbegin()->first < update.device;
    if (!is_of_run(update) || !is_next || update.base_version >= context_.replica->version()) {
      return Status::kDataCorrupt;
    }
    entries_.emplace_hint(entries_.end(), update.device, entry_of(update));
    return Status::kOk;
  }

  // All of h is computed from what is remembered: that proves the entries, as a record proves those of one server.
  Status end_memory() override {
    GS_ASSERT(is_shared_ && !is_here_);
    const bool is_known = weighs_samples() ? weight_total_ == samples_of(stored_updates()) : weight_total_ > 0;
    const FixedWord* mean = context_.replica->mean();
    h_ = is_known ? sum_of(stored_updates(), weight_total_) : Tensor(size());
    is_here_ = is_known && std::equal(h_.begin(), h_.end(), mean);
    open_version();
    return is_here_ ? Status::kOk : Status::kDataCorrupt;
  }

  void own() override {
    GS_ASSERT(is_here_);
    is_shared_ = false;
  }

  std::vector<KeptUpdate> memory() const override {
    std::vector<KeptUpdate> updates;
    for (const auto& [device, entry] : entries_) {
      const size_t steps = is_scalar() ? entry.shares.size() / parameters().local->direction_count : 1;
      updates.push_back(kept_of(device, entry, static_cast<uint32_t>(steps), kStalenessOne));
    }
    return updates;
  }

  bool fits_mean() const override {
    GS_ASSERT(is_here_);
    const LastUpdates updates = next_updates();
    VersionRecord weights;
    return fits(find_changes(updates, &weights) ? sum_of(kept(updates, weights), weights.weight_total) : next_mean());
  }

  bool fits_at_any_weight(const KeptUpdate& update) const override { return fits_alone(entry_of(update)); }

  Status add_update(const KeptUpdate& update) override {
    GS_ASSERT(is_here_);
    const uint32_t version = context_.replica->version();
    if (!is_of_run(update) || update.base_version > version ||
        is_too_stale(*parameters().trigger, version - update.base_version) || !fits_at_any_weight(update)) {
      return Status::kDataCorrupt;
    }
    if (added_.size() >= kKeptUpdateCountMax) {
      return Status::kOutOfRange;
    }
    const Entry* last = last_of(update.device);
    if (last != nullptr && update.base_version <= last->stamp) {
      return Status::kProtocolError;
    }
    prepared_ = Added();
    prepared_.device = update.device;
    prepared_.steps_done = update.steps_done;
    prepared_.staleness_weight = update.weight;
    prepared_.entry = entry_of(update);
    if (last != nullptr) {
      prepared_.replaced = *last;
    }
    if (!weighs_samples()) {
      prepared_h_ = next_h_;
      add_change(prepared_, &prepared_h_);
    }
    take_in();
    return Status::kOk;
  }

 private:
  void open_version() override {
    added_.clear();
    next_h_ = h_;
  }

  Status follow_record(const VersionRecord& record) override {
    const bool is_dense = !record.mean.empty();
    const uint32_t weight_total = is_dense ? record.weight_total : weight_total_;
    if (!is_here_) {
      weight_total_ = weight_total;
      share();
      return weighs_samples() || weight_total_ > 0 ? Status::kOk : Status::kDataCorrupt;
    }
    const bool is_rebased = weight_total != weight_total_ || !record.forgotten.empty();
    h_ = is_rebased ? h_ : next_mean();
    for (Added& added : added_) {
      entries_[added.device] = std::move(added.entry);
    }
    for (const uint32_t device : record.forgotten) {
      entries_.erase(device);
    }
    weight_total_ = weight_total;
    const bool is_good = weighs_samples() ? weight_total_ == samples_of(stored_updates()) : weight_total_ > 0;
    if (is_good && is_rebased) {
      h_ = sum_of(stored_updates(), weight_total_);
    }
    open_version();
    const FixedWord* mean = context_.replica->mean();
    return is_good && std::equal(h_.begin(), h_.end(), mean) ? Status::kOk : Status::kDataCorrupt;
  }

  const RunParameters& parameters() const { return *context_.parameters; }
  size_t size() const { return context_.parameters->model->shape.size(); }
  bool is_scalar() const { return parameters().stream() == StreamKind::kScalarStream; }
  bool weighs_samples() const { return parameters().memory_weighs_samples(); }

  // The device's last update as of now, the updates of the open version included.
  const Entry* last_of(uint32_t device) const {
    const auto newer = std::find_if(added_.rbegin(), added_.rend(), [&](const Added& a) { return a.device == device; });
    if (newer != added_.rend()) {
      return &newer->entry;
    }
    const auto entry = entries_.find(device);
    return entry == entries_.end() ? nullptr : &entry->second;
  }

  // Where samples weigh, h changes when the version closes; else it has the update's share at once.
  Status work_out(const FoldInput& input, FoldSource) override {
    const size_t count =
        is_scalar() ? static_cast<size_t>(input.steps_done) * parameters().local->direction_count : size();
    if (input.weight == 0 || input.weight > kStalenessOne || input.steps_done == 0 || input.values.size() != count ||
        count > parameters().value_count()) {
      return Status::kInvalidArgument;
    }
    if (added_.size() >= kKeptUpdateCountMax) {
      return Status::kOutOfRange;
    }
    const Entry* last = last_of(input.device);
    if (last != nullptr && input.base_version <= last->stamp) {
      return Status::kProtocolError;
    }
    prepared_ = Added();
    prepared_.device = input.device;
    prepared_.steps_done = input.steps_done;
    prepared_.staleness_weight = input.weight;
    prepared_.inverse_participation =
        std::min(static_cast<double>(input.inverse_participation), kInverseParticipationMax);
    prepared_.entry.stamp = input.base_version;
    prepared_.entry.owner = input.owner;
    prepared_.entry.samples = weighs_samples() ? std::max<uint32_t>(input.sample_count, 1) : 1;
    GS_TRY(fill_shares(input, &prepared_.entry.shares));
    clip_shares(input, &prepared_.entry);
    if (!is_here_) {
      return fits_alone(prepared_.entry) ? Status::kOk : Status::kOutOfRange;
    }
    if (last != nullptr) {
      prepared_.replaced = *last;
    }
    if (weighs_samples()) {
      // The sum of the two sizes counts a device twice that is in both.
      const bool may_be_full = last == nullptr && entries_.size() + added_.size() >= kKeptUpdateCountMax;
      const bool is_full = may_be_full && step_count() >= kKeptUpdateCountMax;
      return !is_full && fits_alone(prepared_.entry) ? Status::kOk : Status::kOutOfRange;
    }
    prepared_h_ = next_h_;
    add_change(prepared_, &prepared_h_);
    return fits(prepared_h_) ? Status::kOk : Status::kOutOfRange;
  }

  void take_in() override {
    added_.push_back(std::move(prepared_));
    if (!weighs_samples() && is_here_) {
      next_h_.swap(prepared_h_);
    }
  }

  bool is_of_run(const KeptUpdate& update) const {
    const size_t steps = update.steps_done;
    const size_t count = is_scalar() ? steps * parameters().local->direction_count : size();
    return update.shares.size() == count && count <= parameters().value_count() &&
           steps <= parameters().local->local_step_count && update.owner == parameters().owner_of(update.device) &&
           (weighs_samples() || update.samples == 1);
  }

  static KeptUpdate kept_of(uint32_t device, const Entry& entry, uint32_t steps, uint32_t weight) {
    return {device,
            entry.stamp,
            entry.owner,
            steps,
            static_cast<uint16_t>(weight),
            static_cast<uint16_t>(entry.samples),
            entry.clip_scale,
            std::vector<int32_t>(entry.shares.begin(), entry.shares.end())};
  }

  static Entry entry_of(const KeptUpdate& update) {
    return {update.base_version, update.owner, update.samples, update.clip_scale,
            std::vector<int64_t>(update.shares.begin(), update.shares.end())};
  }

  // h <- h + w_i V_i.
  void add_change(const Added& added, Tensor* h) const {
    Blocks blocks;
    add_to_block(blocks, false, added.entry, 1, shortened(added.entry.samples, weight_total_));
    if (added.replaced.has_value()) {
      add_to_block(blocks, false, *added.replaced, -1, shortened(added.replaced->samples, weight_total_));
    }
    add_blocks(blocks, h);
  }

  // Whether sums of such updates stay within the range of h for all weights that add up to 1. The bound leaves room for
  // the rounding of as many coefficients as there can be.
  bool fits_alone(const Entry& entry) const {
    const int64_t rounded_count = int64_t{kKeptUpdateCountMax} * (is_scalar() ? parameters().value_count() : 1);
    const int64_t most = std::numeric_limits<FixedWord>::max() - rounded_count;
    // No entry is beyond the sum of all magnitudes, since directions are signs. Most updates need no directions here.
    int64_t bound = 0;
    for (const int64_t share : entry.shares) {
      bound += share < 0 ? -share : share;
    }
    if (bound <= most) {
      return true;
    }
    Tensor alone(size());
    add_blocks({{BlockKey(false, entry.stamp, entry.owner), entry.shares}}, &alone);
    return std::all_of(alone.begin(), alone.end(), [&](int64_t value) { return value <= most && value >= -most; });
  }

  // N of these devices: 2^15 of 16 bits at most.
  static uint32_t samples_of(const LastUpdates& updates) {
    uint32_t total = 0;
    for (const auto& [device, entry] : updates) {
      total += entry->samples;
    }
    return total;
  }

  // N of the open version's step: what the devices that it hears for the first time bring is in it.
  uint32_t step_total() const {
    uint32_t total = weight_total_;
    for (const Added& added : added_) {
      total += weighs_samples() ? added.entry.samples : 0;
      total -= weighs_samples() && added.replaced.has_value() ? added.replaced->samples : 0;
    }
    return total;
  }

  // n, in the same way.
  size_t step_count() const {
    const auto is_first = [](const Added& added) { return !added.replaced.has_value(); };
    const auto first_count = static_cast<size_t>(std::count_if(added_.begin(), added_.end(), is_first));
    return weighs_samples() ? entries_.size() + first_count : weight_total_;
  }

  Status fill_shares(const FoldInput& input, std::vector<int64_t>* shares) const {
    const Real divisor = is_scalar() ? static_cast<Real>(input.steps_done) : Real{1};
    shares->resize(input.values.size());
    for (size_t q = 0; q < input.values.size(); ++q) {
      GS_TRY(to_fixed(input.values[q] / divisor, parameters().fold->fold_scale_log2, &(*shares)[q]));
    }
    return Status::kOk;
  }

  // What enters h is what the clip leaves: a device that keeps its own update does the same (Ack.clip_scale).
  void clip_shares(const FoldInput& input, Entry* entry) {
    prepared_clip_ = UpdateClip();
    if (!input.clip_radius) {
      return;
    }
    prepared_clip_.norm = update_norm(entry->shares, input.steps_done);
    prepared_clip_.scale = clip_scale(prepared_clip_.norm, *input.clip_radius);
    entry->clip_scale = prepared_clip_.scale;
    for (int64_t& share : entry->shares) {
      share = clip_value(share, prepared_clip_.scale);
    }
  }

  void add_blocks(const Blocks& blocks, Tensor* sum) const {
    for (const auto& [key, values] : blocks) {
      if (is_scalar()) {
        const DirectionSpec spec = direction_spec(parameters(), std::get<1>(key), std::get<2>(key));
        const Status status = accumulate_exact(spec, parameters().model->shape, 0, static_cast<uint32_t>(values.size()),
                                               values.data(), sum->data());
        GS_ASSERT(status == Status::kOk);  // check_parameters() wants signs
        continue;
      }
      for (size_t e = 0; e < values.size(); ++e) {
        (*sum)[e] += values[e];
      }
    }
  }

  static Blocks live_blocks(const LastUpdates& updates, uint32_t weight_total) {
    Blocks blocks;
    for (const auto& [device, entry] : updates) {
      add_to_block(blocks, false, *entry, 1, shortened(entry->samples, weight_total));
    }
    return blocks;
  }

  // coefficient_count(live_blocks()) without the blocks.
  static size_t live_coefficient_count(const LastUpdates& updates) {
    std::map<std::pair<uint32_t, uint32_t>, size_t> sizes;
    for (const auto& [device, entry] : updates) {
      size_t& size = sizes[{entry->stamp, entry->owner}];
      size = std::max(size, entry->shares.size());
    }
    return std::accumulate(sizes.begin(), sizes.end(), size_t{0},
                           [](size_t sum, const auto& item) { return sum + item.second; });
  }

  Tensor sum_of(const LastUpdates& updates, uint32_t weight_total) const {
    Tensor sum(size());
    add_blocks(live_blocks(updates, weight_total), &sum);
    return sum;
  }

  // sum_of(next_updates(), weight_total_), by the changes of the open version alone: all sums are exact.
  Tensor next_mean() const {
    Tensor h = next_h_;
    if (weighs_samples() && weight_total_ > 0) {
      for (const Added& added : added_) {
        add_change(added, &h);
      }
    }
    return h;
  }

  Real effective_steps() const {
    uint64_t steps = 0;
    uint64_t weight = 0;
    for (const Added& added : added_) {
      steps += uint64_t{added.entry.samples} * added.steps_done;
      weight += added.entry.samples;
    }
    return static_cast<Real>(static_cast<double>(steps) / static_cast<double>(weight));
  }

  // Before the step, d - h; after it, what is missing from there to the next h.
  Blocks step_blocks(uint32_t total) const {
    const size_t device_count = step_count();
    Blocks blocks;
    for (const Added& added : added_) {
      const auto put = [&](const Entry& entry, int64_t sign) {
        const Fraction weight = shortened(entry.samples, total);
        const Fraction factor = step_factor(added, entry, total, device_count);
        add_to_block(blocks, false, entry, sign, factor);
        if (factor != weight) {
          add_to_block(blocks, true, entry, -sign, factor);
          add_to_block(blocks, true, entry, sign, weight);
        }
      };
      put(added.entry, 1);
      if (added.replaced.has_value()) {
        put(*added.replaced, -1);
      }
    }
    drop_zero_blocks(blocks);
    return blocks;
  }

  // a_i om_i. In 64 bits: samples have 16, the staleness weight and the number of devices 15 each.
  Fraction step_factor(const Added& added, const Entry& entry, uint32_t total, size_t device_count) const {
    const uint64_t weight = uint64_t{entry.samples} * added.staleness_weight;
    const uint64_t one = uint64_t{total} * kStalenessOne;
    if (parameters().local->correction_form != CorrectionForm::kUnbiased) {
      return shortened(weight, one);
    }
    if (is_unbiased(*parameters().cohort)) {
      return fraction_of(added.inverse_participation * static_cast<double>(weight) / static_cast<double>(one));
    }
    return shortened(weight * device_count, one * added_.size());
  }

  LastUpdates stored_updates() const {
    LastUpdates updates;
    updates.reserve(entries_.size());
    for (const auto& [device, entry] : entries_) {
      updates.emplace_back(device, &entry);
    }
    return updates;
  }

  // Those of the open version included.
  LastUpdates next_updates() const {
    std::map<uint32_t, const Entry*> open;
    for (const Added& added : added_) {
      open[added.device] = &added.entry;
    }
    LastUpdates updates(open.begin(), open.end());
    updates.reserve(updates.size() + entries_.size());
    for (const auto& [device, entry] : entries_) {
      if (!open.contains(device)) {
        updates.emplace_back(device, &entry);
      }
    }
    std::sort(updates.begin(), updates.end());
    return updates;
  }

  // The record of a step of this length: blocks, or dense where that is shorter or the weights change.
  Status make_record(Real step_scale, VersionRecord* record) const {
    *record = VersionRecord();
    record->version = context_.replica->version() + 1;
    record->step_scale = step_scale;
    const uint32_t total = step_total();
    const Blocks steps = step_blocks(total);
    Tensor d = total == weight_total_ ? h_ : sum_of(stored_updates(), total);
    Blocks before = steps;
    std::erase_if(before, [](const auto& item) { return std::get<0>(item.first); });
    add_blocks(before, &d);
    if (!fits(d) && step_scale != 0) {
      return Status::kOutOfRange;
    }
    record->promise.value = static_cast<double>(step_scale) * square_sum(direction_of(d));
    const LastUpdates updates = next_updates();
    VersionRecord weights;
    const bool is_rebased = find_changes(updates, &weights);
    if (is_scalar() && !is_rebased) {
      fill_blocks(steps, updates, record);
      if (!record->blocks.empty() && log_size(*record) <= snapshot_size(parameters().model->shape, true)) {
        return Status::kOk;
      }
      record->blocks.clear();
      record->from_zero = false;
    }
    record->weight_total = weights.weight_total;
    record->forgotten = weights.forgotten;
    return fill_dense(d, is_rebased ? sum_of(kept(updates, weights), weights.weight_total) : next_mean(), record);
  }

  // Finds the devices that have left or were absent too long, and the total by which the weights are shared from now
  // on.
  bool find_changes(const LastUpdates& updates, VersionRecord* weights) const {
    const uint32_t next_version = context_.replica->version() + 1;
    const uint32_t age_max = parameters().local->memory_age_max;
    for (const auto& [device, entry] : updates) {
      const bool has_left = context_.enrolment != nullptr && context_.enrolment->has_left(device);
      if (has_left || (age_max > 0 && next_version - entry->stamp > age_max)) {
        weights->forgotten.push_back(device);
      }
    }
    if (weighs_samples()) {
      weights->weight_total = samples_of(kept(updates, *weights));
      return !weights->forgotten.empty() || weights->weight_total != weight_total_;
    }
    const uint32_t active = context_.enrolment == nullptr ? weight_total_ : context_.enrolment->active_count();
    // A leader may not know yet of devices that are enrolled: whoever has an update that counts takes part.
    const auto kept_count = static_cast<uint32_t>(updates.size() - weights->forgotten.size());
    weights->weight_total = std::max({active, kept_count, 1U});
    const bool is_changed = !weights->forgotten.empty() || weights->weight_total != weight_total_;
    if (is_changed && !fits(sum_of(kept(updates, *weights), weights->weight_total))) {
      // Larger shares of the same updates are beyond the range: at a later version, perhaps.
      weights->weight_total = weight_total_;
      weights->forgotten.clear();
      return false;
    }
    return is_changed;
  }

  static LastUpdates kept(LastUpdates updates, const VersionRecord& weights) {
    std::erase_if(updates, [&](const auto& update) {
      return std::binary_search(weights.forgotten.begin(), weights.forgotten.end(), update.first);
    });
    return updates;
  }

  // The changes of h, or where it is shorter (with everyone taking part, a single block) all of h from zero.
  void fill_blocks(const Blocks& steps, const LastUpdates& updates, VersionRecord* record) const {
    const bool has_after = std::any_of(steps.begin(), steps.end(), [](const auto& b) { return std::get<0>(b.first); });
    record->from_zero = !has_after && live_coefficient_count(updates) < coefficient_count(steps);
    for (const auto& [key, values] : record->from_zero ? live_blocks(updates, weight_total_) : steps) {
      RecordBlock& out = record->blocks.emplace_back();
      std::tie(out.after_step, out.base_version, out.owner) = key;
      out.value_count = static_cast<uint32_t>(values.size());
      out.encoding = Encoding::kFixed;
      // Modulo the range of a word, as replicas add them.
      const std::vector<FixedWord> words(values.begin(), values.end());
      out.bytes.resize(encoded_size(out.encoding, words.size()));
      store_words(words.size(), words.data(), out.bytes.data());
    }
  }

  // What a sum of scalars with their directions is multiplied by to be an estimate.
  Real estimate_scale() const {
    return is_scalar() ? estimate_factor(parameters().model->shape, parameters().local->direction_count)
                       : static_cast<Real>(1);
  }

  // d in the unit of a gradient.
  std::vector<Real> direction_of(const Tensor& d) const {
    const uint32_t scale_log2 = parameters().fold->fold_scale_log2;
    const Real unit = is_scalar() ? exact_unit(parameters().model->shape, scale_log2) : fixed_unit(scale_log2);
    std::vector<Real> direction(size());
    for (size_t e = 0; e < size(); ++e) {
      direction[e] = estimate_scale() * (unit * static_cast<Real>(d[e]));
    }
    return direction;
  }

  // h: the mean behind the step.
  Status fill_dense(const Tensor& d, const Tensor& h, VersionRecord* record) const {
    const Replica& replica = *context_.replica;
    std::vector<Real> next(replica.model(), replica.model() + size());
    if (record->step_scale != 0) {
      const uint32_t scale_log2 = parameters().fold->fold_scale_log2;
      const Real unit = is_scalar() ? exact_unit(parameters().model->shape, scale_log2) : fixed_unit(scale_log2);
      const Real factor = estimate_scale();
      for (size_t e = 0; e < size(); ++e) {
        next[e] = unit * static_cast<Real>(d[e]);
      }
      GS_TRY(replica.gradient_step(next.data(), record->step_scale * factor, next.data(), *context_.arena));
    }
    record->model = model_bytes(parameters().model->shape, next.data());
    const std::vector<FixedWord> words(h.begin(), h.end());
    record->mean = mean_bytes(parameters().model->shape, words.data());
    return Status::kOk;
  }

  AggregatorContext context_;
  bool is_shared_ = false;     // what is remembered is stored outside ...
  bool is_here_ = true;        // ... and h_ and entries_ are what it says
  uint32_t weight_total_ = 0;  // n of w_i = 1/n, or N of N_i / N
  Entries entries_;
  Tensor h_;
  std::vector<Added> added_;  // to the open version, in the journal's order
  Tensor next_h_;             // with them
  Added prepared_;
  UpdateClip prepared_clip_;
  Tensor prepared_h_;  // next_h_ with it; the buffer serves the next update
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_memory(const AggregatorContext& context) {
  return std::make_unique<AggregatorMemory>(context);
}

}  // namespace gradstream

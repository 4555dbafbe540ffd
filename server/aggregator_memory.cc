// A9 and A10 with a memory (docs/algorithms.md, "Forms of the correction"): the server remembers the last accepted
// update of every device i, h_i = Gbar_i of it, and h = sum_i w_i h_i with w_i = 1/n. A version with the accepted
// updates A, V_i = Gbar_i - h_i:
//   d = h + sum_A a_i om_i V_i;  X <- P_M(X - eta_g eta_k K_eff d);  h <- h + sum_A w_i V_i
// a_i = w_i (memory) or 1/|A| (unbiased), om_i the staleness weight of a late update, K_eff the mean of the k_i.
//
// Everything is whole numbers. A share (s / k_i, or an entry of a dense Gbar_i) becomes fixed point once; its
// coefficient is that times w_i, rounded; h is the sum of the coefficients times their signs. What is taken out of h is
// the very number that was put in, so that h has no drift and does not depend on any order. A device may have two
// updates in a version, a late one and then one on time: the second replaces the first.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "server/aggregator.h"
#include "server/fold.h"
#include "server/straggler.h"

namespace gradstream {
namespace {

// The last update of a device.
struct Entry {
  uint32_t stamp = 0;  // its base version
  uint32_t owner = 0;  // of its directions
  std::vector<int64_t> shares;
};

struct Added {
  uint32_t device = 0;
  uint32_t steps_done = 0;
  uint32_t staleness_weight = 0;  // of kStalenessOne
  Entry entry;
  std::optional<Entry> replaced;
};

using Tensor = std::vector<int64_t>;
using BlockKey = std::tuple<bool, uint32_t, uint32_t>;  // after the step, base version, owner: the record's order
using Blocks = std::map<BlockKey, std::vector<int64_t>>;

// block[key] <- block[key] + sign * round(share * numerator / denominator).
void add_to_block(Blocks& blocks, bool after_step, const Entry& entry, int64_t sign, uint64_t numerator,
                  uint64_t denominator) {
  std::vector<int64_t>& block = blocks[{after_step, entry.stamp, entry.owner}];
  block.resize(std::max(block.size(), entry.shares.size()));
  for (size_t q = 0; q < entry.shares.size(); ++q) {
    block[q] += sign * divide_rounded(entry.shares[q] * static_cast<int64_t>(numerator), denominator);
  }
}

void drop_zero_blocks(Blocks& blocks) {
  std::erase_if(blocks, [](const auto& item) {
    return std::all_of(item.second.begin(), item.second.end(), [](int64_t value) { return value == 0; });
  });
}

size_t coefficient_count(const Blocks& blocks) {
  size_t count = 0;
  for (const auto& [key, values] : blocks) {
    count += values.size();
  }
  return count;
}

bool fits(const Tensor& sum) {
  return std::all_of(sum.begin(), sum.end(), [](int64_t value) {
    return value <= std::numeric_limits<FixedWord>::max() && value >= std::numeric_limits<FixedWord>::min();
  });
}

class AggregatorMemory : public Aggregator {
 public:
  explicit AggregatorMemory(const AggregatorContext& context)
      : context_(context), weight_total_(context.parameters->device_count), h_(size()), next_h_(size()) {}

  void begin() override {
    added_.clear();
    next_h_ = h_;
  }

  Status check(const FoldInput& input) const override {
    Added unused;
    Tensor h;
    return prepare(input, &unused, &h);
  }

  Status add(const FoldInput& input) override {
    Added added;
    Tensor h;
    GS_TRY(prepare(input, &added, &h));
    added_.push_back(std::move(added));
    next_h_ = std::move(h);
    return Status::kOk;
  }

  Status finish(VersionRecord* record) const override {
    const uint32_t open_version = context_.replica->version();
    const Real step_size = parameters().server_step * parameters().step_size_at(open_version);
    return make_record(step_size * effective_steps(), record);
  }

  // The updates count in h all the same: their devices have been told so.
  VersionRecord stand_still() const override {
    VersionRecord record;
    const Status status = make_record(0, &record);
    GS_ASSERT(status == Status::kOk);  // the model is where it was
    return record;
  }

  Status follow(const VersionRecord& record) override {
    for (Added& added : added_) {
      entries_[added.device] = std::move(added.entry);
    }
    h_ = next_h_;
    if (!record.mean.empty()) {
      for (const uint32_t device : record.forgotten) {
        entries_.erase(device);
      }
      weight_total_ = record.weight_total;
      h_ = weight_total_ == 0 ? Tensor() : sum_of(entries_, weight_total_);
    }
    begin();
    const FixedWord* mean = context_.replica->mean();
    return h_.size() == size() && std::equal(h_.begin(), h_.end(), mean) ? Status::kOk : Status::kDataCorrupt;
  }

  std::optional<uint32_t> stamp(uint32_t device) const override {
    const auto entry = entries_.find(device);
    return entry == entries_.end() ? std::nullopt : std::optional(entry->second.stamp);
  }

 private:
  using Entries = std::map<uint32_t, Entry>;

  const RunParameters& parameters() const { return *context_.parameters; }
  size_t size() const { return context_.parameters->shape.size(); }
  bool is_scalar() const { return parameters().stream() == StreamKind::kScalarStream; }

  // The device's last update as of now, those of the open version included.
  const Entry* last_of(uint32_t device) const {
    const auto newer = std::find_if(added_.rbegin(), added_.rend(), [&](const Added& a) { return a.device == device; });
    if (newer != added_.rend()) {
      return &newer->entry;
    }
    const auto entry = entries_.find(device);
    return entry == entries_.end() ? nullptr : &entry->second;
  }

  // What add() would add, and h with it. Codes of check().
  Status prepare(const FoldInput& input, Added* added, Tensor* h) const {
    const size_t count =
        is_scalar() ? static_cast<size_t>(input.steps_done) * parameters().direction_count : size();
    if (input.weight == 0 || input.weight > kStalenessOne || input.steps_done == 0 || input.values.size() != count ||
        count > parameters().value_count()) {
      return Status::kInvalidArgument;
    }
    if (added_.size() == kFoldUpdateCountMax) {
      return Status::kOutOfRange;
    }
    const Entry* last = last_of(input.device);
    if (last != nullptr && input.base_version <= last->stamp) {
      return Status::kProtocolError;
    }
    added->device = input.device;
    added->steps_done = input.steps_done;
    added->staleness_weight = input.weight;
    added->entry.stamp = input.base_version;
    added->entry.owner = input.owner;
    GS_TRY(fill_shares(input, &added->entry.shares));
    if (last != nullptr) {
      added->replaced = *last;
    }
    *h = next_h_;
    Blocks blocks;
    add_to_block(blocks, false, added->entry, 1, 1, weight_total_);
    if (last != nullptr) {
      add_to_block(blocks, false, *last, -1, 1, weight_total_);
    }
    add_blocks(blocks, h);
    return fits(*h) ? Status::kOk : Status::kOutOfRange;
  }

  Status fill_shares(const FoldInput& input, std::vector<int64_t>* shares) const {
    const Real divisor = is_scalar() ? static_cast<Real>(input.steps_done) : Real{1};
    shares->resize(input.values.size());
    for (size_t q = 0; q < input.values.size(); ++q) {
      GS_TRY(to_fixed(input.values[q] / divisor, parameters().fold_scale_log2, &(*shares)[q]));
    }
    return Status::kOk;
  }

  void add_blocks(const Blocks& blocks, Tensor* sum) const {
    for (const auto& [key, values] : blocks) {
      if (is_scalar()) {
        const DirectionSpec spec = direction_spec(parameters(), std::get<1>(key), std::get<2>(key));
        const Status status = accumulate_exact(spec, parameters().shape, 0, static_cast<uint32_t>(values.size()),
                                               values.data(), sum->data());
        GS_ASSERT(status == Status::kOk);  // check_parameters() wants signs
        continue;
      }
      for (size_t e = 0; e < values.size(); ++e) {
        (*sum)[e] += values[e];
      }
    }
  }

  static Blocks live_blocks(const Entries& entries, uint32_t weight_total) {
    Blocks blocks;
    for (const auto& [device, entry] : entries) {
      add_to_block(blocks, false, entry, 1, 1, weight_total);
    }
    return blocks;
  }

  Tensor sum_of(const Entries& entries, uint32_t weight_total) const {
    Tensor sum(size());
    add_blocks(live_blocks(entries, weight_total), &sum);
    return sum;
  }

  Real effective_steps() const {
    uint64_t steps = 0;
    for (const Added& added : added_) {
      steps += added.steps_done;
    }
    return static_cast<Real>(static_cast<double>(steps) / static_cast<double>(added_.size()));
  }

  // Before the step, d - h; after it, what is missing from there to the next h.
  Blocks step_blocks() const {
    const bool is_unbiased = parameters().correction_form == CorrectionForm::kUnbiased;
    const uint64_t divisor = is_unbiased ? added_.size() : weight_total_;
    Blocks blocks;
    for (const Added& added : added_) {
      const uint64_t om = added.staleness_weight;
      const auto put = [&](const Entry& entry, int64_t sign) {
        if (om == kStalenessOne && divisor == weight_total_) {
          add_to_block(blocks, false, entry, sign, 1, weight_total_);
          return;
        }
        add_to_block(blocks, false, entry, sign, om, divisor * kStalenessOne);
        add_to_block(blocks, true, entry, -sign, om, divisor * kStalenessOne);
        add_to_block(blocks, true, entry, sign, 1, weight_total_);
      };
      put(added.entry, 1);
      if (added.replaced.has_value()) {
        put(*added.replaced, -1);
      }
    }
    drop_zero_blocks(blocks);
    return blocks;
  }

  Entries next_entries() const {
    Entries entries = entries_;
    for (const Added& added : added_) {
      entries[added.device] = added.entry;
    }
    return entries;
  }

  // The record of a step of this length: blocks, or dense where that is shorter or the weights change.
  Status make_record(Real step_scale, VersionRecord* record) const {
    *record = VersionRecord();
    record->version = context_.replica->version() + 1;
    record->step_scale = step_scale;
    const Blocks steps = step_blocks();
    Tensor d = h_;
    Blocks before = steps;
    std::erase_if(before, [](const auto& item) { return std::get<0>(item.first); });
    add_blocks(before, &d);
    if (!fits(d) && step_scale != 0) {
      return Status::kOutOfRange;
    }
    const Entries entries = next_entries();
    VersionRecord weights;
    const bool is_rebased = find_changes(entries, &weights);
    if (is_scalar() && !is_rebased) {
      fill_blocks(steps, live_blocks(entries, weight_total_), record);
      if (!record->blocks.empty() && log_size(*record) <= snapshot_size(parameters().shape, true)) {
        return Status::kOk;
      }
      record->blocks.clear();
      record->from_zero = false;
    }
    record->weight_total = weights.weight_total;
    record->forgotten = weights.forgotten;
    return fill_dense(d, entries, record);
  }

  // Who is no longer there or was absent too long, and among how many devices the weights are shared from now on.
  bool find_changes(const Entries& entries, VersionRecord* weights) const {
    const uint32_t next_version = context_.replica->version() + 1;
    const uint32_t age_max = parameters().memory_age_max;
    for (const auto& [device, entry] : entries) {
      const bool has_left = context_.fleet != nullptr && context_.fleet->at(device).is_revoked;
      if (has_left || (age_max > 0 && next_version - entry.stamp > age_max)) {
        weights->forgotten.push_back(device);
      }
    }
    const uint32_t active = context_.fleet == nullptr ? weight_total_ : context_.fleet->active_count();
    weights->weight_total = std::max(active, 1U);
    const bool is_changed = !weights->forgotten.empty() || weights->weight_total != weight_total_;
    if (is_changed && !fits(sum_of(kept(entries, *weights), weights->weight_total))) {
      // Larger shares of the same updates are beyond the range: at a later version, perhaps.
      weights->weight_total = weight_total_;
      weights->forgotten.clear();
      return false;
    }
    return is_changed;
  }

  static Entries kept(Entries entries, const VersionRecord& weights) {
    for (const uint32_t device : weights.forgotten) {
      entries.erase(device);
    }
    return entries;
  }

  // The changes of h, or where it is shorter (with everyone taking part, a single block) all of h from zero.
  void fill_blocks(const Blocks& steps, const Blocks& live, VersionRecord* record) const {
    const bool has_after = std::any_of(steps.begin(), steps.end(), [](const auto& b) { return std::get<0>(b.first); });
    record->from_zero = !has_after && coefficient_count(live) < coefficient_count(steps);
    for (const auto& [key, values] : record->from_zero ? live : steps) {
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

  Status fill_dense(const Tensor& d, const Entries& entries, VersionRecord* record) const {
    const Replica& replica = *context_.replica;
    std::vector<Real> next(replica.model(), replica.model() + size());
    if (record->step_scale != 0) {
      const uint32_t scale_log2 = parameters().fold_scale_log2;
      const Real unit = is_scalar() ? exact_unit(parameters().shape, scale_log2) : fixed_unit(scale_log2);
      const Real factor =
          is_scalar() ? estimate_factor(parameters().shape, parameters().direction_count) : static_cast<Real>(1);
      for (size_t e = 0; e < size(); ++e) {
        next[e] = unit * static_cast<Real>(d[e]);
      }
      GS_TRY(replica.gradient_step(next.data(), record->step_scale * factor, next.data(), *context_.arena));
    }
    record->model = model_bytes(parameters().shape, next.data());
    const Tensor h = sum_of(kept(entries, *record), record->weight_total);
    const std::vector<FixedWord> words(h.begin(), h.end());
    record->mean = mean_bytes(parameters().shape, words.data());
    return Status::kOk;
  }

  AggregatorContext context_;
  uint32_t weight_total_;  // n of w_i = 1/n
  Entries entries_;
  Tensor h_;
  std::vector<Added> added_;  // to the open version, in the journal's order
  Tensor next_h_;             // with them
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_memory(const AggregatorContext& context) {
  return std::make_unique<AggregatorMemory>(context);
}

}  // namespace gradstream

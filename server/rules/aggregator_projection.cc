// A9 in the `local` form (docs/algorithms.md), W_i the weights, sums over all accepted updates of a version:
//   coefficient[b, owner][t, j] = sum_i W_i s_i[t, j] / k_i / sum_i W_i       one block for each base version and owner
//   X <- P_M(X - eta_g eta_k K_eff (pr / m) sum_blocks sum_{t,j} coefficient u),   K_eff = sum_i W_i k_i / sum_i W_i
// All blocks share one denominator. Late scalars need no transport: their directions are ambient.
#include "runtime/base/no_contraction.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/products.h"
#include "server/rules/aggregator.h"
#include "server/rules/fold.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {
namespace {

class AggregatorProjection : public Aggregator {
 public:
  explicit AggregatorProjection(const AggregatorContext& context) : context_(context) {}

  Status finish(VersionRecord* record) const override {
    const uint32_t open_version = context_.replica->version();
    *record = VersionRecord();
    record->version = open_version + 1;
    record->step_scale = open_server_step(context_) * open_step_size(context_) * weights_.effective_steps();
    for (const auto& [key, block] : blocks_) {
      RecordBlock& out = record->blocks.emplace_back();
      out.base_version = key.first;
      out.owner = key.second;
      out.value_count = block.value_count;
      out.encoding = parameters().wire->record_encoding;
      GS_TRY(encode_block(block, &out));
    }
    return chooses_step(parameters()) ? add_up(record) : Status::kOk;
  }

  VersionRecord stand_still() const override {
    VersionRecord record;
    record.version = context_.replica->version() + 1;
    RecordBlock& block = record.blocks.emplace_back();
    block.base_version = context_.replica->version();
    block.value_count = parameters().local->direction_count;  // a block holds whole steps
    block.encoding = parameters().wire->record_encoding;
    block.bytes.resize(encoded_size(block.encoding, block.value_count));
    return record;
  }

  UpdateClip prepared_clip() const override { return prepared_clip_; }
  bool is_mergeable() const override { return true; }
  PartialSum partial() const override {
    PartialSum sum = opened();
    sum.weights = weights_;
    for (const auto& [key, block] : blocks_) {
      const auto end = block.slots.begin() + static_cast<std::ptrdiff_t>(block.value_count);
      sum.blocks.push_back({key.first, key.second, {block.slots.begin(), end}});
    }
    return sum;
  }

 private:
  using BlockKey = std::pair<uint32_t, uint32_t>;  // base version, owner
  struct Block {
    explicit Block(const RunParameters& parameters)
        : slots(parameters.value_count()), fold(slots, parameters.fold->fold_scale_log2) {}
    std::vector<FoldSlot> slots;
    Fold fold;
    uint32_t value_count = 0;  // of the longest update in it
  };

  const RunParameters& parameters() const { return *context_.parameters; }
  PartialSum opened() const { return open_partial(context_, PartialRule::kProjection, 0, 0); }

  void open_version() override {
    blocks_.clear();
    weights_.clear();
  }

  // Of the terms of s / k_i.
  Status work_out(const FoldInput& input, FoldSource) override {
    if (input.weight == 0 || input.steps_done == 0 ||
        input.values.size() != static_cast<size_t>(input.steps_done) * parameters().local->direction_count ||
        input.values.size() > parameters().value_count()) {
      return Status::kInvalidArgument;
    }
    if (weights_.is_full()) {
      return Status::kOutOfRange;
    }
    terms_.resize(input.values.size());
    const auto steps = static_cast<Real>(input.steps_done);
    const uint32_t scale_log2 = parameters().fold->fold_scale_log2;
    GS_TRY(measure_clip(input.values, steps, input.steps_done, scale_log2, input.clip_radius, &prepared_clip_));
    GS_TRY(make_terms(input.values, steps, input.weight, scale_log2, terms_.data(), prepared_clip_.scale));
    prepared_key_ = {input.base_version, input.owner};
    prepared_weight_ = input.weight;
    prepared_steps_ = input.steps_done;
    const auto block = blocks_.find(prepared_key_);
    return block == blocks_.end() ? Status::kOk : block->second.fold.check_terms(terms_);
  }

  void take_in() override {
    Block& block = blocks_.try_emplace(prepared_key_, parameters()).first->second;
    block.fold.add_terms(terms_);
    block.value_count = std::max(block.value_count, static_cast<uint32_t>(terms_.size()));
    weights_.add(prepared_weight_, prepared_steps_);
  }

  Status merge_in(const PartialSum& sum) override {
    GS_TRY(check_partial(opened(), sum));
    GS_TRY(weights_.check(sum.weights));
    for (const PartialBlock& other : sum.blocks) {
      if (other.slots.empty() || other.slots.size() > parameters().value_count() ||
          other.slots.size() % parameters().local->direction_count != 0) {
        return Status::kDataCorrupt;  // a block holds whole steps
      }
      const auto own = blocks_.find({other.base_version, other.owner});
      GS_TRY(own == blocks_.end() ? Status::kOk : own->second.fold.check_sums(other.slots));
    }
    for (const PartialBlock& other : sum.blocks) {
      Block& block = blocks_.try_emplace({other.base_version, other.owner}, parameters()).first->second;
      block.fold.add_sums(other.slots);
      block.value_count = std::max(block.value_count, static_cast<uint32_t>(other.slots.size()));
    }
    weights_.add(sum.weights);
    return Status::kOk;
  }

  // d, as replicas have it from the record's blocks.
  Status add_up(VersionRecord* record) const {
    const Shape shape = parameters().model->shape;
    record->mean_direction.assign(shape.size(), 0);
    std::vector<Real> values;
    for (const RecordBlock& block : record->blocks) {
      values.resize(block.value_count);
      GS_TRY(decode_values(block.encoding, block.value_count, block.bytes.data(), block.bytes.size(), values.data()));
      GS_TRY(accumulate_directions(direction_spec(parameters(), block.base_version, block.owner), shape, 0,
                                   block.value_count, values.data(), record->mean_direction.data(), *context_.arena));
    }
    scale(shape.size(), estimate_factor(shape, parameters().local->direction_count), record->mean_direction.data());
    return Status::kOk;
  }

  Status encode_block(const Block& block, RecordBlock* out) const {
    std::vector<Real> coefficients(block.value_count);
    GS_TRY(block.fold.finish_part(weights_.total(), 0, block.value_count, coefficients.data()));
    out->bytes.resize(encoded_size(out->encoding, block.value_count));
    return encode_values(out->encoding, block.value_count, coefficients.data(), out->bytes.data());
  }

  AggregatorContext context_;
  std::map<BlockKey, Block> blocks_;  // in the record's order
  WeightSum weights_;
  // Of the update that was prepared.
  std::vector<FoldTerm> terms_;
  BlockKey prepared_key_;
  UpdateClip prepared_clip_;
  uint16_t prepared_weight_ = 0;
  uint32_t prepared_steps_ = 0;
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_projection(const AggregatorContext& context) {
  return std::make_unique<AggregatorProjection>(context);
}

}  // namespace gradstream

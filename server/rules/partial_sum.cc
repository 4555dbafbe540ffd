#include "runtime/base/no_contraction.h"

#include "server/rules/partial_sum.h"

#include <bit>
#include <cmath>
#include <tuple>

#include "runtime/base/crc32c.h"
#include "server/rules/aggregator.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint32_t kPartialMagic = 0x53505347;  // "GSPS"
constexpr uint8_t kPartialForm = 2;
constexpr size_t kPartialChecksumSize = sizeof(uint32_t);

constexpr size_t kBlockHeadSize = 3 * sizeof(uint32_t);

// A slot in the words of an archive.
constexpr size_t kSlotWords = sizeof(FoldSlot) / sizeof(uint64_t);
[[maybe_unused]] void store_slot(const WideInt& slot, uint64_t* words) {
  words[0] = slot.low;
  words[1] = static_cast<uint64_t>(slot.high);
}
[[maybe_unused]] void store_slot(double slot, uint64_t* words) { words[0] = std::bit_cast<uint64_t>(slot); }
[[maybe_unused]] void load_slot(const uint64_t* words, WideInt* slot) {
  *slot = WideInt::of_words(words[0], static_cast<int64_t>(words[1]));
}
[[maybe_unused]] void load_slot(const uint64_t* words, double* slot) { *slot = std::bit_cast<double>(words[0]); }

void exchange_block(StateArchive& io, PartialBlock& block) {
  io.values(block.base_version, block.owner);
  std::vector<uint64_t> words(io.is_reading() ? 0 : block.slots.size() * kSlotWords);
  for (size_t i = 0; i * kSlotWords < words.size(); ++i) {
    store_slot(block.slots[i], &words[i * kSlotWords]);
  }
  io.numbers(words);
  if (!io.is_reading()) {
    return;
  }
  if (words.size() % kSlotWords != 0) {
    io.fail();
  }
  block.slots.resize(words.size() / kSlotWords);
  for (size_t i = 0; i < block.slots.size(); ++i) {
    load_slot(&words[i * kSlotWords], &block.slots[i]);
  }
}

void exchange_partial(StateArchive& io, PartialSum& sum) {
  uint32_t magic = kPartialMagic;
  uint8_t form = kPartialForm;
  uint8_t real_size = sizeof(Real);
  io.values(magic, form, real_size);
  if (magic != kPartialMagic || form != kPartialForm || real_size != sizeof(Real)) {
    io.fail();
  }
  io.values(sum.rule, sum.phase, sum.version, sum.digest, sum.rows, sum.cols, sum.scale_log2, sum.population,
            sum.clip_radius);
  io.numbers(sum.norms);
  sum.weights.exchange(io);
  io.list(
      sum.blocks, [&io](PartialBlock& block) { exchange_block(io, block); }, kBlockHeadSize);
}

// |slot| < 2^kFoldValueBits * total: no weights of that total make more.
[[maybe_unused]] Status check_slot(const WideInt& slot, uint64_t total) {
  return slot.magnitude() < WideInt::shifted(total, kFoldValueBits) ? Status::kOk : Status::kOutOfRange;
}
[[maybe_unused]] Status check_slot(double slot, uint64_t) {
  return std::isfinite(slot) ? Status::kOk : Status::kNotFinite;
}

Status check_blocks(const PartialSum& sum) {
  for (size_t i = 0; i < sum.blocks.size(); ++i) {
    const PartialBlock& block = sum.blocks[i];
    if (i > 0 && std::tie(block.base_version, block.owner) <=
                     std::tie(sum.blocks[i - 1].base_version, sum.blocks[i - 1].owner)) {
      return Status::kDataCorrupt;
    }
    if (block.base_version > sum.version) {
      return Status::kOutOfRange;
    }
    for (const FoldSlot& slot : block.slots) {
      GS_TRY(check_slot(slot, sum.weights.total()));
    }
  }
  return Status::kOk;
}

}  // namespace

std::vector<uint8_t> encode_partial(const PartialSum& sum) {
  PartialSum copy = sum;
  StateArchive io;
  exchange_partial(io, copy);
  uint32_t checksum = crc32c(0, io.bytes().data(), io.bytes().size());
  io.values(checksum);
  return io.take_bytes();
}

Status decode_partial(std::span<const uint8_t> bytes, PartialSum* sum) {
  if (bytes.size() < kPartialChecksumSize) {
    return Status::kDataCorrupt;
  }
  const std::span<const uint8_t> body = bytes.first(bytes.size() - kPartialChecksumSize);
  StateArchive end(bytes.last(kPartialChecksumSize));
  uint32_t checksum = 0;
  end.values(checksum);
  if (crc32c(0, body.data(), body.size()) != checksum) {
    return Status::kDataCorrupt;
  }
  StateArchive io(body);
  exchange_partial(io, *sum);
  return io.is_sound() && io.is_at_end() ? Status::kOk : Status::kDataCorrupt;
}

PartialSum open_partial(const AggregatorContext& context, PartialRule rule, uint8_t phase, uint32_t population) {
  const RunParameters& run = *context.parameters;
  PartialSum sum;
  sum.rule = rule;
  sum.phase = phase;
  sum.version = context.replica->version();
  sum.digest = context.replica->digest();
  sum.rows = run.model->shape.rows;
  sum.cols = run.model->shape.cols;
  sum.scale_log2 = run.fold->fold_scale_log2;
  sum.population = population;
  return sum;
}

Status check_partial(const PartialSum& own, const PartialSum& sum) {
  if (std::tie(sum.rule, sum.phase, sum.rows, sum.cols, sum.scale_log2) !=
      std::tie(own.rule, own.phase, own.rows, own.cols, own.scale_log2)) {
    return Status::kInvalidArgument;
  }
  if (std::tie(sum.version, sum.digest, sum.population) != std::tie(own.version, own.digest, own.population)) {
    return Status::kProtocolError;
  }
  if (sum.clip_radius != own.clip_radius) {
    return Status::kProtocolError;
  }
  const bool is_empty = sum.weights.update_count() == 0;
  if (!sum.norms.empty()) {
    return Status::kDataCorrupt;  // a clip has taken them (server/rules/aggregator_clipped.cc)
  }
  if (is_empty != sum.blocks.empty() || sum.blocks.size() > sum.weights.update_count()) {
    return Status::kDataCorrupt;
  }
  return check_blocks(sum);
}

PartialSum one_partial(PartialSum own, const Fold& fold, const WeightSum& weights) {
  own.weights = weights;
  if (weights.update_count() > 0) {
    own.blocks.push_back({own.version, 0, {fold.slots().begin(), fold.slots().end()}});
  }
  return own;
}

Status merge_one(const PartialSum& own, const PartialSum& sum, Fold* fold, WeightSum* weights) {
  GS_TRY(check_partial(own, sum));
  if (sum.blocks.empty()) {
    return Status::kOk;
  }
  const PartialBlock& block = sum.blocks.front();
  if (sum.blocks.size() != 1 || block.base_version != sum.version || block.owner != 0 ||
      block.slots.size() != fold->slots().size()) {
    return Status::kDataCorrupt;
  }
  GS_TRY(weights->check(sum.weights));
  GS_TRY(fold->check_sums(block.slots));
  fold->add_sums(block.slots);
  weights->add(sum.weights);
  return Status::kOk;
}

}  // namespace gradstream

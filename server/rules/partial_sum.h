// What some of the updates of a version add up to, as plain data: a version's updates may be added up apart, by several
// sums in one process or by several servers, and be merged before the version closes.
//
//   Aggregator::partial()     encode_partial() -> bytes -> decode_partial()     Aggregator::merge(), in any order
//
// All sums are whole numbers, so that neither the division into parts nor the order of merging changes a bit of the
// record. The double build sums in doubles: there both change the last bits.
//
// Bytes, little-endian: magic "GSPS" u32, form u8, bytes of a Real u8, rule u8, phase u8, version u32, digest u64,
// rows u32, cols u32, scale u32, population u32, clip radius u64. Then the count of norms u32, and each of them u64.
// Then total weight u64, updates u32, weighted steps in two u64, lower one first. Then the count of blocks u32, and for
// each base version u32, owner u32, count of words u32, and the slots: two u64 each, lower one first, or in the double
// build one f64. At the end the CRC-32C of all before it, u32.
#ifndef GRADSTREAM_SERVER_RULES_PARTIAL_SUM_H_
#define GRADSTREAM_SERVER_RULES_PARTIAL_SUM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "server/rules/fold.h"
#include "server/rules/weight_sum.h"

namespace gradstream {

struct AggregatorContext;

// The rule that made the sum. Values stand in bytes that another release reads; never renumber.
enum class PartialRule : uint8_t { kNone = 0, kProjection = 1, kMeanGradient = 2, kGradientStream = 3, kSvrg = 4 };

// Sums of the updates with one base version and one owner of the directions. Rules that add everything to one sum have
// one block, of the open version and owner 0.
struct PartialBlock {
  uint32_t base_version = 0;
  uint32_t owner = 0;
  std::vector<FoldSlot> slots;
  friend bool operator==(const PartialBlock&, const PartialBlock&) = default;
};

struct PartialSum {
  PartialRule rule = PartialRule::kNone;
  uint8_t phase = 0;                     // of the round, from 0: svrg has anchors (0) and steps (1)
  uint32_t version = 0;                  // the open version, whose updates these are
  uint64_t digest = 0;                   // of its model, as Replica::digest()
  uint32_t rows = 0;                     // of the model
  uint32_t cols = 0;                     // of the model
  uint32_t scale_log2 = 0;               // fold_scale_log2
  uint32_t population = 0;               // S where the fold divides by it, else 0 (tangent_fold.h)
  uint64_t clip_radius = kNoClipRadius;  // by which its updates were clipped
  WeightSum weights;
  std::vector<uint64_t> norms;       // of all its updates, ascending, in a run that clips; else none
  std::vector<PartialBlock> blocks;  // by ascending (base version, owner); none: no update was added
  friend bool operator==(const PartialSum&, const PartialSum&) = default;
};

std::vector<uint8_t> encode_partial(const PartialSum& sum);
// kDataCorrupt: bytes that encode_partial() of this build does not make. *sum is then unspecified. Whether the sum fits
// a run check_partial() says.
Status decode_partial(std::span<const uint8_t> bytes, PartialSum* sum);

// The empty sum of this rule at the open version.
PartialSum open_partial(const AggregatorContext& context, PartialRule rule, uint8_t phase, uint32_t population);

// Whether `sum` may be merged into a sum of which `own` is the empty one, as open_partial() makes it.
// - kInvalidArgument: it is of another rule, another size of model, another scale or another phase.
// - kProtocolError: it is of another version, of another model, of another clip radius, or of a round that could ask
//   another number of devices.
// - kDataCorrupt: it contradicts itself, such as blocks without an update, or blocks that are not in order.
// - kOutOfRange: a slot is more than its updates can have added, or a block is of a version that is not there yet.
// - kNotFinite: a slot is no number (double build).
Status check_partial(const PartialSum& own, const PartialSum& sum);

// For rules with one sum: partial() and merge_in() of `fold` and `weights`. own: the empty one. Codes of
// check_partial(); kDataCorrupt also when the sum is not one block of the fold's length, kOutOfRange also when the
// version would have more than kFoldUpdateCountMax updates. On an error nothing has been added.
PartialSum one_partial(PartialSum own, const Fold& fold, const WeightSum& weights);
Status merge_one(const PartialSum& own, const PartialSum& sum, Fold* fold, WeightSum* weights);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_PARTIAL_SUM_H_

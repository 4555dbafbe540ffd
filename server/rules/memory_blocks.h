// The whole numbers of a memory (server/rules/aggregator_memory.cc): what is remembered of a device, and sums of it in
// blocks of one base version and one owner each.
#ifndef GRADSTREAM_SERVER_RULES_MEMORY_BLOCKS_H_
#define GRADSTREAM_SERVER_RULES_MEMORY_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "runtime/training/clip.h"
#include "server/run/limits.h"
#include "server/run/weights.h"

namespace gradstream {

// The last update of a device.
struct MemoryEntry {
  uint32_t stamp = 0;    // its base version
  uint32_t owner = 0;    // of its directions
  uint32_t samples = 1;  // N_i; 1 where all devices weigh the same
  uint32_t clip_scale = kClipScaleOne;
  std::vector<int64_t> shares;  // what the clip left
};

// The factor of a share. Its numerator is below 2^31, so that the product stays below 2^62.
struct Fraction {
  uint64_t numerator = 0;
  uint64_t denominator = 1;
  friend bool operator==(const Fraction&, const Fraction&) = default;
};

// Exact unless its lowest terms are too large; then to 30 bits, the same on every machine. denominator > 0.
Fraction shortened(uint64_t numerator, uint64_t denominator);

// Upper bound of 1/q. It keeps sums of coefficients below 2^62: 31-bit shares times 2^12 directions times 1/q.
inline constexpr double kInverseParticipationMax = 1U << kStalenessBits;

// To 31 bits, the same on every machine. 0 < value <= kInverseParticipationMax, not below 2^-31.
Fraction fraction_of(double value);

using MemoryBlockKey = std::tuple<bool, uint32_t, uint32_t>;  // after the step, base version, owner: the record's order
using MemoryBlocks = std::map<MemoryBlockKey, std::vector<int64_t>>;

// block[key] <- block[key] + sign * round(share * factor).
void add_to_block(MemoryBlocks& blocks, bool after_step, const MemoryEntry& entry, int64_t sign, Fraction factor);
void drop_zero_blocks(MemoryBlocks& blocks);
// Numbers in all blocks.
size_t coefficient_count(const MemoryBlocks& blocks);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_MEMORY_BLOCKS_H_

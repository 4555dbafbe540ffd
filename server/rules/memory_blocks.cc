#include "runtime/base/no_contraction.h"

#include "server/rules/memory_blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/rules/fold.h"

namespace gradstream {

Fraction shortened(uint64_t numerator, uint64_t denominator) {
  const uint64_t common = std::gcd(numerator, denominator);
  numerator /= common;
  denominator /= common;
  while (numerator >> kFoldValueBits != 0) {
    numerator >>= 1;
    denominator >>= 1;
  }
  return {numerator, denominator};
}

Fraction fraction_of(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  const auto numerator = static_cast<uint64_t>(std::ldexp(mantissa, kFoldValueBits));
  return shortened(numerator, uint64_t{1} << (static_cast<int>(kFoldValueBits) - exponent));
}

void add_to_block(MemoryBlocks& blocks, bool after_step, const MemoryEntry& entry, int64_t sign, Fraction factor) {
  std::vector<int64_t>& block = blocks[{after_step, entry.stamp, entry.owner}];
  block.resize(std::max(block.size(), entry.shares.size()));
  for (size_t q = 0; q < entry.shares.size(); ++q) {
    block[q] += sign * divide_rounded(entry.shares[q] * static_cast<int64_t>(factor.numerator), factor.denominator);
  }
}

void drop_zero_blocks(MemoryBlocks& blocks) {
  std::erase_if(blocks, [](const auto& item) {
    return std::all_of(item.second.begin(), item.second.end(), [](int64_t value) { return value == 0; });
  });
}

size_t coefficient_count(const MemoryBlocks& blocks) {
  size_t count = 0;
  for (const auto& [key, values] : blocks) {
    count += values.size();
  }
  return count;
}

}  // namespace gradstream

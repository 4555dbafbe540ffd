#include "runtime/base/no_contraction.h"

#include "server/rules/norm_clip.h"

#include <algorithm>

#include "server/run/limits.h"

namespace gradstream {
namespace {

// A norm is below 2^this: squares have 62 bits, steps and the number of values 32 each.
constexpr unsigned kNormBits = 63;
static_assert(2 * kFoldValueBits + 32 + 32 <= 2 * kNormBits, "a norm is below 2^63, its square below 2^126");

// The least root with root^2 >= square. 0 <= square <= 2^126.
uint64_t root_rounded_up(const WideInt& square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << (kNormBits - 1); bit > 0; bit >>= 1) {
    const uint64_t next = root | bit;
    root = square < WideInt::product(next, next) ? root : next;
  }
  return WideInt::product(root, root) == square ? root : root + 1;
}

}  // namespace

uint64_t SquareSum::norm(uint32_t steps_done) const {
  WideInt square = WideInt::product(sum_.low, steps_done);
  square.high += sum_.high * int64_t{steps_done};
  return root_rounded_up(square);
}

uint64_t update_norm(std::span<const int64_t> values, uint32_t steps_done) {
  SquareSum sum;
  for (const int64_t value : values) {
    sum.add(value);
  }
  return sum.norm(steps_done);
}

uint64_t lower_median(std::span<uint64_t> norms) {
  GS_ASSERT(!norms.empty());
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>((norms.size() - 1) / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  return *middle;
}

uint64_t clip_radius(uint64_t median, uint32_t factor256) {
  if (median == 0) {
    return kNoClipRadius;
  }
  constexpr unsigned kFactorBits = 8;
  const WideInt product = WideInt::product(median, factor256);
  const auto high = static_cast<uint64_t>(product.high);
  return high >> kFactorBits != 0 ? kNoClipRadius : product.low >> kFactorBits | high << (64 - kFactorBits);
}

uint32_t clip_scale(uint64_t norm, uint64_t radius) {
  if (norm <= radius) {
    return kClipScaleOne;
  }
  GS_ASSERT(norm >> kNormBits == 0);
  uint64_t rest = radius;
  uint32_t scale = 0;
  for (unsigned bit = 0; bit < kClipScaleBits; ++bit) {
    rest <<= 1;
    const bool is_in = rest >= norm;
    rest -= is_in ? norm : 0;
    scale = scale << 1 | (is_in ? 1U : 0U);
  }
  return scale;
}

}  // namespace gradstream

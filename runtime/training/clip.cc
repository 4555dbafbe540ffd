#include "runtime/base/no_contraction.h"

#include "runtime/training/clip.h"

#include "runtime/training/encoding.h"

namespace gradstream {

int64_t clip_value(int64_t value, uint32_t scale) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  const auto left = static_cast<int64_t>(magnitude * scale >> kClipScaleBits);
  return value < 0 ? -left : left;
}

Status OwnClip::apply(size_t count, Real* values) const {
  if (leaves_all()) {
    return Status::kOk;
  }
  const Real unit = fixed_unit(fold_scale_log2);
  const Real one = 1 / unit;  // exact, as each power of two
  for (size_t i = 0; i < count; ++i) {
    int64_t fixed = 0;
    GS_TRY(round_fixed(values[i] * one, &fixed));
    values[i] = static_cast<Real>(static_cast<int32_t>(clip_value(fixed, scale))) * unit;
  }
  return Status::kOk;
}

}  // namespace gradstream

// What a clip leaves of an update (docs/algorithms.md, "The clip"), on the server that clips and on a device that
// remembers its own update. Both work on the whole numbers that the fold makes of values, so that both have the same.
//
//   x <- round(2^fold_scale_log2 value)     round_fixed: half away from zero
//   x <- sign(x) (|x| r >> 31)              clip_value: toward zero, r of 2^31
#ifndef GRADSTREAM_RUNTIME_TRAINING_CLIP_H_
#define GRADSTREAM_RUNTIME_TRAINING_CLIP_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace gradstream {

// r is a fraction of this many bits.
inline constexpr unsigned kClipScaleBits = 31;
inline constexpr uint32_t kClipScaleOne = 1U << kClipScaleBits;

// The whole number next to `scaled`, a value times 2^fold_scale_log2. kOutOfRange: it is not below 2^kFoldValueBits in
// magnitude, or no number.
inline Status round_fixed(Real scaled, int64_t* fixed) {
  constexpr Real kLimit = static_cast<Real>(uint32_t{1} << kFoldValueBits);
  if (!(scaled < kLimit && scaled > -kLimit)) {
    return Status::kOutOfRange;
  }
  const auto whole = static_cast<int32_t>(scaled);  // one of 64 bits takes 500 bytes of a board's flash
  const Real rest = scaled - static_cast<Real>(whole);
  const Real half = static_cast<Real>(0.5);
  const int64_t rounded = int64_t{whole} + (rest >= half ? 1 : 0) - (rest <= -half ? 1 : 0);
  constexpr int64_t kFixedLimit = int64_t{1} << kFoldValueBits;
  if (rounded >= kFixedLimit || rounded <= -kFixedLimit) {
    return Status::kOutOfRange;
  }
  *fixed = rounded;
  return Status::kOk;
}

// What is left of a whole number. |value| < 2^32, scale <= kClipScaleOne.
int64_t clip_value(int64_t value, uint32_t scale);

// How the server counted an update of this device: as Ack.clip_scale says.
struct OwnClip {
  uint32_t fold_scale_log2 = 0;  // at most kFixedScaleLog2Max
  uint32_t scale = 0;            // r, at most kClipScaleOne; 0: all of it, as in an Ack

  bool leaves_all() const { return scale == 0 || scale == kClipScaleOne; }
  // values <- what is left of them; where all is, they stay in the same bits. kOutOfRange as round_fixed; values are
  // unspecified then.
  Status apply(size_t count, Real* values) const;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_CLIP_H_

// Which of a device's samples are held out of training, and which ones losses are compared on: both by their numbers
// alone, so that no device needs to remember anything.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_HOLDOUT_H_
#define GRADSTREAM_RUNTIME_PROBLEM_HOLDOUT_H_

#include <cstdint>

namespace gradstream {

// Whether sample number `index` is held out, where about `holdout` of 65,536 are. A held-out sample is in no minibatch,
// in no sum and not among the evaluation samples. Reason: the multiplier, 2^32 over the golden ratio, spreads
// successive numbers evenly.
constexpr bool is_held_out(uint32_t index, uint32_t holdout) { return ((index * 2654435769U) >> 16) < holdout; }

// Evaluation samples of a device: the first ones that are not held out, at most so many. Reason: 32 and 64 of them led
// to the same steps, and the losses of 64 take 7 % of a round.
inline constexpr uint32_t kEvaluationSampleMax = 64;

// indices (kEvaluationSampleMax of them) <- the evaluation samples of a device that holds `held` samples; returns their
// number, which is 0 where none is left.
inline uint32_t fill_evaluation_samples(uint32_t held, uint32_t holdout, uint16_t* indices) {
  uint32_t count = 0;
  for (uint32_t index = 0; index < held && count < kEvaluationSampleMax; ++index) {
    if (!is_held_out(index, holdout)) {
      indices[count++] = static_cast<uint16_t>(index);
    }
  }
  return count;
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_HOLDOUT_H_

// Health tests of a raw entropy source, NIST SP 800-90B section 4.4: they find a source that is stuck or has lost most
// of its entropy, at once and for as long as it runs. One object for one source; no memory but its own.
#ifndef GRADSTREAM_BOARDS_ENTROPY_HEALTH_H_
#define GRADSTREAM_BOARDS_ENTROPY_HEALTH_H_

#include <cstdint>

namespace gradstream {

// False alarms at a rate of 2^-20 for samples with at least one bit of min-entropy in eight (H = 1/8 per bit sample, a
// source far worse than any that is used here).
class EntropyHealth {
 public:
  // 4.4.1: 1 + ceil(20 / H).
  static constexpr uint32_t kRepetitionCountMax = 161;
  // 4.4.2, binary: window 1,024; the cut-off that a binomial with p = 2^-H = 0.917 exceeds once in 2^20.
  static constexpr uint32_t kWindowSize = 1024;
  static constexpr uint32_t kProportionMax = 979;
  // Samples to be seen, and thrown away, before the first is used (4.3, start-up tests).
  static constexpr uint32_t kStartUpCount = 1024;

  // One raw bit. false: the source has failed, now or before.
  bool add(bool bit) {
    repetitions_ = seen_ != 0 && bit == last_ ? repetitions_ + 1 : 1;
    last_ = bit;
    if (position_ == 0) {
      first_ = bit;
      equal_ = 0;
    }
    equal_ += bit == first_ ? 1 : 0;
    position_ = (position_ + 1) % kWindowSize;
    seen_ += seen_ < kStartUpCount ? 1 : 0;
    has_failed_ = has_failed_ || repetitions_ >= kRepetitionCountMax || equal_ >= kProportionMax;
    return !has_failed_;
  }
  bool has_failed() const { return has_failed_; }
  bool is_started() const { return seen_ == kStartUpCount; }

 private:
  uint32_t repetitions_ = 0;
  uint32_t equal_ = 0;
  uint32_t position_ = 0;
  uint32_t seen_ = 0;
  bool last_ = false;
  bool first_ = false;
  bool has_failed_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_ENTROPY_HEALTH_H_

// A quantile of scores that come one by one, in memory that does not grow: only those above it are kept.
#ifndef GRADSTREAM_FIRMWARE_UPPER_QUANTILE_H_
#define GRADSTREAM_FIRMWARE_UPPER_QUANTILE_H_

#include <cstdint>

namespace gradstream {

// Scores that are kept. Reason: 256 bytes, and 6,300 samples all count at a quantile of 0.99.
inline constexpr uint32_t kUpperScoreMax = 64;

// numpy.quantile(scores, q, method="higher"): of n scores in ascending order the one at ceil(q (n - 1)), from 0. The
// product is one of floats.
class UpperQuantile {
 public:
  // quantile from 0 to 1, of at most sample_count scores, >= 1. Where more than kUpperScoreMax would have to be kept
  // only each stride()-th of these samples is to be added, from the first on.
  void begin(float quantile, uint32_t sample_count) {
    *this = UpperQuantile();
    quantile_ = quantile;
    stride_ = 1;
    uint32_t count = sample_count;
    while (kept_of(count) > kUpperScoreMax) {
      ++stride_;
      count = (sample_count + stride_ - 1) / stride_;
    }
    room_ = kept_of(count);
  }
  uint32_t stride() const { return stride_; }
  // At most as many as begin() allows. The score is finite.
  void add(float score) {
    ++count_;
    if (held_ == room_ && score <= top_[room_ - 1]) {
      return;
    }
    uint32_t at = held_ < room_ ? held_++ : room_ - 1;
    for (; at > 0 && top_[at - 1] < score; --at) {
      top_[at] = top_[at - 1];
    }
    top_[at] = score;
  }
  uint32_t count() const { return count_; }  // scores added
  // count() >= 1.
  float value() const { return top_[kept_of(count_) - 1]; }

 private:
  // How many of so many scores are at the quantile or above; it does not fall with the count.
  uint32_t kept_of(uint32_t count) const {
    const float product = quantile_ * static_cast<float>(count - 1);
    const auto whole = static_cast<uint32_t>(product);
    return count - (static_cast<float>(whole) < product ? whole + 1 : whole);
  }

  float quantile_ = 0;
  uint32_t stride_ = 0;
  uint32_t room_ = 0;
  uint32_t held_ = 0;
  uint32_t count_ = 0;
  float top_[kUpperScoreMax] = {};  // the greatest ones, in descending order
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_UPPER_QUANTILE_H_

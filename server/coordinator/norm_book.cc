#include "server/coordinator/norm_book.h"

#include <algorithm>
#include <bit>

namespace gradstream {

void DeviceNorms::take(const ClipTally::Norm& one, uint64_t median, uint64_t radius) {
  const uint64_t norm = one.norm;
  ratio_ = median == 0 ? 0 : static_cast<double>(norm) / static_cast<double>(median);
  clipped_ = clipped_ << 1 | (norm > radius ? 1U : 0U);
  long_ = long_ << 1 | (norm > kOutlierFactor * median ? 1U : 0U);
  count_ = std::min(count_ + 1, kNormMemory);
  cosine_ = one.cosine != 0 ? one.cosine : cosine_;
}

double DeviceNorms::clipped_share() const { return static_cast<double>(std::popcount(clipped_)) / count_; }

bool DeviceNorms::is_outlier() const { return static_cast<uint32_t>(std::popcount(long_)) >= kOutlierCount; }

void NormBook::take(const ClipTally& tally) {
  if (tally.norms.empty()) {
    return;
  }
  radius_ = tally.radius;
  least_cosine_ = 0;
  for (const ClipTally::Norm& one : tally.norms) {
    if (one.device == ClipTally::kNobody) {
      continue;
    }
    if (one.device >= devices_.size()) {
      devices_.resize(one.device + size_t{1});
    }
    devices_[one.device].take(one, tally.median, tally.radius);
    if (one.cosine != 0) {
      least_cosine_ = least_cosine_ == 0 ? one.cosine : std::min(least_cosine_, one.cosine);
    }
    clipped_count_ += one.norm > tally.radius ? 1 : 0;
  }
}

void NormBook::forget(uint32_t device) {
  if (device < devices_.size()) {
    devices_[device] = DeviceNorms();
  }
}

const DeviceNorms* NormBook::find(uint32_t device) const {
  return device < devices_.size() && devices_[device].has_any() ? &devices_[device] : nullptr;
}

std::string NormBook::text() const {
  return clipped_count_ == 0
             ? ""
             : "clipped=" + std::to_string(clipped_count_) + " radius=" + std::to_string(radius_) + "\n";
}

void NormBook::exchange(StateArchive& io) {
  io.values(clipped_count_, radius_);
  io.list(devices_, [&io](DeviceNorms& device) { device.exchange(io); });
}

}  // namespace gradstream

#include "server/coordinator/device_ranks.h"

#include <bit>

#include "runtime/base/status.h"

namespace gradstream {
namespace {

uint32_t low_bit(uint32_t i) { return i & (0U - i); }

}  // namespace

void DeviceRanks::append(bool is_in) {
  is_in_.push_back(is_in);
  const uint32_t i = size();
  uint32_t sum = is_in ? 1 : 0;
  for (uint32_t j = i - 1; j > i - low_bit(i); j -= low_bit(j)) {
    sum += sums_[j - 1];
  }
  sums_.push_back(sum);
  count_ += is_in ? 1 : 0;
}

void DeviceRanks::set(uint32_t index, bool is_in) {
  if (contains(index) == is_in) {
    return;
  }
  is_in_[index] = is_in;
  const uint32_t step = is_in ? 1 : 0U - 1;
  for (uint32_t i = index + 1; i <= size(); i += low_bit(i)) {
    sums_[i - 1] += step;
  }
  count_ += step;
}

bool DeviceRanks::contains(uint32_t index) const {
  GS_ASSERT(index < size());
  return is_in_[index];
}

uint32_t DeviceRanks::at(uint32_t rank) const {
  GS_ASSERT(rank < count_);
  if (count_ == size()) {
    return rank;  // as in most fleets
  }
  uint32_t index = 0;
  for (uint32_t step = std::bit_floor(size()); step > 0; step /= 2) {
    if (index + step <= size() && sums_[index + step - 1] <= rank) {
      index += step;
      rank -= sums_[index - 1];
    }
  }
  return index;
}

}  // namespace gradstream

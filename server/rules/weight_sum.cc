#include "runtime/base/no_contraction.h"

#include "server/rules/weight_sum.h"

#include "server/run/limits.h"

namespace gradstream {
namespace {

constexpr uint64_t kWeightMax = (uint64_t{1} << kFoldWeightBits) - 1;

}  // namespace

bool WeightSum::is_full() const { return update_count_ >= kFoldUpdateCountMax; }

void WeightSum::add(uint16_t weight, uint32_t steps_done) {
  total_ += weight;
  weighted_steps_ += static_cast<int64_t>(static_cast<uint64_t>(weight) * steps_done);
  ++update_count_;
}

Status WeightSum::check(const WeightSum& other) const {
  return other.update_count_ <= kFoldUpdateCountMax - update_count_ ? Status::kOk : Status::kOutOfRange;
}

void WeightSum::add(const WeightSum& other) {
  total_ += other.total_;
  weighted_steps_ += other.weighted_steps_;
  update_count_ += other.update_count_;
}

Real WeightSum::effective_steps() const {
  return static_cast<Real>(weighted_steps_.value() / static_cast<double>(total_));
}

void WeightSum::exchange(StateArchive& io) {
  io.values(total_, update_count_, weighted_steps_.low, weighted_steps_.high);
  if (!is_possible()) {
    io.fail();
  }
}

// Each weight is from 1 to kWeightMax, each number of steps from 1 to 2^32 - 1.
bool WeightSum::is_possible() const {
  if (update_count_ > kFoldUpdateCountMax || total_ < update_count_ || total_ > kWeightMax * update_count_) {
    return false;
  }
  const WideInt least = static_cast<int64_t>(total_);
  const WideInt outside = WideInt::shifted(total_, 32);
  return update_count_ == 0 ? weighted_steps_ == WideInt() : !(weighted_steps_ < least) && weighted_steps_ < outside;
}

}  // namespace gradstream

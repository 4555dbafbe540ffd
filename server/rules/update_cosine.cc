#include "runtime/base/no_contraction.h"

#include "server/rules/update_cosine.h"

#include <algorithm>
#include <cmath>

namespace gradstream {
namespace {

constexpr size_t kLanes = 4;  // sums that do not wait for each other

double sum_of(const double (&lanes)[kLanes]) { return lanes[0] + lanes[1] + lanes[2] + lanes[3]; }

}  // namespace

void CosineSum::add(std::span<const Real> values, double factor) {
  sum_.resize(std::max(sum_.size(), values.size()));
  for (size_t q = 0; q < values.size(); ++q) {
    sum_[q] += factor * static_cast<double>(values[q]);
  }
  ++count_;
}

void CosineSum::close() {
  double square = 0;
  for (const double value : sum_) {
    square += value * value;
  }
  length_ = std::sqrt(square);
}

double CosineSum::cosine(std::span<const Real> values) const {
  double along[kLanes] = {};
  double squares[kLanes] = {};
  const auto take = [&](size_t lane, size_t q) {
    const auto value = static_cast<double>(values[q]);
    along[lane] += value * sum_[q];
    squares[lane] += value * value;
  };
  size_t q = 0;
  for (; q + kLanes <= values.size(); q += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      take(lane, q + lane);
    }
  }
  for (; q < values.size(); ++q) {
    take(0, q);
  }
  const double length = std::sqrt(sum_of(squares)) * length_;
  return count_ > 1 && length > 0 ? std::clamp(sum_of(along) / length, -1.0, 1.0) : 0;
}

}  // namespace gradstream

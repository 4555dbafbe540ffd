#include "runtime/base/no_contraction.h"

#include "server/rules/update_cosine.h"

#include <algorithm>

#include "runtime/base/products.h"

namespace gradstream {

void CosineSum::add(std::span<const Real> values, Real factor) {
  sum_.resize(std::max(sum_.size(), values.size()));
  add_scaled(values.size(), factor, values.data(), sum_.data());
  ++count_;
}

void CosineSum::close() { length_ = norm2(sum_.size(), sum_.data()); }

double CosineSum::cosine(std::span<const Real> values, double length) const {
  const double product = length * static_cast<double>(length_);
  return count_ > 1 && product > 0
             ? std::clamp(static_cast<double>(dot(values.size(), values.data(), sum_.data())) / product, -1.0, 1.0)
             : 0;
}

}  // namespace gradstream

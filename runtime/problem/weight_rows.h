// The rows of a layer's weights as a loss reads them: as they stand, or displaced on the way. A loss that reads each
// row once for all samples of a group pays for the displacement once.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_WEIGHT_ROWS_H_
#define GRADSTREAM_RUNTIME_PROBLEM_WEIGHT_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"

namespace gradstream {

class WeightRows {
 public:
  // displacement null: the point is x. row: the longest row, which x does not overlap; null where displacement is. All
  // stay the caller's and must outlive this.
  WeightRows(const Real* x, const Displacement* displacement, Real* row)
      : x_(x), displacement_(displacement), row_(row) {}

  // The values [offset, offset + count) of the point, count >= 1. Valid until the next call.
  const Real* read(size_t offset, uint32_t count) const {
    if (displacement_ == nullptr) {
      return x_ + offset;
    }
    copy(count, x_ + offset, row_);
    displacement_->add(displacement_->context, offset, count, row_);
    return row_;
  }

 private:
  const Real* x_;
  const Displacement* displacement_;
  Real* row_;
};

// Memory for samples whose layers are evaluated together, bytes: at least this, and a quarter of the model where that
// is more. Reason: 17 samples of a perceptron 64-32-10, beside whose 9.6 KB it is small. With more samples a displaced
// row serves more of them.
inline constexpr size_t kGroupBytesMin = 6656;

// Of a batch of batch_size samples: how many are evaluated together where one takes sample_bytes and the model
// model_bytes. The groups of a batch are of this size, but for the last.
inline uint32_t group_size(uint32_t batch_size, size_t sample_bytes, size_t model_bytes) {
  const size_t bytes = max_size(kGroupBytesMin, model_bytes / 4);
  const size_t most = max_size(1, bytes / sample_bytes);
  const size_t groups = (batch_size + most - 1) / most;
  return groups == 0 ? 0 : static_cast<uint32_t>((batch_size + groups - 1) / groups);
}
// The largest of those of all batches up to batch_size.
inline uint32_t group_size_max(uint32_t batch_size, size_t sample_bytes, size_t model_bytes) {
  const size_t most = max_size(1, max_size(kGroupBytesMin, model_bytes / 4) / sample_bytes);
  return batch_size < most ? batch_size : static_cast<uint32_t>(most);
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_WEIGHT_ROWS_H_

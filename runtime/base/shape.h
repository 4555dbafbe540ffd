// The shape of a matrix, or of a point that is made of several.
#ifndef GRADSTREAM_RUNTIME_BASE_SHAPE_H_
#define GRADSTREAM_RUNTIME_BASE_SHAPE_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

struct Parts;  // runtime/manifold/manifold.h

struct Shape {
  uint32_t rows = 0;
  uint32_t cols = 0;
  // What the rows x cols numbers are cut into, for a manifold whose point has several blocks (product, fixed rank);
  // null for all others. The caller's: it must outlive every use of the shape. Two shapes are equal only with the same
  // list.
  const Parts* parts = nullptr;
  constexpr size_t size() const { return static_cast<size_t>(rows) * cols; }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_SHAPE_H_

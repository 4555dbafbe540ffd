// Products of matrices written as plainly as the rule of the house is stated, one entry at a time, for tests of the
// kernels that do the same faster.
#ifndef GRADSTREAM_TESTS_SUPPORT_PLAIN_PRODUCTS_H_
#define GRADSTREAM_TESTS_SUPPORT_PLAIN_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/products.h"
#include "runtime/base/random.h"
#include "runtime/base/shape.h"

namespace gradstream {

using Vector = std::vector<Real>;

inline Vector normals(size_t count, uint32_t seed) {
  Vector out(count);
  fill_normal({.seed = seed}, 0, count, out.data());
  return out;
}

// The rule of the house, written as plainly as it is stated.
inline Real plain_sum(const Vector& terms) {
  Real s[4] = {};
  for (size_t i = 0; i < terms.size(); ++i) {
    s[i % 4] = i < 4 ? terms[i] : s[i % 4] + terms[i];
  }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

inline Vector plain_multiply_transposed(Shape shape, const Vector& a, const Vector& b) {
  Vector out;
  for (size_t i = 0; i < shape.cols; ++i) {
    for (size_t j = 0; j < shape.cols; ++j) {
      Vector terms;
      for (size_t r = 0; r < shape.rows; ++r) {
        terms.push_back(a[r * shape.cols + i] * b[r * shape.cols + j]);
      }
      out.push_back(plain_sum(terms));
    }
  }
  return out;
}

inline Vector plain_multiply_right(Shape shape, const Vector& a, const Vector& s) {
  Vector out;
  for (size_t r = 0; r < shape.rows; ++r) {
    for (size_t c = 0; c < shape.cols; ++c) {
      Vector terms;
      for (size_t k = 0; k < shape.cols; ++k) {
        terms.push_back(a[r * shape.cols + k] * s[k * shape.cols + c]);
      }
      out.push_back(plain_sum(terms));
    }
  }
  return out;
}

// The order that products.h states: term i goes to partial sum i % 4.
inline Real ordered_dot(size_t count, const Real* x, size_t x_stride, const Real* y, size_t y_stride) {
  Real s[4] = {};
  for (size_t i = 0; i < count; ++i) {
    const Real term = x[i * x_stride] * y[i * y_stride];
    s[i % 4] = i < 4 ? term : s[i % 4] + term;
  }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

// |A'A - I|.
inline Real orthonormality(Shape shape, const Vector& a) {
  Vector gram = plain_multiply_transposed(shape, a, a);
  for (size_t i = 0; i < shape.cols; ++i) {
    gram[i * (shape.cols + 1)] -= 1;
  }
  return norm2(gram.size(), gram.data());
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_PLAIN_PRODUCTS_H_

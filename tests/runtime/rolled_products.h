// What rolled_products.cc compiles once more: as the functions of runtime/base/products.h without the prefix.
#ifndef GRADSTREAM_TESTS_RUNTIME_ROLLED_PRODUCTS_H_
#define GRADSTREAM_TESTS_RUNTIME_ROLLED_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

float rolled_dot(size_t count, const float* x, const float* y);
void rolled_column_dots(uint32_t rows, uint32_t cols, const float* a, const float* b, float* out);
void rolled_multiply_transposed(uint32_t rows, uint32_t cols, const float* a, const float* b, float* out);
void rolled_gram(uint32_t rows, uint32_t cols, const float* a, float* out);
void rolled_multiply_right(uint32_t rows, uint32_t cols, const float* a, const float* s, float* out);
void rolled_multiply_right_in_place(uint32_t rows, uint32_t cols, float* a, const float* s, float* row);
void rolled_subtract_multiply_right(uint32_t rows, uint32_t cols, const float* a, const float* s, const float* g,
                                    float* out);

#endif  // GRADSTREAM_TESTS_RUNTIME_ROLLED_PRODUCTS_H_

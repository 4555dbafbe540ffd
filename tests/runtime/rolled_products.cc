// The kernels of runtime/base/products.cc as the smallest image has them, an entry at a time, under names of their own.
#define GS_SMALLEST 1
#define GS_NO_WIDE 1
#define gradstream rolled
#include "runtime/base/products.cc"
#undef gradstream

#include "tests/runtime/rolled_products.h"

float rolled_dot(size_t count, const float* x, const float* y) { return rolled::dot(count, x, y); }
void rolled_column_dots(uint32_t rows, uint32_t cols, const float* a, const float* b, float* out) {
  rolled::column_dots({rows, cols}, a, b, out);
}
void rolled_multiply_transposed(uint32_t rows, uint32_t cols, const float* a, const float* b, float* out) {
  rolled::multiply_transposed({rows, cols}, a, b, out);
}
void rolled_gram(uint32_t rows, uint32_t cols, const float* a, float* out) { rolled::gram({rows, cols}, a, out); }
void rolled_multiply_right(uint32_t rows, uint32_t cols, const float* a, const float* s, float* out) {
  rolled::multiply_right({rows, cols}, a, s, out);
}
void rolled_multiply_right_in_place(uint32_t rows, uint32_t cols, float* a, const float* s, float* row) {
  rolled::multiply_right_in_place({rows, cols}, a, s, row);
}
void rolled_subtract_multiply_right(uint32_t rows, uint32_t cols, const float* a, const float* s, const float* g,
                                    float* out) {
  rolled::subtract_multiply_right({rows, cols}, a, s, g, out);
}

// Compiled with flags that let the compiler fuse, as a user's own build would, and as GCC does by default.
#include "runtime/base/no_contraction.h"

template <typename T>
T product_and_sum(T a, T b, T c) {
  return a * b + c;
}

float uncontracted(float a, float b, float c) { return product_and_sum(a, b, c); }

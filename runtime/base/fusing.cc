#include "runtime/base/no_contraction.h"

#include "runtime/base/fusing.h"

namespace gradstream {

// The square of 1 + 2^-12 is 1 + 2^-11 + 2^-24. Rounded to a float it is 1 + 2^-11, a tie that goes to the even one.
bool fuses_products() {
  volatile float factor = 1 + 0x1p-12F;  // volatile keeps the compiler from answering
  volatile float rounded = 1 + 0x1p-11F;
  const float value = factor;
  return value * value - rounded != 0;
}

}  // namespace gradstream

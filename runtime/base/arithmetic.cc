#include "runtime/base/no_contraction.h"

#include "runtime/base/arithmetic.h"

#include <bit>
#include <cstdint>

namespace gradstream {

bool keeps_subnormals() {
  volatile float smallest_normal = 0x1p-126F;  // volatile keeps the compiler from answering
  volatile float smallest = 0x1p-149F;
  const float result = smallest_normal / 2;
  const float of_operand = smallest * 2;
  return std::bit_cast<uint32_t>(result) == 0x00400000 && std::bit_cast<uint32_t>(of_operand) == 2;
}

}  // namespace gradstream

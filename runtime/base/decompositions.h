// Matrix functions and decompositions that only some manifolds need, in the fixed order of operations of linalg.h: an
// image that registers none of them links none of these. Matrices are row-major, without padding.
#ifndef GRADSTREAM_RUNTIME_BASE_DECOMPOSITIONS_H_
#define GRADSTREAM_RUNTIME_BASE_DECOMPOSITIONS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/linalg.h"
#include "runtime/base/status.h"

namespace gradstream {

// out <- exp(A), n x n, by scaling and squaring of the Taylor series; only + - * /. out does not alias a. kNotFinite
// when A is not finite or the scaling would take more than 2^40.
Status matrix_exponential(uint32_t n, const Real* a, Real* out, Arena& arena);
size_t matrix_exponential_scratch_size(uint32_t n);  // bytes of arena scratch

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_DECOMPOSITIONS_H_

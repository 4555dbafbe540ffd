// Whether this processor, in the mode that it is in, computes what every replica computes.
//
// Models are compared bit for bit, so no replica may flush subnormal numbers to zero. A library linked with
// -ffast-math, or start-up code that sets FPSCR.FZ, does that to a whole process without a word: every main asks first.
#ifndef GRADSTREAM_RUNTIME_BASE_ARITHMETIC_H_
#define GRADSTREAM_RUNTIME_BASE_ARITHMETIC_H_

namespace gradstream {

// false: the calling thread flushes subnormal results to zero, or takes subnormal operands for zero.
bool keeps_subnormals();

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_ARITHMETIC_H_

// Whether this build computes what every replica computes.
//
// A fused multiplication and addition rounds once, where a replica rounds twice: models would drift apart bit by bit,
// and each update would cost a snapshot. Every source forbids it (runtime/base/no_contraction.h). This asks the code
// that was made: a compiler may know neither pragma, or have a flag that counts more, such as clang's
// -ffp-contract=fast.
#ifndef GRADSTREAM_RUNTIME_BASE_FUSING_H_
#define GRADSTREAM_RUNTIME_BASE_FUSING_H_

namespace gradstream {

// true: a product and a sum of floats are rounded once, or between them stand more bits than a float has.
bool fuses_products();

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_FUSING_H_

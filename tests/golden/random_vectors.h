// Known answers of the random stream: the published ones of Philox4x32-10, then figures of an independent reference
// (seed 7, version 1, owner 2, step 3).
#ifndef GRADSTREAM_TESTS_GOLDEN_RANDOM_VECTORS_H_
#define GRADSTREAM_TESTS_GOLDEN_RANDOM_VECTORS_H_

#include <cstdint>

namespace gradstream::golden::random {

inline constexpr uint32_t kZeroOut[] = {
    0x6627e8d5,
    0xe169c58d,
    0xbc57ac4c,
    0x9b00dbd8,
};
inline constexpr uint32_t kPiCounter[] = {
    0x243f6a88,
    0x85a308d3,
    0x13198a2e,
    0x03707344,
};
inline constexpr uint32_t kPiKey[] = {
    0xa4093822,
    0x299f31d0,
};
inline constexpr uint32_t kPiOut[] = {
    0xd16cfe09,
    0x94fdcceb,
    0x5001e420,
    0x24126ea1,
};
inline constexpr uint32_t kMinibatchWords[] = {
    0x614101f2, 0xc82e2e89, 0x9b14c22a, 0x3c37a794, 0x58584b6a, 0x29909619, 0x7a93c309, 0x5486c782,
};
inline constexpr double kDataNormals[] = {
    2.4737614657950395, -0.05714900019355145, 0.16093760722305675, -2.0289722293217514,
    1.1333320276803676, -0.92871104824611,    0.8912305821633922,  -0.6577285099047533,
};
inline constexpr uint16_t kChoice4Of10[] = {
    3,
    8,
    6,
    4,
};

}  // namespace gradstream::golden::random

#endif  // GRADSTREAM_TESTS_GOLDEN_RANDOM_VECTORS_H_

// Forbids the compiler to fuse a multiplication with an addition in the file that includes this first.
//
// Replicas compare their models bit for bit, and a fused operation rounds once where two operations round twice.
// The library's targets say -ffp-contract=off and GS_CONTRACTION_OFF, and then nothing is left to do here. The rest is
// for sources that somebody compiles with flags of their own, where GCC fuses by default.
//
// It stands before all other includes, because headers of the runtime hold arithmetic too.
#ifndef GRADSTREAM_RUNTIME_BASE_NO_CONTRACTION_H_
#define GRADSTREAM_RUNTIME_BASE_NO_CONTRACTION_H_

#if defined(GS_TEST_CONTRACTION)
// A build that has lost the rest: tests/firmware/fusing_build_test.cc.
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF  // holds against all flags but -ffp-contract=fast
#elif defined(__GNUC__) && !defined(GS_CONTRACTION_OFF)
// GCC ignores the pragma of standard C. With its own, GCC 12 makes the same code at -O2, but at -Os the objects of a
// Cortex-M4F grow by up to 0.7 %. So the library's own targets go without.
#pragma GCC optimize("fp-contract=off")
#endif

#endif  // GRADSTREAM_RUNTIME_BASE_NO_CONTRACTION_H_

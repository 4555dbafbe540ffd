// GS_QUICK, for a function that has nearly all instructions of a loss. With -Os GCC keeps its sums on the stack, which
// takes 1.6 times as many of them.
#ifndef GRADSTREAM_RUNTIME_BASE_QUICK_H_
#define GRADSTREAM_RUNTIME_BASE_QUICK_H_

#if defined(__OPTIMIZE_SIZE__) && !defined(__clang__)
#define GS_QUICK [[gnu::optimize("O2"), gnu::noinline]]
#else
#define GS_QUICK
#endif

#endif  // GRADSTREAM_RUNTIME_BASE_QUICK_H_

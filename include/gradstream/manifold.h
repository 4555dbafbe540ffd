// C++: a manifold of one's own, for research on hosts. What a manifold is, and its table, stand in the header below:
//
//   struct MySurface { ... };                                        // a ManifoldType: static functions alone
//   constexpr ManifoldOps kMySurfaceOps = make_manifold_ops<MySurface>();
//
// <gradstream/eigen.h> makes one of functions that are written with Eigen; docs/own_loss.md has an example.
#ifndef GRADSTREAM_INCLUDE_GRADSTREAM_MANIFOLD_H_
#define GRADSTREAM_INCLUDE_GRADSTREAM_MANIFOLD_H_

#if __cplusplus < 202002L
#error "<gradstream/manifold.h> needs C++20: compile this file with -std=c++20"
#endif

#include "runtime/manifold/manifold.h"

#endif  // GRADSTREAM_INCLUDE_GRADSTREAM_MANIFOLD_H_

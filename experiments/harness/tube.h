// Counts how often a run's devices leave the regions in which the works' theorems hold. Nothing is changed or refused
// by that: a step that has no result is an error of its own (docs/algorithms.md, "Bad input").
//
//   points  taken to the manifold by P_M: the zhat of 003, displaced points, and where devices repeat it the server's
//           step. 003 wants them within gamma of the manifold: 1/2 on the sphere, Stiefel, oblique and Grassmann
//           (representatives), half of their radius of proximal smoothness
//   steps   along geodesics, of the exponential retraction: inside the injectivity radius they have a logarithm. pi on
//           the sphere, oblique and Stiefel (Euclidean metric), pi/2 on Grassmann, none elsewhere
//   lifts   by the equation of the polar retraction's inverse alone (`polar_formal`): of X9 and X10, where the works go
//           on beyond the region in which that inverse exists
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_TUBE_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_TUBE_H_

#include <cstdint>
#include <span>
#include <string>

#include "runtime/manifold/manifold.h"

namespace gradstream {

struct TubeCounts {
  uint64_t points = 0;
  uint64_t far_points = 0;  // from farther than gamma, or without a nearest point
  uint64_t steps = 0;
  uint64_t long_steps = 0;  // not below the injectivity radius
  uint64_t lifts = 0;
  uint64_t undefined_lifts = 0;
  friend bool operator==(const TubeCounts&, const TubeCounts&) = default;
};

TubeCounts& operator+=(TubeCounts& sum, const TubeCounts& counts);

// " far_points=0/1200 long_steps=3/40": what was counted at all, with a space before each; empty: nothing was.
std::string text_of(const TubeCounts& counts);

// all_manifolds(), table by table, with the same results, and counting into tube_counts() of the calling thread.
std::span<const ManifoldOps* const> counting_manifolds();
TubeCounts& tube_counts();

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_TUBE_H_

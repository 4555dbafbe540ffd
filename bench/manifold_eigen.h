// The operations as a programmer would write them with Eigen. Each takes its operands in columns, puts its result into
// o.result, and uses the other matrices of o for what is in between.
#ifndef GRADSTREAM_BENCH_MANIFOLD_EIGEN_H_
#define GRADSTREAM_BENCH_MANIFOLD_EIGEN_H_

#include "bench/manifold_operands.h"

namespace gradstream {

// Tall matrices: Stiefel and Grassmann. is_symmetric: of X'V the symmetric part alone is taken off, as on Stiefel.
void eigen_tangent(Operands& o, const ColumnMatrix& x, bool is_symmetric);
void eigen_point(Operands& o);
void eigen_polar(Operands& o);
void eigen_qr(Operands& o);
void eigen_smooth(Operands& o);
void eigen_grassmann_exponential(Operands& o);
void eigen_stiefel_exponential(Operands& o);
void eigen_grassmann_transport(Operands& o);
void eigen_grassmann_parallel(Operands& o);

// Symmetric positive definite matrices.
void eigen_spd_exponential(Operands& o);
void eigen_spd_second_order(Operands& o);
void eigen_spd_transport(Operands& o);

// Hyperbolic space.
void eigen_hyperbolic_exponential(Operands& o);
void eigen_hyperbolic_transport(Operands& o);
void eigen_hyperbolic_tangent(Operands& o);

// Oblique, and the sphere as its single column. The drifting exponential leaves rounding's drift to the caller.
void eigen_oblique_exponential(Operands& o);
void eigen_oblique_exponential_drifting(Operands& o);
void eigen_oblique_project(Operands& o);
void eigen_oblique_retract(Operands& o);
void eigen_oblique_tangent(Operands& o);
void eigen_oblique_transport(Operands& o);
void eigen_oblique_transport_projection(Operands& o);

// Fixed rank: see manifold_fixed_rank.h.
void eigen_fixed_rank_tangent(Operands& o);
void eigen_fixed_rank_transport(Operands& o);
void eigen_fixed_rank_retract(Operands& o);

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_MANIFOLD_EIGEN_H_

// The operations as a programmer would write them with LAPACK and BLAS; without those that these have nothing for. Each
// takes its operands in columns, puts its result into o.result, and uses the other matrices of o for what is in
// between.
#ifndef GRADSTREAM_BENCH_MANIFOLD_LAPACK_H_
#define GRADSTREAM_BENCH_MANIFOLD_LAPACK_H_

#include "bench/manifold_operands.h"

namespace gradstream {

// Tall matrices: Stiefel and Grassmann. is_symmetric: of X'V the symmetric part alone is taken off, as on Stiefel.
void lapack_tangent(Operands& o, const ColumnMatrix& x, bool is_symmetric);
void lapack_point(Operands& o);
void lapack_polar(Operands& o);
void lapack_qr(Operands& o);
void lapack_smooth(Operands& o);
void lapack_grassmann_exponential(Operands& o);
void lapack_grassmann_transport(Operands& o);
void lapack_grassmann_parallel(Operands& o);

// Symmetric positive definite matrices.
void lapack_spd_exponential(Operands& o);
void lapack_spd_second_order(Operands& o);
void lapack_spd_transport(Operands& o);

// Hyperbolic space.
void lapack_hyperbolic_exponential(Operands& o);
void lapack_hyperbolic_transport(Operands& o);
void lapack_hyperbolic_tangent(Operands& o);

// Oblique, and the sphere as its single column. The drifting exponential leaves rounding's drift to the caller.
void lapack_oblique_exponential(Operands& o);
void lapack_oblique_exponential_drifting(Operands& o);
void lapack_oblique_project(Operands& o);
void lapack_oblique_retract(Operands& o);
void lapack_oblique_tangent(Operands& o);
void lapack_oblique_transport(Operands& o);
void lapack_oblique_transport_projection(Operands& o);

// Fixed rank: see manifold_fixed_rank.h.
void lapack_fixed_rank_retract(Operands& o);

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_MANIFOLD_LAPACK_H_

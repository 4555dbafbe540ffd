// k-PCA's losses beside a point, from the bytes of the samples. No displaced point is formed.
//
// A = z + t s has the polar factor y = A (A'A)^(-1/2). A trace is cyclic, so its loss needs no root:
//   f(y) = -1/(2 B) tr((A'A)^(-1) P'P),   P = X A = X z + t X s
//   A'A = z'z + t (z's + s'z) + t^2 s's
//   P'P = (Xz)'Xz + t ((Xz)'Xs + (Xs)'Xz) + t^2 (Xs)'Xs
// The point z is rounded to 16 bits with one exponent, once for all directions. The rest is whole numbers up to the
// last sums of cols x cols, so that all of the losses belong to one and the same point.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_KPCA_ALONG_H_
#define GRADSTREAM_RUNTIME_PROBLEM_KPCA_ALONG_H_

#include <cstddef>
#include <cstdint>

#include "runtime/problem/problem.h"
#include "runtime/problem/sign_products.h"

namespace gradstream {

// Columns of a point beside which losses are computed so.
inline constexpr uint32_t kAlongColsMax = kSignColsMax;
// Products of a batch with the point that are kept: samples x columns. Reason: 256 bytes, 32 samples of four columns.
inline constexpr uint32_t kAlongProductsMax = 128;

// ProblemOps::along_size and ProblemOps::loss_along of kKpcaOps. context = SampleSource with bytes.
size_t kpca_along_size(const void* context, Shape shape, uint32_t batch_size);
Result<Real> kpca_loss_along(const void* context, Shape shape, const SignDisplacement& point, Batch batch, void* memory,
                             Arena& arena);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_KPCA_ALONG_H_

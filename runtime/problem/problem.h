// What a device minimises over its own samples: a loss, and where it has one a Euclidean gradient.
//
// A Problem is a table of functions and the caller's context (its samples, its parameters). A user's own loss is one of
// these. Values that a problem returns are inputs of the training, not replicated state: a problem may use libm or
// Eigen.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_PROBLEM_H_
#define GRADSTREAM_RUNTIME_PROBLEM_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/linalg.h"
#include "runtime/base/status.h"

namespace gradstream {

// Where samples come from: an array, flash, a callback of the application.
struct SampleSource {
  const void* context = nullptr;
  uint32_t count = 0;      // samples held now, <= kSampleCountMax
  uint32_t dimension = 0;  // values of one sample
  // Writes sample `index` (dimension values) to out. kNotFinite or kClosed when the sample cannot be had.
  Status (*read)(const void* context, uint32_t index, Real* out) = nullptr;
};

// Samples of one evaluation. indices == nullptr: samples 0 .. count - 1.
struct Batch {
  const uint16_t* indices = nullptr;
  uint32_t count = 0;
  uint32_t at(uint32_t position) const { return indices == nullptr ? position : indices[position]; }
};

// Longest problem name on the wire, bytes without the final zero.
inline constexpr size_t kProblemNameSizeMax = 15;

struct ProblemOps {
  const char* name;  // at most kProblemNameSizeMax characters; a Task names it
  uint32_t (*sample_count)(const void* context);
  // kInvalidArgument when the problem has no point of this shape.
  Status (*check_shape)(const void* context, Shape shape);
  // Bytes of arena scratch that loss and gradient take.
  size_t (*scratch_size)(const void* context, Shape shape);
  // Mean loss over the batch at x. kNotFinite when it is not a number.
  Result<Real> (*loss)(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena);
  // Euclidean gradient of that mean into out (shape.size() values, aliases nothing). Null: the problem has none, and
  // only zeroth-order estimators can train it. kNotFinite.
  Status (*gradient)(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena);
};

struct Problem {
  const ProblemOps* ops = nullptr;
  const void* context = nullptr;
};

// The member of `linked` with this name, or null.
const Problem* find_problem(std::span<const Problem> linked, const char* name);

// Principal components (k-PCA), context = SampleSource. Point x: dimension x k with orthonormal columns;
// f(x) = -1/(2 B) sum_b |z_b' x|^2, gradient -1/B sum_b z_b (z_b' x). (003 section 5.1, 002 section 5)
extern const ProblemOps kKpcaOps;

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_PROBLEM_H_

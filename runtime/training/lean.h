// Zeroth-order training in the memory of one model: "forward passes only" in RAM too. The scalars, the model and all
// digests are bit for bit those of kSolverProjectionOps and Replica.
//
// - Displaced points stand nowhere: a problem with ProblemOps::loss_displaced perturbs the rows as it reads them. A
//   part of a product that is not Euclidean has its own small displaced point.
// - With one local step the path is the model itself. With more the path is a second tensor; there is no third.
// - A record is kept as its coefficients. It moves the model in place, a block of numbers at a time.
//
// A host takes less time with tensors than with blocks, and has the memory. So an image links this by its Registry.
#ifndef GRADSTREAM_RUNTIME_TRAINING_LEAN_H_
#define GRADSTREAM_RUNTIME_TRAINING_LEAN_H_

#include <cstddef>
#include <cstdint>

#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {

// Numbers of a model that a step moves at once. Reason: a block of Philox is the signs of 128 numbers, and their sum
// takes 512 bytes.
inline constexpr size_t kLeanBlockSize = 128;

// Coefficients of a record that a device keeps to apply it. A larger record costs the device a snapshot instead.
// Reason: 4 KB beside the model; a model of 7,690 numbers moves in about 70 million instructions, and meanwhile the
// link and a watchdog wait.
inline constexpr uint32_t kKeptCoefficientMax = 1024;

// One block of a record, in the arena.
struct KeptBlock {
  DirectionSpec directions;
  uint32_t count = 0;  // coefficients
  Real* coefficients = nullptr;
  KeptBlock* next = nullptr;
};
// A record that is not applied yet: the blocks in their order.
struct KeptRecord {
  KeptBlock* first = nullptr;
  KeptBlock* last = nullptr;
  uint32_t count = 0;  // coefficients of all blocks
  size_t mark = 0;     // of the arena: releasing it gives back the record, too
};

struct LeanForm {
  const SolverOps* solver;  // of SolverId::kProjection
  // Whether it does this task: one-sided or two-sided projection by signs, a stream of scalars, and a problem that
  // evaluates displaced points. run: all that begin_solver() looks up. Any other task has its usual solver.
  bool (*serves)(const SolverRun& run);
  // A record without blocks, at the arena's persistent end, where its blocks will stand too. kOutOfMemory.
  Result<KeptRecord*> (*begin)(Arena& arena);
  // Adds `count` coefficients to the record, from place `first` of a block of `total`; the blocks and their pieces come
  // in order. kOutOfMemory where they do not fit or are beyond kKeptCoefficientMax, kDataCorrupt where a piece is
  // beyond its block: the record is then of no use.
  Status (*keep)(KeptRecord& record, const DirectionSpec& directions, uint32_t first, uint32_t count, uint32_t total,
                 const Real* coefficients, Arena& arena);
  // out <- the sum of the record, in the bits of Replica::record_sum(): shape.size() values.
  void (*fill_sum)(const KeptRecord& record, Shape shape, Real* out);
  // X <- P_M(X - step_scale (pr/m) sum of the record), as Replica::finish_record(); version + 1. On an error
  // (kProtocolError without a model, kInvalidArgument for m = 0, kSingular, kNotFinite, kOutOfMemory) X may be half
  // moved: replica.has_model() then says that there is none.
  Status (*step)(const KeptRecord& record, Replica& replica, uint32_t direction_count, Real step_scale, Arena& arena);
};

extern const LeanForm kLeanForm;

// Whether a client looks for the lean form in its registry. A board's image that has it compiles the client with
// GS_LEAN_FORM (boards/bare/bare.cmake). Reason: 400 bytes of flash.
#if defined(GS_BARE_METAL) && !defined(GS_LEAN_FORM)
inline constexpr bool kLinksLeanForm = false;
#else
inline constexpr bool kLinksLeanForm = true;
#endif

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_LEAN_H_

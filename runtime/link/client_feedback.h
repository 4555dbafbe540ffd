// Error feedback: what the encoding of an upload leaves out is added to the next one.
//
// The residual is that of one step, since the server takes uploads per step. It is a tangent at the model of its task;
// for the next task it is transported to that one's model. A device without the transport, or whose residual does not
// survive it, loses it: that costs accuracy once and is never wrong.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_FEEDBACK_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_FEEDBACK_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {

// What became of the residual that was there.
struct FeedbackCounts {
  uint32_t carried = 0;  // it went with the upload
  uint32_t lost = 0;     // it could not be transported to the new base
};

// Invariants:
// - Without memory (is_used() false) there is no residual.
// - Residual and the one before it are tangents at the base, or ambient values where uploads are ambient.
// - The one before is what take_back() makes the residual again; it is zero where there was none.
class ErrorFeedback {
 public:
  static constexpr size_t kTensorCount = 3;

  // Takes three tensors of `size` numbers in the arena's persistent end. kOutOfMemory: then it is not used.
  Status prepare(size_t size, Arena& arena);
  bool is_used() const { return tensors_[kBase] != nullptr; }
  // What the encoding of the pending or of the last accepted upload left out, for each step; null: nothing is known.
  const Real* residual() const { return has_residual_ ? tensors_[kResidual] : nullptr; }

  // out <- the tangent of the steps done with the residual added, as the task's encoding has it; stream.value_count
  // values. The residual is then what this encoding left out. run is the task's, at whose model the next base is.
  // is_used() must hold. Codes of encode_values; those of project_tangent. On an error the residual is the one before,
  // and out is unspecified. counts says what became of the earlier residual, also on an error.
  Status encode(const SolverRun& run, const GradientStream& stream, uint8_t* out, Arena& arena, FeedbackCounts* counts);
  // The last upload counts nowhere: neither does what its encoding left out. Nothing where it is not used.
  void take_back();

  // For saving and restoring: residual, the one before it, their base; null without memory.
  Real* tensor(size_t i) const { return tensors_[i]; }
  // Whether all tensors have been filled with what was saved; false: there is no residual.
  void adopt(bool is_whole) { has_residual_ = is_whole && is_used(); }

 private:
  enum Tensor : uint8_t { kResidual, kBefore, kBase };
  bool move_to(const SolverRun& run, Arena& arena);

  Real* tensors_[kTensorCount] = {};
  bool has_residual_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_FEEDBACK_H_

// Layers one after the other, for some samples at once, in one workspace: a value gives its place to a later one when
// no layer needs it any more.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_NETWORK_STAGE_H_
#define GRADSTREAM_RUNTIME_PROBLEM_NETWORK_STAGE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/problem/network_layers.h"

namespace gradstream {

// Layers first .. end - 1 of a network. An addition among them takes none but their own outputs and what the first of
// them sees (feature_layer_count() cuts a network so).
struct Stage {
  const Network* network = nullptr;
  uint32_t first = 0;
  uint32_t end = 0;
  bool keeps_all = false;  // all outputs stand, for going back; activations and kFlatten share their input's place
  bool is_single = false;  // of one sample: convolutions write over their input where they can
};

// Values that a stage takes, all for one sample but row and kernels.
struct StageSize {
  size_t values = 0;   // of its workspace
  size_t factors = 0;  // of the widest factored layer
  size_t row = 0;      // that a window layer gathers
  size_t weights = 0;  // the longest row of a trained dense layer, or its biases
  size_t kernels = 0;  // the largest trained convolution
  size_t errors = 0;   // where additions bring errors to, with keeps_all
  size_t back = 0;     // that a layer takes to go back, with keeps_all
};
// places, of end - first numbers, null: not wanted: where each layer's output begins in the workspace.
StageSize plan_stage(const Stage& stage, uint32_t* places);

// The memory of a stage: as plan_stage() says, values and factors once for each sample.
struct StageMemory {
  const uint32_t* places = nullptr;
  Real* values = nullptr;
  Real* factors = nullptr;
  Real* row = nullptr;
  Real* weights = nullptr;  // null where nothing is displaced, and kernels too
  Real* kernels = nullptr;
  Real* errors = nullptr;
  size_t error_count = 0;  // values there
  Real* back = nullptr;
};

// Counts the pieces of work of one evaluation, which go on where the call before ended.
class Pieces {
 public:
  explicit Pieces(EvaluationProgress& progress) : progress_(progress), done_(progress.part) {}

  // Whether piece `piece` of the group that comes next was done by an earlier call.
  bool is_done(uint32_t piece) const { return base_ + piece < done_; }
  // Whether an earlier call went on behind the groups that ended: what they left in the workspace may be gone.
  bool is_past() const { return base_ < done_; }
  // Pays for a piece; false: the call's work is done, and progress.part says where the next one goes on.
  bool take(uint32_t piece) {
    progress_.part = base_ + piece;
    return progress_.take_unit();
  }
  // A group of `count` pieces is done.
  void end_group(uint32_t count) {
    base_ += count;
    progress_.part = base_ > done_ ? base_ : done_;
  }

 private:
  EvaluationProgress& progress_;
  uint32_t done_;
  uint32_t base_ = 0;
};

// Runs the stage for sample_count samples at the point x, or at the displaced one. kUnfinished: the pieces' work is
// done; call again with the same arguments and memory. Other codes of run_piece().
Status run_stage(const Stage& stage, const StageMemory& memory, uint32_t sample_count, SampleValues in, const Real* x,
                 const Displacement* displacement, Pieces& pieces);

// For who goes back through a stage that keeps all. Nodes of a stage: `first` is its input, k + 1 the output of layer
// k. Nodes that share a place have the error of the last one in it.
//
// The first trained layer: in front of it nobody wants an error. `end` where there is none.
uint32_t first_trained_layer(const Stage& stage);
// Whether layer k stands in the place of its input.
bool shares_place(const Stage& stage, const uint32_t* places, uint32_t k);
// The node that the addition reads beside its input.
uint32_t added_node(const Layer& layer);
// Where in StageMemory::errors the errors stand that additions bring to the place of a node; false: none comes.
bool find_errors(const Stage& stage, const uint32_t* places, uint32_t node, size_t* out);

// What layer `layer` - 1 of the stage gave, first <= layer <= end; `first`: the stage's input.
SampleValues stage_values(const Stage& stage, const StageMemory& memory, uint32_t sample_count, SampleValues in,
                          uint32_t layer);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_NETWORK_STAGE_H_

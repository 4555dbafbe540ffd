// Back through each kind of layer, in pieces of bounded work: from the error at a layer's output to the gradient of its
// numbers, and to the error at its input. network_stage_back.h goes through layers one after the other.
//
// The error at a value is the derivative of the loss by it. Where an activation follows the value, it is the derivative
// by the value before the activation.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_NETWORK_BACK_H_
#define GRADSTREAM_RUNTIME_PROBLEM_NETWORK_BACK_H_

#include <cstddef>
#include <cstdint>

#include "runtime/problem/network_layers.h"

namespace gradstream {

// What the activations that made a value let pass of an error: all, or above 0, or below 6 too.
struct Passage {
  bool passes(Real value) const { return (value > 0 || !(is_rectified || is_clipped)) && (value < 6 || !is_clipped); }
  void take(Activation activation) {
    is_rectified = is_rectified || activation == Activation::kRelu;
    is_clipped = is_clipped || activation == Activation::kRelu6;
  }
  bool is_rectified = false;
  bool is_clipped = false;
};

// One layer, for one sample. back may be in; nothing else aliases.
struct LayerBack {
  const Layer* layer = nullptr;
  const Real* in = nullptr;       // what the layer read
  const Real* error = nullptr;    // at its output
  const Real* x = nullptr;        // a trained layer's numbers
  Real* gradient = nullptr;       // of them, which is added; null: nothing of the layer is trained
  Real* back = nullptr;           // <- the error at in; null: not wanted
  Passage passage;                // of the activations that made in
  const Real* brought = nullptr;  // what additions bring to the error at in, as many values; null: none
  Real* added = nullptr;          // kAdd: where the error at what it adds is summed; may be brought; null: not wanted
  Real* work = nullptr;           // layer_back_size() values, the same in all pieces
};

// Values that LayerBack::work takes. 0 for all layers of a head.
uint32_t layer_back_size(const Layer& layer);

// In how many pieces of kPieceWork a layer is gone back through, and does piece 0 .. layer_back_piece_count() - 1; they
// come in this order.
uint32_t layer_back_piece_count(const Layer& layer);
void run_back_piece(const LayerBack& back, uint32_t piece);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_NETWORK_BACK_H_

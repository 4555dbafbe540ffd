// Fully connected layers, one sample at a time: what perceptron is and lenet ends with.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_PERCEPTRON_H_
#define GRADSTREAM_RUNTIME_PROBLEM_PERCEPTRON_H_

#include "runtime/problem/problem.h"

namespace gradstream {

// max(0, value). NaN stays NaN, so that no layer hides it from the loss.
inline Real rectified(Real value) { return value <= 0 ? 0 : value; }

struct Layers {
  const uint16_t* widths = nullptr;  // inputs, hidden layers, classes
  uint32_t width_count = 0;          // 2 .. kWidthCountMax

  uint32_t class_count() const { return widths[width_count - 1]; }
  // Values of all layers but the inputs, and of the widest hidden one (at least 1).
  uint32_t activation_count() const;
  uint32_t hidden_width_max() const;
};

// activations <- of each layer after the inputs, at the end the classes' probabilities; returns -ln p(label). Codes of
// softmax_loss().
Result<Real> run_layers(const Layers& layers, const Real* x, const Real* input, Real label, Real* activations);

// Adds the derivative of that loss by x to gradient. activations: as run_layers() left them, and spoilt. hidden:
// hidden_width_max() values, overwritten. input_error: the derivative by the inputs, which may take their
// place; null: not wanted.
void add_layers_gradient(const Layers& layers, const Real* x, const Real* input, Real label, Real* activations,
                         Real* hidden, Real* gradient, Real* input_error);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_PERCEPTRON_H_

// Multilayer perceptron: forward through the layers, then the error back through them. The weights' rows are read as
// they stand in memory.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/perceptron.h"

#include "runtime/base/products.h"

namespace gradstream {
namespace {

const NetworkData& data_of(const void* context) { return *static_cast<const NetworkData*>(context); }

Layers layers_of(const NetworkData& data) { return {data.widths, data.width_count}; }

uint32_t sample_count(const void* context) { return data_of(context).source.count; }

Status check_shape(const void* context, Shape shape) {
  const NetworkData& data = data_of(context);
  const uint32_t size = perceptron_size(data.widths, data.width_count);
  const bool fits = size != 0 && shape.size() == size && uint64_t{data.widths[0]} + 1 == data.source.dimension;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

size_t scratch_size(const void* context, Shape) {
  const NetworkData& data = data_of(context);
  const Layers layers = layers_of(data);
  return Arena::taken_size<Real>(data.source.dimension) + Arena::taken_size<Real>(layers.activation_count()) +
         Arena::taken_size<Real>(layers.hidden_width_max());
}

struct Work {
  Real* sample = nullptr;  // inputs, label
  Real* activations = nullptr;
  Real* hidden = nullptr;
};

Status take_work(const NetworkData& data, Arena& arena, Work* out) {
  const Layers layers = layers_of(data);
  const Result<Real*> sample = arena.scratch<Real>(data.source.dimension);
  const Result<Real*> activations = arena.scratch<Real>(layers.activation_count());
  const Result<Real*> hidden = arena.scratch<Real>(layers.hidden_width_max());
  GS_TRY(sample.status());
  GS_TRY(activations.status());
  GS_TRY(hidden.status());
  *out = {sample.value(), activations.value(), hidden.value()};
  return Status::kOk;
}

Result<Real> take_sample(const NetworkData& data, const Real* x, uint32_t index, const Work& work) {
  GS_TRY(data.source.read(data.source.context, index, work.sample));
  if (!all_finite(data.source.dimension, work.sample)) {
    return Status::kNotFinite;
  }
  return run_layers(layers_of(data), x, work.sample, work.sample[data.widths[0]], work.activations);
}

Result<Real> loss(const void* context, Shape, const Real* x, Batch batch, Arena& arena) {
  const NetworkData& data = data_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(data, arena, &work));
  return mean_loss(batch, [&](uint32_t index) { return take_sample(data, x, index, work); });
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const NetworkData& data = data_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(data, arena, &work));
  return mean_gradient(shape.size(), batch, out, [&](uint32_t index) {
    GS_TRY(take_sample(data, x, index, work).status());
    add_layers_gradient(layers_of(data), x, work.sample, work.sample[data.widths[0]], work.activations, work.hidden,
                        out, nullptr);
    return Status::kOk;
  });
}

Status find_fault(const void* context, Shape, Arena& arena, SampleFault* out) {
  const NetworkData& data = data_of(context);
  const IndexRule rules[] = {{"label", data.widths[0], data.widths[data.width_count - 1]}};
  return find_sample_fault(data.source, rules, arena, out);
}

}  // namespace

uint32_t Layers::activation_count() const {
  uint32_t sum = 0;
  for (uint32_t i = 1; i < width_count; ++i) {
    sum += widths[i];
  }
  return sum;
}

uint32_t Layers::hidden_width_max() const {
  uint32_t most = 1;
  for (uint32_t i = 1; i + 1 < width_count; ++i) {
    most = widths[i] > most ? widths[i] : most;
  }
  return most;
}

Result<Real> run_layers(const Layers& layers, const Real* x, const Real* input, Real label, Real* activations) {
  for (uint32_t layer = 1;; ++layer) {
    const uint32_t inputs = layers.widths[layer - 1];
    const uint32_t outputs = layers.widths[layer];
    copy(outputs, x + size_t{inputs} * outputs, activations);
    for (uint32_t r = 0; r < inputs; ++r) {
      if (input[r] != 0) {
        add_scaled(outputs, input[r], x + size_t{r} * outputs, activations);
      }
    }
    if (layer + 1 == layers.width_count) {
      return softmax_loss(outputs, label, activations);
    }
    for (uint32_t c = 0; c < outputs; ++c) {
      activations[c] = activations[c] > 0 ? activations[c] : 0;
    }
    x += (size_t{inputs} + 1) * outputs;
    input = activations;
    activations += outputs;
  }
}

void add_layers_gradient(const Layers& layers, const Real* x, const Real* input, Real label, Real* activations,
                         Real* hidden, Real* gradient, Real* input_error) {
  size_t weights = perceptron_size(layers.widths, layers.width_count);  // where the layer's begin
  size_t at = layers.activation_count();                                // where its outputs begin
  activations[at - layers.class_count() + static_cast<uint32_t>(label)] -= 1;
  for (uint32_t layer = layers.width_count - 1; layer > 0; --layer) {
    const uint32_t inputs = layers.widths[layer - 1];
    const uint32_t outputs = layers.widths[layer];
    weights -= (size_t{inputs} + 1) * outputs;
    at -= outputs;
    // From here on the outputs' places hold their error.
    const Real* const error = activations + at;
    const Real* const from = layer == 1 ? input : error - inputs;
    Real* const back = layer == 1 ? input_error : hidden;
    for (uint32_t r = 0; r < inputs; ++r) {
      const Real value = from[r];
      if (value != 0) {
        add_scaled(outputs, value, error, gradient + weights + size_t{r} * outputs);
      }
      if (back != nullptr) {
        const bool is_passed = layer == 1 || value > 0;
        back[r] = is_passed ? dot(outputs, x + weights + size_t{r} * outputs, error) : 0;
      }
    }
    add_scaled(outputs, 1, error, gradient + weights + size_t{inputs} * outputs);
    if (layer > 1) {
      copy(inputs, hidden, activations + (at - inputs));
    }
  }
}

uint32_t perceptron_size(const uint16_t* widths, uint32_t width_count) {
  if (widths == nullptr || width_count < 2 || width_count > kWidthCountMax || widths[width_count - 1] < 2) {
    return 0;
  }
  uint64_t size = 0;
  for (uint32_t i = 0; i < width_count; ++i) {
    if (widths[i] == 0) {
      return 0;
    }
    size += i == 0 ? 0 : (uint64_t{widths[i - 1]} + 1) * widths[i];
  }
  return size <= uint64_t{kDimensionMax} * kDimensionMax ? static_cast<uint32_t>(size) : 0;
}

const ProblemOps kPerceptronOps = {
    "perceptron", sample_count, check_shape, scratch_size, loss, gradient, kIsBareMetal ? nullptr : find_fault,
    !kIsBareMetal};

}  // namespace gradstream

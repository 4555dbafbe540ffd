// A list of dense layers in far less code than network.cc takes, for images that link nothing else: the same bits
// (docs/network.md). Forward through the layers, then the error back through them. The weights' rows are read as
// they stand in memory. At a displaced point the samples of a group go through the layers together, row by row.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/weight_rows.h"

namespace gradstream {
namespace {

// max(0, value). NaN stays NaN, so that no layer hides it from the loss.
Real rectified(Real value) { return value <= 0 ? 0 : value; }

struct Layers {
  // Values of all layers but the inputs.
  uint32_t activation_count() const {
    uint32_t sum = 0;
    for (uint32_t i = 1; i < width_count; ++i) {
      sum += widths[i];
    }
    return sum;
  }
  // Of the widest hidden layer, at least 1.
  uint32_t hidden_width_max() const {
    uint32_t most = 1;
    for (uint32_t i = 1; i + 1 < width_count; ++i) {
      most = widths[i] > most ? widths[i] : most;
    }
    return most;
  }
  uint32_t class_count() const { return widths[width_count - 1]; }

  const uint16_t* widths;  // inputs, hidden layers, classes
  uint32_t width_count;    // 2 .. kWidthCountMax
};

// activations <- of each layer after the inputs, at the end the classes' probabilities; returns -ln p(label). Codes of
// softmax_loss().
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
      activations[c] = rectified(activations[c]);
    }
    x += (size_t{inputs} + 1) * outputs;
    input = activations;
    activations += outputs;
  }
}

// Adds the derivative of that loss by x to gradient. activations: as run_layers() left them, and spoilt. hidden:
// hidden_width_max() values, overwritten.
void add_layers_gradient(const Layers& layers, const Real* x, const Real* input, Real label, Real* activations,
                         Real* hidden, Real* gradient) {
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
    for (uint32_t r = 0; r < inputs; ++r) {
      const Real value = from[r];
      if (value != 0) {
        add_scaled(outputs, value, error, gradient + weights + size_t{r} * outputs);
      }
      if (layer > 1) {
        hidden[r] = value > 0 ? dot(outputs, x + weights + size_t{r} * outputs, error) : 0;
      }
    }
    add_scaled(outputs, 1, error, gradient + weights + size_t{inputs} * outputs);
    if (layer > 1) {
      copy(inputs, hidden, activations + (at - inputs));
    }
  }
}

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

Result<Real> take_sample(const NetworkData& data, const Batch& batch, const Real* x, uint32_t index, const Work& work) {
  GS_TRY(read_sample(data.source, batch, index, work.sample));
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
  return mean_loss(batch, [&](uint32_t index) {
    const Result<Real> loss = take_sample(data, batch, x, index, work);
    QualitySum* const quality = quality_of(batch);
    if (quality != nullptr && loss.ok()) {
      const Layers layers = layers_of(data);
      quality->add_class(layers.class_count(), work.sample[data.widths[0]],
                         work.activations + layers.activation_count() - layers.class_count());
    }
    return loss;
  });
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const NetworkData& data = data_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(data, arena, &work));
  return mean_gradient(shape.size(), batch, out, [&](uint32_t index) {
    GS_TRY(take_sample(data, batch, x, index, work).status());
    add_layers_gradient(layers_of(data), x, work.sample, work.sample[data.widths[0]], work.activations, work.hidden,
                        out);
    return Status::kOk;
  });
}

Status find_fault(const void* context, Shape, Arena& arena, SampleFault* out) {
  const NetworkData& data = data_of(context);
  const IndexRule rules[] = {{"label", data.widths[0], data.widths[data.width_count - 1]}};
  return find_sample_fault(data.source, rules, arena, out);
}

UnitsSource units_source(const void* context) {
  const NetworkData& data = data_of(context);
  return {&data.source, data.widths[0]};
}

// ---- At a displaced point: a group of samples, layer by layer ----

// The values of the layers stand in two places in turn, so that a layer reads the one before it: layer 0 holds the
// inputs. A sample is read with its label to where layer 0 stands.
struct Group {
  uint32_t size;    // samples, at most
  Real* values[2];  // size times width[0] of the layers 0, 2, ..; size times width[1] of the layers 1, 3, ..
  uint32_t width[2];
  Real* labels;
  uint32_t rows_per_unit;  // of a group of that size: about the work of one sample
};

uint32_t width_max(const NetworkData& data, uint32_t parity) {
  uint32_t most = parity == 0 ? data.source.dimension : 1;
  for (uint32_t i = parity; i < data.width_count; i += 2) {
    most = data.widths[i] > most ? data.widths[i] : most;
  }
  return most;
}

uint32_t row_width_max(const NetworkData& data) {
  const uint32_t hidden = layers_of(data).hidden_width_max();
  const uint32_t classes = data.widths[data.width_count - 1];
  return hidden > classes ? hidden : classes;
}

// Rows of all layers, the biases of a layer are one.
uint32_t row_count(const NetworkData& data) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i + 1 < data.width_count; ++i) {
    sum += data.widths[i] + 1U;
  }
  return sum;
}

size_t sample_bytes(const NetworkData& data) {
  return (size_t{width_max(data, 0)} + width_max(data, 1) + 1) * sizeof(Real);
}

size_t displaced_scratch_size(const void* context, Shape shape, uint32_t batch_size) {
  const NetworkData& data = data_of(context);
  const size_t size = group_size_max(batch_size, sample_bytes(data), shape.size() * sizeof(Real));
  return Arena::taken_size<Real>(size * width_max(data, 0)) + Arena::taken_size<Real>(size * width_max(data, 1)) +
         Arena::taken_size<Real>(size) + Arena::taken_size<Real>(row_width_max(data));
}

Status take_group(const NetworkData& data, size_t model_size, uint32_t batch_size, Arena& arena, Group* out) {
  const uint32_t size = group_size(batch_size, sample_bytes(data), model_size * sizeof(Real));
  *out = {
      size, {}, {width_max(data, 0), width_max(data, 1)}, nullptr, size == 0 ? 1 : (row_count(data) + size - 1) / size};
  for (uint32_t parity = 0; parity < 2; ++parity) {
    const Result<Real*> values = arena.scratch<Real>(size_t{size} * out->width[parity]);
    GS_TRY(values.status());
    out->values[parity] = values.value();
  }
  const Result<Real*> labels = arena.scratch<Real>(size);
  GS_TRY(labels.status());
  out->labels = labels.value();
  return Status::kOk;
}

// Reads the samples of the group that begins at the batch's position; progress.part counts them.
Status read_group(const NetworkData& data, Batch batch, uint32_t count, const Group& group,
                  EvaluationProgress& progress) {
  for (; progress.part < count; ++progress.part) {
    Real* const sample = group.values[0] + size_t{progress.part} * group.width[0];
    GS_TRY(read_sample(data.source, batch, batch.at(progress.position + progress.part), sample));
    if (!all_finite(data.source.dimension, sample)) {
      return Status::kNotFinite;
    }
    group.labels[progress.part] = sample[data.widths[0]];
  }
  return Status::kOk;
}

// Row `row` of a layer that begins at `at` of the point: its biases first, as run_layers() adds them, then the weights
// of one input after the other.
void add_row(const NetworkData& data, const WeightRows& rows, size_t at, uint32_t layer, uint32_t row, uint32_t count,
             const Group& group) {
  const uint32_t inputs = data.widths[layer - 1];
  const uint32_t outputs = data.widths[layer];
  const uint32_t from = (layer - 1) % 2;
  const uint32_t to = layer % 2;
  const Real* values = row == 0 ? rows.read(at + size_t{inputs} * outputs, outputs) : nullptr;
  for (uint32_t b = 0; b < count; ++b) {
    Real* const out = group.values[to] + size_t{b} * group.width[to];
    if (row == 0) {
      copy(outputs, values, out);
      continue;
    }
    const Real input = group.values[from][size_t{b} * group.width[from] + row - 1];
    if (input != 0) {
      values = values == nullptr ? rows.read(at + size_t{row - 1} * outputs, outputs) : values;
      add_scaled(outputs, input, values, out);
    }
  }
}

void clip_layer(const NetworkData& data, uint32_t layer, uint32_t count, const Group& group) {
  const uint32_t to = layer % 2;
  for (uint32_t b = 0; b < count; ++b) {
    Real* const out = group.values[to] + size_t{b} * group.width[to];
    for (uint32_t c = 0; c < data.widths[layer]; ++c) {
      out[c] = rectified(out[c]);
    }
  }
}

// All rows of all layers; progress.part goes on from count, one a row.
Status run_rows(const NetworkData& data, const WeightRows& rows, uint32_t count, const Group& group,
                EvaluationProgress& progress) {
  uint32_t begin = count;
  size_t at = 0;
  for (uint32_t layer = 1; layer < data.width_count; ++layer) {
    const uint32_t inputs = data.widths[layer - 1];
    for (; progress.part <= begin + inputs; ++progress.part) {
      if ((progress.part - count) % group.rows_per_unit == 0 && !progress.take_unit()) {
        return Status::kUnfinished;
      }
      add_row(data, rows, at, layer, progress.part - begin, count, group);
      if (progress.part == begin + inputs && layer + 1 < data.width_count) {
        clip_layer(data, layer, count, group);
      }
    }
    begin += inputs + 1;
    at += (size_t{inputs} + 1) * data.widths[layer];
  }
  return Status::kOk;
}

Result<Real> loss_displaced(const void* context, Shape shape, const Real* x, const Displacement& displacement,
                            Batch batch, Arena& arena) {
  const NetworkData& data = data_of(context);
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  ScratchScope scope(arena);
  Group group = {};
  GS_TRY(take_group(data, shape.size(), batch.count, arena, &group));
  const Result<Real*> row = arena.scratch<Real>(row_width_max(data));
  GS_TRY(row.status());
  const WeightRows rows(x, &displacement, row.value());
  const uint32_t last = (data.width_count - 1) % 2;
  while (progress.position < batch.count) {
    const uint32_t left = batch.count - progress.position;
    const uint32_t count = left < group.size ? left : group.size;
    Status status = read_group(data, batch, count, group, progress);
    if (status == Status::kOk) {
      status = run_rows(data, rows, count, group, progress);
    }
    if (status == Status::kUnfinished) {
      arena.hold_scratch();
    }
    GS_TRY(status);
    for (uint32_t b = 0; b < count; ++b, ++progress.position) {
      Real* const scores = group.values[last] + size_t{b} * group.width[last];
      const Result<Real> loss = softmax_loss(layers_of(data).class_count(), group.labels[b], scores);
      GS_TRY(loss.status());
      progress.add(loss.value());
    }
    progress.part = 0;
  }
  return progress.mean();
}

}  // namespace

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

const ProblemOps kPerceptronOps = {.name = "perceptron",
                                   .sample_count = sample_count,
                                   .check_shape = check_shape,
                                   .scratch_size = scratch_size,
                                   .loss = loss,
                                   .gradient = gradient,
                                   .find_fault = kIsBareMetal ? nullptr : find_fault,
                                   .has_labels = !kIsBareMetal,
                                   .loss_displaced = loss_displaced,
                                   .displaced_scratch_size = displaced_scratch_size,
                                   .units_source = units_source,
                                   .metric = kEvaluates ? metric_of_means : nullptr};

}  // namespace gradstream

// A convolution goes back channel after channel of its input. The rows of the output give the gradient of the channel's
// kernels first, while its values stand. Then the error takes their place, row after row.
//
// The sums have a fixed order: a kernel's gradient that of the output's rows, an error that of the output's channels
// and then of the kernel.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/network_back.h"

#include <limits>
#include <type_traits>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

// The error at value `at` of the input, behind the activations that made it.
void finish_error(const LayerBack& b, size_t at, Real error) {
  const Real sum = b.brought == nullptr ? error : error + b.brought[at];
  b.back[at] = b.passage.passes(b.in[at]) ? sum : 0;
}

// The same of values [begin, begin + count), whose errors stand in a row.
void finish_errors(const LayerBack& b, size_t begin, size_t count, const Real* errors) {
  if (b.brought != nullptr || b.passage.is_clipped) {
    for (size_t i = 0; i < count; ++i) {
      finish_error(b, begin + i, errors[i]);
    }
    return;
  }
  const Real least = b.passage.is_rectified ? 0 : -std::numeric_limits<Real>::infinity();  // all values are finite
  for (size_t i = 0; i < count; ++i) {
    b.back[begin + i] = b.in[begin + i] > least ? errors[i] : 0;
  }
}

// Calls use(weights), a pointer to the first of the layer's weights in the form that it has.
template <typename Use>
auto with_weights(const LayerBack& b, Use use) {
  if (b.gradient != nullptr) {
    return use(b.x);
  }
  if (b.layer->form != WeightForm::kFloat) {
    return use(static_cast<const int8_t*>(b.layer->weights));
  }
  return use(static_cast<const float*>(b.layer->weights));
}

// The number of weight w of an output channel.
template <typename W>
Real weight_of(const Layer& layer, uint32_t channel, W w) {
  return std::is_same_v<W, int8_t> ? static_cast<Real>(w) * scale_of(layer, channel) : static_cast<Real>(w);
}

// ---- Dense layers --------------------------------------------------------------------------------------------------

// sum over the outputs of row[c] error[c].
template <typename W>
Real row_error(const LayerBack& b, const W* row) {
  const uint32_t outputs = b.layer->out.channels;
  if constexpr (std::is_same_v<W, Real>) {
    return dot(outputs, row, b.error);
  } else {
    Real sum = 0;
    for (uint32_t c = 0; c < outputs; ++c) {
      sum += weight_of(*b.layer, c, row[c]) * b.error[c];
    }
    return sum;
  }
}

// Rows [begin, end): one for each input.
void go_back_dense(const LayerBack& b, uint32_t begin, uint32_t end) {
  const uint32_t outputs = b.layer->out.channels;
  for (uint32_t r = begin; r < end; ++r) {
    const Real value = b.in[r];
    const size_t row = size_t{r} * outputs;
    if (b.gradient != nullptr && value != 0) {
      add_scaled(outputs, value, b.error, b.gradient + row);
    }
    if (b.back == nullptr) {
      continue;
    }
    if constexpr (kHasLayerGradients) {
      finish_error(b, r, with_weights(b, [&](auto* weights) { return row_error(b, weights + row); }));
    } else {
      finish_error(b, r, dot(outputs, b.x + row, b.error));
    }
  }
}

// Of in U S V', with the rows of U, S, V, S and U in turn. work: in U, in U S, and the errors there.
[[maybe_unused]] void go_back_factored(const LayerBack& b, uint32_t begin, uint32_t end) {
  const Layer& layer = *b.layer;
  const auto inputs = static_cast<uint32_t>(layer.in.size());
  const uint32_t rank = layer.rank;
  const uint32_t ends[] = {inputs, inputs + rank, inputs + rank + layer.out.channels,
                           inputs + 2 * rank + layer.out.channels};
  const size_t v = size_t{inputs} * rank;
  const size_t s = v + size_t{layer.out.channels} * rank;
  Real* const left = b.work;
  Real* const middle = left + rank;
  Real* const middle_error = middle + rank;
  Real* const left_error = middle_error + rank;
  if (begin == 0) {
    fill_zero(size_t{3} * rank, b.work);
  }
  for (uint32_t r = begin; r < end; ++r) {
    if (r < ends[0]) {
      add_scaled(rank, b.in[r], b.x + size_t{r} * rank, left);
    } else if (r < ends[1]) {
      const uint32_t k = r - ends[0];
      add_scaled(rank, left[k], b.x + s + size_t{k} * rank, middle);
    } else if (r < ends[2]) {
      const uint32_t k = r - ends[1];
      const size_t row = v + size_t{k} * rank;
      add_scaled(rank, b.error[k], middle, b.gradient + row);
      add_scaled(rank, b.error[k], b.x + row, middle_error);
    } else if (r < ends[3]) {
      const uint32_t k = r - ends[2];
      const size_t row = s + size_t{k} * rank;
      add_scaled(rank, left[k], middle_error, b.gradient + row);
      left_error[k] = dot(rank, b.x + row, middle_error);
    } else {
      const uint32_t k = r - ends[3];
      const size_t row = size_t{k} * rank;
      add_scaled(rank, b.in[k], left_error, b.gradient + row);
      if (b.back != nullptr) {
        finish_error(b, k, dot(rank, b.x + row, left_error));
      }
    }
  }
}

// ---- Convolutions --------------------------------------------------------------------------------------------------

bool is_depthwise(const Layer& layer) { return layer.kind == LayerKind::kDepthwiseConv2d; }

// The output channels that read one of the input: begin .. end - 1.
struct Channels {
  Channels(const Layer& layer, uint32_t in) {
    const uint32_t each = is_depthwise(layer) ? uint32_t{layer.out.channels} / layer.in.channels : 0U;
    begin = in * each;
    end = is_depthwise(layer) ? begin + each : layer.out.channels;
  }
  uint32_t begin;
  uint32_t end;
};

// Where the kernel begins by which output channel `out` reads input channel `in`.
size_t kernel_place(const Layer& layer, uint32_t out, uint32_t in) {
  const size_t area = size_t{layer.kernel_height} * layer.kernel_width;
  return is_depthwise(layer) ? out * area : (size_t{out} * layer.in.channels + in) * area;
}

const Real* error_row(const LayerBack& b, uint32_t channel, uint32_t row) {
  return b.error + (size_t{channel} * b.layer->out.height + row) * b.layer->out.width;
}

// What the windows of an output row see at kernel column kx: where it stands, or gathered in work.
const Real* seen_values(const LayerBack& b, const Real* in, uint32_t kx) {
  const Layer& layer = *b.layer;
  const bool is_inside =
      layer.stride_width == 1 && kx >= layer.pad_left && kx - layer.pad_left + layer.out.width <= layer.in.width;
  if (is_inside) {
    return in + (kx - layer.pad_left);
  }
  gather_seen(layer, in, kx, b.work);
  return b.work;
}

// What row `row` of the output adds to the gradient of the kernels that read input channel `channel`.
void add_kernel_gradients(const LayerBack& b, uint32_t channel, uint32_t row) {
  const Layer& layer = *b.layer;
  const uint32_t width = layer.out.width;
  const Channels channels(layer, channel);
  for (uint32_t ky = 0; ky < layer.kernel_height; ++ky) {
    uint32_t y = 0;
    if (!find_seen_row(layer, row, ky, &y)) {
      continue;
    }
    const Real* const in = b.in + (size_t{channel} * layer.in.height + y) * layer.in.width;
    for (uint32_t kx = 0; kx < layer.kernel_width; ++kx) {
      const Real* const seen = seen_values(b, in, kx);
      const size_t at = size_t{ky} * layer.kernel_width + kx;
      for (uint32_t o = channels.begin; o < channels.end; ++o) {
        b.gradient[kernel_place(layer, o, channel) + at] += dot(width, seen, error_row(b, o, row));
      }
    }
  }
  Real* const biases = b.gradient + layer_weight_count(layer);
  const bool is_first = is_depthwise(layer) || channel == 0;
  for (uint32_t o = channels.begin; is_first && o < channels.end; ++o) {
    const Real* const errors = error_row(b, o, row);
    for (uint32_t c = 0; c < width; ++c) {
      biases[o] += errors[c];
    }
  }
}

// row (in.width values) <- row + weight times the errors of the windows that see it at kernel column kx.
void add_seen_errors(const Layer& layer, Real weight, uint32_t kx, const Real* errors, Real* row) {
  if (layer.stride_width == 1) {
    const uint32_t first = kx < layer.pad_left ? layer.pad_left - kx : 0;  // the first window that sees the row
    const uint32_t at = first + kx - layer.pad_left;
    if (first < layer.out.width && at < layer.in.width) {
      const uint32_t windows = layer.out.width - first;
      const uint32_t values = layer.in.width - at;
      add_scaled(windows < values ? windows : values, weight, errors + first, row + at);
    }
    return;
  }
  for (uint32_t c = 0; c < layer.out.width; ++c) {
    const uint32_t from = c * layer.stride_width + kx;
    if (from >= layer.pad_left && from - layer.pad_left < layer.in.width) {
      row[from - layer.pad_left] += weight * errors[c];
    }
  }
}

// The error at row y of input channel `channel`.
template <typename W>
void go_back_to_row(const LayerBack& b, const W* weights, uint32_t channel, uint32_t y) {
  const Layer& layer = *b.layer;
  const Channels channels(layer, channel);
  Real* const row = b.work + layer.out.width;
  fill_zero(layer.in.width, row);
  for (uint32_t o = channels.begin; o < channels.end; ++o) {
    const W* kernel = weights + kernel_place(layer, o, channel);
    for (uint32_t ky = 0; ky < layer.kernel_height; ++ky, kernel += layer.kernel_width) {
      const uint32_t from = y + layer.pad_top - ky;  // where the window begins that sees the row here
      const uint32_t row_at = layer.stride_height == 1 ? from : from / layer.stride_height;
      if (y + layer.pad_top < ky || row_at * layer.stride_height != from || row_at >= layer.out.height) {
        continue;
      }
      const Real* const errors = error_row(b, o, row_at);
      for (uint32_t kx = 0; kx < layer.kernel_width; ++kx) {
        add_seen_errors(layer, weight_of(layer, o, kernel[kx]), kx, errors, row);
      }
    }
  }
  const size_t begin = (size_t{channel} * layer.in.height + y) * layer.in.width;
  finish_errors(b, begin, layer.in.width, row);
}

// Rows of a channel: those of the output, then those of the input.
[[maybe_unused]] void go_back_convolution(const LayerBack& b, uint32_t begin, uint32_t end) {
  const Layer& layer = *b.layer;
  const uint32_t rows = uint32_t{layer.out.height} + layer.in.height;
  for (uint32_t at = begin; at < end; ++at) {
    const uint32_t channel = at / rows;
    const uint32_t row = at % rows;
    if (row < layer.out.height) {
      if (b.gradient != nullptr) {
        add_kernel_gradients(b, channel, row);
      }
    } else if (b.back != nullptr) {
      with_weights(b, [&](auto* weights) { go_back_to_row(b, weights, channel, row - layer.out.height); });
    }
  }
}

// ---- Pools ---------------------------------------------------------------------------------------------------------

// The error of a window belongs to its largest value, the first of equal ones; or in equal parts to all.
void share_window_error(const Layer& layer, const Real* map, WindowRange rows, WindowRange columns, Real error,
                        Real* out) {
  const Real part = error / static_cast<Real>(rows.count() * columns.count());
  size_t largest = size_t{rows.begin} * layer.in.width + columns.begin;
  for (uint32_t y = rows.begin; y < rows.end; ++y) {
    const size_t row = size_t{y} * layer.in.width;
    for (size_t at = row + columns.begin; at < row + columns.end; ++at) {
      if (layer.kind == LayerKind::kMaxPool) {
        largest = map[at] > map[largest] ? at : largest;
      } else {
        out[at] += part;
      }
    }
  }
  if (layer.kind == LayerKind::kMaxPool) {
    out[largest] += error;
  }
}

// Rows of the output. work: the error at a map of the input, whose values stand until the map's last row.
[[maybe_unused]] void go_back_pool(const LayerBack& b, uint32_t begin, uint32_t end) {
  const Layer& layer = *b.layer;
  const size_t area = size_t{layer.in.height} * layer.in.width;
  for (uint32_t at = begin; b.back != nullptr && at < end; ++at) {
    const uint32_t map = at / layer.out.height;
    const uint32_t row = at % layer.out.height;
    if (row == 0) {
      fill_zero(area, b.work);
    }
    const WindowRange rows = window_rows(layer, row);
    const Real* const errors = error_row(b, map, row);
    for (uint32_t c = 0; c < layer.out.width; ++c) {
      share_window_error(layer, b.in + map * area, rows, window_columns(layer, c), errors[c], b.work);
    }
    if (row + 1U == layer.out.height) {
      finish_errors(b, map * area, area, b.work);
    }
  }
}

// ---- Value by value ------------------------------------------------------------------------------------------------

[[maybe_unused]] void go_back_values(const LayerBack& b, uint32_t begin, uint32_t end) {
  for (uint32_t at = begin; at < end; ++at) {
    if (b.added != nullptr) {
      b.added[at] += b.error[at];
    }
    if (b.back != nullptr) {
      finish_error(b, at, b.error[at]);
    }
  }
}

// ---- Rows ----------------------------------------------------------------------------------------------------------

bool is_convolution(const Layer& layer) { return layer.kind == LayerKind::kConv2d || is_depthwise(layer); }

bool is_factored(const Layer& layer) { return layer.trained == TrainedForm::kFactored; }

uint32_t row_count(const Layer& layer) {
  const auto inputs = static_cast<uint32_t>(layer.in.size());
  if (!kHasLayerGradients) {
    return inputs;
  }
  if (is_factored(layer)) {
    return 2 * (inputs + layer.rank) + layer.out.channels;
  }
  if (is_convolution(layer)) {
    return layer.in.channels * (uint32_t{layer.out.height} + layer.in.height);
  }
  return is_window_of_maps(layer) ? uint32_t{layer.out.channels} * layer.out.height : inputs;
}

// Multiplications of a row. What a dense layer or a factor reads is read twice.
uint64_t row_work(const Layer& layer) {
  const uint64_t window = uint64_t{layer.kernel_height} * layer.kernel_width * layer.out.width;
  if (!kHasLayerGradients || layer.kind == LayerKind::kDense) {
    return uint64_t{2} * (is_factored(layer) ? layer.rank : layer.out.channels);
  }
  if (is_convolution(layer)) {
    return window * Channels(layer, 0).end;
  }
  return is_window_of_maps(layer) ? window : 1;
}

uint32_t rows_of_piece(const Layer& layer) {
  const uint64_t rows = kPieceWork / row_work(layer);
  return rows < 1 ? 1 : static_cast<uint32_t>(rows);
}

}  // namespace

uint32_t layer_back_size(const Layer& layer) {
  if (is_factored(layer)) {
    return uint32_t{4} * layer.rank;
  }
  if (is_convolution(layer)) {
    return uint32_t{layer.out.width} + layer.in.width;
  }
  return is_window_of_maps(layer) ? uint32_t{layer.in.height} * layer.in.width : 0;
}

uint32_t layer_back_piece_count(const Layer& layer) {
  const uint32_t rows = rows_of_piece(layer);
  return (row_count(layer) + rows - 1) / rows;
}

void run_back_piece(const LayerBack& back, uint32_t piece) {
  const Layer& layer = *back.layer;
  const uint32_t rows = rows_of_piece(layer);
  const uint32_t begin = piece * rows;
  const uint32_t end = row_count(layer) - begin < rows ? row_count(layer) : begin + rows;
  if constexpr (kHasLayerGradients) {
    if (is_convolution(layer)) {
      return go_back_convolution(back, begin, end);
    }
    if (is_window_of_maps(layer)) {
      return go_back_pool(back, begin, end);
    }
    if (layer.kind != LayerKind::kDense) {
      return go_back_values(back, begin, end);
    }
    if (is_factored(layer)) {
      go_back_factored(back, begin, end);
    } else {
      go_back_dense(back, begin, end);
    }
  } else {
    go_back_dense(back, begin, end);
  }
  if (begin == 0 && back.gradient != nullptr) {
    add_scaled(layer.out.channels, 1, back.error, back.gradient + layer_weight_count(layer));
  }
}

}  // namespace gradstream

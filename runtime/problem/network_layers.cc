// Sums begin with the bias and go on in the order of the weights. An int8 layer sums q v first, then scales the sum and
// adds the bias. So one rounding error of a scale stands in a value, and not one for each weight.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/network_layers.h"

#include <cmath>
#include <type_traits>

#include "runtime/base/products.h"
#include "runtime/base/weighted_rows.h"

namespace gradstream {

bool is_window_of_maps(const Layer& layer) {
  return layer.kind == LayerKind::kConv2d || layer.kind == LayerKind::kDepthwiseConv2d ||
         layer.kind == LayerKind::kMaxPool || layer.kind == LayerKind::kAveragePool;
}

Activation activation_of(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kRelu:
      return Activation::kRelu;
    case LayerKind::kRelu6:
      return Activation::kRelu6;
    default:
      return layer.activation;
  }
}

Real scale_of(const Layer& layer, uint32_t channel) {
  return static_cast<Real>(layer.scales[layer.form == WeightForm::kInt8PerChannel ? channel : 0]);
}

bool find_seen_row(const Layer& layer, uint32_t row, uint32_t ky, uint32_t* out) {
  const uint32_t from = row * layer.stride_height + ky;
  *out = from - layer.pad_top;
  return from >= layer.pad_top && *out < layer.in.height;
}

WindowRange window_range(uint32_t first, uint32_t pad, uint32_t kernel, uint32_t in) {
  const uint32_t end = first + kernel - pad;  // a window meets the input
  return {first < pad ? 0 : first - pad, end < in ? end : in};
}

void gather_seen(const Layer& layer, const Real* in, uint32_t kx, Real* work) {
  const uint32_t width = layer.out.width;
  if (in == nullptr) {
    fill_zero(width, work);
    return;
  }
  if (layer.stride_width == 1) {
    const uint32_t border = kx < layer.pad_left ? layer.pad_left - kx : 0;
    const uint32_t zeros = border < width ? border : width;
    const uint32_t at = zeros + kx - layer.pad_left;
    const uint32_t seen = at < layer.in.width && zeros < width ? layer.in.width - at : 0;
    const uint32_t count = seen < width - zeros ? seen : width - zeros;
    fill_zero(zeros, work);
    copy(count, in + at, work + zeros);
    fill_zero(width - zeros - count, work + zeros + count);
    return;
  }
  for (uint32_t c = 0; c < width; ++c) {
    const uint32_t from = c * layer.stride_width + kx;
    const bool is_inside = from >= layer.pad_left && from - layer.pad_left < layer.in.width;
    work[c] = is_inside ? in[from - layer.pad_left] : 0;
  }
}

namespace {

bool is_trained(const Layer& layer) { return layer.trained != TrainedForm::kFrozen; }

// y <- y + a w, w of any form.
template <typename W>
void add_weights(size_t count, Real a, const W* w, Real* y) {
  if constexpr (std::is_same_v<W, Real>) {
    add_scaled(count, a, w, y);
  } else {
    for (size_t i = 0; i < count; ++i) {
      y[i] += a * static_cast<Real>(w[i]);
    }
  }
}

// NaN stays NaN, so that no activation hides it.
void activate(Activation activation, size_t count, Real* values) {
  for (size_t i = 0; activation != Activation::kNone && i < count; ++i) {
    values[i] = values[i] <= 0 ? 0 : values[i];
  }
  for (size_t i = 0; activation == Activation::kRelu6 && i < count; ++i) {
    values[i] = values[i] > 6 ? 6 : values[i];
  }
}

Status finish_values(const Layer& layer, size_t count, Real* values) {
  if (!all_finite(count, values)) {
    return Status::kNotFinite;
  }
  activate(activation_of(layer), count, values);
  return Status::kOk;
}

Real bias_of(const Layer& layer, uint32_t channel) {
  return layer.biases == nullptr ? Real{0} : static_cast<Real>(layer.biases[channel]);
}

// ---- Dense layers --------------------------------------------------------------------------------------------------

// Rows [begin, end): out <- out + in[r] W[r]. row_of(r) gives row r.
template <typename RowOf>
void add_rows(const LayerRun& run, uint32_t begin, uint32_t end, RowOf row_of) {
  const uint32_t outputs = run.layer->out.channels;
  for (uint32_t r = begin; r < end; ++r) {
    const auto* const row = row_of(r);
    for (uint32_t b = 0; b < run.sample_count; ++b) {
      const Real value = run.in.of(b)[r];
      if (value != 0) {
        add_weights(outputs, value, row, run.out + b * run.out_stride);
      }
    }
  }
}

// Of a trained layer: the biases.
void begin_with_biases(const LayerRun& run) {
  const uint32_t outputs = run.layer->out.channels;
  const Real* const biases = run.rows->read(run.offset + static_cast<size_t>(layer_weight_count(*run.layer)), outputs);
  for (uint32_t b = 0; b < run.sample_count; ++b) {
    copy(outputs, biases, run.out + b * run.out_stride);
  }
}

void run_frozen_dense(const LayerRun& run, uint32_t begin, uint32_t end) {
  const Layer& layer = *run.layer;
  const uint32_t outputs = layer.out.channels;
  const bool is_float = layer.form == WeightForm::kFloat;
  for (uint32_t b = 0; begin == 0 && b < run.sample_count; ++b) {
    for (uint32_t c = 0; c < outputs; ++c) {
      run.out[b * run.out_stride + c] = is_float ? bias_of(layer, c) : 0;
    }
  }
  if (is_float) {
    const auto* const weights = static_cast<const float*>(layer.weights);
    add_rows(run, begin, end, [=](uint32_t r) { return weights + size_t{r} * outputs; });
    return;
  }
  const auto* const weights = static_cast<const int8_t*>(layer.weights);
  add_rows(run, begin, end, [=](uint32_t r) { return weights + size_t{r} * outputs; });
  for (uint32_t b = 0; end == layer.in.size() && b < run.sample_count; ++b) {
    for (uint32_t c = 0; c < outputs; ++c) {
      Real& value = run.out[b * run.out_stride + c];
      value = value * scale_of(layer, c) + bias_of(layer, c);
    }
  }
}

void run_trained_dense(const LayerRun& run, uint32_t begin, uint32_t end) {
  if (begin == 0) {
    begin_with_biases(run);
  }
  const uint32_t outputs = run.layer->out.channels;
  add_rows(run, begin, end, [&](uint32_t r) { return run.rows->read(run.offset + size_t{r} * outputs, outputs); });
}

// in U S V' + b, from left to right. The point has U, V, S in this order; the rows here are those of U, S, V.
void run_factored(const LayerRun& run, uint32_t begin, uint32_t end) {
  const Layer& layer = *run.layer;
  const uint32_t inputs = static_cast<uint32_t>(layer.in.size());
  const uint32_t outputs = layer.out.channels;
  const uint32_t rank = layer.rank;
  const size_t v = run.offset + size_t{inputs} * rank;
  const size_t s = v + size_t{outputs} * rank;
  if (begin == 0) {
    begin_with_biases(run);
    fill_zero(size_t{2} * rank * run.sample_count, run.factors);
  }
  for (uint32_t r = begin; r < end; ++r) {
    const bool is_u = r < inputs;
    const bool is_s = !is_u && r < inputs + rank;
    const uint32_t k = is_u ? r : (is_s ? r - inputs : r - inputs - rank);
    const size_t base = is_u ? run.offset : (is_s ? s : v);
    const Real* const row = run.rows->read(base + size_t{k} * rank, rank);
    for (uint32_t b = 0; b < run.sample_count; ++b) {
      Real* const left = run.factors + size_t{2} * rank * b;  // in U
      Real* const middle = left + rank;                       // in U S
      if (is_u) {
        add_scaled(rank, run.in.of(b)[k], row, left);
      } else if (is_s) {
        add_scaled(rank, left[k], row, middle);
      } else {
        run.out[b * run.out_stride + k] += dot(rank, row, middle);
      }
    }
  }
}

Status run_dense(const LayerRun& run, uint32_t begin, uint32_t end) {
  const Layer& layer = *run.layer;
  if (!is_trained(layer)) {
    run_frozen_dense(run, begin, end);
  } else if (layer.trained == TrainedForm::kFactored) {
    run_factored(run, begin, end);
  } else {
    run_trained_dense(run, begin, end);
  }
  for (uint32_t b = 0; end == layer_row_count(layer) && b < run.sample_count; ++b) {
    GS_TRY(finish_values(layer, layer.out.channels, run.out + b * run.out_stride));
  }
  return Status::kOk;
}

// ---- Window layers -------------------------------------------------------------------------------------------------

// One row of maps: map `map` (of out), row `row` of it.
struct MapRow {
  uint32_t map;
  uint32_t row;
};

// Whether a window is one value, and the windows of a row are neighbours.
bool is_pointwise(const Layer& layer) {
  return layer.kernel_height == 1 && layer.kernel_width == 1 && layer.stride_width == 1;
}

// Input channels that are gathered at once.
uint32_t gathered_channel_count(const Layer& layer) {
  if (layer.kind == LayerKind::kDepthwiseConv2d) {
    return 1;
  }
  const uint32_t one = uint32_t{layer.kernel_height} * layer.kernel_width * layer.out.width;
  const uint32_t most = one > 0 && one < kGatheredMax ? kGatheredMax / one : 1;
  return most < layer.in.channels ? most : layer.in.channels;
}

// What the windows of row `row` see of input channels [first, first + count): a row for each number of a kernel.
WeightedRows seen_rows(const Layer& layer, const Real* in, uint32_t first, uint32_t count, uint32_t row, Real* work) {
  const size_t in_area = size_t{layer.in.height} * layer.in.width;
  if (is_pointwise(layer)) {
    return {in + first * in_area + size_t{row} * layer.stride_height * layer.in.width, in_area, count, layer.out.width};
  }
  Real* to = work;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t ky = 0; ky < layer.kernel_height; ++ky) {
      uint32_t y = 0;
      const bool is_inside = find_seen_row(layer, row, ky, &y);
      const Real* const from = is_inside ? in + (first + i) * in_area + size_t{y} * layer.in.width : nullptr;
      for (uint32_t kx = 0; kx < layer.kernel_width; ++kx, to += layer.out.width) {
        gather_seen(layer, from, kx, to);
      }
    }
  }
  return {work, layer.out.width, count * layer.kernel_height * layer.kernel_width, layer.out.width};
}

// Rows of some maps: `row` of the first one, and how far those of two maps are from each other.
struct MapRows {
  Real* row;
  size_t stride;
};

// The weights of a convolution and its biases, wherever they come from.
template <typename W>
struct Kernels {
  const W* weights;
  const Real* biases;  // of a trained layer; null: the layer's own
};

// out <- row `at.row` of the maps at.map .. map_end - 1: their sums are added.
template <typename W>
void convolve(const LayerRun& run, const Kernels<W>& kernels, const Real* in, MapRow at, uint32_t map_end,
              MapRows out) {
  const Layer& layer = *run.layer;
  const bool is_depthwise = layer.kind == LayerKind::kDepthwiseConv2d;
  const uint32_t channels = is_depthwise ? 1U : layer.in.channels;  // that one map reads
  const uint32_t first = is_depthwise ? at.map / (layer.out.channels / layer.in.channels) : 0U;
  const uint32_t area = uint32_t{layer.kernel_height} * layer.kernel_width;
  const uint32_t most = gathered_channel_count(layer);
  for (uint32_t i = 0; i < channels; i += most) {
    const uint32_t count = channels - i < most ? channels - i : most;
    const WeightedRows rows = seen_rows(layer, in, first + i, count, at.row, run.row);
    add_weighted_rows(rows, map_end - at.map, kernels.weights + (size_t{at.map} * channels + i) * area,
                      size_t{channels} * area, out.row, out.stride);
  }
}

// Where the sums of a row are made. A layer that writes over its input makes them in its own memory first: a whole map
// of a depthwise layer, or a row of all maps, which nothing reads later.
MapRows rows_of_sums(const LayerRun& run, MapRow at, Real* out) {
  const Layer& layer = *run.layer;
  const size_t width = layer.out.width;
  const size_t area = width * layer.out.height;
  if (run.out != run.in.values) {
    return {out + at.map * area + at.row * width, area};
  }
  Real* const own = run.row + layer_row_size(layer);
  return layer.kind == LayerKind::kDepthwiseConv2d ? MapRows{own + at.row * width, area}
                                                   : MapRows{own + at.map * width, width};
}

// Takes the sums to the output where they are complete: those up to map_end of this row are made.
void move_sums(const LayerRun& run, MapRow at, uint32_t map_end) {
  const Layer& layer = *run.layer;
  const size_t width = layer.out.width;
  const size_t area = width * layer.out.height;
  const Real* const own = run.row + layer_row_size(layer);
  if (layer.kind == LayerKind::kDepthwiseConv2d) {
    if (at.row + 1U == layer.out.height) {
      copy(area, own, run.out + at.map * area);
    }
    return;
  }
  for (uint32_t o = 0; map_end == layer.out.channels && o < map_end; ++o) {
    copy(width, own + o * width, run.out + o * area + at.row * width);
  }
}

// Row `at.row` of the maps at.map .. map_end - 1, for one sample.
template <typename W>
Status run_rows(const LayerRun& run, const Kernels<W>& kernels, const Real* in, Real* out, MapRow at,
                uint32_t map_end) {
  const Layer& layer = *run.layer;
  const uint32_t width = layer.out.width;
  const bool is_int8 = std::is_same_v<W, int8_t>;
  const MapRows sums = rows_of_sums(run, at, out);
  const auto bias = [&](uint32_t o) { return kernels.biases != nullptr ? kernels.biases[o] : bias_of(layer, o); };
  for (uint32_t o = at.map; o < map_end; ++o) {
    Real* const row = sums.row + (o - at.map) * sums.stride;
    for (uint32_t c = 0; c < width; ++c) {
      row[c] = is_int8 ? 0 : bias(o);
    }
  }
  convolve(run, kernels, in, at, map_end, sums);
  for (uint32_t o = at.map; o < map_end; ++o) {
    Real* const row = sums.row + (o - at.map) * sums.stride;
    for (uint32_t c = 0; is_int8 && c < width; ++c) {
      row[c] = row[c] * scale_of(layer, o) + bias(o);
    }
    GS_TRY(finish_values(layer, width, row));
  }
  if (run.out == run.in.values) {
    move_sums(run, at, map_end);
  }
  return Status::kOk;
}

// Rows [begin, end): map after map of a depthwise layer. Else row after row of all maps, so that maps which follow each
// other see the same values.
template <typename W>
Status run_convolution(const LayerRun& run, const Kernels<W>& kernels, uint32_t begin, uint32_t end) {
  const Layer& layer = *run.layer;
  const bool is_depthwise = layer.kind == LayerKind::kDepthwiseConv2d;
  const uint32_t maps = layer.out.channels;
  const uint32_t height = layer.out.height;
  GS_ASSERT(maps > 0 && height > 0);  // the network was checked
  for (uint32_t at = begin; at < end;) {
    const MapRow from = is_depthwise ? MapRow{at / height, at % height} : MapRow{at % maps, at / maps};
    uint32_t map_end = is_depthwise ? from.map + 1 : maps;
    map_end = map_end - from.map > end - at ? from.map + (end - at) : map_end;
    for (uint32_t b = 0; b < run.sample_count; ++b) {
      GS_TRY(run_rows(run, kernels, run.in.of(b), run.out + b * run.out_stride, from, map_end));
    }
    at += map_end - from.map;
  }
  return Status::kOk;
}

Status run_any_convolution(const LayerRun& run, uint32_t begin, uint32_t end) {
  const Layer& layer = *run.layer;
  if (is_trained(layer)) {
    return run_convolution(run, Kernels<Real>{run.kernels, run.kernels + layer_weight_count(layer)}, begin, end);
  }
  if (layer.form == WeightForm::kFloat) {
    return run_convolution(run, Kernels<float>{static_cast<const float*>(layer.weights), nullptr}, begin, end);
  }
  return run_convolution(run, Kernels<int8_t>{static_cast<const int8_t*>(layer.weights), nullptr}, begin, end);
}

// The larger of two values; NaN where one of them is.
Real larger(Real a, Real b) { return b > a || std::isnan(b) ? b : a; }

// The largest of the values inside a window, or their mean: sums of rows, then their sum.
Real pool_window(const Layer& layer, const Real* map, WindowRange rows, WindowRange columns) {
  const bool is_max = layer.kind == LayerKind::kMaxPool;
  Real total = 0;
  for (uint32_t y = rows.begin; y < rows.end; ++y) {
    const Real* const values = map + size_t{y} * layer.in.width;
    Real sum = values[columns.begin];
    for (uint32_t x = columns.begin + 1; x < columns.end; ++x) {
      sum = is_max ? larger(sum, values[x]) : sum + values[x];
    }
    total = y == rows.begin ? sum : (is_max ? larger(total, sum) : total + sum);
  }
  return is_max ? total : total / static_cast<Real>(rows.count() * columns.count());
}

Status run_pool(const LayerRun& run, uint32_t begin, uint32_t end) {
  const Layer& layer = *run.layer;
  for (uint32_t b = 0; b < run.sample_count; ++b) {
    for (uint32_t at = begin; at < end; ++at) {
      const uint32_t map = at / layer.out.height;
      Real* const to = run.out + b * run.out_stride + size_t{at} * layer.out.width;
      const Real* const from = run.in.of(b) + size_t{map} * layer.in.height * layer.in.width;
      const WindowRange rows = window_rows(layer, at % layer.out.height);
      for (uint32_t c = 0; c < layer.out.width; ++c) {
        to[c] = pool_window(layer, from, rows, window_columns(layer, c));
      }
      GS_TRY(finish_values(layer, layer.out.width, to));
    }
  }
  return Status::kOk;
}

// ---- Value by value ------------------------------------------------------------------------------------------------

Status run_values(const LayerRun& run, uint32_t begin, uint32_t end) {
  for (uint32_t b = 0; b < run.sample_count; ++b) {
    Real* const out = run.out + b * run.out_stride + begin;
    const Real* const in = run.in.of(b) + begin;
    if (run.layer->kind == LayerKind::kAdd) {
      add(end - begin, in, run.added.of(b) + begin, out);
    } else if (out != in) {
      copy(end - begin, in, out);
    }
    GS_TRY(finish_values(*run.layer, end - begin, out));
  }
  return Status::kOk;
}

}  // namespace

uint32_t layer_row_size(const Layer& layer) {
  if ((layer.kind == LayerKind::kConv2d || layer.kind == LayerKind::kDepthwiseConv2d) && !is_pointwise(layer)) {
    return gathered_channel_count(layer) * layer.kernel_height * layer.kernel_width * layer.out.width;
  }
  return 0;
}

bool may_overwrite(const Layer& layer) {
  const bool is_stride_one = layer.stride_height == 1 && layer.stride_width == 1;
  if (layer.kind == LayerKind::kDepthwiseConv2d) {
    return is_stride_one && layer.in == layer.out;
  }
  return layer.kind == LayerKind::kConv2d && is_stride_one && is_pointwise(layer) &&
         layer.in.height == layer.out.height && layer.in.width == layer.out.width &&
         layer.out.channels <= layer.in.channels;
}

uint32_t overwrite_row_size(const Layer& layer) {
  return uint32_t{layer.out.width} *
         (layer.kind == LayerKind::kDepthwiseConv2d ? layer.out.height : layer.out.channels);
}

uint32_t layer_factor_size(const Layer& layer) {
  return layer.trained == TrainedForm::kFactored ? uint32_t{2} * layer.rank : 0;
}

uint32_t layer_row_count(const Layer& layer) {
  const auto inputs = static_cast<uint32_t>(layer.in.size());
  if (layer.kind == LayerKind::kDense) {
    const uint32_t more = layer.trained == TrainedForm::kFactored ? uint32_t{layer.rank} + layer.out.channels : 0;
    return inputs + more;
  }
  return is_window_of_maps(layer) ? uint32_t{layer.out.channels} * layer.out.height : inputs;
}

uint64_t layer_row_work(const Layer& layer) {
  const uint64_t window = uint64_t{layer.kernel_height} * layer.kernel_width * layer.out.width;
  switch (layer.kind) {
    case LayerKind::kDense:
      return layer.trained == TrainedForm::kFactored ? layer.rank : layer.out.channels;
    case LayerKind::kConv2d:
      return window * layer.in.channels;
    default:
      return is_window_of_maps(layer) ? window : 1;
  }
}

uint32_t piece_row_count(const Layer& layer, uint32_t sample_count) {
  const uint64_t rows = kPieceWork / (layer_row_work(layer) * sample_count);
  return rows < 1 ? 1 : static_cast<uint32_t>(rows);
}

uint32_t piece_count(const Layer& layer, uint32_t sample_count) {
  const uint32_t rows = piece_row_count(layer, sample_count);
  return (layer_row_count(layer) + rows - 1) / rows;
}

Status run_piece(const LayerRun& run, uint32_t piece) {
  const Layer& layer = *run.layer;
  const uint32_t rows = piece_row_count(layer, run.sample_count);
  const uint32_t begin = piece * rows;
  const uint32_t end = layer_row_count(layer) - begin < rows ? layer_row_count(layer) : begin + rows;
  if (layer.kind == LayerKind::kDense) {
    return run_dense(run, begin, end);
  }
  if (layer.kind == LayerKind::kConv2d || layer.kind == LayerKind::kDepthwiseConv2d) {
    return run_any_convolution(run, begin, end);
  }
  return is_window_of_maps(layer) ? run_pool(run, begin, end) : run_values(run, begin, end);
}

}  // namespace gradstream

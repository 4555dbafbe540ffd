// What each kind of layer computes, in pieces of bounded work. network_stage.h runs layers one after the other.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_NETWORK_LAYERS_H_
#define GRADSTREAM_RUNTIME_PROBLEM_NETWORK_LAYERS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/problem/network.h"
#include "runtime/problem/weight_rows.h"

namespace gradstream {

// Multiplications of a piece, unless one row of the layer takes more. Reason: a piece is a unit of work, the least that
// a slice of a step does: about 20 ms on a Cortex-M3 at 25 MHz, where one takes 60 cycles.
inline constexpr uint32_t kPieceWork = 8192;

// Values that a convolution gathers from its input at once, unless one channel takes more. Reason: 2 KiB beside the
// workspace; a 3 x 3 kernel over rows of 8 values has 7 channels at once.
inline constexpr uint32_t kGatheredMax = 512;

// Values of sample b stand at values + b stride.
struct SampleValues {
  const Real* values = nullptr;
  size_t stride = 0;
  const Real* of(uint32_t sample) const { return values + sample * stride; }
};

// One layer for sample_count samples. out may be in.values, with the same stride, for kRelu, kRelu6, kFlatten and kAdd;
// for one sample it may be so where may_overwrite() says it. Nothing else aliases.
struct LayerRun {
  const Layer* layer = nullptr;
  uint32_t sample_count = 1;
  SampleValues in;
  SampleValues added;  // kAdd
  Real* out = nullptr;
  size_t out_stride = 0;
  // A trained layer's numbers begin at `offset` of the point. A dense one reads them row by row; those of a convolution
  // stand at kernels, weights and biases.
  const WeightRows* rows = nullptr;
  size_t offset = 0;
  const Real* kernels = nullptr;
  // Memory of the layer, layer_row_size() and sample_count layer_factor_size() values. The same in all pieces.
  Real* row = nullptr;
  Real* factors = nullptr;
};

// Values that LayerRun::row takes, and factors for each sample.
uint32_t layer_row_size(const Layer& layer);
// Whether a convolution can write over its input. Then LayerRun::row has overwrite_row_size() values more.
bool may_overwrite(const Layer& layer);
uint32_t overwrite_row_size(const Layer& layer);
uint32_t layer_factor_size(const Layer& layer);

// Rows of a layer, of which a piece does some; and the multiplications that one takes for one sample. Rows are inputs
// of a dense layer (with factors: of U, S and V), rows of maps of a window layer, values of the others.
uint32_t layer_row_count(const Layer& layer);
uint64_t layer_row_work(const Layer& layer);

// In how many pieces a layer is done for so many samples, and how many rows one of them has.
uint32_t piece_row_count(const Layer& layer, uint32_t sample_count);
uint32_t piece_count(const Layer& layer, uint32_t sample_count);

// What back passes need of a forward pass too.
//
// The activation that a layer ends with: its own, or that of its kind.
Activation activation_of(const Layer& layer);
// The number that an int8 weight of an output channel is multiplied by.
Real scale_of(const Layer& layer, uint32_t channel);
// Of a window layer: the row of the input that windows of output row `row` see at kernel row ky; false: the border.
bool find_seen_row(const Layer& layer, uint32_t row, uint32_t ky, uint32_t* out);
// Rows or columns of the input that a window sees: begin .. end - 1. All windows see some.
struct WindowRange {
  uint32_t count() const { return end - begin; }
  uint32_t begin;
  uint32_t end;
};
// Of the window that begins at `first` of the input with its border.
WindowRange window_range(uint32_t first, uint32_t pad, uint32_t kernel, uint32_t in);
inline WindowRange window_rows(const Layer& layer, uint32_t row) {
  return window_range(row * layer.stride_height, layer.pad_top, layer.kernel_height, layer.in.height);
}
inline WindowRange window_columns(const Layer& layer, uint32_t column) {
  return window_range(column * layer.stride_width, layer.pad_left, layer.kernel_width, layer.in.width);
}
// work (out.width values) <- what the windows of an output row see at kernel column kx of the input's row `in`; in
// null: a row of the border, zeros. work aliases nothing.
void gather_seen(const Layer& layer, const Real* in, uint32_t kx, Real* work);
// Convolutions and pools.
bool is_window_of_maps(const Layer& layer);

// Does piece 0 .. piece_count() - 1; they come in this order. After the last one the output stands. kNotFinite: a value
// is no finite number, before its activation.
Status run_piece(const LayerRun& run, uint32_t piece);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_NETWORK_LAYERS_H_

#include "runtime/base/no_contraction.h"

#include "runtime/problem/network_stage.h"

#include "runtime/problem/network_back.h"

namespace gradstream {
namespace {

bool is_in_place(const Layer& layer) {
  return layer.kind == LayerKind::kRelu || layer.kind == LayerKind::kRelu6 || layer.kind == LayerKind::kFlatten;
}

uint32_t values_of(const Stage& stage, uint32_t node) {
  return static_cast<uint32_t>(stage.network->layers[node - 1].out.size());
}

// The last layer that reads a node; `end` for the stage's output, and for all where all are kept.
uint32_t last_reader(const Stage& stage, uint32_t node) {
  if (node == stage.end || stage.keeps_all) {
    return stage.end;
  }
  uint32_t last = node;  // the next layer
  for (uint32_t k = node + 1; k < stage.end; ++k) {
    const Layer& layer = stage.network->layers[k];
    last = layer.kind == LayerKind::kAdd && added_node(layer) == node ? k : last;
  }
  return last;
}

// The first node in the place of this one.
uint32_t root_of(const Stage& stage, const uint32_t* places, uint32_t node) {
  while (node > stage.first && shares_place(stage, places, node - 1)) {
    --node;
  }
  return node;
}

// Whether an addition reads a node of the place that begins with node `root`, up to node `last`.
bool is_added(const Stage& stage, const uint32_t* places, uint32_t root, uint32_t last) {
  for (uint32_t k = stage.first; k < stage.end; ++k) {
    const Layer& layer = stage.network->layers[k];
    if (layer.kind == LayerKind::kAdd && added_node(layer) >= root && added_node(layer) <= last &&
        root_of(stage, places, added_node(layer)) == root) {
      return true;
    }
  }
  return false;
}

// Whether layer k writes over its input: nobody reads that later, and it stands in the workspace. Of layers in front
// the places are known.
bool overwrites(const Stage& stage, uint32_t k, const uint32_t* places) {
  if (k == stage.first) {
    return false;
  }
  const Layer& layer = stage.network->layers[k];
  if (stage.keeps_all) {
    const bool is_wanted = kHasLayerGradients && layer.kind != LayerKind::kFlatten &&
                           is_added(stage, places, root_of(stage, places, k), k);
    return is_in_place(layer) && !is_wanted;
  }
  const bool can = is_in_place(layer) || layer.kind == LayerKind::kAdd || (stage.is_single && may_overwrite(layer));
  return can && last_reader(stage, k) == k;
}

// The first free place for the output of layer k: free of all that layer k and later ones read.
uint32_t find_place(const Stage& stage, uint32_t k, const uint32_t* places) {
  const uint32_t size = values_of(stage, k + 1);
  uint32_t place = 0;
  for (uint32_t index = 0; stage.first + index < k;) {
    const uint32_t node = stage.first + index + 1;
    const uint32_t begin = places[index];
    const uint32_t end = begin + values_of(stage, node);
    const bool is_needed = last_reader(stage, node) >= k;
    if (is_needed && begin < place + size && place < end) {
      place = end;
      index = 0;
    } else {
      ++index;
    }
  }
  return place;
}

void take_most(size_t* most, uint64_t value) { *most = value > *most ? static_cast<size_t>(value) : *most; }

void add_layer(const Layer& layer, bool is_over, StageSize* size) {
  const uint32_t more = is_over && may_overwrite(layer) ? overwrite_row_size(layer) : 0;
  take_most(&size->row, uint64_t{layer_row_size(layer)} + more);
  take_most(&size->factors, layer_factor_size(layer));
  if (layer.trained == TrainedForm::kFrozen) {
    return;
  }
  if (layer.kind == LayerKind::kDense) {
    take_most(&size->weights, layer.out.channels);
    take_most(&size->weights, layer.trained == TrainedForm::kFactored ? layer.rank : 0);
  } else {
    take_most(&size->kernels, layer_point_size(layer));
  }
}

[[maybe_unused]] void add_errors(const Stage& stage, const uint32_t* places, StageSize* size) {
  for (uint32_t k = first_trained_layer(stage); k < stage.end; ++k) {
    size_t begin = 0;
    if (!shares_place(stage, places, k) && find_errors(stage, places, k + 1, &begin)) {
      size->errors += values_of(stage, k + 1);
    }
    take_most(&size->back, layer_back_size(stage.network->layers[k]));
  }
}

}  // namespace

StageSize plan_stage(const Stage& stage, uint32_t* places) {
  uint32_t own[kLayerCountMax] = {};
  uint32_t* const at = places != nullptr ? places : own;
  StageSize size;
  for (uint32_t k = stage.first; k < stage.end; ++k) {
    const uint32_t index = k - stage.first;
    const bool is_over = overwrites(stage, k, at);
    at[index] = is_over ? at[index - 1] : find_place(stage, k, at);
    take_most(&size.values, uint64_t{at[index]} + values_of(stage, k + 1));
    add_layer(stage.network->layers[k], is_over, &size);
  }
  if constexpr (kHasLayerGradients) {
    if (stage.keeps_all) {
      add_errors(stage, at, &size);
    }
  }
  return size;
}

uint32_t first_trained_layer(const Stage& stage) {
  uint32_t k = stage.first;
  while (k < stage.end && stage.network->layers[k].trained == TrainedForm::kFrozen) {
    ++k;
  }
  return k;
}

bool shares_place(const Stage& stage, const uint32_t* places, uint32_t k) {
  return k > stage.first && places[k - stage.first] == places[k - 1 - stage.first];
}

uint32_t added_node(const Layer& layer) { return layer.add_from == kAddFromInput ? 0 : layer.add_from + 1U; }

bool find_errors(const Stage& stage, const uint32_t* places, uint32_t node, size_t* out) {
  *out = 0;
  for (uint32_t n = first_trained_layer(stage) + 1; n <= node; ++n) {
    if (!shares_place(stage, places, n - 1) && is_added(stage, places, n, stage.end)) {
      if (root_of(stage, places, node) == n) {
        return true;
      }
      *out += values_of(stage, n);
    }
  }
  return false;
}

SampleValues stage_values(const Stage& stage, const StageMemory& memory, uint32_t sample_count, SampleValues in,
                          uint32_t layer) {
  if (layer == stage.first) {
    return in;
  }
  return {memory.values + size_t{memory.places[layer - 1 - stage.first]} * sample_count, values_of(stage, layer)};
}

Status run_stage(const Stage& stage, const StageMemory& memory, uint32_t sample_count, SampleValues in, const Real* x,
                 const Displacement* displacement, Pieces& pieces) {
  const WeightRows rows(x, displacement, memory.weights);
  size_t offset = 0;
  for (uint32_t k = 0; k < stage.first; ++k) {
    offset += layer_point_size(stage.network->layers[k]);
  }
  for (uint32_t k = stage.first; k < stage.end; ++k) {
    const Layer& layer = stage.network->layers[k];
    const uint32_t count = piece_count(layer, sample_count);
    const SampleValues out = stage_values(stage, memory, sample_count, in, k + 1);
    LayerRun run;
    run.layer = &layer;
    run.sample_count = sample_count;
    run.in = stage_values(stage, memory, sample_count, in, k);
    if (layer.kind == LayerKind::kAdd) {
      run.added = stage_values(stage, memory, sample_count, in, added_node(layer));
    }
    run.out = memory.values + (out.values - memory.values);
    run.out_stride = out.stride;
    run.rows = &rows;
    run.offset = offset;
    run.kernels = displacement == nullptr ? x + offset : memory.kernels;
    run.row = memory.row;
    run.factors = memory.factors;
    for (uint32_t piece = 0; piece < count; ++piece) {
      if (pieces.is_done(piece)) {
        continue;
      }
      if (!pieces.take(piece)) {
        return Status::kUnfinished;
      }
      if (piece == 0 && displacement != nullptr && layer.kind != LayerKind::kDense && layer_point_size(layer) > 0) {
        static_cast<void>(WeightRows(x, displacement, memory.kernels).read(offset, layer_point_size(layer)));
      }
      GS_TRY(run_piece(run, piece));
    }
    pieces.end_group(count);
    offset += layer_point_size(layer);
  }
  return Status::kOk;
}

}  // namespace gradstream

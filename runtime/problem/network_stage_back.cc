// A place holds the output of a layer and of the activations behind it. The error there is the one in front of all of
// them: who writes it asks what they let pass. An addition brings an error to a place whose values are still needed. So
// it is summed apart, in StageMemory::errors.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/network_stage_back.h"

#include "runtime/base/products.h"

namespace gradstream {
namespace {

Passage passage_of(const Stage& stage, const uint32_t* places, uint32_t node) {
  Passage passage;
  while (node > stage.first) {
    --node;
    passage.take(activation_of(stage.network->layers[node]));
    if (!shares_place(stage, places, node)) {
      break;
    }
  }
  return passage;
}

Real* place_of(const Stage& stage, const StageMemory& memory, uint32_t node) {
  return memory.values + memory.places[node - 1 - stage.first];
}

// Where additions bring errors to; null: none comes, or nobody wants it.
Real* errors_of(const Stage& stage, const StageMemory& memory, uint32_t node) {
  if constexpr (kHasLayerGradients) {
    size_t begin = 0;
    if (memory.error_count > 0 && find_errors(stage, memory.places, node, &begin)) {
      return memory.errors + begin;
    }
  }
  return nullptr;
}

LayerBack layer_back(const Stage& stage, const StageMemory& memory, SampleValues in, uint32_t k) {
  const Layer& layer = stage.network->layers[k];
  LayerBack back;
  back.layer = &layer;
  back.in = stage_values(stage, memory, 1, in, k).values;
  back.error = place_of(stage, memory, k + 1);
  back.work = memory.back;
  if (k > first_trained_layer(stage)) {
    back.back = place_of(stage, memory, k);
    back.passage = passage_of(stage, memory.places, k);
    back.brought = errors_of(stage, memory, k);
    back.added = layer.kind == LayerKind::kAdd ? errors_of(stage, memory, added_node(layer)) : nullptr;
  }
  return back;
}

}  // namespace

void begin_stage_back(const Stage& stage, const StageMemory& memory, const Real* error) {
  const auto count = static_cast<uint32_t>(stage.network->layers[stage.end - 1].out.size());
  Real* const at = place_of(stage, memory, stage.end);
  const Passage passage = passage_of(stage, memory.places, stage.end);
  for (uint32_t c = 0; c < count; ++c) {
    at[c] = passage.passes(at[c]) ? error[c] : 0;
  }
  fill_zero(memory.error_count, memory.errors);
}

Status run_stage_back(const Stage& stage, const StageMemory& memory, SampleValues in, const Real* x, Real* gradient,
                      Pieces& pieces) {
  size_t offset = 0;
  for (uint32_t k = 0; k < stage.end; ++k) {
    offset += layer_point_size(stage.network->layers[k]);
  }
  const uint32_t last = first_trained_layer(stage);
  for (uint32_t k = stage.end; k-- > last;) {
    const Layer& layer = stage.network->layers[k];
    offset -= layer_point_size(layer);
    if (shares_place(stage, memory.places, k)) {
      continue;
    }
    LayerBack back = layer_back(stage, memory, in, k);
    if (layer.trained != TrainedForm::kFrozen) {
      back.x = x + offset;
      back.gradient = gradient + offset;
    }
    const uint32_t count = layer_back_piece_count(layer);
    for (uint32_t piece = 0; piece < count; ++piece) {
      if (pieces.is_done(piece)) {
        continue;
      }
      if (!pieces.take(piece)) {
        return Status::kUnfinished;
      }
      run_back_piece(back, piece);
    }
    pieces.end_group(count);
  }
  return Status::kOk;
}

}  // namespace gradstream

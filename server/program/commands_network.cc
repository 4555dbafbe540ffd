// The verb `network show`: what a network's file holds, what it takes on a device, and what a run's configuration says.
#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "host/file_cause.h"
#include "host/standard_files.h"
#include "runtime/problem/gsn_text.h"
#include "server/program/commands.h"
#include "server/program/network_file.h"
#include "server/program/network_memory.h"

namespace gradstream {
namespace {

std::string text_of(Volume volume) {
  return std::to_string(volume.height) + "x" + std::to_string(volume.width) + "x" + std::to_string(volume.channels);
}

const char* form_name(const Layer& layer) {
  switch (layer.form) {
    case WeightForm::kInt8:
      return "int8";
    case WeightForm::kInt8PerChannel:
      return "int8_per_channel";
    default:
      return "float";
  }
}

const char* trained_name(const Layer& layer) {
  switch (layer.trained) {
    case TrainedForm::kDense:
      return "dense";
    case TrainedForm::kFactored:
      return "factored";
    default:
      return "no";
  }
}

uint64_t frozen_count(const Network& network) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    const Layer& layer = network.layers[i];
    const bool is_frozen = layer.trained == TrainedForm::kFrozen;
    count += is_frozen ? layer_weight_count(layer) + (layer.biases != nullptr ? layer_bias_count(layer) : 0) : 0;
  }
  return count;
}

void print_layer(const CommonOptions& options, const Network& network, uint32_t index) {
  const Layer& layer = network.layers[index];
  OutputLine line;
  line.add("layer", uint64_t{index})
      .add("kind", layer_kind_name(layer.kind))
      .add("in", text_of(layer.in))
      .add("out", text_of(layer.out));
  if (layer.kernel_height != 0) {
    line.add("kernel", std::to_string(layer.kernel_height) + "x" + std::to_string(layer.kernel_width))
        .add("stride", std::to_string(layer.stride_height) + "x" + std::to_string(layer.stride_width))
        .add("pad", std::to_string(layer.pad_top) + "x" + std::to_string(layer.pad_left));
  }
  if (layer.kind == LayerKind::kAdd) {
    line.add("adds", layer.add_from == kAddFromInput ? "input" : "layer_" + std::to_string(layer.add_from));
  }
  if (layer_weight_count(layer) > 0) {
    line.add("weights", layer_weight_count(layer))
        .add("biases",
             uint64_t{layer.biases != nullptr || layer.trained != TrainedForm::kFrozen ? layer_bias_count(layer) : 0})
        .add("form", form_name(layer))
        .add("trained", trained_name(layer));
  }
  if (layer.rank != 0) {
    line.add("rank", uint64_t{layer.rank});
  }
  if (layer.activation != Activation::kNone) {
    line.add("activation", activation_name(layer.activation));
  }
  line.add("multiplications", layer_multiplication_count(layer)).print(options);
}

// The image for networks of that board has no room for the manifold fixed_rank (boards/stm32f405/CMakeLists.txt).
constexpr const char* kNoFactorsOnBoard =
    "an STM32F405 trains no factored layers: for it write them as dense ones (trained 1), or take another board";

bool trains_factors(const Network& network) {
  return std::any_of(network.layers, network.layers + network.layer_count,
                     [](const Layer& layer) { return layer.trained == TrainedForm::kFactored; });
}

void print_memory(const CommonOptions& options, const Network& network, uint32_t batch_size, uint32_t sample_count) {
  const NetworkMemory memory = network_memory(network, batch_size, sample_count);
  OutputLine line;
  line.add("batch", uint64_t{batch_size})
      .add("samples", uint64_t{sample_count})
      .add("model", memory.model)
      .add("scratch", memory.scratch)
      .add("features", memory.features);
  if (memory.arena != 0) {
    line.add("arena", memory.arena)
        .add("board_arena", memory.board_arena)
        .add("board_arena_local", memory.board_arena_local)
        .add("board_arena_least", memory.board_arena_least);
    if (trains_factors(network)) {
      line.add_quoted("board_note", kNoFactorsOnBoard);
    }
  } else if (memory.search_size != 0) {
    line.add_quoted("note", "the search for the arena takes " + std::to_string(memory.search_size) +
                                " bytes of memory, at most " + std::to_string(kArenaSearchMax) +
                                " and what this machine gives: free memory, or make the layers smaller");
  } else {
    line.add_quoted("note", "the arena is not known: no run takes the point");
  }
  line.print(options);
}

// The keys of [run], or a note that there are none for this point; with the text format as lines to copy.
void print_keys(const CommonOptions& options, const std::string& path, const Network& network) {
  if (const Objection fault = network_point_fault(network)) {
    OutputLine().add_quoted("note", fault.sentence).print(options);
    return;
  }
  const std::string parts = network_parts_text(network);
  if (options.format == "json") {
    OutputLine()
        .add("problem", "network")
        .add("network", path)
        .add("manifold", "product")
        .add("parts", parts)
        .print(options);
    return;
  }
  print_output("# for the section [run]:\nproblem = \"network\"\nnetwork = " +
               nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
               "\nmanifold = \"product\"\nparts = \"" + parts + "\"\n");
}

}  // namespace

int network_show(const CommonOptions& options, const std::string& path, uint32_t batch_size, uint32_t sample_count) {
  NetworkFile file;
  if (const Objection problem = read_network_file(path, &file)) {
    return fail(is_temporary(find_path_fault(path.c_str(), false)) ? kExitTemporary : kExitFile, problem.sentence);
  }
  const Network& network = file.network;
  const uint64_t trained = network_size(network);
  uint64_t multiplications = 0;
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    multiplications += layer_multiplication_count(network.layers[i]);
  }
  OutputLine()
      .add("network", path)
      .add("size", uint64_t{file.size})
      .add_hex("digest", file.digest)
      .add("input", text_of(network.in))
      .add("layers", uint64_t{network.layer_count})
      .add("frozen_in_front", uint64_t{feature_layer_count(network)})
      .add("scores", uint64_t{network_score_count(network)})
      .add("loss", network_loss_name(network.loss))
      .add("trained", trained)
      .add("frozen", frozen_count(network))
      .add("multiplications", multiplications)
      .print(options);
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    print_layer(options, network, i);
  }
  if (trained > 0) {
    print_memory(options, network, batch_size, sample_count);
    print_keys(options, path, network);
  }
  return kExitOk;
}

}  // namespace gradstream

// What is wrong with a network, and how large its parts are. Nothing here computes a score.
#include "runtime/base/no_contraction.h"

#include <bit>
#include <cmath>

#include "runtime/problem/network.h"

namespace gradstream {
namespace {

using Code = NetworkFaultCode;

bool has_weights(const Layer& layer) {
  return layer.kind == LayerKind::kDense || layer.kind == LayerKind::kConv2d ||
         layer.kind == LayerKind::kDepthwiseConv2d;
}

bool has_window(const Layer& layer) {
  return layer.kind == LayerKind::kConv2d || layer.kind == LayerKind::kDepthwiseConv2d ||
         layer.kind == LayerKind::kMaxPool || layer.kind == LayerKind::kAveragePool;
}

bool is_activation(const Layer& layer) { return layer.kind == LayerKind::kRelu || layer.kind == LayerKind::kRelu6; }

uint32_t clipped(uint64_t value) { return value > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(value); }

// value, limit and least are numbers of values.
NetworkFault fault(Code code, uint64_t value = 0, uint64_t limit = 0, uint64_t least = 0) {
  return {code, 0, clipped(value), clipped(limit), clipped(least)};
}

NetworkFault check_enumerations(const Layer& layer) {
  if (layer.kind < LayerKind::kDense || layer.kind > LayerKind::kAdd) {
    return fault(Code::kKind, static_cast<uint8_t>(layer.kind));
  }
  const bool takes_activation = !is_activation(layer) && layer.kind != LayerKind::kFlatten;
  if (layer.activation > Activation::kRelu6 || (!takes_activation && layer.activation != Activation::kNone)) {
    return fault(Code::kActivation, static_cast<uint8_t>(layer.activation));
  }
  const bool is_known = layer.trained <= TrainedForm::kFactored;
  const bool is_trained = layer.trained != TrainedForm::kFrozen;
  if (!is_known || (is_trained && !has_weights(layer)) ||
      (layer.trained == TrainedForm::kFactored && layer.kind != LayerKind::kDense)) {
    return fault(Code::kTrained, static_cast<uint8_t>(layer.trained));
  }
  const bool wants_float = is_trained || !has_weights(layer);
  if (layer.form > WeightForm::kInt8PerChannel || (wants_float && layer.form != WeightForm::kFloat)) {
    return fault(Code::kForm, static_cast<uint8_t>(layer.form));
  }
  return {};
}

bool is_volume(const Volume& volume) { return volume.size() >= 1 && volume.size() <= kVolumeSizeMax; }

NetworkFault check_volumes(const Layer& layer, const Volume& before) {
  if (layer.in != before) {
    return fault(Code::kChain, layer.in.size(), before.size());
  }
  if (!is_volume(layer.out)) {
    return fault(Code::kVolume, layer.out.size(), kVolumeSizeMax);
  }
  if (layer.kind == LayerKind::kDense) {
    const bool is_row = layer.out.height == 1 && layer.out.width == 1;
    return is_row ? NetworkFault{} : fault(Code::kOutput, layer.out.size(), layer.out.channels);
  }
  if (layer.kind == LayerKind::kFlatten) {
    return layer.out.size() == layer.in.size() ? NetworkFault{}
                                               : fault(Code::kOutput, layer.out.size(), layer.in.size());
  }
  if (!has_window(layer) && layer.out != layer.in) {
    return fault(Code::kOutput, layer.out.size(), layer.in.size());
  }
  return {};
}

// Windows of one side: the last one meets the input, and one more would reach beyond it.
bool fits_side(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t pad) {
  const uint64_t input_end = uint64_t{in} + pad;
  const uint64_t last = uint64_t{out - 1} * stride;
  return last < input_end && last + stride + kernel > input_end;
}

// Of the outputs that fits_side() takes: at most one window a stride, and at least so many that none more lies inside.
uint32_t windows_max(uint32_t in, uint32_t stride, uint32_t pad) { return (in + pad - 1) / stride + 1; }
uint32_t windows_min(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad) {
  return in + pad >= kernel ? (in + pad - kernel) / stride + 1 : 1;
}

NetworkFault check_window(const Layer& layer) {
  const bool has_sides =
      layer.kernel_height > 0 && layer.kernel_width > 0 && layer.stride_height > 0 && layer.stride_width > 0;
  if (!has_sides) {
    return fault(Code::kWindow);
  }
  if (layer.pad_top >= layer.kernel_height || layer.pad_left >= layer.kernel_width) {
    return fault(Code::kWindow, layer.pad_top >= layer.kernel_height ? layer.pad_top : layer.pad_left);
  }
  if (!fits_side(layer.in.height, layer.out.height, layer.kernel_height, layer.stride_height, layer.pad_top)) {
    return fault(Code::kHeight, layer.out.height, windows_max(layer.in.height, layer.stride_height, layer.pad_top),
                 windows_min(layer.in.height, layer.kernel_height, layer.stride_height, layer.pad_top));
  }
  if (!fits_side(layer.in.width, layer.out.width, layer.kernel_width, layer.stride_width, layer.pad_left)) {
    return fault(Code::kWidth, layer.out.width, windows_max(layer.in.width, layer.stride_width, layer.pad_left),
                 windows_min(layer.in.width, layer.kernel_width, layer.stride_width, layer.pad_left));
  }
  // A convolution may gather the windows of a row, and a device answers nobody within one.
  const uint64_t row_work = uint64_t{layer.kernel_height} * layer.kernel_width * layer.out.width;
  if (row_work > kVolumeSizeMax) {
    return fault(Code::kWindowWork, row_work, kVolumeSizeMax);
  }
  const bool is_free = layer.kind == LayerKind::kConv2d;
  const bool is_multiple = layer.kind == LayerKind::kDepthwiseConv2d && layer.out.channels % layer.in.channels == 0;
  if (!is_free && !is_multiple && layer.out.channels != layer.in.channels) {
    return fault(Code::kChannels, layer.out.channels, layer.in.channels);
  }
  return {};
}

template <typename T>
bool find_bad(const T* values, uint64_t count, bool is_positive, uint64_t* at) {
  for (uint64_t i = 0; values != nullptr && i < count; ++i, ++*at) {
    if (!std::isfinite(values[i]) || (is_positive && !(values[i] > 0))) {
      return true;
    }
  }
  return false;
}

NetworkFault check_numbers(const Layer& layer) {
  const uint64_t weights = layer_weight_count(layer);
  uint64_t at = layer.form == WeightForm::kFloat ? 0 : weights;
  if ((at == 0 && find_bad(static_cast<const float*>(layer.weights), weights, false, &at)) ||
      find_bad(layer.biases, layer_bias_count(layer), false, &at) ||
      find_bad(layer.scales, layer_scale_count(layer), true, &at)) {
    return fault(Code::kNumber, at);
  }
  return {};
}

NetworkFault check_weights(const Layer& layer, bool reads_numbers) {
  if (layer.trained == TrainedForm::kFactored) {
    const uint64_t least = layer.in.size() < layer.out.size() ? layer.in.size() : layer.out.size();
    const uint64_t most = least < kFixedRankMax ? least : kFixedRankMax;
    if (layer.rank < 1 || layer.rank > most) {
      return fault(Code::kRank, layer.rank, most);
    }
  }
  const uint64_t count = layer_weight_count(layer);
  if (count > kWeightCountMax) {
    return fault(Code::kWeightCount, count, kWeightCountMax);
  }
  if (layer.trained == TrainedForm::kFrozen && layer.weights == nullptr) {
    return fault(Code::kNoWeights, count);
  }
  if (layer_scale_count(layer) > 0 && layer.scales == nullptr) {
    return fault(Code::kNoScales, layer_scale_count(layer));
  }
  return reads_numbers ? check_numbers(layer) : NetworkFault{};
}

NetworkFault check_add(const Network& network, uint32_t index) {
  const Layer& layer = network.layers[index];
  if (layer.add_from != kAddFromInput && layer.add_from >= index) {
    return fault(Code::kAddFrom, layer.add_from, index);
  }
  const Volume& added = layer.add_from == kAddFromInput ? network.in : network.layers[layer.add_from].out;
  return added == layer.in ? NetworkFault{} : fault(Code::kAddVolume, added.size(), layer.in.size());
}

NetworkFault check_layer(const Network& network, uint32_t index, bool reads_numbers) {
  const Layer& layer = network.layers[index];
  NetworkFault found = check_enumerations(layer);
  if (found.code == Code::kNone) {
    found = check_volumes(layer, index == 0 ? network.in : network.layers[index - 1].out);
  }
  if (found.code == Code::kNone && has_window(layer)) {
    found = check_window(layer);
  }
  if (found.code == Code::kNone && has_weights(layer)) {
    found = check_weights(layer, reads_numbers);
  }
  if (found.code == Code::kNone && layer.kind == LayerKind::kAdd) {
    found = check_add(network, index);
  }
  found.layer = index;
  return found;
}

}  // namespace

NetworkFault check_network(const Network& network, bool reads_numbers) {
  NetworkFault found;
  const uint32_t count = network.layer_count;
  if (network.layers == nullptr || count < 1 || count > kLayerCountMax) {
    found = fault(Code::kLayerCount, count, kLayerCountMax);
  } else if (!std::isfinite(network.scale) || !std::isfinite(network.offset) || network.scale == 0) {
    found = fault(Code::kInputScale, std::bit_cast<uint32_t>(network.scale), std::bit_cast<uint32_t>(network.offset));
  } else if (!is_volume(network.in)) {
    found = fault(Code::kVolume, network.in.size(), kVolumeSizeMax);
  }
  if (found.code != Code::kNone) {
    found.layer = count;
    return found;
  }
  for (uint32_t i = 0; i < count; ++i) {
    found = check_layer(network, i, reads_numbers);
    if (found.code != Code::kNone) {
      return found;
    }
  }
  const uint64_t scores = network.layers[count - 1].out.size();
  if (network.loss < NetworkLoss::kSoftmax || network.loss > NetworkLoss::kLogistic) {
    found = fault(Code::kLoss, static_cast<uint8_t>(network.loss));
  } else if (network.loss == NetworkLoss::kSoftmax && scores < 2) {
    found = fault(Code::kScoreCount, scores, 2);
  }
  found.layer = count;
  return found;
}

const char* network_fault_text(NetworkFaultCode code) {
  static constexpr const char* kTexts[] = {
      "no fault",
      "wrong number of layers",
      "unknown loss",
      "too few scores for the loss",
      "scale or offset of the input is no number, or the scale is 0",
      "unknown kind of layer",
      "activation that is unknown, or that this kind does not take",
      "form of weights that is unknown, or that must be float here",
      "trained form that is unknown, or that this kind does not have",
      "volume that is empty or too large",
      "input that is not the output of the layer before",
      "output that is not what this kind makes of its input",
      "kernel or stride of 0, or a border as large as the kernel",
      "rows of the output that the windows do not make",
      "columns of the output that the windows do not make",
      "channels of the output that do not match those of the input",
      "too many weights",
      "no weights in a frozen layer",
      "no scales for int8 weights",
      "weight, bias or scale that is no finite number, or a scale that is not above 0",
      "rank out of bounds",
      "addition of a layer that does not stand before it",
      "addition of volumes that are not equal",
      "kernel too large for so many columns of the output",
  };
  static_assert(sizeof(kTexts) / sizeof(kTexts[0]) == static_cast<size_t>(Code::kWindowWork) + 1);
  return code <= Code::kWindowWork ? kTexts[static_cast<size_t>(code)] : "unknown fault";
}

uint64_t layer_weight_count(const Layer& layer) {
  const uint64_t kernel = uint64_t{layer.kernel_height} * layer.kernel_width;
  switch (layer.kind) {
    case LayerKind::kDense: {
      const uint64_t sum = layer.in.size() + layer.out.channels;
      return layer.trained == TrainedForm::kFactored ? (sum + layer.rank) * layer.rank
                                                     : layer.in.size() * layer.out.channels;
    }
    case LayerKind::kConv2d:
      return kernel * layer.in.channels * layer.out.channels;
    case LayerKind::kDepthwiseConv2d:
      return kernel * layer.out.channels;
    default:
      return 0;
  }
}

uint32_t layer_bias_count(const Layer& layer) { return has_weights(layer) ? layer.out.channels : 0; }

uint32_t layer_scale_count(const Layer& layer) {
  if (!has_weights(layer) || layer.form == WeightForm::kFloat) {
    return 0;
  }
  return layer.form == WeightForm::kInt8 ? 1 : layer.out.channels;
}

uint32_t layer_point_size(const Layer& layer) {
  return layer.trained == TrainedForm::kFrozen
             ? 0
             : static_cast<uint32_t>(layer_weight_count(layer)) + layer_bias_count(layer);
}

uint32_t network_size(const Network& network) {
  uint32_t size = 0;
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    size += layer_point_size(network.layers[i]);
  }
  return size;
}

uint32_t network_parts(const Network& network, std::span<NetworkPart> out) {
  uint32_t count = 0;
  const auto add = [&](const NetworkPart& part) {
    if (count < out.size()) {
      out[count] = part;
    }
    ++count;
  };
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    const Layer& layer = network.layers[i];
    if (layer.trained == TrainedForm::kFrozen) {
      continue;
    }
    const uint32_t outputs = layer.out.channels;
    const auto weights = static_cast<uint32_t>(layer_weight_count(layer));
    if (layer.kind != LayerKind::kDense) {
      add({i, outputs, weights / outputs, 0, false});
    } else {
      const bool is_factored = layer.trained == TrainedForm::kFactored;
      add({i, static_cast<uint32_t>(layer.in.size()), outputs, is_factored ? layer.rank : uint32_t{0}, false});
    }
    add({i, outputs, 1, 0, true});
  }
  return count;
}

Status fill_network_start(const Network& network, Real* x) {
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    const Layer& layer = network.layers[i];
    if (layer.trained == TrainedForm::kFrozen) {
      continue;
    }
    if (layer.weights == nullptr) {
      return Status::kInvalidArgument;
    }
    const auto* const weights = static_cast<const float*>(layer.weights);
    const uint64_t weight_count = layer_weight_count(layer);
    for (uint64_t w = 0; w < weight_count; ++w) {
      *x++ = static_cast<Real>(weights[w]);
    }
    for (uint32_t b = 0; b < layer_bias_count(layer); ++b) {
      *x++ = layer.biases == nullptr ? Real{0} : static_cast<Real>(layer.biases[b]);
    }
  }
  return Status::kOk;
}

uint32_t network_input_count(const Network& network) { return static_cast<uint32_t>(network.in.size()); }

uint32_t network_score_count(const Network& network) {
  return static_cast<uint32_t>(network.layers[network.layer_count - 1].out.size());
}

uint32_t network_target_count(const Network& network) {
  return network.loss == NetworkLoss::kSoftmax ? 1 : network_score_count(network);
}

// An addition may take a layer further in front: then what lies between belongs to the rest too.
uint32_t feature_layer_count(const Network& network) {
  uint32_t count = 0;
  while (count < network.layer_count && network.layers[count].trained == TrainedForm::kFrozen) {
    ++count;
  }
  for (uint32_t i = network.layer_count; i-- > count;) {
    const Layer& layer = network.layers[i];
    const uint32_t source = layer.add_from == kAddFromInput ? 0 : layer.add_from + 1U;  // layers before its output
    if (layer.kind == LayerKind::kAdd && source < count) {
      count = source;
      i = network.layer_count;
    }
  }
  return count;
}

bool is_network_head(const Network& network) {
  uint32_t i = feature_layer_count(network);
  if (network_size(network) == 0 || network.layers[i].trained == TrainedForm::kFrozen) {
    return false;
  }
  for (; i < network.layer_count; ++i) {
    const Layer& layer = network.layers[i];
    const bool is_trained = layer.kind == LayerKind::kDense && layer.trained == TrainedForm::kDense;
    if (!is_trained && !is_activation(layer) && layer.kind != LayerKind::kFlatten) {
      return false;
    }
  }
  return true;
}

bool has_network_gradient(const Network& network) {
  return kHasLayerGradients ? network_size(network) > 0 : is_network_head(network);
}

}  // namespace gradstream

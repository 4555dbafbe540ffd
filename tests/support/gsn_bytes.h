// A network as the bytes of a file, and the file's fields to spoil: for tests and seeds.
#ifndef GRADSTREAM_TESTS_SUPPORT_GSN_BYTES_H_
#define GRADSTREAM_TESTS_SUPPORT_GSN_BYTES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "runtime/base/crc32c.h"
#include "runtime/problem/gsn.h"

namespace gradstream {

inline void put_u16(std::span<uint8_t> bytes, size_t at, uint32_t value) {
  bytes[at] = static_cast<uint8_t>(value);
  bytes[at + 1] = static_cast<uint8_t>(value >> 8);
}

inline void put_u32(std::span<uint8_t> bytes, size_t at, uint32_t value) {
  put_u16(bytes, at, value & 0xffff);
  put_u16(bytes, at + 2, value >> 16);
}

inline uint32_t get_u32(std::span<const uint8_t> bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// After a change: a file that was changed on purpose has the right checksum. Nothing happens to bytes without a head.
inline void mend_checksum(std::span<uint8_t> bytes) {
  if (bytes.size() < kGsnHeadSize) {
    return;
  }
  const size_t size = get_u32(bytes, kGsnSize);
  const size_t end = size > kGsnSize && size <= bytes.size() ? size : bytes.size();
  put_u32(bytes, kGsnChecksum, crc32c(0, bytes.data() + kGsnSize, end - kGsnSize));
}

inline void put_volume(std::span<uint8_t> bytes, size_t at, Volume volume) {
  put_u16(bytes, at, volume.height);
  put_u16(bytes, at + 2, volume.width);
  put_u16(bytes, at + 4, volume.channels);
}

// The arrays of a layer; those that are null are left out.
inline std::array<std::span<const uint8_t>, kGsnArrayCount> arrays_of(const Layer& layer) {
  const size_t weight_size = layer.form == WeightForm::kFloat ? 4 : 1;
  const void* const data[] = {layer.weights, layer.biases, layer.scales};
  const size_t sizes[] = {layer_weight_count(layer) * weight_size, layer_bias_count(layer) * size_t{4},
                          layer_scale_count(layer) * size_t{4}};
  std::array<std::span<const uint8_t>, kGsnArrayCount> out;
  for (size_t i = 0; i < out.size(); ++i) {
    if (data[i] != nullptr) {
      out[i] = {static_cast<const uint8_t*>(data[i]), sizes[i]};
    }
  }
  return out;
}

inline std::vector<uint8_t> gsn_bytes(const Network& network) {
  std::vector<uint8_t> bytes(kGsnHeadSize + size_t{network.layer_count} * kGsnRecordSize);
  std::memcpy(bytes.data(), kGsnMagic, 4);
  put_u32(bytes, kGsnLayerCount, network.layer_count);
  put_volume(bytes, kGsnInput, network.in);
  bytes[kGsnLoss] = static_cast<uint8_t>(network.loss);
  std::memcpy(bytes.data() + kGsnScale, &network.scale, 4);
  std::memcpy(bytes.data() + kGsnOffset, &network.offset, 4);
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    const Layer& layer = network.layers[i];
    const size_t at = kGsnHeadSize + size_t{i} * kGsnRecordSize;
    bytes[at + kGsnKind] = static_cast<uint8_t>(layer.kind);
    bytes[at + kGsnActivation] = static_cast<uint8_t>(layer.activation);
    bytes[at + kGsnForm] = static_cast<uint8_t>(layer.form);
    bytes[at + kGsnTrained] = static_cast<uint8_t>(layer.trained);
    put_volume(bytes, at + kGsnIn, layer.in);
    put_volume(bytes, at + kGsnOut, layer.out);
    const uint8_t rest[] = {layer.kernel_height, layer.kernel_width, layer.stride_height, layer.stride_width,
                            layer.pad_top,       layer.pad_left,     layer.rank,          layer.add_from};
    std::memcpy(bytes.data() + at + kGsnWindow, rest, sizeof rest);
    size_t pair = at + kGsnData;
    for (const std::span<const uint8_t> array : arrays_of(layer)) {
      if (!array.empty()) {
        put_u32(bytes, pair, static_cast<uint32_t>(bytes.size()));
        put_u32(bytes, pair + 4, static_cast<uint32_t>(array.size()));
        bytes.insert(bytes.end(), array.begin(), array.end());
        bytes.resize((bytes.size() + 3) / 4 * 4);
      }
      pair += 8;
    }
  }
  put_u32(bytes, kGsnSize, static_cast<uint32_t>(bytes.size()));
  mend_checksum(bytes);
  return bytes;
}

// A small network with each kind of layer and each form of weights: 6 x 6 pixels, three classes. Its own memory.
//
//   0 conv2d int8 per channel   1 depthwise float   2 add 0   3 relu6   4 max_pool   5 average_pool, global
//   6 flatten   7 dense int8   8 dense, trained, factored   9 relu   10 dense, trained, with a start
struct SmallNetwork {
  std::array<int8_t, 18> conv = {1, -2, 3, -4, 5, -6, 7, -8, 9, 10, -11, 12, -13, 14, -15, 16, -17, 18};
  std::array<float, 2> conv_scales = {0.25F, 0.5F};
  std::array<float, 2> conv_biases = {0.1F, -0.1F};
  std::array<float, 18> depthwise = {};
  std::array<int8_t, 8> narrow = {1, -1, 2, -2, 3, -3, 4, -4};
  std::array<float, 1> narrow_scale = {0.125F};
  std::array<float, 12> head = {0.5F, -0.5F, 0.25F, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::array<float, 3> head_biases = {1, 2, 3};
  std::array<Layer, 11> layers = {};
  Network network;

  SmallNetwork() {
    for (size_t i = 0; i < depthwise.size(); ++i) {
      depthwise[i] = 0.125F * static_cast<float>(i) - 1;
    }
    const Volume image = {6, 6, 1}, maps = {6, 6, 2}, pooled = {3, 3, 2}, mean = {1, 1, 2}, four = {1, 1, 4};
    const auto window = [this](size_t at, LayerKind kind, Volume in, Volume out, uint8_t kernel, uint8_t stride,
                               uint8_t pad) {
      layers[at].kind = kind;
      layers[at].in = in;
      layers[at].out = out;
      layers[at].kernel_height = layers[at].kernel_width = kernel;
      layers[at].stride_height = layers[at].stride_width = stride;
      layers[at].pad_top = layers[at].pad_left = pad;
    };
    const auto plain = [this](size_t at, LayerKind kind, Volume in, Volume out) {
      layers[at].kind = kind;
      layers[at].in = in;
      layers[at].out = out;
    };
    window(0, LayerKind::kConv2d, image, maps, 3, 1, 1);
    layers[0].activation = Activation::kRelu;
    layers[0].form = WeightForm::kInt8PerChannel;
    layers[0].weights = conv.data();
    layers[0].biases = conv_biases.data();
    layers[0].scales = conv_scales.data();
    window(1, LayerKind::kDepthwiseConv2d, maps, maps, 3, 1, 1);
    layers[1].weights = depthwise.data();
    plain(2, LayerKind::kAdd, maps, maps);
    layers[2].add_from = 0;
    plain(3, LayerKind::kRelu6, maps, maps);
    window(4, LayerKind::kMaxPool, maps, pooled, 2, 2, 0);
    window(5, LayerKind::kAveragePool, pooled, mean, 3, 1, 0);
    plain(6, LayerKind::kFlatten, mean, mean);
    plain(7, LayerKind::kDense, mean, four);
    layers[7].form = WeightForm::kInt8;
    layers[7].weights = narrow.data();
    layers[7].scales = narrow_scale.data();
    plain(8, LayerKind::kDense, four, four);
    layers[8].trained = TrainedForm::kFactored;
    layers[8].rank = 2;
    plain(9, LayerKind::kRelu, four, four);
    plain(10, LayerKind::kDense, four, {1, 1, 3});
    layers[10].trained = TrainedForm::kDense;
    layers[10].weights = head.data();
    layers[10].biases = head_biases.data();
    network.in = image;
    network.scale = 1.0F / 16;
    network.offset = -0.5F;
    network.layers = layers.data();
    network.layer_count = static_cast<uint32_t>(layers.size());
    network.loss = NetworkLoss::kSoftmax;
  }
  SmallNetwork(const SmallNetwork&) = delete;
  SmallNetwork& operator=(const SmallNetwork&) = delete;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_GSN_BYTES_H_

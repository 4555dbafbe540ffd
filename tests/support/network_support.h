// Networks for tests, and their scores by the plain formula of each kind in double: all windows, all weights, no order
// that matters.
#ifndef GRADSTREAM_TESTS_SUPPORT_NETWORK_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_NETWORK_SUPPORT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/problem/network.h"
#include "tests/support/problem_checker.h"

namespace gradstream {

// Owns what a Network points to. Weights are numbers() of a seed that counts up.
struct TestNetwork {
  explicit TestNetwork(Volume in) { network.in = in; }
  TestNetwork(const TestNetwork&) = delete;
  TestNetwork& operator=(const TestNetwork&) = delete;

  Volume last() const { return layers.empty() ? network.in : layers.back().out; }

  Layer& add(Layer layer) {
    layer.in = last();
    layers.push_back(layer);
    network.layers = layers.data();
    network.layer_count = static_cast<uint32_t>(layers.size());
    return layers.back();
  }
  Layer& dense(uint16_t outputs, Activation activation = Activation::kNone, TrainedForm trained = TrainedForm::kFrozen,
               uint8_t rank = 0) {
    Layer layer;
    layer.kind = LayerKind::kDense;
    layer.activation = activation;
    layer.trained = trained;
    layer.rank = rank;
    layer.out = {1, 1, outputs};
    return fill(add(layer));
  }
  // A window layer with that border on each side where it fits.
  Layer& window(LayerKind kind, uint8_t kernel, uint8_t stride, uint8_t pad, uint16_t channels,
                Activation activation = Activation::kNone, TrainedForm trained = TrainedForm::kFrozen) {
    const Volume in = last();
    Layer layer;
    layer.kind = kind;
    layer.activation = activation;
    layer.trained = trained;
    layer.kernel_height = layer.kernel_width = kernel;
    layer.stride_height = layer.stride_width = stride;
    layer.pad_top = layer.pad_left = pad;
    layer.out = {static_cast<uint16_t>((in.height + 2 * pad - kernel) / stride + 1),
                 static_cast<uint16_t>((in.width + 2 * pad - kernel) / stride + 1), channels};
    return fill(add(layer));
  }
  Layer& plain(LayerKind kind, uint8_t add_from = 0) {
    Layer layer;
    layer.kind = kind;
    layer.add_from = add_from;
    layer.out = last();
    return add(layer);
  }
  Layer& flatten() {
    Layer layer;
    layer.out = {1, 1, static_cast<uint16_t>(last().size())};
    return add(layer);
  }
  // Makes the last layer's weights int8, with scales of their own.
  Layer& quantize(bool per_channel) {
    Layer& layer = layers.back();
    layer.form = per_channel ? WeightForm::kInt8PerChannel : WeightForm::kInt8;
    bytes.emplace_back(layer_weight_count(layer));
    for (size_t i = 0; i < bytes.back().size(); ++i) {
      bytes.back()[i] = static_cast<int8_t>((i * 37 + 11) % 255 - 127);
    }
    floats.emplace_back(layer_scale_count(layer));
    for (size_t i = 0; i < floats.back().size(); ++i) {
      floats.back()[i] = 0.004F + 0.001F * static_cast<float>(i);
    }
    layer.weights = bytes.back().data();
    layer.scales = floats.back().data();
    return layer;
  }
  Layer& fill(Layer& layer) {
    layer.weights = keep(layer_weight_count(layer));
    layer.biases = keep(layer_bias_count(layer));
    return layer;
  }
  const float* keep(uint64_t count) {
    const std::vector<Real> values = numbers(count, ++seed, 1);
    floats.emplace_back(values.begin(), values.end());
    return count == 0 ? nullptr : floats.back().data();
  }
  std::vector<Real> start() const {
    std::vector<Real> x(network_size(network));
    EXPECT_EQ(fill_network_start(network, x.data()), Status::kOk);
    return x;
  }

  Network network;
  std::vector<Layer> layers;
  std::deque<std::vector<float>> floats;
  std::deque<std::vector<int8_t>> bytes;
  uint32_t seed = 0;
};

using Doubles = std::vector<double>;

// The layer's weights as numbers; a factored matrix multiplied out; then its biases.
inline Doubles plain_weights(const Layer& layer, const Real* x) {
  const size_t count = layer_weight_count(layer);
  const uint32_t outputs = layer.out.channels;
  Doubles out;
  for (size_t i = 0; i < count; ++i) {
    if (layer.trained != TrainedForm::kFrozen) {
      out.push_back(static_cast<double>(x[i]));
    } else if (layer.form == WeightForm::kFloat) {
      out.push_back(static_cast<double>(static_cast<const float*>(layer.weights)[i]));
    } else {
      const size_t channel = layer.kind == LayerKind::kDense ? i % outputs : i / (count / outputs);
      const float scale = layer.scales[layer.form == WeightForm::kInt8 ? 0 : channel];
      out.push_back(static_cast<double>(scale) * static_cast<const int8_t*>(layer.weights)[i]);
    }
  }
  if (layer.trained == TrainedForm::kFactored) {
    const size_t p = layer.in.size(), q = outputs, r = layer.rank;
    Doubles dense(p * q);
    for (size_t i = 0; i < p; ++i)
      for (size_t j = 0; j < q; ++j)
        for (size_t k = 0; k < r; ++k)
          for (size_t l = 0; l < r; ++l)
            dense[i * q + j] += out[i * r + k] * out[(p + q) * r + k * r + l] * out[p * r + j * r + l];
    out = dense;
  }
  for (uint32_t c = 0; c < layer_bias_count(layer); ++c) {
    const bool is_trained = layer.trained != TrainedForm::kFrozen;
    out.push_back(is_trained ? static_cast<double>(x[count + c])
                             : (layer.biases == nullptr ? 0 : static_cast<double>(layer.biases[c])));
  }
  return out;
}

inline double plain_activation(Activation activation, double value) {
  const double rectified = activation == Activation::kNone ? value : std::max(value, 0.0);
  return activation == Activation::kRelu6 ? std::min(rectified, 6.0) : rectified;
}

// One value of a window layer.
inline double plain_window(const Layer& l, const Doubles& w, const Doubles& in, int o, int r, int c) {
  const bool is_depthwise = l.kind == LayerKind::kDepthwiseConv2d, is_full = l.kind == LayerKind::kConv2d;
  const bool is_sum = is_depthwise || is_full;
  const int channels = is_full ? l.in.channels : 1, kh = l.kernel_height, kw = l.kernel_width;
  double sum = is_sum ? w[layer_weight_count(l) + static_cast<size_t>(o)] : 0, most = -1e300;
  int count = 0;
  for (int i = 0; i < channels; ++i)
    for (int y = 0; y < kh; ++y)
      for (int x = 0; x < kw; ++x) {
        const int row = r * l.stride_height + y - l.pad_top, column = c * l.stride_width + x - l.pad_left;
        if (row < 0 || row >= l.in.height || column < 0 || column >= l.in.width) continue;
        const int map = is_full ? i : (is_depthwise ? o / (l.out.channels / l.in.channels) : o);
        const double value = in[static_cast<size_t>((map * l.in.height + row) * l.in.width + column)];
        sum += is_sum ? w[static_cast<size_t>(((o * channels + i) * kh + y) * kw + x)] * value : value;
        most = std::max(most, value);
        ++count;
      }
  return l.kind == LayerKind::kMaxPool ? most : (l.kind == LayerKind::kAveragePool ? sum / count : sum);
}

inline Doubles plain_layer(const Layer& l, const Real* x, const Doubles& in, const Doubles& added) {
  const Doubles w = plain_weights(l, x);
  Doubles out(l.out.size());
  for (size_t e = 0; e < out.size(); ++e) {
    double& value = out[e];
    if (l.kind == LayerKind::kDense) {
      value = w[in.size() * out.size() + e];
      for (size_t r = 0; r < in.size(); ++r) value += in[r] * w[r * out.size() + e];
    } else if (l.kind <= LayerKind::kAveragePool) {
      const size_t area = size_t{l.out.height} * l.out.width;
      value = plain_window(l, w, in, static_cast<int>(e / area), static_cast<int>(e % area / l.out.width),
                           static_cast<int>(e % l.out.width));
    } else {
      value = in[e] + (l.kind == LayerKind::kAdd ? added[e] : 0);
      value = l.kind == LayerKind::kRelu ? plain_activation(Activation::kRelu, value) : value;
      value = l.kind == LayerKind::kRelu6 ? plain_activation(Activation::kRelu6, value) : value;
    }
    value = plain_activation(l.activation, value);
  }
  return out;
}

inline Doubles plain_scores(const Network& network, const Real* x, const Real* inputs) {
  std::vector<Doubles> nodes(1);
  for (uint32_t i = 0; i < network_input_count(network); ++i) {
    nodes[0].push_back(static_cast<double>(inputs[i]) * static_cast<double>(network.scale) +
                       static_cast<double>(network.offset));
  }
  for (uint32_t k = 0; k < network.layer_count; ++k) {
    const Layer& layer = network.layers[k];
    const size_t added = layer.kind == LayerKind::kAdd && layer.add_from != kAddFromInput ? layer.add_from + 1U : 0U;
    nodes.push_back(plain_layer(layer, x, nodes.back(), nodes[added]));
    x += layer_point_size(layer);
  }
  return nodes.back();
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_NETWORK_SUPPORT_H_

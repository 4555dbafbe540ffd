// LeNet-5's shape as a list of layers, all of them trained: network.cc evaluates it.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/network.h"

namespace gradstream {
namespace {

constexpr uint16_t kImageSide = 28;
constexpr uint8_t kKernelSide = 5;
constexpr uint32_t kLenetLayerCount = 7;

constexpr Layer convolution(Volume in, Volume out, uint8_t border) {
  return {.kind = LayerKind::kConv2d,
          .activation = Activation::kRelu,
          .trained = TrainedForm::kDense,
          .in = in,
          .out = out,
          .kernel_height = kKernelSide,
          .kernel_width = kKernelSide,
          .stride_height = 1,
          .stride_width = 1,
          .pad_top = border,
          .pad_left = border};
}

// Means of 2 x 2.
constexpr Layer means(Volume in) {
  return {.kind = LayerKind::kAveragePool,
          .in = in,
          .out = {static_cast<uint16_t>(in.height / 2), static_cast<uint16_t>(in.width / 2), in.channels},
          .kernel_height = 2,
          .kernel_width = 2,
          .stride_height = 2,
          .stride_width = 2};
}

constexpr Layer dense(Volume in, uint16_t outputs, Activation activation) {
  return {.kind = LayerKind::kDense,
          .activation = activation,
          .trained = TrainedForm::kDense,
          .in = in,
          .out = {1, 1, outputs}};
}

// The list, and the samples as a network sees them. Nothing of it lives longer than an evaluation: it points into
// itself.
struct Lenet {
  explicit Lenet(const NetworkData& data)
      : layers{convolution({kImageSide, kImageSide, 1}, {28, 28, 6}, 2),
               means({28, 28, 6}),
               convolution({14, 14, 6}, {10, 10, 16}, 0),
               means({10, 10, 16}),
               dense({5, 5, 16}, 120, Activation::kRelu),
               dense({1, 1, 120}, 84, Activation::kRelu),
               dense({1, 1, 84}, data.widths[0], Activation::kNone)},
        network{.in = layers[0].in, .layers = layers, .layer_count = kLenetLayerCount},
        samples{&network, data.source, 0} {}
  explicit Lenet(const void* context) : Lenet(*static_cast<const NetworkData*>(context)) {}
  Lenet(const Lenet&) = delete;
  Lenet& operator=(const Lenet&) = delete;
  const NetworkSamples* problem_data() const { return &samples; }

  Layer layers[kLenetLayerCount];
  Network network;
  NetworkSamples samples;
};

uint32_t sample_count(const void* context) { return static_cast<const NetworkData*>(context)->source.count; }

Status check_shape(const void* context, Shape shape) {
  const bool names_classes = static_cast<const NetworkData*>(context)->width_count == 1;
  return names_classes ? kNetworkOps.check_shape(Lenet(context).problem_data(), shape) : Status::kInvalidArgument;
}

size_t scratch_size(const void* context, Shape shape) {
  return kNetworkOps.scratch_size(Lenet(context).problem_data(), shape);
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  return kNetworkOps.loss(Lenet(context).problem_data(), shape, x, batch, arena);
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  return kNetworkOps.gradient(Lenet(context).problem_data(), shape, x, batch, out, arena);
}

UnitsSource units_source(const void* context) {
  const SampleSource& source = static_cast<const NetworkData*>(context)->source;
  return {&source, source.dimension - 1};
}

Status find_fault(const void* context, Shape shape, Arena& arena, SampleFault* out) {
  return kNetworkOps.find_fault(Lenet(context).problem_data(), shape, arena, out);
}

}  // namespace

uint32_t lenet_size(uint16_t class_count) {
  const NetworkData data = {{}, &class_count, 1};
  return class_count < 2 ? 0 : network_size(Lenet(data).network);
}

const ProblemOps kLenetOps = {.name = "lenet",
                              .sample_count = sample_count,
                              .check_shape = check_shape,
                              .scratch_size = scratch_size,
                              .loss = loss,
                              .gradient = gradient,
                              .find_fault = find_fault,
                              .has_labels = true,
                              .units_source = units_source,
                              .metric = metric_of_shares};

}  // namespace gradstream

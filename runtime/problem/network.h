// A network as a list of layers, of which some are trained and the others frozen.
//
//   sample ->  scale, offset  ->  frozen layers ..  ->  trained layers ..  ->  scores  ->  loss
//                                 \___ features ___/
//
// Frozen layers keep float or int8 weights, which are read in place, for example from flash. The trained numbers are
// the point x. Trained and frozen layers may stand in any order. The features are what the frozen layers in front
// give: they do not depend on x, so they are computed once for a batch (Batch::kept).
//
// Values of a volume stand map after map: (channel, row, column). A Network and all that it points to must outlive its
// use, and nothing here changes it.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_NETWORK_H_
#define GRADSTREAM_RUNTIME_PROBLEM_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// Layers of a network. Reason: their memory is planned with a table on the stack of a board, 4 bytes a layer.
inline constexpr uint32_t kLayerCountMax = 64;
// Values of one volume. Reason: 64 of them in floats, which additions may keep, take 1 GiB: sizes fit into 32 bits.
inline constexpr uint32_t kVolumeSizeMax = uint32_t{1} << 22;
// Weights of one layer. Reason: those of 64 layers fit into 32 bits.
inline constexpr uint32_t kWeightCountMax = uint32_t{1} << 24;
// Samples of a batch whose features are kept, where a context says nothing else. Reason: a batch of the size that runs
// use has them all, and 64 features of each take 8 KiB.
inline constexpr uint32_t kKeptSampleCountMax = 32;
// Bytes of the features that are kept, whatever a context says. Reason: sizes fit into 32 bits.
inline constexpr uint32_t kKeptBytesMax = uint32_t{1} << 30;
// Whether the gradients of all layers are built in. Without them there are those of dense layers, which a head takes.
// Reason: an image of a board trains networks by forward passes, and its flash is for what it uses.
#if defined(GS_NETWORK_GRADIENT)
inline constexpr bool kHasLayerGradients = true;
#else
inline constexpr bool kHasLayerGradients = !kIsBareMetal;
#endif
// Layer::add_from of an addition that takes the network's input.
inline constexpr uint8_t kAddFromInput = 0xff;

// The numbers of the enumerations stand in files too: they never change.

enum class LayerKind : uint8_t {
  // out = W' in + b. Weights: in.size() x out.channels, row by row. out is 1 x 1 x outputs.
  kDense = 1,
  // Weights: (out channel, in channel, kernel row, kernel column). The border is zeros.
  kConv2d = 2,
  // Output channel o reads input channel o / (out.channels / in.channels). Weights: (out channel, kernel row, column).
  kDepthwiseConv2d = 3,
  // Of each map on its own. The border counts for nothing: the mean is over the values inside.
  kMaxPool = 4,
  kAveragePool = 5,
  // Value by value; in and out are equal.
  kRelu = 6,
  kRelu6 = 7,
  // Another shape of the same values in the same order.
  kFlatten = 8,
  // Adds the output of layer add_from, or of the input; all three volumes are equal.
  kAdd = 9,
};

// What follows a layer, value by value: max(0, .), and min(6, max(0, .)). kRelu, kRelu6 and kFlatten have none.
enum class Activation : uint8_t { kNone = 0, kRelu = 1, kRelu6 = 2 };

// How frozen weights stand in memory. An int8 weight q is the number scale q, with one scale for the layer or one for
// each output channel.
enum class WeightForm : uint8_t { kFloat = 0, kInt8 = 1, kInt8PerChannel = 2 };

// Where a layer's numbers come from. kFactored, of kDense alone: W = U S V' with U inputs x rank, V outputs x rank, S
// rank x rank; a point of the manifold fixed_rank has these numbers in this order.
enum class TrainedForm : uint8_t { kFrozen = 0, kDense = 1, kFactored = 2 };

struct Volume {
  uint16_t height = 0;
  uint16_t width = 0;
  uint16_t channels = 0;
  constexpr uint64_t size() const { return uint64_t{height} * width * channels; }
  friend constexpr bool operator==(const Volume&, const Volume&) = default;
};

struct Layer {
  LayerKind kind = LayerKind::kFlatten;
  Activation activation = Activation::kNone;
  WeightForm form = WeightForm::kFloat;
  TrainedForm trained = TrainedForm::kFrozen;
  Volume in;   // of the layer before, or of the network
  Volume out;  // a window layer's border below and on the right is what out takes: less than a kernel
  // Of window layers: convolutions and pools. A pool whose kernel is in's height and width is global.
  uint8_t kernel_height = 0;
  uint8_t kernel_width = 0;
  uint8_t stride_height = 0;
  uint8_t stride_width = 0;
  uint8_t pad_top = 0;   // rows of border above, less than kernel_height
  uint8_t pad_left = 0;  // columns of border on the left, less than kernel_width
  uint8_t rank = 0;      // kFactored: 1 .. kFixedRankMax, at most inputs and outputs
  uint8_t add_from = 0;  // kAdd: the layer, from 0, before this one; or kAddFromInput
  // layer_weight_count() numbers, float or int8 as form says. A trained layer's are its start, in float: they may be
  // null.
  const void* weights = nullptr;
  const float* biases = nullptr;  // one for each output channel; null: zeros
  const float* scales = nullptr;  // layer_scale_count() numbers above 0
};

// The loss of one sample, from scores s (one for each value of the last volume) and the sample's targets after its
// inputs. f(x) is the mean over the batch.
enum class NetworkLoss : uint8_t {
  kSoftmax = 1,       // -ln p(label), one target: the class 0 .. scores - 1
  kSquaredError = 2,  // 1/2 |s - y|^2, a target for each score; or none: then y is the input as layers see it
  kLogistic = 3,      // sum over the scores of -ln p(target), each target 0 or 1, s its log-odds
};

struct Network {
  Volume in;
  // The first layer sees scale value + offset.
  float scale = 1;
  float offset = 0;
  const Layer* layers = nullptr;
  uint32_t layer_count = 0;  // 1 .. kLayerCountMax
  NetworkLoss loss = NetworkLoss::kSoftmax;
};

// ---- What is wrong with a network ----------------------------------------------------------------------------------

// value, limit and least of the NetworkFault are those that the comment names; 0 where it names none.
enum class NetworkFaultCode : uint8_t {
  kNone = 0,
  kLayerCount,   // layers: value; most: limit, least 1
  kLoss,         // unknown: value
  kScoreCount,   // scores of the last layer: value; softmax takes limit at least
  kInputScale,   // scale or offset is not finite, or scale is 0; bits of the scale: value; of the offset: limit
  kKind,         // unknown: value
  kActivation,   // unknown, or after a layer that takes none: value
  kForm,         // unknown, or not float where it must be: value
  kTrained,      // unknown, or a layer that has no such trained form: value
  kVolume,       // values of in or out: value, 0 or above limit
  kChain,        // in's values: value; the layer before gives limit, or the same number in another shape
  kOutput,       // values of out: value; the kind makes limit, or the same number in another shape
  kWindow,       // kernel or stride is 0, or a border is not below its kernel: the border (else 0): value
  kHeight,       // rows of out: value; windows that meet the input: least to limit
  kWidth,        // columns of out: value; windows that meet the input: least to limit
  kChannels,     // channels of out: value; those of in: limit (pools equal, depthwise a multiple)
  kWeightCount,  // weights: value (no more than 32 bits of it); most: limit
  kNoWeights,    // a frozen layer without weights; they must be value numbers
  kNoScales,     // int8 weights without scales; they must be value numbers
  kNumber,       // number `value` of weights, biases and scales, counted on, is not finite, or a scale not above 0
  kRank,         // rank: value; most: limit, least 1
  kAddFrom,      // add_from: value; it must be below limit
  kAddVolume,    // values of the layer that is added: value; of in: limit, or the same number in another shape
  kWindowWork,   // numbers of the windows of an output row, kernel x out's columns: value; most: limit
};

struct NetworkFault {
  NetworkFaultCode code = NetworkFaultCode::kNone;
  uint32_t layer = 0;  // from 0; layer_count where the fault is none of a layer's
  uint32_t value = 0;
  uint32_t limit = 0;
  uint32_t least = 0;
};

// The first fault of the network, code kNone: it has none. All other functions here want a network without fault. With
// reads_numbers it looks at each weight too, which takes as long as it takes to read them all once.
NetworkFault check_network(const Network& network, bool reads_numbers = true);

// What the code says in a few words, for those who print: "unknown kind". Static.
const char* network_fault_text(NetworkFaultCode code);

// ---- Sizes ---------------------------------------------------------------------------------------------------------

// Numbers of a layer, trained or not: 0 where its kind has none. They never wrap, whatever the layer says.
uint64_t layer_weight_count(const Layer& layer);  // kFactored: (inputs + outputs + rank) rank
uint32_t layer_bias_count(const Layer& layer);
uint32_t layer_scale_count(const Layer& layer);

// Trained numbers of a layer, weights and biases.
uint32_t layer_point_size(const Layer& layer);
// Trained numbers: the size of the point; 0: the network trains nothing.
uint32_t network_size(const Network& network);

// A run of the point that is a matrix of its own, which may stand on a manifold of its own. Layer after layer: first
// the weights (dense inputs x outputs; a convolution's out channels x numbers of one kernel), then the biases.
struct NetworkPart {
  uint32_t layer = 0;  // from 0
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint32_t rank = 0;  // 0: rows x cols numbers; else a factored matrix of them, (rows + cols + rank) rank numbers
  bool is_bias = false;
};
// Writes the first out.size() parts; returns how many there are: two for each trained layer.
uint32_t network_parts(const Network& network, std::span<NetworkPart> out);

// x (network_size() values) <- the numbers that the trained layers hold. kInvalidArgument: one of them holds none.
// Missing biases are zeros.
Status fill_network_start(const Network& network, Real* x);

// Values of a sample before its targets; scores of the network; targets of a sample in its widest form.
uint32_t network_input_count(const Network& network);
uint32_t network_score_count(const Network& network);
uint32_t network_target_count(const Network& network);

// Layers in front that do not depend on x, and whose features serve all that follow: 0 .. layer_count.
uint32_t feature_layer_count(const Network& network);

// ---- The forward pass ----------------------------------------------------------------------------------------------

// Bytes of arena scratch that run_network() takes.
size_t network_scratch_size(const Network& network);

// scores (network_score_count()) <- those of one sample. inputs: network_input_count() values as a source gives them,
// before scale and offset. x: the point, null where nothing is trained. Nothing aliases. kNotFinite: a layer gives a
// value that is no number; kOutOfMemory.
Status run_network(const Network& network, const Real* x, const Real* inputs, Real* scores, Arena& arena);

// ---- The problem ---------------------------------------------------------------------------------------------------

// What a network learns from. source.dimension = inputs + targets. It belongs to one device: its client may write to it
// (ProblemOps::allow_kept).
struct NetworkSamples {
  const Network* network = nullptr;
  SampleSource source;
  // Samples of a batch whose features are kept; 0: none. A batch mode of one sample a direction keeps none.
  uint32_t kept_sample_count_max = kKeptSampleCountMax;
  // Whether a network that is more than a head has its gradient. False: the problem takes no memory for it.
  bool has_layer_gradients = kHasLayerGradients;
  // Called the first time that a device has no room for features, and computes them anew for each evaluation; null:
  // nobody wants to know.
  void (*on_features_given_up)() = nullptr;
  // ProblemOps::allow_kept alone sets these.
  mutable bool has_given_up_features = false;
  mutable bool has_told = false;
};

// Problem "network", context = NetworkSamples. Point x: network_size() numbers, in a shape or product of any parts.
// gradient: kInvalidArgument where has_network_gradient() is false, or the context wants none. Codes else as logistic.
extern const ProblemOps kNetworkOps;

// A head: the trained layers are dense, TrainedForm::kDense, and the last layers, with nothing but activations, kRelu,
// kRelu6 and kFlatten between them. Its gradient takes no memory that a loss does not take.
bool is_network_head(const Network& network);
// Whether a gradient for this network is built in: of every one that trains something; without kHasLayerGradients of a
// head alone. Errors go back through frozen layers of all forms too.
bool has_network_gradient(const Network& network);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_NETWORK_H_

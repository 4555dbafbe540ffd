// Every fault of a network is named: which layer, why, and by which numbers.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/network_support.h"

namespace gradstream {
namespace {

using Code = NetworkFaultCode;
using Kind = LayerKind;

// Conv, depthwise, pool, residual, flatten, dense, trained dense: one of all.
struct Whole : TestNetwork {
  Whole() : TestNetwork({8, 6, 2}) {
    window(Kind::kConv2d, 3, 2, 1, 4, Activation::kRelu);            // 0: 4 x 3 x 4
    window(Kind::kDepthwiseConv2d, 3, 1, 1, 4, Activation::kRelu6);  // 1
    plain(Kind::kAdd, 0);                                            // 2
    window(Kind::kMaxPool, 2, 1, 0, 4);                              // 3: 3 x 2 x 4
    flatten();                                                       // 4: 24
    dense(5, Activation::kRelu, TrainedForm::kFactored, 2);          // 5
    dense(3, Activation::kNone, TrainedForm::kDense);                // 6
  }
};

struct Bad {
  const char* name;
  std::function<void(Whole&)> spoil;
  NetworkFault expected;
};

void expect_fault(const Bad& bad) {
  SCOPED_TRACE(bad.name);
  Whole whole;
  ASSERT_EQ(check_network(whole.network).code, Code::kNone);
  bad.spoil(whole);
  const NetworkFault found = check_network(whole.network);
  EXPECT_STREQ(network_fault_text(found.code), network_fault_text(bad.expected.code));
  EXPECT_EQ(found.layer, bad.expected.layer);
  EXPECT_EQ(found.value, bad.expected.value);
  EXPECT_EQ(found.limit, bad.expected.limit);
  EXPECT_EQ(found.least, bad.expected.least);
}

template <typename T>
T of(int value) {
  return static_cast<T>(value);
}

TEST(NetworkCheck, NamesWhatIsWrongWithTheNetwork) {
  const Bad all[] = {
      {"no layers", [](Whole& w) { w.network.layer_count = 0; }, {Code::kLayerCount, 0, 0, 64}},
      {"null layers", [](Whole& w) { w.network.layers = nullptr; }, {Code::kLayerCount, 7, 7, 64}},
      {"a million layers",
       [](Whole& w) { w.network.layer_count = 1000000; },
       {Code::kLayerCount, 1000000, 1000000, 64}},
      {"scale 0", [](Whole& w) { w.network.scale = w.network.offset = 0; }, {Code::kInputScale, 7, 0, 0}},
      {"scale NaN",
       [](Whole& w) {
         w.network.scale = NAN;
         w.network.offset = 0;
       },
       {Code::kInputScale, 7, 0x7fc00000, 0}},
      {"offset infinite",
       [](Whole& w) {
         w.network.scale = 1;
         w.network.offset = INFINITY;
       },
       {Code::kInputScale, 7, 0x3f800000, 0x7f800000}},
      {"empty input", [](Whole& w) { w.network.in.width = 0; }, {Code::kVolume, 7, 0, kVolumeSizeMax}},
      {"huge input",
       [](Whole& w) {
         w.network.in = {65535, 65535, 65535};
       },
       {Code::kVolume, 7, UINT32_MAX, kVolumeSizeMax}},
      {"loss 0", [](Whole& w) { w.network.loss = of<NetworkLoss>(0); }, {Code::kLoss, 7, 0, 0}},
      {"loss 4", [](Whole& w) { w.network.loss = of<NetworkLoss>(4); }, {Code::kLoss, 7, 4, 0}},
      {"softmax of one score", [](Whole& w) { w.layers[6].out.channels = 1; }, {Code::kScoreCount, 7, 1, 2}},
  };
  for (const Bad& bad : all) expect_fault(bad);
}

TEST(NetworkCheck, NamesTheLayerAndItsFault) {
  const Bad all[] = {
      {"kind 0", [](Whole& w) { w.layers[1].kind = of<Kind>(0); }, {Code::kKind, 1, 0, 0}},
      {"kind 10", [](Whole& w) { w.layers[1].kind = of<Kind>(10); }, {Code::kKind, 1, 10, 0}},
      {"activation 3", [](Whole& w) { w.layers[0].activation = of<Activation>(3); }, {Code::kActivation, 0, 3, 0}},
      {"activation of flatten",
       [](Whole& w) { w.layers[4].activation = Activation::kRelu; },
       {Code::kActivation, 4, 1, 0}},
      {"form 3", [](Whole& w) { w.layers[0].form = of<WeightForm>(3); }, {Code::kForm, 0, 3, 0}},
      {"trained int8", [](Whole& w) { w.layers[6].form = WeightForm::kInt8; }, {Code::kForm, 6, 1, 0}},
      {"pool of int8", [](Whole& w) { w.layers[3].form = WeightForm::kInt8; }, {Code::kForm, 3, 1, 0}},
      {"trained 3", [](Whole& w) { w.layers[6].trained = of<TrainedForm>(3); }, {Code::kTrained, 6, 3, 0}},
      {"trained pool", [](Whole& w) { w.layers[3].trained = TrainedForm::kDense; }, {Code::kTrained, 3, 1, 0}},
      {"factored convolution",
       [](Whole& w) { w.layers[0].trained = TrainedForm::kFactored; },
       {Code::kTrained, 0, 2, 0}},
      {"rank 0", [](Whole& w) { w.layers[5].rank = 0; }, {Code::kRank, 5, 0, 5}},
      {"rank 6 of 5 outputs", [](Whole& w) { w.layers[5].rank = 6; }, {Code::kRank, 5, 6, 5}},
      {"another input", [](Whole& w) { w.layers[3].in.height = 3; }, {Code::kChain, 3, 36, 48}},
      {"turned input",
       [](Whole& w) { std::swap(w.layers[3].in.height, w.layers[3].in.width); },
       {Code::kChain, 3, 48, 48}},
      {"empty output", [](Whole& w) { w.layers[6].out.channels = 0; }, {Code::kVolume, 6, 0, kVolumeSizeMax}},
      {"dense with rows", [](Whole& w) { w.layers[6].out.height = 2; }, {Code::kOutput, 6, 6, 3}},
      {"flatten loses values", [](Whole& w) { w.layers[4].out.channels = 23; }, {Code::kOutput, 4, 23, 24}},
      {"add to another volume", [](Whole& w) { w.layers[2].out.width = 4; }, {Code::kOutput, 2, 64, 48}},
      {"kernel 0", [](Whole& w) { w.layers[0].kernel_width = 0; }, {Code::kWindow, 0, 0, 0}},
      {"stride 0", [](Whole& w) { w.layers[0].stride_height = 0; }, {Code::kWindow, 0, 0, 0}},
      {"border of a kernel", [](Whole& w) { w.layers[0].pad_left = 3; }, {Code::kWindow, 0, 3, 0}},
      {"a row too many", [](Whole& w) { w.layers[0].out.height = 6; }, {Code::kHeight, 0, 6, 5, 4}},
      {"a row too few", [](Whole& w) { w.layers[0].out.height = 3; }, {Code::kHeight, 0, 3, 5, 4}},
      {"a column too many", [](Whole& w) { w.layers[0].out.width = 5; }, {Code::kWidth, 0, 5, 4, 3}},
      {"pool changes maps", [](Whole& w) { w.layers[3].out.channels = 5; }, {Code::kChannels, 3, 5, 4}},
      {"depthwise of no multiple", [](Whole& w) { w.layers[1].out.channels = 6; }, {Code::kChannels, 1, 6, 4}},
      {"no weights", [](Whole& w) { w.layers[0].weights = nullptr; }, {Code::kNoWeights, 0, 72, 0}},
      {"no scales", [](Whole& w) { w.layers[0].form = WeightForm::kInt8PerChannel; }, {Code::kNoScales, 0, 4, 0}},
      {"adds itself", [](Whole& w) { w.layers[2].add_from = 2; }, {Code::kAddFrom, 2, 2, 2}},
      {"adds a later one", [](Whole& w) { w.layers[2].add_from = 5; }, {Code::kAddFrom, 2, 5, 2}},
      {"adds the input", [](Whole& w) { w.layers[2].add_from = kAddFromInput; }, {Code::kAddVolume, 2, 96, 48}},
  };
  for (const Bad& bad : all) expect_fault(bad);
}

TEST(NetworkCheck, NamesABadNumberWhereItReadsThem) {
  const auto spoil = [](size_t list, size_t at, float value) { return [=](Whole& w) { w.floats[list][at] = value; }; };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Bad all[] = {
      {"a weight", spoil(0, 71, nan), {Code::kNumber, 0, 71, 0}},
      {"a bias", spoil(1, 2, INFINITY), {Code::kNumber, 0, 74, 0}},
      {"a start", [=](Whole& w) { const_cast<float*>(w.layers[6].biases)[0] = nan; }, {Code::kNumber, 6, 15, 0}}};
  for (const Bad& bad : all) expect_fault(bad);
  for (const float scale : {0.0F, -1.0F, nan}) {
    Whole whole;
    TestNetwork quantized({4, 4, 1});
    quantized.window(Kind::kConv2d, 3, 1, 1, 2);
    quantized.quantize(true);
    ASSERT_EQ(check_network(quantized.network).code, Code::kNone);
    quantized.floats.back()[1] = scale;
    EXPECT_EQ(check_network(quantized.network).code, Code::kNumber);
    EXPECT_EQ(check_network(quantized.network).value, 18U + 2 + 1);
    EXPECT_EQ(check_network(quantized.network, false).code, Code::kNone);
  }
}

TEST(NetworkCheck, WeightsOfALayerAreBounded) {
  TestNetwork net({1, 1, 65535});
  Layer layer;
  layer.kind = Kind::kDense;
  layer.out = {1, 1, 65535};
  static constexpr float kAny = 0;
  layer.weights = &kAny;
  net.add(layer);
  const NetworkFault found = check_network(net.network, false);
  EXPECT_EQ(found.code, Code::kWeightCount);
  EXPECT_EQ(found.value, 65535U * 65535U);
  EXPECT_EQ(found.limit, kWeightCountMax);
}

// The bounds that a fault names are those that the check takes, for every side.
TEST(NetworkCheck, NamesTheSidesThatItTakes) {
  for (uint32_t kernel = 1; kernel <= 4; ++kernel) {
    for (uint32_t stride = 1; stride <= 5; ++stride) {
      for (uint32_t pad = 0; pad < kernel; ++pad) {
        for (uint16_t in = 1; in <= 9; ++in) {
          TestNetwork net({in, 1, 1});
          Layer layer;
          layer.kind = Kind::kMaxPool;
          layer.kernel_height = static_cast<uint8_t>(kernel);
          layer.stride_height = static_cast<uint8_t>(stride);
          layer.pad_top = static_cast<uint8_t>(pad);
          layer.kernel_width = layer.stride_width = 1;
          layer.out = {1, 1, 1};
          net.add(layer);
          net.network.loss = NetworkLoss::kSquaredError;
          net.layers[0].out.height = 100;
          const NetworkFault found = check_network(net.network);
          ASSERT_EQ(found.code, Code::kHeight);
          for (uint16_t rows = 1; rows < 20; ++rows) {
            net.layers[0].out.height = rows;
            EXPECT_EQ(check_network(net.network).code == Code::kNone, rows >= found.least && rows <= found.limit)
                << kernel << " " << stride << " " << pad << " " << in << " " << rows;
          }
        }
      }
    }
  }
}

TEST(NetworkCheck, WindowsOfARowAreBounded) {
  for (const Kind kind : {Kind::kConv2d, Kind::kDepthwiseConv2d, Kind::kMaxPool, Kind::kAveragePool}) {
    TestNetwork net({255, 65, 1});
    Layer layer;
    layer.kind = kind;
    layer.kernel_height = layer.kernel_width = 255;
    layer.stride_height = layer.stride_width = 1;
    layer.pad_top = layer.pad_left = 254;
    layer.out = {1, 65, 1};
    layer.trained =
        kind == Kind::kConv2d || kind == Kind::kDepthwiseConv2d ? TrainedForm::kDense : TrainedForm::kFrozen;
    net.add(layer);
    net.layers[0].out.height = 255;
    net.network.loss = NetworkLoss::kSquaredError;
    const NetworkFault found = check_network(net.network);
    EXPECT_EQ(found.code, Code::kWindowWork) << static_cast<int>(kind);
    EXPECT_EQ(found.value, 255U * 255U * 65U);
    EXPECT_EQ(found.limit, kVolumeSizeMax);
    net.network.in.width = net.layers[0].in.width = net.layers[0].out.width = 64;
    EXPECT_EQ(check_network(net.network).code, Code::kNone) << static_cast<int>(kind);
  }
}

// Borders that differ between the sides, as a file of another library has them; and a pool over all.
TEST(NetworkCheck, TakesBordersThatWindowsReach) {
  TestNetwork net({8, 8, 1});
  net.window(Kind::kConv2d, 3, 2, 0, 1).out = {4, 4, 1};  // a row and a column below and on the right alone
  net.window(Kind::kAveragePool, 4, 1, 0, 1);
  net.dense(2);
  EXPECT_EQ(check_network(net.network).code, Code::kNone);
  EXPECT_EQ(net.layers[1].out, (Volume{1, 1, 1}));
}

TEST(NetworkCheck, CountsTheNumbersOfThePoint) {
  const Whole whole;
  EXPECT_EQ(layer_weight_count(whole.layers[0]), 4U * 2 * 9);
  EXPECT_EQ(layer_weight_count(whole.layers[1]), 4U * 9);
  EXPECT_EQ(layer_weight_count(whole.layers[5]), (24U + 5 + 2) * 2);
  EXPECT_EQ(network_size(whole.network), (24U + 5 + 2) * 2 + 5 + 5 * 3 + 3);
  NetworkPart parts[4];
  ASSERT_EQ(network_parts(whole.network, parts), 4U);
  const uint32_t expected[4][5] = {{5, 24, 5, 2, 0}, {5, 5, 1, 0, 1}, {6, 5, 3, 0, 0}, {6, 3, 1, 0, 1}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(parts[i].layer, expected[i][0]);
    EXPECT_EQ(parts[i].rows, expected[i][1]);
    EXPECT_EQ(parts[i].cols, expected[i][2]);
    EXPECT_EQ(parts[i].rank, expected[i][3]);
    EXPECT_EQ(parts[i].is_bias, expected[i][4] == 1);
  }
  EXPECT_EQ(network_parts(whole.network, std::span<NetworkPart>(parts, 1)), 4U) << "room for one";
}

TEST(NetworkCheck, TheStartIsWhatTheLayersHold) {
  Whole whole;
  const std::vector<Real> x = whole.start();
  EXPECT_EQ(x[0], static_cast<Real>(static_cast<const float*>(whole.layers[5].weights)[0]));
  EXPECT_EQ(x.back(), static_cast<Real>(whole.layers[6].biases[2]));
  whole.layers[6].biases = nullptr;
  EXPECT_EQ(whole.start().back(), 0);
  whole.layers[5].weights = nullptr;
  std::vector<Real> none(x.size());
  EXPECT_EQ(fill_network_start(whole.network, none.data()), Status::kInvalidArgument);
}

TEST(NetworkCheck, FeaturesEndWhereTrainingBeginsOrAnAdditionReachesBack) {
  Whole whole;
  EXPECT_EQ(feature_layer_count(whole.network), 5U);
  EXPECT_FALSE(is_network_head(whole.network)) << "a factored layer";
  EXPECT_EQ(has_network_gradient(whole.network), kHasLayerGradients);
  whole.layers[5].trained = TrainedForm::kDense;
  EXPECT_TRUE(is_network_head(whole.network));
  EXPECT_TRUE(has_network_gradient(whole.network));
  whole.layers[6].trained = TrainedForm::kFrozen;
  EXPECT_FALSE(is_network_head(whole.network)) << "a frozen layer behind";
  EXPECT_EQ(has_network_gradient(whole.network), kHasLayerGradients);
  whole.layers[5].trained = TrainedForm::kFrozen;
  EXPECT_EQ(feature_layer_count(whole.network), 7U) << "nothing is trained";
  EXPECT_FALSE(is_network_head(whole.network));
  EXPECT_FALSE(has_network_gradient(whole.network));

  TestNetwork net({1, 1, 4});
  net.dense(4);
  net.dense(4, Activation::kRelu);
  net.dense(4, Activation::kNone, TrainedForm::kDense);
  net.plain(Kind::kAdd, 0);
  net.dense(3, Activation::kNone, TrainedForm::kDense);
  EXPECT_EQ(feature_layer_count(net.network), 1U) << "the addition needs layer 0";
  EXPECT_FALSE(is_network_head(net.network));
  net.layers[3].add_from = kAddFromInput;
  EXPECT_EQ(feature_layer_count(net.network), 0U);
  net.layers[3].add_from = 1;
  EXPECT_EQ(feature_layer_count(net.network), 2U);
}

// Whatever passes the check runs, inside its memory, and has the scores of the plain formulas.
TEST(NetworkCheck, AnyListThatPassesTheCheckRuns) {
  uint32_t seed = 7;
  const auto draw = [&](uint32_t count) {
    seed = (seed * 1103515245U + 12345U) & 0x7fffffffU;
    return (seed >> 8) % count;
  };
  uint32_t run_count = 0;
  for (int round = 0; round < 6000; ++round) {
    Whole w;
    for (uint32_t change = draw(4); change < 4; ++change) {
      Layer& layer = w.layers[draw(7)];
      uint8_t* const bytes[] = {&layer.kernel_height, &layer.kernel_width, &layer.stride_height, &layer.stride_width,
                                &layer.pad_top,       &layer.pad_left,     &layer.rank,          &layer.add_from};
      uint16_t* const sides[] = {&layer.in.height,  &layer.in.width,  &layer.in.channels,
                                 &layer.out.height, &layer.out.width, &layer.out.channels};
      switch (draw(6)) {
        case 0:
          *bytes[draw(8)] = static_cast<uint8_t>(draw(6));
          break;
        case 1:
          *sides[draw(6)] = static_cast<uint16_t>(draw(9));
          break;
        case 2:
          layer.kind = of<Kind>(static_cast<int>(draw(11)));
          break;
        case 3:
          layer.activation = of<Activation>(static_cast<int>(draw(4)));
          break;
        case 4:
          layer.trained = of<TrainedForm>(static_cast<int>(draw(4)));
          break;
        default:
          w.network.layer_count = 1 + draw(7);
      }
    }
    for (Layer& layer : w.layers) {  // as many numbers as the layer now wants
      layer.weights = w.keep(std::min<uint64_t>(layer_weight_count(layer), 1U << 16));
      layer.biases = w.keep(layer_bias_count(layer));
    }
    w.network.loss = NetworkLoss::kSquaredError;
    if (check_network(w.network).code != Code::kNone) continue;
    ++run_count;
    const std::vector<Real> x = w.start();
    const std::vector<Real> inputs = numbers(network_input_count(w.network), 3, 2);
    std::vector<Real> scores(network_score_count(w.network));
    TestArena memory(network_scratch_size(w.network));
    ASSERT_EQ(run_network(w.network, x.data(), inputs.data(), scores.data(), memory.arena), Status::kOk);
    EXPECT_EQ(memory.arena.high_water_size(), network_scratch_size(w.network));
    const Doubles expected = plain_scores(w.network, x.data(), inputs.data());
    for (size_t i = 0; i < scores.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(scores[i]), expected[i], 1e-3 * (1 + std::fabs(expected[i])));
    }
  }
  EXPECT_GT(run_count, 600U);
}

}  // namespace
}  // namespace gradstream

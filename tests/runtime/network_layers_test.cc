// Each kind of layer against numbers worked out by hand, and against the plain formula.
#include "runtime/problem/network_layers.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/network_support.h"

namespace gradstream {
namespace {

using Kind = LayerKind;
using Reals = std::vector<Real>;

constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-12 : 2e-5;

Reals scores_of(const Network& network, const Real* x, const Reals& inputs) {
  EXPECT_EQ(check_network(network).code, NetworkFaultCode::kNone) << network_fault_text(check_network(network).code);
  TestArena memory(network_scratch_size(network));
  Reals scores(network_score_count(network));
  EXPECT_EQ(run_network(network, x, inputs.data(), scores.data(), memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.high_water_size(), network_scratch_size(network));
  return scores;
}

// The layer of the kind alone, with these weights and biases.
Reals run_one(TestNetwork& net, const std::vector<float>& weights, const std::vector<float>& biases, Reals inputs) {
  Layer& layer = net.layers.back();
  layer.weights = weights.data();
  layer.biases = biases.empty() ? nullptr : biases.data();
  net.network.loss = NetworkLoss::kSquaredError;
  EXPECT_EQ(inputs.size(), net.network.in.size());
  return scores_of(net.network, nullptr, inputs);
}

TEST(NetworkLayers, DenseByHand) {
  TestNetwork net({1, 1, 2});
  net.dense(3);
  EXPECT_EQ(run_one(net, {1, 2, 3, 4, 5, 6}, {10, 20, 30}, {2, -1}), (Reals{8, 19, 30}));
  net.layers[0].activation = Activation::kRelu6;
  EXPECT_EQ(run_one(net, {1, 2, 3, 4, 5, 6}, {}, {2, -1}), (Reals{0, 0, 0}));
  EXPECT_EQ(run_one(net, {1, 2, 3, 4, 5, 6}, {3, 4, 7}, {2, -1}), (Reals{1, 3, 6}));
}

// 3 x 3 input, kernel 2, stride 1: the window's values are those of (map, row, column).
TEST(NetworkLayers, ConvolutionByHand) {
  TestNetwork net({3, 3, 1});
  net.window(Kind::kConv2d, 2, 1, 0, 2);
  const Reals image = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(run_one(net, {1, 0, 0, 0, 0, 1, 10, 100}, {0, 1000}, image),
            (Reals{1, 2, 4, 5, 2 + 40 + 500 + 1000, 3 + 50 + 600 + 1000, 5 + 70 + 800 + 1000, 6 + 80 + 900 + 1000}));
  TestNetwork bordered({2, 2, 1});
  bordered.window(Kind::kConv2d, 3, 2, 1, 1).out = {1, 1, 1};
  EXPECT_EQ(run_one(bordered, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {}, {1, 10, 100, 1000}), (Reals{5 + 60 + 800 + 9000}));
}

TEST(NetworkLayers, DepthwiseByHand) {
  TestNetwork net({1, 2, 2});
  net.window(Kind::kDepthwiseConv2d, 1, 1, 0, 4);  // two maps of each
  EXPECT_EQ(run_one(net, {1, 2, 3, 4}, {0, 0, 0, 1}, {5, 6, 7, 8}), (Reals{5, 6, 10, 12, 21, 24, 29, 33}));
}

TEST(NetworkLayers, PoolsByHand) {
  const Reals maps = {1, -2, 3, 4, -5, 6, -7, -8, -9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  TestNetwork most({3, 3, 2});
  most.window(Kind::kMaxPool, 2, 1, 0, 2);
  EXPECT_EQ(run_one(most, {}, {}, maps), (Reals{4, 6, 4, 6, 5, 6, 8, 9}));
  TestNetwork mean({3, 3, 2});
  mean.window(Kind::kAveragePool, 2, 2, 1, 2).out = {2, 2, 2};
  EXPECT_EQ(run_one(mean, {}, {}, maps), (Reals{1, 0.5, -1.5, -4, 1, 2.5, 5.5, 7})) << "the border counts for nothing";
  TestNetwork whole({3, 3, 2});
  whole.window(Kind::kAveragePool, 3, 1, 0, 2);
  EXPECT_EQ(run_one(whole, {}, {}, maps), (Reals{Real(-17) / 9, 5}));
  TestNetwork below({2, 2, 1});
  below.window(Kind::kMaxPool, 2, 2, 1, 1).out = {2, 2, 1};
  EXPECT_EQ(run_one(below, {}, {}, {-1, -2, -3, -4}), (Reals{-1, -2, -3, -4})) << "no border's zero is the largest";
}

TEST(NetworkLayers, ActivationsFlattenAndAdditionByHand) {
  TestNetwork net({1, 2, 2});
  net.plain(Kind::kRelu);
  net.network.loss = NetworkLoss::kSquaredError;
  EXPECT_EQ(scores_of(net.network, nullptr, {-1, 2, 7, 0}), (Reals{0, 2, 7, 0}));
  net.layers[0].kind = Kind::kRelu6;
  EXPECT_EQ(scores_of(net.network, nullptr, {-1, 2, 7, 6}), (Reals{0, 2, 6, 6}));
  net.flatten();
  EXPECT_EQ(scores_of(net.network, nullptr, {-1, 2, 7, 6}), (Reals{0, 2, 6, 6}));
  EXPECT_EQ(net.layers[1].out, (Volume{1, 1, 4}));

  TestNetwork sum({1, 1, 3});
  sum.plain(Kind::kRelu);
  sum.plain(Kind::kAdd, 0);
  sum.plain(Kind::kAdd, kAddFromInput);
  sum.plain(Kind::kAdd, 0).activation = Activation::kRelu6;
  EXPECT_EQ(scores_of(sum.network, nullptr, {-1, 1, 2}), (Reals{0, 4, 6})) << "2 relu + input + relu";
}

TEST(NetworkLayers, TheInputIsScaled) {
  TestNetwork net({1, 1, 2});
  net.plain(Kind::kFlatten);
  net.network.scale = 0.5F;
  net.network.offset = -1;
  EXPECT_EQ(scores_of(net.network, nullptr, {2, 8}), (Reals{0, 3}));
}

TEST(NetworkLayers, FactorsByHand) {
  TestNetwork net({1, 1, 2});
  net.dense(3, Activation::kNone, TrainedForm::kFactored, 1);
  // U = (1, 2), V = (1, 10, 100), S = 5, b = (1, 2, 3); in U = 3 + 8 = 11.
  EXPECT_EQ(scores_of(net.network, Reals{1, 2, 1, 10, 100, 5, 1, 2, 3}.data(), {3, 4}), (Reals{56, 552, 5503}));
}

void expect_plain(const TestNetwork& net, const char* name) {
  SCOPED_TRACE(name);
  const Reals x = net.start();
  for (uint32_t seed = 100; seed < 103; ++seed) {
    const Reals inputs = numbers(net.network.in.size(), seed, 4);
    const Reals found = scores_of(net.network, x.data(), inputs);
    const Doubles expected = plain_scores(net.network, x.data(), inputs.data());
    double largest = 1;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(found[i]), expected[i], kTolerance * largest) << i;
    }
  }
}

// Windows with every kernel, stride and border that fits, on a volume whose sides differ.
TEST(NetworkLayers, WindowsOfAllSizesArePlain) {
  for (const Kind kind : {Kind::kConv2d, Kind::kDepthwiseConv2d, Kind::kMaxPool, Kind::kAveragePool}) {
    const bool is_pool = kind == Kind::kMaxPool || kind == Kind::kAveragePool;
    for (uint8_t kernel = 1; kernel <= 4; ++kernel) {
      for (uint8_t stride = 1; stride <= 3; ++stride) {
        for (uint8_t pad = 0; pad < kernel && pad <= 2; ++pad) {
          for (const TrainedForm trained : {TrainedForm::kFrozen, TrainedForm::kDense}) {
            if (is_pool && trained != TrainedForm::kFrozen) continue;
            TestNetwork net({7, 5, 3});
            net.network.loss = NetworkLoss::kSquaredError;
            net.window(kind, kernel, stride, pad, kind == Kind::kConv2d ? 4 : (is_pool ? 3 : 6), Activation::kRelu,
                       trained);
            const std::string name = std::to_string(static_cast<int>(kind)) + " kernel " + std::to_string(kernel) +
                                     " stride " + std::to_string(stride) + " border " + std::to_string(pad);
            expect_plain(net, name.c_str());
          }
        }
      }
    }
  }
}

TEST(NetworkLayers, Int8IsFloatWithTheScale) {
  for (const bool per_channel : {false, true}) {
    TestNetwork net({6, 5, 2});
    net.window(Kind::kConv2d, 3, 2, 1, 4, Activation::kRelu);
    net.quantize(per_channel);
    net.window(Kind::kDepthwiseConv2d, 3, 1, 1, 8, Activation::kRelu6);
    net.quantize(per_channel);
    net.dense(5);
    net.quantize(per_channel);
    net.network.scale = 0.25F;
    expect_plain(net, per_channel ? "per channel" : "per layer");
    net.layers[0].biases = net.layers[2].biases = nullptr;
    expect_plain(net, "no biases");
  }
}

// A bottleneck with a residual, as in the networks of the field, and additions that reach over each other.
TEST(NetworkLayers, ResidualsKeepWhatTheyNeed) {
  TestNetwork net({6, 6, 3});
  net.window(Kind::kConv2d, 1, 1, 0, 8, Activation::kRelu6);          // 0
  net.window(Kind::kDepthwiseConv2d, 3, 1, 1, 8, Activation::kRelu);  // 1
  net.window(Kind::kConv2d, 1, 1, 0, 3);                              // 2
  net.plain(Kind::kAdd, kAddFromInput);                               // 3
  net.plain(Kind::kRelu);                                             // 4
  net.window(Kind::kConv2d, 3, 1, 1, 3);                              // 5
  net.plain(Kind::kAdd, 3);                                           // 6
  net.plain(Kind::kAdd, 2);                                           // 7
  net.plain(Kind::kAdd, 6);                                           // 8
  net.window(Kind::kAveragePool, 6, 1, 0, 3);                         // 9
  net.dense(4);
  expect_plain(net, "residuals");
}

TEST(NetworkLayers, ADeepMixIsPlain) {
  TestNetwork net({9, 7, 1});
  net.window(Kind::kConv2d, 3, 1, 1, 6, Activation::kNone, TrainedForm::kDense);
  net.plain(Kind::kRelu);
  net.window(Kind::kMaxPool, 2, 2, 0, 6);
  net.window(Kind::kDepthwiseConv2d, 2, 1, 0, 6, Activation::kRelu, TrainedForm::kDense);
  net.flatten();
  net.dense(8, Activation::kRelu, TrainedForm::kFactored, 3);
  net.dense(7);
  net.plain(Kind::kRelu6);
  net.dense(4, Activation::kNone, TrainedForm::kDense);
  expect_plain(net, "mix");
}

TEST(NetworkLayers, NoActivationHidesANumberThatIsNone) {
  TestNetwork net({1, 1, 2});
  net.dense(2, Activation::kRelu6, TrainedForm::kDense);
  net.dense(2);
  TestArena memory;
  Real scores[2];
  for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity(),
                         -std::numeric_limits<Real>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{5}}) {
      Reals x(6, Real(0.5));
      x[at] = bad;
      const Real inputs[] = {1, 1};
      EXPECT_EQ(run_network(net.network, x.data(), inputs, scores, memory.arena), Status::kNotFinite);
    }
    const Real inputs[] = {bad, 1};
    EXPECT_EQ(run_network(net.network, Reals(6).data(), inputs, scores, memory.arena), Status::kNotFinite);
  }
  TestArena small(network_scratch_size(net.network) - kArenaAlignment);
  const Real inputs[] = {1, 1};
  EXPECT_EQ(run_network(net.network, Reals(6).data(), inputs, scores, small.arena), Status::kOutOfMemory);
}

// docs/network.md, its example.
TEST(NetworkLayers, TheExampleOfThePageRuns) {
  static constexpr float kKernels[] = {0, 1, 0, 1, -4, 1, 0, 1, 0};
  static constexpr Layer kLayers[] = {
      {.kind = LayerKind::kConv2d,
       .activation = Activation::kRelu,
       .in = {8, 8, 1},
       .out = {8, 8, 1},
       .kernel_height = 3,
       .kernel_width = 3,
       .stride_height = 1,
       .stride_width = 1,
       .pad_top = 1,
       .pad_left = 1,
       .weights = kKernels},
      {.kind = LayerKind::kAveragePool,
       .in = {8, 8, 1},
       .out = {2, 2, 1},
       .kernel_height = 4,
       .kernel_width = 4,
       .stride_height = 4,
       .stride_width = 4},
      {.kind = LayerKind::kDense, .trained = TrainedForm::kDense, .in = {2, 2, 1}, .out = {1, 1, 3}},
  };
  static constexpr Network kEdges = {.in = {8, 8, 1}, .layers = kLayers, .layer_count = 3};
  ASSERT_EQ(network_size(kEdges), 15U);
  Reals x(15);
  x[0] = x[4] = x[8] = 1;  // each score is a quarter of the image, the last one missing
  Reals image(64);
  image[9] = 16;  // row 1, column 1: its four neighbours see it
  EXPECT_EQ(scores_of(kEdges, x.data(), image), (Reals{4, 0, 0}));
}

// No piece does more than it may, unless one row does; all rows are in one.
TEST(NetworkLayers, PiecesAreBounded) {
  TestNetwork net({32, 32, 16});
  net.window(Kind::kConv2d, 3, 1, 1, 24);
  net.window(Kind::kDepthwiseConv2d, 3, 2, 1, 24);
  net.window(Kind::kMaxPool, 2, 2, 0, 24);
  net.plain(Kind::kRelu);
  net.dense(100);
  net.dense(7, Activation::kNone, TrainedForm::kFactored, 3);
  for (const Layer& layer : net.layers) {
    for (const uint32_t samples : {1U, 5U, 100U}) {
      const uint64_t rows = piece_row_count(layer, samples);
      EXPECT_TRUE(rows == 1 || rows * layer_row_work(layer) * samples <= kPieceWork);
      EXPECT_GE(rows * piece_count(layer, samples), layer_row_count(layer));
      EXPECT_LT(rows * (piece_count(layer, samples) - 1), layer_row_count(layer));
    }
  }
}

}  // namespace
}  // namespace gradstream
